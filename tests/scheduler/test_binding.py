"""From a decision to a bound pod: Reserve, Permit, PreBind, Bind, PostBind, and everything that can fail there."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.client.protocol import ApiError
from kubesched.cluster.pods import PodInfo
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error, unschedulable

Permit = Status | tuple[Status, float] | None


class Recording(Plugin):
    """Records every call; subclasses return results."""

    name = "Recording"
    calls: ClassVar[list[str]] = []

    def events_to_register(self) -> list[EventHint]:
        # Without registered events, the plugin would get all of them, including updates of the pod's own status.
        return [on(Resource.NODE, Action.ADD)]

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        self.calls.append("reserve")
        return None

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        self.calls.append("unreserve")

    def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Permit:
        self.calls.append("permit")
        return None

    async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        self.calls.append("pre_bind")
        return None

    async def post_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        self.calls.append("post_bind")


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    Recording.calls.clear()


# --- order ------------------------------------------------------------------------------------------------------------


@virtual_time
async def test_the_points_run_in_order(clock: VirtualClock) -> None:
    """Reserve, Permit, PreBind and PostBind run once each, in this order, and see the pod on its node."""
    async with world(clock, node("n1"), plugins=[Recording]) as here:
        here.create(pod("web"))
        await here.settle()
        assert Recording.calls == ["reserve", "permit", "pre_bind", "post_bind"]
        assert here.node_of("web") == "n1"


@virtual_time
async def test_a_quick_binding_nominates_no_node(clock: VirtualClock) -> None:
    """A pod that is bound at once is not nominated first: the API server gets a single call."""
    async with world(clock, node("n1")) as here:
        here.create(pod("web"))
        await here.settle()
        assert here.api.calls["patch_pod_status"] == 0
        assert here.api.calls["bind"] == 1


@virtual_time
async def test_before_a_wait_the_node_is_nominated(clock: VirtualClock) -> None:
    """While PreBind runs, the pod's status names its future node."""

    class Slow(Recording):
        async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            await asyncio.sleep(10)
            return None

    async with world(clock, node("n1"), plugins=[Slow]) as here:
        here.create(pod("web"))
        await here.settle(5)
        assert here.pod("web").nominated_node_name == "n1"
        await here.settle(10)
        assert here.node_of("web") == "n1"


@virtual_time
async def test_without_the_gate_no_node_is_announced(clock: VirtualClock) -> None:
    """With NominatedNodeNameForExpectation off, nothing is written before a wait, and every PreBind runs."""

    class Slow(Recording):
        def pre_bind_needed(self, state: CycleState, pod: api.Pod, node_name: str) -> bool:
            return False

        async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            await asyncio.sleep(10)
            return None

    features = Features(nominated_node_name_for_expectation=False)
    async with world(clock, node("n1"), plugins=[Slow], features=features) as here:
        here.create(pod("web"))
        await here.settle(5)
        assert here.pod("web").nominated_node_name == ""
        assert here.node_of("web") == ""
        await here.settle(10)
        assert here.node_of("web") == "n1"
        assert here.api.calls["patch_pod_status"] == 0


@virtual_time
async def test_a_plugin_with_nothing_to_do_before_binding_is_skipped(clock: VirtualClock) -> None:
    """PreBind is not run for a plugin that reports it as unnecessary."""

    class Idle(Recording):
        def pre_bind_needed(self, state: CycleState, pod: api.Pod, node_name: str) -> bool:
            return False

    async with world(clock, node("n1"), plugins=[Idle]) as here:
        here.create(pod("web"))
        await here.settle()
        assert "pre_bind" not in Recording.calls
        assert here.api.calls["patch_pod_status"] == 0


class First(Recording):
    """Takes ten seconds in PreBind and allows others in parallel."""

    name = "First"
    pre_bind_in_parallel = True

    async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            Recording.calls.append(f"{self.name} cancelled")
            raise
        return None


class Second(First):
    """Also takes ten seconds."""

    name = "Second"


class Failing(First):
    """Fails after a second."""

    name = "Failing"

    async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        await asyncio.sleep(1)
        raise RuntimeError("no disk")


class Alone(First):
    """Does not run in parallel with others."""

    name = "Alone"
    pre_bind_in_parallel = False


