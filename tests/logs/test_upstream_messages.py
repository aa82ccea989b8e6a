"""kube-scheduler's log messages: each is logged here too, or the deploy guide says why it is not.

`upstream_messages.jsonl` has the messages of kube-scheduler 1.36, of its leader election and of its cache of extended
resources: file, verbosity (-1 for errors), message and keys.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
HINTS = ("queue_because", "skip_because")


@cache
def upstream() -> list[dict[str, Any]]:
    """The messages of kube-scheduler."""
    lines = (Path(__file__).parent / "upstream_messages.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]


@cache
def modules() -> list[ast.Module]:
    """Our source, without the table of upstream's messages."""
    paths = [path for path in (ROOT / "src").rglob("*.py") if path.name != "callers.py"]
    return [ast.parse(path.read_text("utf-8")) for path in paths]


def test_every_message_is_logged_or_listed() -> None:
    """A message is a string of our source, or it is marked with the group under which the guide lists it."""
    found = {
        node.value
        for module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {each["message"] for each in upstream() if "missing" not in each} <= found
    assert not {each["message"] for each in upstream() if "missing" in each} & found


def test_the_guide_lists_what_is_missing() -> None:
    """The deploy guide says how many messages there are, and its table has every group with its number of messages."""
    guide = (ROOT / "docs/guides/deploy.md").read_text("utf-8")
    section = guide.partition("### Log lines")[2].partition("\n## ")[0]
    logged = sum("missing" not in each for each in upstream())
    assert f"The log has {logged} of the {len(upstream())} messages" in section
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \|", section, re.MULTILINE)
    assert {name: int(number) for name, number in rows} == Counter(
        each["missing"] for each in upstream() if "missing" in each
    )


def test_hints_log_with_upstreams_verbosity_and_keys() -> None:
    """The lines of queueing hints have the verbosity and the keys of upstream's."""
    expected: dict[str, list[tuple[int, set[str]]]] = defaultdict(list)
    for each in upstream():
        expected[each["message"]].append((each["level"], set(each["keys"])))
    checked = 0
    for message, level, keys, whole in _hint_lines():
        assert any(level == wanted for wanted, _ in expected[message]), message
        if whole:
            assert any(keys == wanted for _, wanted in expected[message]), (message, keys)
        checked += 1
    assert checked > 90


def _hint_lines() -> Iterator[tuple[str, int, set[str], bool]]:
    """Message, verbosity and keys of each hint, and whether those are all keys. A message is given at once, or by the
    last assignment before the call.
    """
    for module in modules():
        of_module = list(_texts(module.body))
        for function in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)):
            assigned = [*of_module, *sorted(_texts(ast.walk(function)))]
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in HINTS:
                    text, keys = call.args[2], {keyword.arg for keyword in call.keywords if keyword.arg}
                    if isinstance(text, ast.Name):
                        earlier = [said for line, name, said in assigned if name == text.id and line < call.lineno]
                        if not earlier:
                            continue  # imported, or the result of a function
                        message = earlier[-1]
                    else:
                        message = ast.literal_eval(text)
                    yield message, ast.literal_eval(call.args[1]), keys, len(keys) == len(call.keywords)


def _texts(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, str]]:
    """Names that get a text: line, name and text."""
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield node.lineno, node.targets[0].id, value.value
