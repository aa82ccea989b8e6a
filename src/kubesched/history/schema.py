"""The tables of the decision database. docs/reference/decision-log.md documents them."""

from __future__ import annotations

from typing import Final

USER_VERSION: Final = 1
SCHEMA: Final = f"""
PRAGMA user_version = {USER_VERSION};
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    namespace TEXT NOT NULL,
    pod TEXT NOT NULL,
    uid TEXT NOT NULL,
    profile TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    binding TEXT NOT NULL,
    node TEXT NOT NULL,
    message TEXT NOT NULL,
    seconds REAL NOT NULL,
    evaluated_nodes INTEGER NOT NULL,
    feasible_nodes INTEGER NOT NULL,
    nominated_node TEXT NOT NULL,
    victims TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS attempts_of_pod ON attempts (namespace, pod);
CREATE TABLE IF NOT EXISTS scores (
    attempt_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    node TEXT NOT NULL,
    plugin TEXT NOT NULL,
    score INTEGER NOT NULL,
    final INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, place, plugin)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rejections (
    attempt_id INTEGER NOT NULL,
    plugin TEXT NOT NULL,
    code TEXT NOT NULL,
    reasons TEXT NOT NULL,
    count INTEGER,
    nodes TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS rejections_of_attempt ON rejections (attempt_id);
"""
PRUNE: Final = (
    "DELETE FROM attempts WHERE id <= ?",
    "DELETE FROM scores WHERE attempt_id <= ?",
    "DELETE FROM rejections WHERE attempt_id <= ?",
)