@pytest.mark.parametrize(("plugins", "seconds"), [((First, Second), 10), ((First, Alone), 20), ((Alone, Second), 20)])
@virtual_time
async def test_pre_bind_plugins_run_in_parallel(
    clock: VirtualClock, plugins: tuple[type[Plugin], ...], seconds: float
) -> None:
    """PreBind plugins that allow it run in parallel, the others one after the other."""
    async with world(clock, node("n1"), plugins=plugins) as here:
        here.create(pod("web"))
        await here.settle(seconds - 1)
        assert here.node_of("web") == ""
        await here.settle(2)
        assert here.node_of("web") == "n1"


@virtual_time
async def test_a_failing_pre_bind_cancels_the_others(clock: VirtualClock) -> None:
    """When one of several parallel PreBind plugins fails, the others are cancelled and the pod returns to the queue at
    once.
    """
    async with world(clock, node("n1"), plugins=[First, Failing]) as here:
        here.create(pod("web"))
        await here.settle(1.5)
        assert Recording.calls.count("First cancelled") == 1
        assert here.message("web") == 'running PreBind plugin "Failing": RuntimeError: no disk'
        assert not here.scheduler.cluster.assumed
        assert not len(here.scheduler.shared.pre_binding)


@virtual_time
async def test_stopping_cancels_parallel_pre_binds(clock: VirtualClock) -> None:
    """A stopping scheduler cancels PreBind plugins that take too long, and leaves no task behind."""

    class Endless(First):
        name = "Endless"

        async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            await asyncio.sleep(3600)
            return None

    async with world(clock, node("n1"), plugins=[Endless, Second], check=False) as here:
        here.create(pod("web"))
        await here.settle(1)
        stopping = asyncio.create_task(here.scheduler.stop())
        await here.settle(15)
        assert stopping.done()
        assert not len(here.scheduler.shared.tasks)


@virtual_time
async def test_many_bindings_run_at_once(clock: VirtualClock) -> None:
    """A hundred pods whose bindings take a second each are all bound after little more than a second."""
    async with world(clock, node("n1", cpu="100", pods=200)) as here:
        here.api.delay("bind", 1)
        here.create(*(pod(f"p{number}") for number in range(100)))
        await here.settle(1.1)
        assert len(here.api.bindings) == 100


@virtual_time
async def test_a_pod_that_fails_before_waiting_is_removed(clock: VirtualClock) -> None:
    """A pod that should wait on Permit but fails earlier is removed from the waiting pods."""

    class Undecided(Recording):
        def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Permit:
            return Status(Code.WAIT), 600.0

        def pre_bind_needed(self, state: CycleState, pod: api.Pod, node_name: str) -> bool:
            raise RuntimeError("no idea")

    async with world(clock, node("n1"), plugins=[Undecided]) as here:
        here.create(pod("web"))
        await here.settle()
        assert not len(here.scheduler.shared.waiting)
        assert here.message("web") == 'running PreBindPreFlight "Recording": RuntimeError: no idea'


@virtual_time
async def test_a_failing_cleanup_after_a_failed_bind(clock: VirtualClock) -> None:
    """Even if the cleanup after a failed bind fails too, the pod is retried."""
    async with world(clock, node("n1")) as here:
        cluster = here.scheduler.cluster
        info, broken = cluster.classes.info, iter((RuntimeError("no memory"),))

        def fails_once(pod: api.Pod) -> PodInfo:
            if cluster.assumed or pod.name != "web" or not here.api.calls["bind"]:
                return info(pod)
            for problem in broken:
                raise problem
            return info(pod)

        cluster.classes.info = fails_once  # type: ignore[method-assign]  # an injected fault
        here.api.fail("bind")
        here.create(pod("web"))
        await here.settle(30)
        assert any("no memory" in error for error in here.log.errors())
        assert here.node_of("web") == "n1"


# --- permit -----------------------------------------------------------------------------------------------------------


class Waiting(Recording):
    """Makes every pod wait for at most ten seconds."""

    def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Permit:
        return Status(Code.WAIT), 10.0


