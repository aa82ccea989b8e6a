"""The public builders, under the name that the tests here have always used."""

from kubesched.api.builders import HOSTNAME as HOSTNAME
from kubesched.api.builders import ZONE as ZONE
from kubesched.api.builders import Labels as Labels
from kubesched.api.builders import Resources as Resources
from kubesched.api.builders import Selects as Selects
from kubesched.api.builders import Weighted as Weighted
from kubesched.api.builders import affinity as affinity
from kubesched.api.builders import container as container
from kubesched.api.builders import expression as expression
from kubesched.api.builders import host_port as host_port
from kubesched.api.builders import node as node
from kubesched.api.builders import node_term as node_term
from kubesched.api.builders import owner as owner
from kubesched.api.builders import pod as pod
from kubesched.api.builders import pod_term as pod_term
from kubesched.api.builders import selector as selector
from kubesched.api.builders import spread as spread
from kubesched.api.builders import taint as taint
from kubesched.api.builders import toleration as toleration
from kubesched.testing.related import budget as budget
from kubesched.testing.related import cluster as cluster
from kubesched.testing.related import namespace as namespace
from kubesched.testing.related import replica_set as replica_set
from kubesched.testing.related import replication_controller as replication_controller
from kubesched.testing.related import service as service
from kubesched.testing.related import stateful_set as stateful_set
