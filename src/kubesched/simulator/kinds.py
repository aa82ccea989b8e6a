"""Looking up the kinds in a scenario: built in, or defined by the scenario itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubesched.apiserver.crd.custom_resources import resources_of
from kubesched.apiserver.kinds.registry import BUILT_IN, ApiResource
from kubesched.config.errors import Problem, join, suggest
from kubesched.contrib.crds import DEFINITIONS
from kubesched.simulator.steps import StepAction


def find(kind: str, version: str, served: Iterable[ApiResource]) -> ApiResource | None:
    """Find a resource by any of its names, preferably in the given version."""
    wanted = kind.lower()
    found = [each for each in served if each.is_stored and wanted in _names(each)]
    return next((each for each in found if each.group_version == version), found[0] if found else None)


def suggestion(kind: str, served: Iterable[ApiResource]) -> str:
    """Suggest a similar kind; empty if there is none."""
    return suggest(kind, [each.kind for each in served if each.is_stored])


def kind_problems(actions: Iterable[StepAction]) -> Iterator[Problem]:
    """Yield kinds that the API will not serve when the scenario runs. Each mistake is reported once."""
    actions = list(actions)
    shipped = [each for definition in DEFINITIONS for each in resources_of(definition)]
    served = [*BUILT_IN, *shipped, *(each for action in actions for each in _defined(action))]
    found = (_problem(action, served) for action in actions)
    yield from dict.fromkeys(problem for problem in found if problem is not None)


def _problem(action: StepAction, served: list[ApiResource]) -> Problem | None:
    what = action.what
    created = isinstance(what, Mapping)
    kind, version = (what.get("kind"), what.get("apiVersion")) if created else (getattr(what, "resource", None), "")
    if not isinstance(kind, str) or not isinstance(version, str):
        return None  # a log line, or an object that was reported already
    resource = find(kind, version, served)
    if resource is None or (created and kind != resource.kind):
        hint = suggestion(kind, served) or "a custom kind needs a CustomResourceDefinition in the scenario"
        return Problem(join(action.path, "kind"), "the API has no such kind", kind, hint)
    if created and version != resource.group_version:
        wrong = f"the API has no {kind} in this version"
        return Problem(join(action.path, "apiVersion"), wrong, version, f"it is in {resource.group_version}")
    return None


def _defined(action: StepAction) -> list[ApiResource]:
    obj: Any = action.what
    is_definition = isinstance(obj, Mapping) and obj.get("kind") == "CustomResourceDefinition"
    try:
        return resources_of(obj) if is_definition else []
    except (KeyError, TypeError, AttributeError):
        return []  # the API server will report what is wrong with the definition


def _names(resource: ApiResource) -> tuple[str, ...]:
    return (resource.kind.lower(), resource.plural, resource.singular, *resource.short_names)
