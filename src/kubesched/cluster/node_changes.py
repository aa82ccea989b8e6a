"""Which changes of a node matter: a heartbeat must not make cached answers stale.

`NodeTable.node_version` grows only when one of these functions sees a difference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from kubesched.api import objects as api


def topology(node: api.Node) -> tuple[Mapping[str, str], Collection[api.Taint], bool]:
    """What decides which domains and tolerations a node belongs to."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable


def same_object(old: api.Node, new: api.Node) -> bool:
    """Whether an update changed nothing that can be read. A heartbeat does not: conditions come without their times."""
    return old.spec == new.spec and old.status == new.status and _lasting(old) == _lasting(new)


def _lasting(node: api.Node) -> api.ObjectMeta:
    return replace(node.metadata, resource_version="", generation=0)


def same_for_scheduling(old: api.Node, new: api.Node) -> bool:
    """Whether an update (a heartbeat, mostly) changed nothing that any plugin of ours reads from the table."""
    return (
        topology(old) == topology(new)
        and old.status.allocatable == new.status.allocatable
        and old.status.images == new.status.images
        and old.status.declared_features == new.status.declared_features
    )
