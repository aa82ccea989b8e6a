"""What the API server's audit log proves about a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.e2e.api import JSON

SCHEDULER_USER, ADMIN_USER = "system:kube-scheduler", "admin"
RECEIVED = "RequestReceived"
POLICY: JSON = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "Metadata", "verbs": ["delete"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "Metadata", "users": ["nobody", "system:anonymous"], "omitStages": [RECEIVED]},
        {
            "level": "Metadata",
            "users": [SCHEDULER_USER],
            "verbs": ["create", "update", "patch", "delete", "get"],
            "omitStages": [RECEIVED],
        },
        {"level": "None"},
    ],
}
"""Bindings and deletions are also written down when they arrive: a killed API server may not get to the answer."""


@dataclass(slots=True)
class Placed:
    """When a pod certainly was on a node: from the answer to its binding to the request that deleted it."""

    node: str
    milli_cpu: int
    since: float
    until: float = float("inf")


@dataclass(slots=True)
class Proof:
    """Figures of a run, and what is wrong with it."""

    bindings: int = 0
    refused_bindings: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    """The schedulers' requests by verb and resource."""
    intrusions: int = 0
    evicted: set[str] = field(default_factory=set)
    """Names of pods that a scheduler deleted, or tried to."""
    asked: dict[str, int] = field(default_factory=dict)
    """How many bindings of each pod a scheduler asked for, by name."""
    answered: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def unanswered(self) -> int:
        """Bindings that arrived before the API server was killed."""
        return sum(self.asked.values()) - self.answered

    def unasked(self, pods: Iterable[JSON]) -> list[str]:
        """Pods on nodes that no scheduler asked for."""
        names = [each["metadata"]["name"] for each in pods]
        return [f"{name} has a node and no scheduler bound it" for name in names if name not in self.asked]


def prove(
    folder: Path,
    pods: Mapping[str, JSON],
    deleted: Mapping[str, float],
    capacity: Mapping[str, int],
    starting: Sequence[tuple[float, float]],
) -> Proof:
    """Read the log. `pods` are all that ever were, by UID, as last seen; `deleted` says when the driver sent deletions;
    `capacity` is what nodes have, in thousandths of a CPU; `starting` are the times in which the API server started."""
    proof, placed = Proof(), dict[str, Placed]()
    uids = {each["metadata"]["name"]: uid for uid, each in pods.items()}
    for event in _events(folder):
        user, code = event["user"]["username"], int((event.get("responseStatus") or {}).get("code", 0))
        what = event.get("objectRef") or {}
        name = "/".join(part for part in (what.get("resource", ""), what.get("subresource", "")) if part)
        if event["stage"] == RECEIVED:
            _count_request(proof, placed, event, name, uids)
        elif user not in (SCHEDULER_USER, ADMIN_USER):
            proof.intrusions += 1
            if code < 400 and event["verb"] not in ("get",):
                proof.problems.append(f"{user} was let in: {event['verb']} {event['requestURI']}: {code}")
        elif user == SCHEDULER_USER:
            proof.requests[f"{event['verb']} {name}"] += 1
            moment = _time(event["requestReceivedTimestamp"])
            if code in (401, 403) and not any(began <= moment <= ready for began, ready in starting):
                proof.problems.append(f"the scheduler may not {event['verb']} {event['requestURI']}: {code}")
            if name == "pods/binding":
                _count_binding(proof, placed, event, code, pods)
    for uid, moment in deleted.items():
        if uid in placed:
            placed[uid].until = min(placed[uid].until, moment)
    proof.problems += _overcommitted(placed, capacity)
    return proof


def _events(folder: Path) -> Iterator[JSON]:
    # The API server starts a new file when one is large.
    for log in sorted(folder.glob("audit*.log"), key=lambda path: (path.name == "audit.log", path.name)):
        for line in log.read_text(errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # a killed API server may have left half a line


def _count_request(proof: Proof, placed: dict[str, Placed], event: JSON, what: str, uids: Mapping[str, str]) -> None:
    """A request that arrived. A pod counts as on its node no longer once its deletion is asked for."""
    pod, by_scheduler = event["objectRef"].get("name", ""), event["user"]["username"] == SCHEDULER_USER
    if what == "pods/binding" and by_scheduler:
        proof.asked[pod] = proof.asked.get(pod, 0) + 1
    elif what == "pods" and event["verb"] == "delete":
        if by_scheduler:
            proof.evicted.add(pod)
        each = placed.get(uids.get(pod, ""))
        if each is not None:
            each.until = min(each.until, _time(event["requestReceivedTimestamp"]))


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _count_binding(proof: Proof, placed: dict[str, Placed], event: JSON, code: int, pods: Mapping[str, JSON]) -> None:
    proof.answered += 1
    if code != 201:
        proof.refused_bindings += 1
        return
    proof.bindings += 1
    body = event.get("requestObject") or {}
    uid, node = str((body.get("metadata") or {}).get("uid", "")), str((body.get("target") or {}).get("name", ""))
    pod = pods.get(uid)
    if uid in placed:
        proof.problems.append(f"{event['objectRef']['name']} was bound twice: to {placed[uid].node} and to {node}")
    if pod is None:
        proof.problems.append(f"{event['objectRef']['name']} with UID {uid!r} was bound and never created")
        return
    seen = pod["spec"].get("nodeName")
    if seen and seen != node:
        proof.problems.append(f"{pod['metadata']['name']} was bound to {node} and is on {seen}")
    placed[uid] = Placed(node, milli_cpu(pod), _time(event["stageTimestamp"]))


def milli_cpu(pod: JSON) -> int:
    """What a pod requests."""
    text = str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _overcommitted(placed: Mapping[str, Placed], capacity: Mapping[str, int]) -> Iterator[str]:
    """Nodes that certainly held more than they have at some moment."""
    for node, most in capacity.items():
        here = [each for each in placed.values() if each.node == node]
        for moment in sorted(each.since for each in here):
            held = sum(each.milli_cpu for each in here if each.since <= moment < each.until)
            if held > most:
                yield f"{node} held {held}m of {most}m"
                break
