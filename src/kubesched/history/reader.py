"""Reads attempts back: from a decision database, from a log of JSON lines, or from the JSON of a running scheduler.

for attempt in load("decisions.db", "default", "web"):
    print(attempt.time, attempt.outcome, attempt.node)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

MAGIC = b"SQLite format 3\x00"
MOST_LINE = 64 << 20


class HistoryError(Exception):
    """A file cannot be read, or is not a decision log."""


class PluginScore(msgspec.Struct, frozen=True):
    """What a plugin gave a node: as it said, and normalised and weighted."""

    score: int
    final: int


class ScoredNode(msgspec.Struct, frozen=True):
    """One of the best nodes of an attempt."""

    node: str
    total: int
    plugins: dict[str, PluginScore]


class RejectedNodes(msgspec.Struct, frozen=True):
    """Nodes that a plugin rejected for the same reasons. All are counted, but perhaps not all are named."""

    plugin: str
    code: str
    reasons: list[str]
    count: int
    nodes: list[str]


class PodRejection(msgspec.Struct, frozen=True):
    """A plugin rejected the pod as a whole, in PreFilter."""

    plugin: str
    code: str
    reasons: list[str]


class LoggedAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """One attempt to schedule a pod. The chosen node comes first among the scores."""

    time: str
    namespace: str
    pod: str
    uid: str
    profile: str
    attempt: int
    outcome: str
    """scheduled, unschedulable, no nodes, error."""
    binding: str
    """not started, started, bound, failed."""
    node: str
    message: str
    seconds: float
    evaluated_nodes: int
    feasible_nodes: int
    nominated_node: str
    victims: list[str]
    scores: list[ScoredNode]
    rejections: list[RejectedNodes]
    pre_filter: PodRejection | None = None

    @property
    def runner_up(self) -> ScoredNode | None:
        """The best node that was not chosen."""
        return next((each for each in self.scores if each.node != self.node), None)


def load(path: str | Path, namespace: str | None = None, pod: str | None = None) -> list[LoggedAttempt]:
    """The attempts in a file, the newest first; those of a namespace or a pod if given. Raises `HistoryError`."""
    try:
        with open(path, "rb") as file:
            is_database = file.read(len(MAGIC)) == MAGIC
        found = list(_from_database(path, namespace, pod)) if is_database else list(_from_lines(path, namespace, pod))
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None
    except sqlite3.Error as error:
        raise HistoryError(f"{path} is not a decision database: {error}; --decision-db writes one") from None
    return found[::-1]


def is_decision_file(path: str | Path) -> bool:
    """Whether a file looks like a decision database or a log, and not like something else with objects in it."""
    try:
        with open(path, "rb") as file:
            start = file.read(200)
    except OSError:
        return False
    return start.startswith(MAGIC) or b'"kind":"Attempt"' in start


def decode(data: bytes) -> LoggedAttempt:
    """An attempt from its JSON. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=LoggedAttempt)


def _from_lines(path: str | Path, namespace: str | None, pod: str | None) -> Iterator[LoggedAttempt]:
    decoder = msgspec.json.Decoder(LoggedAttempt)
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_LINE), b""), 1):
            if not line.endswith(b"\n"):
                return  # still being written
            try:
                found = decoder.decode(line)
            except msgspec.MsgspecError as error:
                hint = "--decision-log writes such files"
                raise HistoryError(f"{path}, line {number} is not an attempt: {error}; {hint}") from None
            if namespace in (None, found.namespace) and pod in (None, found.pod):
                yield found


def _from_database(path: str | Path, namespace: str | None, pod: str | None) -> Iterator[LoggedAttempt]:
    address = Path(path).absolute().as_uri() + "?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as database:
        database.row_factory = sqlite3.Row
        query = (
            "SELECT * FROM attempts WHERE ifnull(:ns, namespace) = namespace AND ifnull(:pod, pod) = pod ORDER BY id"
        )
        for row in database.execute(query, {"ns": namespace, "pod": pod}):
            yield _attempt(database, row)


def _attempt(database: sqlite3.Connection, row: sqlite3.Row) -> LoggedAttempt:
    given: dict[str, Any] = dict(row)
    identity = given.pop("id")
    nodes: dict[int, tuple[str, dict[str, PluginScore]]] = {}
    for place, node, plugin, score, final in database.execute(
        "SELECT place, node, plugin, score, final FROM scores WHERE attempt_id = ? ORDER BY place", (identity,)
    ):
        nodes.setdefault(place, (node, {}))[1][plugin] = PluginScore(score, final)
    refused = database.execute(
        "SELECT plugin, code, reasons, count, nodes FROM rejections WHERE attempt_id = ? ORDER BY rowid", (identity,)
    ).fetchall()
    whole = next((each for each in refused if each["count"] is None), None)
    return LoggedAttempt(
        **{**given, "victims": msgspec.json.decode(given["victims"])},
        scores=[
            ScoredNode(node, sum(each.final for each in plugins.values()), plugins) for node, plugins in nodes.values()
        ],
        rejections=[
            RejectedNodes(each["plugin"], each["code"], _names(each["reasons"]), each["count"], _names(each["nodes"]))
            for each in refused
            if each["count"] is not None
        ],
        pre_filter=None if whole is None else PodRejection(whole["plugin"], whole["code"], _names(whole["reasons"])),
    )


def _names(text: str) -> list[str]:
    return msgspec.json.decode(text, type=list[str])
