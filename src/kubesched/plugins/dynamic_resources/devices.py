"""What all profiles share: who has which device must be known to every scheduler of the cluster."""

from __future__ import annotations

from kubesched.cluster.state import ClusterState
from kubesched.plugins.device_classes import DeviceClassResolver
from kubesched.plugins.dynamic_resources.inventory import Inventory
from kubesched.plugins.dynamic_resources.ledger import Ledger
from kubesched.plugins.dynamic_resources.plan import Plans


class Devices:
    """The devices of a cluster."""

    def __init__(self, cluster: ClusterState) -> None:
        features = cluster.features
        self.resolver = cluster.share(DeviceClassResolver)
        self.ledger = Ledger(cluster, shares=features.dra_consumable_capacity)
        self.inventory = Inventory(cluster, self.ledger, features)
        self.plans = Plans(cluster, self.inventory, features)
