"""What all profiles share: who has which device must be known to every scheduler of the cluster."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.plugins.device_classes import DeviceClassResolver
from kubesched.plugins.dynamic_resources.inventory import Inventory
from kubesched.plugins.dynamic_resources.ledger import Ledger
from kubesched.plugins.dynamic_resources.plan import Plans
from kubesched.plugins.dynamic_resources.selectors import Selectors, prepare_in_background
from kubesched.plugins.dynamic_resources.totals import Totals


class Devices:
    """The devices of a cluster."""

    def __init__(self, cluster: ClusterState) -> None:
        cluster.objects.when_first(api.DeviceClass, prepare_in_background)
        features = cluster.features
        self.resolver = cluster.share(DeviceClassResolver)
        self.ledger = Ledger(cluster, shares=features.dra_consumable_capacity)
        self.inventory = Inventory(cluster, self.ledger, features)
        self.plans = Plans(cluster, self.inventory, features)
        self._cluster = cluster
        self._selectors = Selectors(features)
        self._totals: dict[str, Totals] = {}
        self._valid_for = (-1, -1)

    def totals(self, resource: str) -> Totals | None:
        """The devices behind an extended resource; None if no class stands behind it."""
        device_class = self.resolver.class_of(resource)
        if device_class is None:
            return None
        self.inventory.sync()
        valid_for = (self._cluster.version(api.DeviceClass), self.inventory.epoch)
        if valid_for != self._valid_for:
            self._totals.clear()
            self._valid_for = valid_for
        found = self._totals.get(resource)
        if found is None:
            found = self._totals[resource] = Totals(device_class, self.inventory, self._selectors)
        return found
