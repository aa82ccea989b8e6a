"""One name for one thing: no public class name is used for two classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import kubesched

SOURCE = Path(kubesched.__file__).parent

SKIPPED = "learn"
"""The tutorial's steps are programs of their own, which build the same small scheduler step by step."""

CONTROLLERS_VIEW = "what controllers read of the same Kubernetes object"
CONFIGURED = "the section of the configuration file, named as upstream names it, and what it configures"
PROTOCOL = "what plugins may use of the class in the scheduler"
CEL = "a node of CEL's syntax tree or a value of CEL; no module outside of `cel` imports it"

ALLOWED: Mapping[str, tuple[frozenset[str], str]] = {
    **dict.fromkeys(
        (
            "Container",
            "ContainerStatus",
            "NodeSpec",
            "NodeStatus",
            "Pod",
            "PodSpec",
            "PodStatus",
            "Taint",
            "Volume",
        ),
        (frozenset(("api.objects", "reconcile.views")), CONTROLLERS_VIEW),
    ),
    **dict.fromkeys(
        ("Condition", "PodGroup", "PodGroupSpec", "PodGroupStatus"),
        (frozenset(("api.workloads", "reconcile.views")), CONTROLLERS_VIEW),
    ),
    "PodResourceClaim": (frozenset(("api.objects", "reconcile.views")), CONTROLLERS_VIEW),
    "ResourceClaimStatus": (frozenset(("api.devices", "reconcile.views")), CONTROLLERS_VIEW),
    "Part": (frozenset(("api.meta", "explain.report")), "the base that fixes the options of all structs of a room"),
    "Placement": (frozenset(("framework.placements", "library.results")), "upstream's term for pod groups; a result"),
    "Node": (frozenset(("api.objects", "reconcile.views", "cel.syntax")), f"{CONTROLLERS_VIEW}; {CEL}"),
    "Duration": (frozenset(("config.duration", "cel.values")), CEL),
    "Extender": (frozenset(("config.types", "framework.extender")), CONFIGURED),
    "Plugin": (frozenset(("config.types", "framework.plugin")), CONFIGURED),
    "NodeAffinity": (frozenset(("api.objects", "plugins.node_affinity")), "a field of pods, and the plugin for it"),
    "WaitingPod": (frozenset(("framework.handle", "scheduler.waiting")), PROTOCOL),
    "WaitingPods": (frozenset(("framework.handle", "scheduler.waiting")), PROTOCOL),
    "Decision": (frozenset(("engine.decision", "library.decision")), "the public view of the engine's record"),
    "UserInfo": (frozenset(("apiserver.wire.request", "daemon.serving.auth.users")), "upstream's name, in two servers"),
}
"""Names that several modules may define: the modules, and the reason."""


def public_classes(source: str) -> Iterator[str]:
    """The public classes that a module defines."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def repeated(sources: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The class names that more than one module defines, with these modules."""
    modules = defaultdict(set)
    for module, source in sources.items():
        for name in public_classes(source):
            modules[name].add(module)
    return {name: frozenset(found) for name, found in modules.items() if len(found) > 1}


def test_a_class_name_means_one_thing() -> None:
    """A public class name is defined once, or is listed above with its modules and the reason."""
    sources = {
        ".".join(file.relative_to(SOURCE).with_suffix("").parts): file.read_text("utf-8")
        for file in SOURCE.rglob("*.py")
        if file.relative_to(SOURCE).parts[0] != SKIPPED
    }
    assert repeated(sources) == {name: modules for name, (modules, _) in ALLOWED.items()}


def test_a_repeated_name_is_found() -> None:
    """Two modules that define a class of the same name are reported; private names and imports do not count."""
    sources = {"a": "class Log: ...\nclass _Key: ...", "b": "class Log: ...\nclass _Key: ...", "c": "from a import Log"}
    assert repeated(sources) == {"Log": {"a", "b"}}