@virtual_time
async def test_a_waiting_pod_is_bound_once_allowed(clock: VirtualClock) -> None:
    """A pod waits on Permit, with its resources assumed, until the plugin allows it."""
    async with world(clock, node("n1", cpu="1"), plugins=[Waiting]) as here:
        here.create(pod("web", cpu="1"), pod("next", cpu="1"))
        await here.settle(5)
        (waiting,) = here.scheduler.shared.waiting
        assert (waiting.pod.name, waiting.pod.node_name) == ("web", "n1")
        assert list(waiting.pending_plugins) == ["Recording"]
        assert "Insufficient cpu" in here.message("next")
        waiting.allow("Recording")
        await here.settle()
        assert here.node_of("web") == "n1"


@virtual_time
async def test_a_waiting_pod_can_be_rejected(clock: VirtualClock) -> None:
    """A plugin's rejection returns the pod to the queue, with the reason, and frees its node."""
    async with world(clock, node("n1", cpu="1"), plugins=[Waiting]) as here:
        here.create(pod("web", cpu="1"))
        await here.settle(1)
        (waiting,) = here.scheduler.shared.waiting
        assert waiting.reject("Recording", "not today")
        assert not waiting.reject("Recording", "twice")
        await clock.settle()
        assert here.message("web") == "0/1 nodes are available: 1 not today."
        assert "unreserve" in Recording.calls
        assert not here.scheduler.cluster.pods


@virtual_time
async def test_a_waiting_pod_times_out(clock: VirtualClock) -> None:
    """After the timeout the pod returns to the queue, with upstream's message."""
    async with world(clock, node("n1"), plugins=[Waiting]) as here:
        here.create(pod("web"))
        await here.settle(10.5)
        expected = "rejected due to timeout after waiting 10s at plugin Recording"
        assert here.message("web") == f"0/1 nodes are available: 1 {expected}."


@virtual_time
async def test_an_update_of_a_waiting_pod_counts_once_it_is_back(clock: VirtualClock) -> None:
    """A pod that gets the label it waits for on Permit is tried again after the timeout, without another event."""

    class Knocking(Waiting):
        def events_to_register(self) -> list[EventHint]:
            return [on(Resource.POD, Action.UPDATE_POD_LABEL)]

        def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Permit:
            return None if "open" in pod.labels else (Status(Code.WAIT), 10.0)

    async with world(clock, node("n1"), plugins=[Knocking]) as here:
        here.create(pod("web"))
        await here.settle(5)
        known = here.api.get(api.Pod, "default/web")
        assert known is not None
        metadata = replace(known.metadata, labels={"open": "true"})
        here.api.update(replace(known, metadata=metadata))
        await here.settle(20)
        assert here.node_of("web") == "n1"


@virtual_time
async def test_permit_may_refuse(clock: VirtualClock) -> None:
    """A rejection by Permit is reported as one node's rejection, and all plugins unreserve."""

    class Refusing(Recording):
        def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Permit:
            return unschedulable("closed")

    async with world(clock, node("n1"), plugins=[Refusing]) as here:
        here.create(pod("web"))
        await here.settle()
        assert here.message("web") == "0/1 nodes are available: 1 closed."
        assert Recording.calls == ["reserve", "unreserve"]


@virtual_time
async def test_a_pod_deleted_while_it_waits_frees_its_place(clock: VirtualClock) -> None:
    """When a waiting pod is deleted, the next pod gets its resources at once, and the deleted one is not requeued."""
    async with world(clock, node("n1", cpu="1"), plugins=[Waiting], check=False) as here:
        here.create(pod("web", cpu="1"))
        await here.settle(1)
        here.create(pod("next", cpu="1"))
        await here.settle(1)
        here.api.delete(here.pod("web"))
        await here.settle(2)
        assert [each.pod.name for each in here.scheduler.shared.waiting] == ["next"]
        assert here.scheduler.queue.pending_pods()[0] == []


@virtual_time
async def test_plugins_reach_waiting_pods_through_their_handle(clock: VirtualClock) -> None:
    """A gang plugin allows its first member when the second arrives."""

    class Gang(Recording):
        def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Permit:
            others = list(self.handle.waiting_pods)
            for waiting in others:
                waiting.allow(self.name)
            return None if others else (Status(Code.WAIT), 60.0)

    async with world(clock, node("n1"), plugins=[Gang]) as here:
        here.create(pod("one"))
        await here.settle(5)
        assert here.node_of("one") == ""
        here.create(pod("two"))
        await here.settle()
        assert here.node_of("one") == here.node_of("two") == "n1"


