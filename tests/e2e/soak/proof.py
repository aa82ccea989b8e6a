"""What the API server's audit log proves about a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.e2e.api import JSON

SCHEDULER_USER, ADMIN_USER = "system:kube-scheduler", "admin"
POLICY: JSON = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "Metadata", "verbs": ["delete"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "Metadata", "users": ["nobody", "system:anonymous"]},
        {"level": "Metadata", "users": [SCHEDULER_USER], "verbs": ["create", "update", "patch", "delete", "get"]},
        {"level": "None"},
    ],
}


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
    problems: list[str] = field(default_factory=list)


def prove(
    log: Path,
    pods: Mapping[str, JSON],
    deleted: Mapping[str, float],
    capacity: Mapping[str, int],
    starting: Sequence[tuple[float, float]],
) -> Proof:
    """Read the log. `pods` are all that ever were, by UID, as last seen; `deleted` says when the driver sent deletions;
    `capacity` is what nodes have, in thousandths of a CPU; `starting` are the times in which the API server started."""
    proof, placed = Proof(), dict[str, Placed]()
    for event in _events(log):
        user, code = event["user"]["username"], int((event.get("responseStatus") or {}).get("code", 0))
        what = event.get("objectRef") or {}
        name = "/".join(part for part in (what.get("resource", ""), what.get("subresource", "")) if part)
        if user not in (SCHEDULER_USER, ADMIN_USER):
            proof.intrusions += 1
            if code < 400 and event["verb"] not in ("get",):
                proof.problems.append(f"{user} was let in: {event['verb']} {event['requestURI']}: {code}")
        elif user == SCHEDULER_USER:
            proof.requests[f"{event['verb']} {name}"] += 1
            moment = _time(event["requestReceivedTimestamp"])
            if code in (401, 403) and not any(began <= moment <= ready for began, ready in starting):
                proof.problems.append(f"the scheduler may not {event['verb']} {event['requestURI']}: {code}")
        if name == "pods/binding" and user == SCHEDULER_USER:
            _count_binding(proof, placed, event, code, pods)
        elif name == "pods" and event["verb"] == "delete" and code < 300:
            _end(placed, what.get("name", ""), _time(event["requestReceivedTimestamp"]), pods)
    for uid, moment in deleted.items():
        if uid in placed:
            placed[uid].until = min(placed[uid].until, moment)
    proof.problems += _overcommitted(placed, capacity)
    return proof


def _events(log: Path) -> Iterator[JSON]:
    for line in log.read_text(errors="replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # a killed API server may have left half a line


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _count_binding(proof: Proof, placed: dict[str, Placed], event: JSON, code: int, pods: Mapping[str, JSON]) -> None:
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


def _end(placed: dict[str, Placed], name: str, moment: float, pods: Mapping[str, JSON]) -> None:
    for uid, each in placed.items():
        if pods[uid]["metadata"]["name"] == name:
            each.until = min(each.until, moment)


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
