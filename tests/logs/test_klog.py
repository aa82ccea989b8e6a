"""Lines are those that klog itself wrote for the same messages: 600 recorded calls with random values."""

import gzip
import json
from pathlib import Path
from typing import Any

from kubesched.logs.formats import JsonFormat, TextFormat
from kubesched.logs.levels import ERROR
from kubesched.logs.references import KRef

CASES = [
    json.loads(line) for line in gzip.decompress(Path(__file__).with_name("klog.jsonl.gz").read_bytes()).splitlines()
]


def value(kind: str, recorded: Any) -> object:
    match kind:
        case "ref":
            return KRef(*recorded)
        case "refs":
            return [KRef(*each) for each in recorded]
        case "set":
            return set(recorded)
        case "err":
            return ValueError(recorded)
        case "float":
            return float(recorded)
        case "floats":
            return [float(each) for each in recorded]
    return recorded


def fields_of(case: dict[str, Any]) -> dict[str, object]:
    fields: dict[str, object] = {each["Key"]: value(each["Kind"], each["Val"]) for each in case["Fields"] or ()}
    if case["Name"]:
        fields["logger"] = case["Name"]
    if case["Err"] is not None:
        fields["err"] = ValueError(case["Err"])
    return fields


def pairs(line: str) -> list[tuple[str, object]]:
    """A line of JSON without what depends on time and place."""
    found = json.loads(line, object_pairs_hook=list, parse_int=float)
    return [(key, item) for key, item in found if key not in ("ts", "caller")]


def test_text() -> None:
    """The text format quotes, escapes and orders as klog does."""
    line_of = TextFormat(pid=1)
    for case in CASES:
        line = line_of(0.0, case["Level"], "a/b.go:1", case["Msg"], fields_of(case))
        assert line[0] + line[line.index("] ") + 1 :] == case["text"]


def test_json() -> None:
    """The JSON format has klog's fields in klog's order, with the same values."""
    line_of = JsonFormat()
    for case in CASES:
        line = line_of(0.0, case["Level"], "a/b.go:1", case["Msg"], fields_of(case))
        assert pairs(line) == pairs(case["json"])


def test_the_corpus_has_errors_and_names() -> None:
    """The recorded calls include what has a place of its own in a line."""
    assert any(case["Level"] == ERROR and case["Err"] and case["Name"] for case in CASES)