# --- failures ---------------------------------------------------------------------------------------------------------


@virtual_time
async def test_a_refused_reserve_gives_everything_back(clock: VirtualClock) -> None:
    """A plugin that fails to reserve returns the pod to the queue, and all plugins unreserve."""

    class Refusing(Plugin):
        name = "Refusing"

        def events_to_register(self) -> list[EventHint]:
            return [on(Resource.NODE, Action.ADD)]

        def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            return unschedulable("nothing left")

    async with world(clock, node("n1"), plugins=[Recording, Refusing]) as here:
        here.create(pod("web"))
        await here.settle()
        assert here.message("web") == "0/1 nodes are available: 1 nothing left."
        assert Recording.calls == ["reserve", "unreserve"]


FAILURES: list[tuple[Exception, bool]] = [
    (ApiError(409, "Conflict", "the pod is being looked at"), False),
    (ApiError(404, "NotFound", 'pods "web" not found'), False),
    (ApiError(500, "InternalError", "etcd is away"), False),
    (TimeoutError("no answer"), False),
    (TimeoutError("no answer"), True),
    (ApiError(504, "Timeout", "gateway"), True),
    (ApiError(409, "Conflict", "pod web is already assigned"), True),  # the request arrived twice
]


@pytest.mark.parametrize(("problem", "answer_lost"), FAILURES, ids=lambda value: str(value).replace(" ", "-"))
def test_a_failed_bind_is_tried_again(problem: Exception, answer_lost: bool) -> None:
    """Whatever error the API server returns, and even without a response, the pod ends up bound, once."""

    @virtual_time
    async def run(clock: VirtualClock) -> None:
        async with world(clock, node("n1", cpu="1"), plugins=[Recording]) as here:
            here.api.fail("bind", problem, answer_lost=answer_lost)
            here.create(pod("web", cpu="1"))
            await here.settle(10)
            assert here.node_of("web") == "n1"
            if answer_lost:
                assert Recording.calls == ["reserve", "permit", "pre_bind", "post_bind"]
                assert here.events.of("FailedScheduling") == []
            else:
                assert Recording.calls.count("unreserve") == 1
                why = f'running Bind plugin "DefaultBinder": {problem}'
                assert here.events.of("FailedScheduling") == [("web", why)]

    run()


@virtual_time
async def test_a_bound_pod_is_not_called_unscheduled(clock: VirtualClock) -> None:
    """When a bind took effect but its response is lost and neither watch nor API server confirms it, the condition
    stays true.
    """
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.delay("bind", 1)
        here.api.fail("read", OSError("out of reach"), times=math.inf)
        here.api.fail("bind", TimeoutError("no answer"), answer_lost=True)
        here.create(pod("web", cpu="1"))
        await here.settle(0.5)
        here.api.pause("watch")
        here.api.cut_watches(api.Pod)
        await here.settle(40)
        assert here.api.calls["patch_pod_status"]
        here.api.resume("watch")
        await here.settle(60)
        assert here.node_of("web") == "n1"
        condition = here.condition("web")
        assert condition is not None
        assert condition.status == "True"


@virtual_time
async def test_the_api_server_is_asked_about_an_unclear_bind(clock: VirtualClock) -> None:
    """If a bind took effect while the watch and the API server are down, the pod stays assumed until the API server
    confirms that it is bound.
    """
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.delay("bind", 1)
        here.api.fail("bind", TimeoutError("no answer"), answer_lost=True)
        here.api.fail("read", OSError("out of reach"), times=4)
        here.create(pod("web", cpu="1"), pod("other", cpu="1"))
        await here.settle(0.5)
        here.api.pause("watch")
        here.api.cut_watches(api.Pod)
        await here.settle(1.5)
        assert here.events.of("Scheduled") == []
        await here.settle(10)
        assert here.events.of("Scheduled") == [("web", "Successfully assigned default/web to n1")]
        assert here.api.calls["read"] == 5
        assert here.api.calls["bind"] == 1
        here.api.resume("watch")
        await here.settle(60)


