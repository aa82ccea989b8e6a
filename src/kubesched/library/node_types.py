"""Types of nodes that can be bought: their size, price and limits. Capacity planning and node groups use them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubesched.api import builders
from kubesched.api import objects as api
from kubesched.api.quantity import QuantityError, nanos
from kubesched.base.documents import DocumentError, read_yaml
from kubesched.config.decode import decode
from kubesched.config.errors import ConfigError, Problem, join

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,200}[a-z0-9])?")


class NodeType(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A kind of machine. Amounts are Kubernetes quantities."""

    name: str
    cpu: object = 4
    memory: object = "16Gi"
    pods: object = 110
    resources: dict[str, object] = {}
    """Extended resources, such as ``nvidia.com/gpu: 8``."""
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    """Such as ``dedicated=gpu:NoSchedule``."""
    zones: tuple[str, ...] = ()
    """Zones in which nodes are made, in turn."""
    price: float = 1.0
    """Per hour, in any currency."""
    maximum: int | None = None
    """The most nodes of this type; none means any number."""

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield invalid values."""
        amounts = {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, **self.resources}
        for field, value in amounts.items():
            try:
                if not isinstance(value, str | int | float) or nanos(value) < 0:
                    yield Problem(join(path, field), "is not a quantity", value)
            except QuantityError as error:
                yield Problem(join(path, field), str(error), value)
        if not _NAME.fullmatch(self.name):
            hint = "use lower-case letters, digits and '-'"
            yield Problem(join(path, "name"), "cannot begin the names of nodes", self.name, hint)
        if not 0 <= self.price < math.inf:
            yield Problem(join(path, "price"), "must be a number, 0 or more", self.price)
        if self.maximum is not None and self.maximum < 0:
            yield Problem(join(path, "maximum"), "must not be negative", self.maximum)
        for index, each in enumerate(self.taints):
            if ":" not in each:
                yield Problem(f"{path}.taints[{index}]", "is no taint", each, "write key=value:NoSchedule")

    def node_name(self, number: int) -> str:
        """The name of the node with this number."""
        return f"{self.name}-{number}"

    def node(self, number: int) -> api.Node:
        """The node with this number, counted from 1."""
        zone = self.zones[(number - 1) % len(self.zones)] if self.zones else None
        return builders.node(
            self.node_name(number),
            cpu=self.cpu,  # type: ignore[arg-type]  # checked by `problems`
            memory=self.memory,  # type: ignore[arg-type]  # the same
            pods=self.pods,  # type: ignore[arg-type]  # the same
            resources=self.resources,  # type: ignore[arg-type]  # the same
            labels={"node.kubernetes.io/instance-type": self.name, **self.labels},
            taints=self.taints,
            zone=zone,
        )


def read_node_types(source: str | Path | Iterable[NodeType | Mapping[str, Any]]) -> list[NodeType]:
    """Node types from a file or a list. Raises `ConfigError` with everything that is wrong."""
    where = str(source)
    tree: object
    if isinstance(source, str | Path):
        try:
            tree = read_yaml(Path(source).read_bytes())
        except DocumentError as error:
            raise ConfigError(where, [Problem("", f"not valid YAML: {error}")]) from None
    else:
        where, tree = "<node types>", list(source)
    listed = tree.get("nodeTypes") if isinstance(tree, dict) else tree
    problems: list[Problem] = []
    if not isinstance(listed, list) or not listed:
        hint = "write a list with name, cpu, memory and price"
        raise ConfigError(where, [Problem("nodeTypes", "expected a list of node types", listed, hint)])
    found = []
    for index, each in enumerate(listed):
        is_type = isinstance(each, NodeType)
        decoded = each if is_type else decode(NodeType, each, f"nodeTypes[{index}]", problems)
        if decoded is not None:
            problems += decoded.problems(f"nodeTypes[{index}]")
            found.append(decoded)
    if len({each.name for each in found}) < len(found):
        problems.append(Problem("nodeTypes", "two types have the same name"))
    if problems:
        raise ConfigError(where, problems)
    return found
