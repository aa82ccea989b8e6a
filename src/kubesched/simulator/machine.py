"""The report for programs: JSON with everything in it, and JUnit XML for CI systems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from xml.etree import ElementTree

import msgspec

from kubesched.simulator.report import Report

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids, even escaped, such as terminal colours in an error message."""

SOME = 10_000
"""How many entries of a timeline are formatted at a time."""


def as_json(reports: Sequence[Report]) -> str:
    """Format reports as JSON: one object, or a list if there are several. Identical runs give identical text."""
    return "".join(json_parts(reports))


def json_parts(reports: Sequence[Report]) -> Iterator[str]:
    """The same text in parts. A timeline may be longer than memory."""
    bodies = [report.to_dict_without_timeline() for report in reports]
    text = _formatted(bodies[0] if len(bodies) == 1 else bodies)
    indent = "\n  " if len(bodies) == 1 else "\n    "  # no other line that is indented so little has this name
    before, *others = text.split(f'{indent}"timeline": []')
    yield before
    for report, after in zip(reports, others, strict=True):
        yield f'{indent}"timeline": ['
        entries = report.timeline_dicts()
        comma = ""
        while some := list(islice(entries, SOME)):
            yield comma + _formatted(some)[1:-2].replace("\n", indent)
            comma = ","
        yield f"{indent if report.timeline else ''}]{after}"


def _formatted(body: object) -> str:
    return msgspec.json.format(msgspec.json.encode(body, order="deterministic"), indent=2).decode()


def as_junit(reports: Sequence[Report]) -> str:
    """Format reports as JUnit XML: a suite per scenario, a case per expectation and one for reaching the end."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        failures = sum(not each.holds for each in report.expectations)
        different = () if report.decisions is None else report.decisions.differences
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=report.scenario,
            tests=str(len(report.expectations) + 1 + (report.decisions is not None)),
            failures=str(failures + bool(different)),
            errors=str(int(bool(report.error))),
            time=f"{report.virtual_seconds:.3f}",
        )
        for number, each in enumerate(report.expectations, 1):
            case = _case(suite, report, f"{number}. {each.expected}", each.time)
            if not each.holds:
                failure = ElementTree.SubElement(case, "failure", message=each.message)
                failure.text = "\n".join(map(str, each.findings))
        if report.decisions is not None:
            case = _case(suite, report, "decides as recorded", report.virtual_seconds)
            if different:
                failure = ElementTree.SubElement(case, "failure", message=f"{len(different)} decisions differ")
                failure.text = "\n".join(f"{each.pod}: {each.recorded} → {each.here}" for each in different)
        end = _case(suite, report, "runs to its end", report.virtual_seconds)
        if report.error:
            ElementTree.SubElement(end, "error", message=report.error)
    ElementTree.indent(root)
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", ElementTree.tostring(root, "unicode", xml_declaration=True)) + "\n"


def _case(suite: ElementTree.Element, report: Report, name: str, time: float) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=report.scenario, name=name, time=f"{time:.3f}")