@virtual_time
async def test_a_bind_that_did_not_happen_is_tried_again_at_once(clock: VirtualClock) -> None:
    """When the API server reports that the pod has no node, it is retried without waiting for the watch."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.fail("bind", TimeoutError("no answer"))
        here.create(pod("web", cpu="1"))
        await here.settle()
        assert [name for name, _ in here.events.of("FailedScheduling")] == ["web"]


@virtual_time
async def test_a_recreated_pod_is_not_mistaken_for_a_bound_one(clock: VirtualClock) -> None:
    """After an unclear bind, a new pod of the same name but another UID is not mistaken for the first one."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.delay("bind", 1)
        here.api.fail("bind", TimeoutError("no answer"))
        here.create(pod("web", cpu="1"))
        await here.settle(0.5)
        here.api.pause("watch")
        here.api.cut_watches(api.Pod)
        here.api.delete(here.pod("web"))
        here.create(pod("web", cpu="1", node="n1", uid="another"))
        await here.settle(2)
        assert here.events.of("Scheduled") == []
        here.api.resume("watch")
        await here.settle(60)


@virtual_time
async def test_a_failed_bind_lets_another_have_the_place(clock: VirtualClock) -> None:
    """While a pod backs off after a failed bind, another pod that waited gets its resources."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.fail("bind", ApiError(409, "Conflict", "no"))
        here.create(pod("web", cpu="1"), pod("next", cpu="1"))
        await here.settle(20)
        assert sorted((here.node_of("web"), here.node_of("next"))) == ["", "n1"]


@virtual_time
async def test_a_pod_deleted_while_it_is_bound_is_gone(clock: VirtualClock) -> None:
    """When a pod is deleted during its binding, its resources are free at once, before the binding has failed."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.delay("bind", 5)
        here.create(pod("web", cpu="1"))
        await here.settle(1)
        here.api.delete(here.pod("web"))
        await here.settle()
        assert not here.scheduler.cluster.pods
        await here.settle(10)
        assert len(here.scheduler.queue) == 0


