"""The public builders, under the name that the tests here have always used."""

from kubesched.testing.builders import HOSTNAME as HOSTNAME
from kubesched.testing.builders import ZONE as ZONE
from kubesched.testing.builders import Labels as Labels
from kubesched.testing.builders import Resources as Resources
from kubesched.testing.builders import Selects as Selects
from kubesched.testing.builders import Weighted as Weighted
from kubesched.testing.builders import affinity as affinity
from kubesched.testing.builders import container as container
from kubesched.testing.builders import expression as expression
from kubesched.testing.builders import host_port as host_port
from kubesched.testing.builders import node as node
from kubesched.testing.builders import node_term as node_term
from kubesched.testing.builders import owner as owner
from kubesched.testing.builders import pod as pod
from kubesched.testing.builders import pod_term as pod_term
from kubesched.testing.builders import selector as selector
from kubesched.testing.builders import spread as spread
from kubesched.testing.builders import taint as taint
from kubesched.testing.builders import toleration as toleration
from kubesched.testing.related import budget as budget
from kubesched.testing.related import cluster as cluster
from kubesched.testing.related import namespace as namespace
from kubesched.testing.related import replica_set as replica_set
from kubesched.testing.related import replication_controller as replication_controller
from kubesched.testing.related import service as service
from kubesched.testing.related import stateful_set as stateful_set
