"""What a scheduler has left in the API, in a form in which two runs of the same scenario can be compared.

Names stay; what differs from run to run is replaced by what it stands for: UIDs by the name of their object, times and
resource versions by the fact that there is one. Who wrote a field is compared without the writer's name, which is each
program's own.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.e2e.api import CORE, JSON, Api

COLLECTIONS = (
    f"{CORE}/pods",
    f"{CORE}/persistentvolumeclaims",
    f"{CORE}/persistentvolumes",
    "/apis/policy/v1/poddisruptionbudgets",
)
TIMES = {
    "creationTimestamp",
    "lastTransitionTime",
    "deletionTimestamp",
    "eventTime",
    "time",
    "lastObservedTime",
    "lastPhaseTransitionTime",
}
SCHEDULERS = {"kube-scheduler", "kubesched"}


def left_in(api: Api) -> dict[str, Any]:
    """Everything a scheduler may have written, by kind and name; for each pod, the events that tell its story."""
    objects = {path.rpartition("/")[2]: api.items(path) for path in COLLECTIONS}
    events = api.events(**{"regarding.kind": "Pod"})
    words = _words(objects, events)
    found: dict[str, Any] = {
        kind: {each["metadata"]["name"]: _plain(each, words) for each in items} for kind, items in objects.items()
    }
    found["events"] = _stories(events, words)
    return found


def _words(objects: dict[str, list[JSON]], events: list[JSON]) -> dict[str, str]:
    """What each UID stands for. Events know those of pods that are gone."""
    words = {each["metadata"]["uid"]: f"<{each['metadata']['name']}>" for items in objects.values() for each in items}
    for event in events:
        for each in (event["regarding"], event.get("related") or {}):
            if "uid" in each:
                words[each["uid"]] = f"<{each['name']}>"
    return words


def _stories(events: list[JSON], words: dict[str, str]) -> dict[str, list[Any]]:
    """Each pod's events in order. How often something was tried depends on time, so what repeats is told once."""
    stories: dict[str, list[Any]] = {}
    for event in events:
        plain = _plain(event, words)
        plain["metadata"].pop("name")
        plain.pop("series", None)
        # Whether something happened twice changes who wrote what as well.
        plain["metadata"].pop("managedFields")
        plain["metadata"].pop("uid")
        plain.pop("deprecatedCount", None)
        story = stories.setdefault(event["regarding"]["name"], [])
        if plain not in story:
            story.append(plain)
    return stories


def _plain(value: Any, words: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _plain(each, words, name) for name, each in value.items() if each is not None}
    if key == "managedFields":
        return _writers(value)
    if isinstance(value, list):
        return [_plain(each, words) for each in value]
    if key in TIMES:
        return "<time>"
    if key == "resourceVersion":
        return "<version>"
    if key == "manager" and value in SCHEDULERS:
        return "<scheduler>"
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", lambda uid: words.get(uid[0], uid[0]), value)
    return value


def _writers(entries: list[JSON]) -> list[Any]:
    """Who wrote which fields."""
    plain = [_plain(each, {}) for each in entries]
    return sorted(plain, key=json.dumps)


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two accounts differ, a line for each field."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found: list[str] = []
        for key in sorted(ours.keys() | theirs.keys()):
            found += differences(ours.get(key, "nothing"), theirs.get(key, "nothing"), f"{path}.{key}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            line
            for index, (one, other) in enumerate(zip(ours, theirs, strict=True))
            for line in differences(one, other, f"{path}[{index}]")
        ]
    return [] if ours == theirs else [f"{path}:\n    kube-scheduler left {theirs!r}\n    kubesched left      {ours!r}"]
