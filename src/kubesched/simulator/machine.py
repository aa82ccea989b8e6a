"""The report for programs: JSON with everything in it, and JUnit XML for CI systems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import msgspec

from kubesched.simulator.report import Report

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids, even escaped, such as terminal colours in an error message."""


def as_json(reports: Sequence[Report]) -> str:
    """Format reports as JSON: one object, or a list if there are several. Identical runs give identical text."""
    bodies = [_body(report) for report in reports]
    text = msgspec.json.encode(bodies[0] if len(bodies) == 1 else bodies, order="deterministic")
    return msgspec.json.format(text, indent=2).decode()


def _body(report: Report) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(report, objects=()))
    body["objects"] = [msgspec.Raw(each) for each in report.objects]
    body["timeline"] = [_without_empty(entry._asdict()) for entry in report.timeline]
    body["expectations"] = [
        {**msgspec.to_builtins(each), "holds": each.holds, "message": each.message} for each in report.expectations
    ]
    if report.agreement is None:
        del body["agreement"]
    return body


def _without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value not in ("", 0) or name == "time"}


def as_junit(reports: Sequence[Report]) -> str:
    """Format reports as JUnit XML: a suite per scenario, a case per expectation and one for reaching the end."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        failures = sum(not each.holds for each in report.expectations)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=report.scenario,
            tests=str(len(report.expectations) + 1),
            failures=str(failures),
            errors=str(int(bool(report.error))),
            time=f"{report.virtual_seconds:.3f}",
        )
        for number, each in enumerate(report.expectations, 1):
            case = _case(suite, report, f"{number}. {each.expected}", each.time)
            if not each.holds:
                failure = ElementTree.SubElement(case, "failure", message=each.message)
                failure.text = "\n".join(map(str, each.findings))
        end = _case(suite, report, "runs to its end", report.virtual_seconds)
        if report.error:
            ElementTree.SubElement(end, "error", message=report.error)
    ElementTree.indent(root)
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", ElementTree.tostring(root, "unicode", xml_declaration=True)) + "\n"


def _case(suite: ElementTree.Element, report: Report, name: str, time: float) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=report.scenario, name=name, time=f"{time:.3f}")
