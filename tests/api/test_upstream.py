"""Recorded answers of kube-scheduler 1.36.4's own helper functions, on random input.

``upstream.jsonl.gz`` has one case a line: ``{"case", "input", "expect"}``. Left out are the few inputs where upstream's
answer is an accident of how a number is held in memory: the rounding of negative quantities, and 64-bit overflows.
"""

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from kubesched.api.objects import LabelSelector, NodeSelector, Pod, PreferredSchedulingTerm, Taint, Toleration
from kubesched.api.quantity import QuantityError, milli, nanos, value
from kubesched.api.resources import (
    Requests,
    is_extended,
    is_hugepage,
    is_native,
    is_scalar,
    node_requests,
    scheduling_requests,
)
from kubesched.api.selectors import SelectorError, label_selector, node_selector, preferred_terms
from kubesched.api.taints import tolerates


class Input(msgspec.Struct):
    """Whatever a case needs; which of it is there depends on the case."""

    q: str = ""
    name: str = ""
    labels: dict[str, str] = {}
    pod: Pod = Pod()
    ls: LabelSelector | None = None
    ns: NodeSelector = NodeSelector()
    pref: tuple[PreferredSchedulingTerm, ...] = ()
    tol: Toleration = Toleration()
    taint: Taint = Taint()


class Case(msgspec.Struct):
    case: str
    input: Input
    expect: dict[str, object]


Answer = dict[str, object]


def of_quantity(given: Input) -> Answer:
    try:
        amount = nanos(given.q)
    except QuantityError:
        return {"malformed": True}
    if amount < 0:
        return {"nanos": amount}
    return {"nanos": amount, "milli": milli(given.q), "value": value(given.q)}


def of_pod(given: Input) -> Answer:
    node, fit = node_requests(given.pod), scheduling_requests(given.pod)
    return {
        "node": in_books(node),
        "non0": [node.nonzero_cpu, node.nonzero_memory],
        "fit": in_books(fit),
        "score": [fit.nonzero_cpu, fit.nonzero_memory],
    }


def in_books(requests: Requests) -> Answer:
    return {
        "cpu": requests.milli_cpu,
        "mem": requests.memory,
        "eph": requests.ephemeral_storage,
        "scalar": requests.scalar or None,
    }


def of_label_selector(given: Input) -> Answer:
    try:
        selector = label_selector(given.ls)
    except SelectorError as error:
        return {"err": str(error)}
    return {"match": selector.matches(given.labels), "empty": selector.is_empty}


def of_node_selector(given: Input) -> Answer:
    selector = node_selector(given.ns)
    matches = selector.matches(given.labels, given.name)
    return {"match": matches} if matches or not selector.error else {"match": False, "err": selector.error}


def of_preferred_terms(given: Input) -> Answer:
    try:
        return {"score": preferred_terms(given.pref).score(given.labels, given.name)}
    except SelectorError as error:
        return {"err": str(error)}


def of_toleration(given: Input) -> Answer:
    return {"ok": tolerates(given.tol, given.taint)}


def of_resource_name(given: Input) -> Answer:
    return {"r": [kind(given.name) for kind in (is_extended, is_hugepage, is_scalar, is_native)]}


ANSWERS: dict[str, Callable[[Input], Answer]] = {
    "quantity": of_quantity,
    "pod": of_pod,
    "label selector": of_label_selector,
    "node selector": of_node_selector,
    "preferred terms": of_preferred_terms,
    "toleration": of_toleration,
    "resource name": of_resource_name,
}


def recorded(name: str) -> Iterable[Case]:
    lines = gzip.decompress(Path(__file__).with_name("upstream.jsonl.gz").read_bytes())
    return [case for case in msgspec.json.Decoder(Case).decode_lines(lines) if case.case == name]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_is_upstreams(name: str) -> None:
    """Where the scheduler's own code was recorded, too, it gave the same result."""
    cases = list(recorded(name))
    assert len(cases) > 100
    for case in cases:
        assert ANSWERS[name](case.input) == case.expect, case.input