RAISES = ["pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "score", "normalize", "reserve"]
RAISES += ["permit", "pre_bind", "bind"]
NAMES = {"normalize": "NormalizeScore", "pre_enqueue": "PreEnqueue"}


def raising(point: str, problem: type[BaseException]) -> type[Plugin]:
    """A plugin that raises at one extension point until `broken` is cleared."""

    def fail(self: Any, *args: Any) -> None:
        if self.broken:
            raise problem("out of order")
        if point in ("score", "normalize"):
            return args[-1] if point == "normalize" else 0  # type: ignore[return-value]
        if point == "bind":
            return Status(Code.SKIP)  # type: ignore[return-value]
        return None

    async def afail(self: Any, *args: Any) -> None:
        return fail(self, *args)

    methods: dict[str, Any] = {point: afail if point in ("pre_bind", "bind") else fail}
    if point == "normalize":
        methods["score"] = lambda self, state, pod, node: 0
    if point == "post_filter":
        methods["filter"] = lambda self, state, pod, node: unschedulable("no") if self.broken else None
    return type("Raising", (Plugin,), {"name": "Raising", "broken": True, **methods})


@pytest.mark.parametrize("problem", [RuntimeError, SystemExit, asyncio.CancelledError, GeneratorExit, BaseException])
@pytest.mark.parametrize("point", RAISES)
def test_a_plugin_that_raises_fails_that_attempt_only(point: str, problem: type[BaseException]) -> None:
    """The message names the plugin and the point, the loop continues, and the pod is scheduled once the plugin works
    again.
    """
    plugin = raising(point, problem)
    # A Bind plugin after the default one would never be called.
    first = {"bind": {"enabled": [{"name": "Raising"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}}
    profiles = [{"schedulerName": "default-scheduler", "plugins": first}] if point == "bind" else None

    @virtual_time
    async def run(clock: VirtualClock) -> None:
        async with world(clock, node("n1"), node("n2"), plugins=[plugin], profiles=profiles) as here:
            here.create(pod("web"))
            await here.settle()
            assert here.node_of("web") == ""
            if point != "pre_enqueue":
                name = NAMES.get(point, point.title().replace("_", ""))
                assert here.message("web") == f'running {name} plugin "Raising": {problem.__name__}: out of order'
            plugin.broken = False  # type: ignore[attr-defined]
            await here.settle(400)
            assert here.node_of("web") in ("n1", "n2")

    run()


class Mute(BaseException):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise SystemExit("no")

    __repr__ = __str__


class Undecided:
    """Is neither true nor false, and has no text."""

    def __bool__(self) -> bool:
        raise Mute

    __repr__ = Mute.__str__


def answering(point: str, answer: Callable[[], object]) -> type[Plugin]:
    """A plugin that answers oddly at one extension point until `broken` is cleared."""

    def method(self: Any, *args: Any) -> object:
        return answer() if self.broken else None

    async def pre_bind(self: Any, *args: Any) -> object:
        return method(self) if point == "pre_bind" else None

    return type(
        "Odd",
        (Plugin,),
        {"name": "Odd", "broken": True, "pre_bind": pre_bind, **({point: method} if point != "pre_bind" else {})},
    )


def mute() -> None:
    raise Mute


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (mute, "Mute: <str() raised SystemExit>"),
        (Undecided, "Undecided <repr() raised SystemExit>; return None"),
        (lambda: unschedulable(["a", "b"]), "list ['a', 'b']; the reasons of a Status are strings"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: Status(2, "no"), "int 2; the first argument of a Status is a Code"),  # type: ignore[arg-type]  # wrong on purpose
    ],
)
@pytest.mark.parametrize("point", ["pre_filter", "filter", "reserve", "permit", "pre_bind"])
def test_a_plugin_that_answers_oddly_is_named(point: str, answer: Callable[[], object], said: str) -> None:
    """Exceptions and answers without a text, and statuses of the wrong parts, fail the attempt and name the plugin."""
    plugin = answering(point, answer)

    @virtual_time
    async def run(clock: VirtualClock) -> None:
        async with world(clock, node("n1"), plugins=[plugin]) as here:
            here.create(pod("web"))
            await here.settle()
            message = here.message("web")
            assert '"Odd": ' in message
            assert said in message
            plugin.broken = False  # type: ignore[attr-defined]
            await here.settle(400)
            assert here.node_of("web") == "n1"

    run()


@pytest.mark.parametrize("point", ["pre_bind_needed", "pre_bind_waits"])
def test_an_answer_that_is_neither_true_nor_false_loses_no_pod(point: str) -> None:
    """A pod whose plugin cannot say whether it has something to do is tried again, and its place is free."""
    plugin = answering(point, Undecided)

    @virtual_time
    async def run(clock: VirtualClock) -> None:
        async with world(clock, node("n1", cpu=1), plugins=[plugin]) as here:
            here.create(pod("web", cpu=1))
            await here.settle()
            plugin.broken = False  # type: ignore[attr-defined]
            await here.settle(400)
            assert here.node_of("web") == "n1"

    run()


@virtual_time
async def test_post_bind_cannot_undo_a_binding(clock: VirtualClock) -> None:
    """An exception in PostBind is logged, and the pod stays bound."""

    class Late(Recording):
        async def post_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
            raise RuntimeError("too late")

    async with world(clock, node("n1"), plugins=[Late]) as here:
        here.create(pod("web"))
        await here.settle()
        assert here.node_of("web") == "n1"
        assert any("RuntimeError: too late" in line for line in here.log.errors())


@virtual_time
async def test_unreserve_reaches_all_plugins(clock: VirtualClock) -> None:
    """One plugin's failure in Unreserve does not stop the other plugins from unreserving."""

    class Clumsy(Plugin):
        name = "Clumsy"

        def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            return error("no")

        def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
            raise RuntimeError("dropped it")

    async with world(clock, node("n1"), plugins=[Recording, Clumsy]) as here:
        here.create(pod("web"))
        await here.settle()
        assert Recording.calls == ["reserve", "unreserve"]


@virtual_time
async def test_stopping_sees_bindings_through(clock: VirtualClock) -> None:
    """A binding in progress is finished when the scheduler stops; a pod waiting on Permit is abandoned."""
    async with world(clock, node("n1"), check=False) as here:
        here.api.delay("bind", 3)
        here.create(pod("web"))
        await here.settle(1)
        await here.scheduler.stop()
        assert here.node_of("web") == "n1"
