"""Invalid plugin classes are rejected at startup, with what to change and where."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import numpy as np
import pytest
from tests.builders import cluster, node, pod
from tests.harness import engine_of, schedule

from kubesched import Plugin, Reads, Registry, Verdicts
from kubesched.engine.decision import Decision
from kubesched.framework.contract import ContractError, check_contract
from kubesched.plugins import IN_TREE


def made(*, name: object = "Mine", **members: Any) -> type[Plugin]:
    """A plugin class with these members."""
    return type("Mine", (Plugin,), {"name": name, "__module__": __name__, **members})


def method(parameters: str, *, is_async: bool = False) -> Any:
    """A method with these parameters."""
    names: dict[str, Any] = {}
    exec(f"{'async ' if is_async else ''}def method({parameters}): return None", names)
    return names["method"]


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda each: each.name)
def test_the_built_in_plugins_keep_the_contract(plugin: type[Plugin]) -> None:
    """The built-in plugins meet the contract."""
    check_contract(plugin)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"name": ""}, 'plugin Mine has no name; give the class one: name = "Mine"'),
        ({"name": 5}, "has no name"),
        ({}, "takes part in nothing; give it the method of an extension point"),
        ({"filter": method("self, pod, node")}, r"write filter\(self, state, pod, node\)"),
        (
            {"filter": method("self, state, pod, node, extra")},
            r"cannot be called; write filter\(self, state, pod, node\)",
        ),
        ({"filter_all": method("self, state, pod")}, r"write filter_all\(self, state, pod, nodes\)"),
        ({"score": 5}, "score is 5, not a method"),
        ({"score": method("self, state, pod, node", is_async=True)}, "score is async, but the scheduling cycle never"),
        ({"bind": method("self, state, pod, node_name")}, "bind is awaited; write it as async def"),
        ({"preFilter": method("self, state, pod, nodes")}, "nothing calls preFilter; rename it to pre_filter"),
        ({"filter_al": method("self, state, pod, nodes")}, "nothing calls filter_al; rename it to filter_all"),
        (
            {"score": method("self, s, p, n"), "filter_al": method("self, state, pod, nodes")},
            "nothing calls filter_al; rename it to filter_all",
        ),
        ({"score": method("self, s, p, n"), "fliter": method("self, s, p, n")}, "fliter; rename it to filter"),
        ({"score": method("self, s, p, n"), "permitt": method("self, s, p, n")}, "permitt; rename it to permit"),
        ({"score": method("self, s, p, n"), "rezerve": method("self, s, p, n")}, "rezerve; rename it to reserve"),
        (
            {"score": method("self, s, p, n"), "normalize_score": method("self, s, p, scores")},
            "nothing calls normalize_score; rename it to normalize",
        ),
        ({"less": method("self, a, b"), "reads": "NODE"}, "reads is 'NODE'; it must be a member of Reads"),
        ({"less": method("self, a, b"), "args_type": {}}, "args_type is {}; it must be a msgspec.Struct class"),
        ({"less": method("self, a, b"), "default_weight": 0}, "default_weight is 0; it must be a positive integer"),
        ({"less": method("self, a, b"), "__init__": method("self, args")}, r"write __init__\(self, args, handle\)"),
    ],
)
def test_what_is_refused(members: dict[str, Any], said: str) -> None:
    """The error names what is wrong and what to write instead."""
    with pytest.raises(ContractError, match=said):
        Registry([made(**members)])


def test_all_mistakes_are_reported_at_once() -> None:
    """All mistakes are reported at once."""
    with pytest.raises(ContractError) as caught:
        check_contract(made(filter=method("self"), score=method("self"), reads=None))
    assert len(str(caught.value).splitlines()) == 3


def test_the_error_says_where() -> None:
    """The error has the file and line of the method."""

    class Short(Plugin):
        name = "Short"

        def filter(self, pod: object) -> None: ...

    with pytest.raises(ContractError, match=r"\(.*test_contract.py:\d+\)$"):
        check_contract(Short)


def test_what_is_not_refused() -> None:
    """Other parameter names, defaults, static methods, and functions that return awaitables are accepted."""

    class Loose(Plugin):
        name = "Loose"

        def filter(self, s: object, p: object, n: object, extra: int = 1) -> None: ...

        @staticmethod
        def score(*anything: object) -> int:
            return 0

        def helper(self) -> None: ...

        def bind(self, state: object, pod: object, node_name: str) -> Awaitable[None]:
            raise NotImplementedError

    check_contract(Loose)


def test_a_helper_may_be_called_nearly_as_an_extension_point() -> None:
    """A helper with a name like an extension point is accepted if another method calls it, or if the name differs
    enough.
    """

    class Helped(Plugin):
        name = "Helped"

        def score_all(self, state: object, pod: object, nodes: list[object]) -> object:
            return (self.scores(node) for node in nodes if self.filtered)

        def scores(self, node: object) -> int:
            return 0

        @property
        def filtered(self) -> bool:
            return self.permits()

        def permits(self) -> bool:
            return True

        def filter_nodes(self, nodes: list[object]) -> list[object]:
            return nodes

        def score_of(self, node: object) -> int:
            return 0

        def find(self, node: object) -> int:
            return 0

    check_contract(Helped)


# --- results ----------------------------------------------------------------------------------------------------------


def decided(**members: Any) -> Decision:
    """A decision between two nodes with one plugin."""
    return schedule(engine_of(cluster(node("n1"), node("n2")), made(**members)), pod())


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"filter": lambda *_: True}, 'return None if all is well, else a Status such as unschedulable("why")'),
        ({"filter": lambda *_: "no"}, "return unschedulable(reason) to reject the pod"),
        ({"filter_all": lambda *_: np.ones(2, dtype=bool)}, "return None, reject(mask, status) or Verdicts"),
        ({"filter_all": lambda *_: Verdicts([1, 1], str)}, "codes must be a NumPy array of integers or booleans"),  # type: ignore[arg-type]
        ({"filter_all": lambda *_: Verdicts(np.zeros(3, dtype=int), str)}, "an array of shape (3,) for 2 nodes"),  # type: ignore[arg-type]
        ({"score": lambda *_: "high"}, "return a number"),
        ({"score_all": lambda *_: [1, 2]}, "return a NumPy array of numbers or one int for all nodes"),
        ({"score_all": lambda *_: np.zeros(3, dtype=np.int64)}, "an array of shape (3,) for 2 nodes"),
        ({"score_all": lambda *_: np.zeros(2)}, "return 64-bit integers: np.rint(scores).astype(np.int64)"),
        ({"score_all": lambda *_: np.zeros(2, dtype=np.int8), "reads": Reads.NODE}, "return 64-bit integers"),
        ({"score": lambda *_: 1, "normalize": lambda *_: None}, "normalize answered with None; return a NumPy array"),
        ({"score": lambda *_: 1, "normalize": lambda *_: np.array([1.0, np.nan])}, "is no score"),
        ({"score": lambda *_: 500}, "return a number from 0 to 100, or give the class a normalize method"),
        (
            {"score": lambda *_: 5, "normalize": lambda _, __, ___, s: s * 100},
            "let its normalize answer with numbers from",
        ),
    ],
)
def test_an_invalid_result(members: dict[str, Any], said: str) -> None:
    """A result of the wrong type fails the attempt, and the message says what to return."""
    decision = decided(**members)
    assert said in decision.message
    assert decision.plugin == "Mine"
    assert decision.node == ""


def test_an_exception_says_where_for_the_author() -> None:
    """The message is upstream's; file and line are recorded next to it."""
    decision = decided(filter=lambda *_: dict[str, int]()["missing"])
    assert decision.message == "running Filter plugin \"Mine\": KeyError: 'missing'"
    assert "test_contract" in decision.where
    assert decision.where in decision.explain()


def test_a_normalize_may_compute_with_fractions() -> None:
    """Fractional results of normalize are rounded."""
    decision = decided(score=lambda *_: 1, normalize=lambda _, __, ___, scores: scores * 49.6)
    assert decision.node_scores == {"n1": {"Mine": 50}, "n2": {"Mine": 50}}
