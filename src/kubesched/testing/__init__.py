"""For testing plugins: objects in one line, a cluster in memory, and a check of the plugin contract.

    def test_it(cluster):                                     # a pytest fixture: nothing to import
        cluster.use(QuietHours, weight=2)
        cluster.add(node("n1", labels={"resting": "true"}), node("n2"))
        assert cluster.schedule(pod("web")).node == "n2"

    def test_it_keeps_the_contract():
        check_plugin(QuietHours, labels={"resting": ["true", "false"]})

These names are stable, like those of `kubesched`.
"""

from kubesched.api.builders import affinity as affinity
from kubesched.api.builders import container as container
from kubesched.api.builders import expression as expression
from kubesched.api.builders import node as node
from kubesched.api.builders import node_term as node_term
from kubesched.api.builders import owner as owner
from kubesched.api.builders import pod as pod
from kubesched.api.builders import pod_term as pod_term
from kubesched.api.builders import selector as selector
from kubesched.api.builders import spread as spread
from kubesched.api.builders import taint as taint
from kubesched.api.builders import toleration as toleration
from kubesched.config.errors import ConfigError as ConfigError
from kubesched.engine.decision import Decision as Decision
from kubesched.engine.outcome import Outcome as Outcome
from kubesched.testing.checks import PluginCheckError as PluginCheckError
from kubesched.testing.checks import check_plugin as check_plugin
from kubesched.testing.related import budget as budget
from kubesched.testing.related import namespace as namespace
from kubesched.testing.related import replica_set as replica_set
from kubesched.testing.related import service as service
from kubesched.testing.related import stateful_set as stateful_set
from kubesched.testing.virtual_cluster import NotTriedError as NotTriedError
from kubesched.testing.virtual_cluster import VirtualCluster as VirtualCluster
