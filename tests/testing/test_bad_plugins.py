"""A plugin that returns a wrong type, or raises, fails the attempt with a message that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched import Action, Code, Plugin, Resource, Status, Verdicts, on, unschedulable
from kubesched.framework.errors import PluginStartError
from kubesched.testing import NotTriedError, VirtualCluster, node, pod

STATUS = 'else a Status such as unschedulable("why")'
NAMES = "return None, a Status, or a set of node names"
PERMIT = "return None, a Status, or (Status(Code.WAIT), seconds)"
POST_FILTER = 'return (None, unschedulable("why")), or (PostFilterResult(node_name), Status(Code.SUCCESS))'
WAIT = Status(Code.WAIT)
SUCCESS = Status(Code.SUCCESS)


def failing(point: str, answer: Callable[..., Any], otherwise: object = None, **members: Any) -> type[Plugin]:
    """A plugin that answers like this of the pod "bad", and properly of others."""

    def method(self: Plugin, state: Any, pod: Any, given: Any) -> Any:
        return answer(given) if pod.name == "bad" else otherwise

    async def later(self: Plugin, state: Any, pod: Any, given: Any) -> Any:
        return method(self, state, pod, given)

    chosen = later if point in ("pre_bind", "bind", "post_bind") else method
    return type("Bad", (Plugin,), {"name": "Bad", point: chosen, **members})


def verdicts(nodes: Any, meaning: Callable[[int], Any]) -> Verdicts:
    return Verdicts(np.ones(len(nodes), dtype=np.bool_), meaning)


def _raise(given: object) -> Any:
    raise KeyError("missing")


def nowhere(self: Plugin, state: Any, pod: Any, node: Any) -> Status | None:
    return unschedulable("no") if pod.name == "bad" else None


Mistake = tuple[str, Callable[..., Any], object, str]
"""Method, answer, what it answers of other pods, and what is said of it."""
BAD: dict[str, Mistake] = {
    "a name for names": ("pre_filter", lambda _: "n1", None, NAMES),
    "a bool for names": ("pre_filter", lambda _: True, None, NAMES),
    "numbers for names": ("pre_filter", lambda _: [1, 2], None, NAMES),
    "a bool for a status": ("filter", lambda _: False, None, STATUS),
    "a text for a status": ("filter", lambda _: "no", None, "return unschedulable(reason) to reject the pod"),
    "a wait of a filter": ("filter", lambda _: WAIT, None, 'return None if the pod fits, else unschedulable("why")'),
    "a text for a meaning": ("filter_all", lambda n: verdicts(n, str), None, "let status_of(1) return a Status"),
    "no meaning": ("filter_all", lambda n: verdicts(n, lambda code: [][code]), None, "IndexError"),
    "a bool of PreScore": ("pre_score", lambda _: True, None, STATUS),
    "a bool for a score": ("score", lambda _: True, 1, "score answered with bool True; return a number"),
    "not a number": ("score", lambda _: float("nan"), 1, "return a number"),
    "no score": ("score_all", lambda _: None, 1, "return a NumPy array of numbers or one int for all nodes"),
    "a bool for all": ("score_all", lambda _: True, 1, "return a NumPy array of numbers or one int for all nodes"),
    "a bool of Reserve": ("reserve", lambda _: True, None, STATUS),
    "a text of Permit": ("permit", lambda _: "later", None, PERMIT),
    "a pair the wrong way round": ("permit", lambda _: (30.0, WAIT), None, PERMIT),
    "a text for seconds": ("permit", lambda _: (WAIT, "30s"), None, PERMIT),
    "no seconds at all": ("permit", lambda _: (WAIT, float("nan")), None, PERMIT),
    "a bool of PreBind": ("pre_bind", lambda _: True, None, STATUS),
}
POINTS = ["pre_filter", "filter", "filter_all", "pre_score", "score", "score_all", "reserve", "permit", "pre_bind"]
RAISING: dict[str, Mistake] = {f"{point} raises": (point, _raise, None, "KeyError: 'missing'") for point in POINTS}


@pytest.mark.parametrize("mistake", BAD | RAISING)
def test_the_attempt_fails_and_the_loop_goes_on(cluster: VirtualCluster, mistake: str) -> None:
    """The message names plugin and point, the log has file and line, the next pod is bound, the place is free again."""
    point, answer, otherwise, said = (BAD | RAISING)[mistake]
    if otherwise is None and point.startswith("score"):
        otherwise = 1
    cluster.use(failing(point, answer, otherwise, **({"score": lambda *_: 1} if point == "pre_score" else {})))
    cluster.add(node("n1"), node("n2"))
    decision = cluster.schedule(pod("bad"))
    assert decision.node == ""
    assert said in decision.message
    assert 'plugin "Bad"' in decision.message
    cluster.schedule(pod("good"))
    assert cluster.node_of("good")
    assert set(cluster.scheduler.cluster.pods) == {"default.good"}
    assert any("test_bad_plugins" in str(line.fields.get("where")) for line in cluster.log if line.level < 0)


@pytest.mark.parametrize("answer", [None, "no", SUCCESS, (SUCCESS, None), ("n1", SUCCESS), (None, "no")])
def test_what_post_filter_may_not_answer(cluster: VirtualCluster, answer: object) -> None:
    """A result and a status, nothing else."""
    cluster.use(failing("post_filter", lambda _: answer, filter=nowhere))
    cluster.add(node("n1"))
    assert POST_FILTER in cluster.schedule(pod("bad")).message


@pytest.mark.parametrize("said", [lambda _: True, _raise])
def test_unreserve_and_post_bind_cannot_fail_anything(cluster: VirtualCluster, said: Callable[..., Any]) -> None:
    """What they return and raise is logged; the pod goes back to the queue, or stays bound."""
    cluster.use(failing("unreserve", said, reserve=nowhere))
    cluster.use(_after_binding(said))
    cluster.add(node("n1"))
    assert "no" in cluster.schedule(pod("bad")).message
    cluster.schedule(pod("good"))
    assert cluster.node_of("good") == "n1"
    assert {line.fields["plugin"] for line in cluster.log if line.level < 0} == {"Bad", "After"}


def _after_binding(said: Callable[..., Any]) -> type[Plugin]:
    async def post_bind(self: Plugin, state: Any, pod: Any, node_name: str) -> Any:
        return said(node_name)

    return type("After", (Plugin,), {"name": "After", "post_bind": post_bind})


def test_a_binder_that_answers_with_nonsense(cluster: VirtualCluster) -> None:
    """It is no success, so the pod is tried again."""
    cluster.know(failing("bind", lambda _: True, Status(Code.SKIP)))
    binders = {"enabled": [{"name": "Bad"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}
    cluster.configure({"profiles": [{"plugins": {"bind": binders}}]})
    cluster.add(node("n1"))
    assert STATUS in cluster.schedule(pod("bad")).message


def test_a_gate_that_answers_with_nonsense(cluster: VirtualCluster) -> None:
    """A pod that PreEnqueue fails for waits, and the log says why."""

    class Gate(Plugin):
        name = "Gate"

        def pre_enqueue(self, pod: Any) -> Any:
            return pod.name != "bad"

    cluster.use(Gate)
    cluster.add(node("n1"))
    with pytest.raises(NotTriedError, match=r"pre_enqueue answered with bool False; return None if all is well"):
        cluster.schedule(pod("bad"))
    assert any("pre_enqueue answered with bool" in error for error in cluster.log.errors())


def test_a_hint_that_answers_with_nonsense(cluster: VirtualCluster) -> None:
    """The pod is retried to be safe, and the log says what to return."""
    events = [on(Resource.NODE, Action.ADD, lambda pod, old, new: "yes")]  # type: ignore[arg-type, return-value]  # the mistake
    cluster.use(failing("filter", lambda _: unschedulable("no"), events_to_register=lambda _: events))
    cluster.add(node("n1"))
    cluster.schedule(pod("bad"))
    cluster.add(node("n2"))
    cluster.advance(5)
    assert cluster.attempts("bad") == 2
    assert any("return Hint.QUEUE or Hint.SKIP" in error for error in cluster.log.errors())


def test_keys_that_cannot_be_compared(cluster: VirtualCluster) -> None:
    """No pod is lost to a QueueSort that sorts numbers with texts."""

    class Sort(Plugin):
        name = "Sort"

        def sort_key(self, pod: Any) -> Any:
            return pod.name if pod.name == "bad" else 1

    cluster.know(Sort)
    sorting = {"queueSort": {"enabled": [{"name": "Sort"}], "disabled": [{"name": "*"}]}}
    cluster.configure({"profiles": [{"plugins": sorting}]})
    cluster.add(node("n1"), pod("one"), pod("bad"), pod("two"))
    cluster.advance(1)
    assert [cluster.node_of(name) for name in ("one", "bad", "two")] == ["n1"] * 3
    assert {error.partition(":")[0] for error in cluster.log.errors()} == {"QueueSort plugin failed"}


def test_what_keeps_it_from_starting(cluster: VirtualCluster) -> None:
    """An __init__ that raises and wrong events are reported at the start, with the plugin's name and the place."""

    class Broken(Plugin):
        name = "Broken"

        def __init__(self, args: Any, handle: Any) -> None:
            raise RuntimeError("no licence")

        def filter(self, state: Any, pod: Any, node: Any) -> None: ...

    cluster.use(Broken)
    with pytest.raises(PluginStartError, match=r'"Broken": __init__ raised RuntimeError: no licence \(.*.py:\d+\)$'):
        cluster.start()
    with VirtualCluster() as other:
        other.use(failing("filter", lambda _: None, events_to_register=lambda _: ["Node/Add"]))
        with pytest.raises(PluginStartError, match=r'"Bad": events_to_register answered with list .*; return a list'):
            other.start()
