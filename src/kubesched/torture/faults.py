"""What goes wrong: calls, watches, the API server, processes, clocks, plugins and extenders."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, Any

from kubesched.api import objects as api
from kubesched.client.faults import ClientCall
from kubesched.client.protocol import ApiError
from kubesched.scheduler.handlers import KINDS
from kubesched.torture.moods import LIES, POINTS, WAYS
from kubesched.torture.network import LATEST_SECONDS, LostError
from kubesched.torture.plan import Act, Params, Plan

if TYPE_CHECKING:
    from kubesched.torture.world import World

CALLS = (
    "bind",
    "bind",
    "bind",
    "patch_pod_status",
    "delete_pod",
    "read",
    "list",
    "watch",
    "watch_event",
    "create_event",
    "merge_patch",
    "get_lease",
    "update_lease",
    "*",
)
ERRORS = ("409", "429", "500", "503", "504", "reset", "timeout", "lost")
BY_NAME: dict[str, type[api.Object]] = {kind.__name__: kind for kind in KINDS}
OFTEN = ("Pod", "Pod", "Node", "PersistentVolumeClaim", "ResourceClaim", "")


def error_of(name: str) -> Exception:
    """What a call fails with."""
    made: dict[str, Exception] = {
        "409": ApiError(409, "Conflict", "the object has been modified"),
        "429": ApiError(429, "TooManyRequests", "try again later", 2),
        "500": ApiError(500, "InternalError", "etcdserver: leader changed"),
        "503": ApiError(503, "ServiceUnavailable", "apiserver is shutting down"),
        "504": ApiError(504, "Timeout", "request timed out"),
        "410": ApiError(410, "Expired", "too old resource version"),
        "reset": ConnectionResetError("connection reset by peer"),
        "timeout": TimeoutError("no answer"),
        "lost": LostError(),
    }
    return made[name]


def _who(random: Random, plan: Plan) -> int:
    return random.randrange(plan.replicas)


# --- calls ------------------------------------------------------------------------------------------------------------


def make_fail(random: Random, plan: Plan) -> tuple[Params, str]:
    who, call, error = _who(random, plan), random.choice(CALLS), random.choice(ERRORS)
    after, chance, seconds = random.random() < 0.4, random.choice((0.1, 0.5, 1.0)), random.choice((2, 8, 20))
    if random.random() < 0.08:
        call, error = random.choice(("list", "watch", "watch_event")), "410"
    # A refusal says that nothing was done; only silence and server errors may come after the effect.
    after = after and error not in ("409", "410", "429")
    return {"who": who, "call": call, "error": error, "after": after, "chance": chance, "seconds": seconds}, (
        f"for {seconds}s {chance:.0%} of scheduler-{who}'s calls {call} fail with {error}"
        f"{' after they took effect' if after else ''}"
    )


def do_fail(world: World, params: Params) -> None:
    error, until = params["error"], world.now + params["seconds"]
    world.replicas[params["who"]].faults.fail(
        params["call"],
        lambda: error_of(error),
        # A failed preemption is tried again at once, as often as deleting fails: that shows nothing new.
        times=10 if params["call"] == "delete_pod" else math.inf,
        probability=min(params["chance"], 0.999999),
        answer_lost=params["after"],
        when=lambda _: world.now < until,
    )


def make_late(random: Random, plan: Plan) -> tuple[Params, str]:
    who, call, answer = _who(random, plan), random.choice(CALLS), random.random() < 0.5
    late, seconds = random.choice((0.05, 0.5, LATEST_SECONDS)), random.choice((2, 8, 20))
    if answer and random.random() < 0.5:
        late = 8.0
    return {"who": who, "call": call, "answer": answer, "late": late, "seconds": seconds}, (
        f"for {seconds}s {'answers to' if answer else ''} scheduler-{who}'s calls {call} are up to {late:g}s late"
    )


def do_late(world: World, params: Params) -> None:
    random, until = Random(params["seed"]), world.now + params["seconds"]
    world.replicas[params["who"]].faults.delay(
        params["call"],
        lambda: world.struck("late", random.uniform(0, params["late"])),
        answer=params["answer"],
        when=lambda _: world.now < until,
    )


def make_twice(random: Random, plan: Plan) -> tuple[Params, str]:
    who, call, seconds = _who(random, plan), random.choice(CALLS), random.choice((2, 8, 20))
    return {
        "who": who,
        "call": call,
        "seconds": seconds,
    }, f"for {seconds}s scheduler-{who}'s calls {call} are sent twice"


def do_twice(world: World, params: Params) -> None:
    until = world.now + params["seconds"]
    faults = world.replicas[params["who"]].faults
    faults.repeat(params["call"], probability=0.5, when=lambda _: world.now < until)


# --- watches ----------------------------------------------------------------------------------------------------------


def make_cut(random: Random, plan: Plan) -> tuple[Params, str]:
    who, kind, error = _who(random, plan), random.choice(OFTEN), random.choice(("", "", "reset", "410", "500", "429"))
    return {"who": who, "kind": kind, "error": error}, (
        f"scheduler-{who}'s watches of {kind or 'everything'} end{' with ' + error if error else ''}"
    )


def do_cut(world: World, params: Params) -> None:
    client, error = world.replicas[params["who"]].client, params["error"]
    if client is not None:
        client.cut(error_of(error) if error else None, BY_NAME.get(params["kind"]))


def make_stale(random: Random, plan: Plan) -> tuple[Params, str]:
    who, kind = _who(random, plan), random.choice(OFTEN)
    late, seconds = random.choice((0.2, 1.0, 4.0)), random.choice((5, 20))
    return {"who": who, "kind": kind, "late": late, "seconds": seconds}, (
        f"for {seconds}s scheduler-{who} hears of {kind or 'everything'} up to {late:g}s late"
    )


def do_stale(world: World, params: Params) -> None:
    random, until, kind = Random(params["seed"]), world.now + params["seconds"], BY_NAME.get(params["kind"])
    world.replicas[params["who"]].faults.delay(
        "watch_event",
        lambda: world.struck("kinds reordered" if kind else "stale watch", random.uniform(0, params["late"])),
        when=lambda call: world.now < until and kind in (None, call.args[0]),
    )


def make_compact(random: Random, plan: Plan) -> tuple[Params, str]:
    return {"cut": random.random() < 0.7}, "the API server forgets its history"


def do_compact(world: World, params: Params) -> None:
    world.forget_history()
    if params["cut"]:
        world.cut_all(None)


def make_old_lists(random: Random, plan: Plan) -> tuple[Params, str]:
    lag, seconds = random.choice((3, 20, 100)), random.choice((5, 20))
    return {
        "lag": lag,
        "seconds": seconds,
    }, f"for {seconds}s lists are {lag} versions old, and all watches end with 410"


def do_old_lists(world: World, params: Params) -> None:
    world.server.lag = params["lag"]
    world.later(params["seconds"], lambda: setattr(world.server, "lag", 0))
    world.cut_all(error_of("410"))


def make_bookmarks(random: Random, plan: Plan) -> tuple[Params, str]:
    then = random.random() < 0.5
    return {"then": then}, f"all watches get bookmarks{', then history is forgotten and they end' if then else ''}"


def do_bookmarks(world: World, params: Params) -> None:
    for shelf in world.api.store.shelves.values():
        shelf.publish(world.api.store.visible)
    if params.get("then"):
        world.later(0.2, lambda: do_compact(world, {"cut": True}))


# --- the API server ---------------------------------------------------------------------------------------------------


def make_restart(random: Random, plan: Plan) -> tuple[Params, str]:
    seconds = random.choice((0.5, 3, 12))
    return {"seconds": seconds}, f"the API server restarts and is away for {seconds:g}s"


def do_restart(world: World, params: Params) -> None:
    world.restart_server(params["seconds"], back=0)


def make_rollback(random: Random, plan: Plan) -> tuple[Params, str]:
    back = random.choice((5, 30, 150))
    return {"back": back}, f"the store is restored from a backup: the last {back} writes are gone"


def do_rollback(world: World, params: Params) -> None:
    world.restart_server(1.0, back=params["back"])


# --- processes and clocks ---------------------------------------------------------------------------------------------


def make_kill(random: Random, plan: Plan) -> tuple[Params, str]:
    who, back = _who(random, plan), random.choice((0.1, 3, 20))
    turns, leader = random.choice((0, 1, 2, 5, 20, 60)), random.random() < 0.6
    return {"who": who, "back": back, "turns": turns, "leader": leader}, (
        f"{'the leader' if leader else f'scheduler-{who}'} is killed, {turns} steps later; it is back after {back:g}s"
    )


def do_kill(world: World, params: Params) -> None:
    replica = world.leader() if params["leader"] else None
    world.kill(replica or world.replicas[params["who"]], params["turns"], params["back"])


def make_freeze(random: Random, plan: Plan) -> tuple[Params, str]:
    who, seconds = _who(random, plan), random.choice((0.5, 3, 9, 12, 20, 40))
    leader, turns = random.random() < 0.6, random.choice((0, 1, 5, 30))
    return {"who": who, "seconds": seconds, "leader": leader, "turns": turns}, (
        f"{'the leader' if leader else f'scheduler-{who}'} is frozen for {seconds:g}s"
    )


def do_freeze(world: World, params: Params) -> None:
    replica = world.leader() if params["leader"] else None
    world.freeze(replica or world.replicas[params["who"]], params["turns"], params["seconds"])


def make_drift(random: Random, plan: Plan) -> tuple[Params, str]:
    who, rate = _who(random, plan), random.choice((0.95, 0.99, 1.01, 1.05))
    return {"who": who, "rate": rate}, f"scheduler-{who}'s clock runs at {rate:.0%}"


def do_drift(world: World, params: Params) -> None:
    replica = world.replicas[params["who"]]
    replica.rate = params["rate"]
    replica.process.drift(params["rate"])
    world.met.note("clock drifts", replica.name)


def make_jump(random: Random, plan: Plan) -> tuple[Params, str]:
    who, offset = _who(random, plan), random.choice((-86400.0, -30.0, 30.0, 86400.0))
    return {"who": who, "offset": offset}, f"scheduler-{who}'s wall clock jumps by {offset:g}s"


def do_jump(world: World, params: Params) -> None:
    replica = world.replicas[params["who"]]
    replica.process.wall_offset += params["offset"]
    world.met.note("clock jumps", replica.name)


# --- others who write at the worst moment ---------------------------------------------------------------------------

MEDDLING = (
    "delete the pod",
    "relabel the pod",
    "bind the pod elsewhere",
    "delete the node",
    "taint the node",
    "recreate",
)

MOST_MEDDLED = 15
"""Writes that one step meddles with. A pod that is recreated at each of its writes goes round and shows nothing new."""


def make_meddle(random: Random, plan: Plan) -> tuple[Params, str]:
    what, chance, seconds = random.choice(MEDDLING), random.choice((0.1, 0.3, 1.0)), random.choice((2, 8, 20))
    return {"what": what, "chance": chance, "seconds": seconds}, (
        f"for {seconds}s, when {chance:.0%} of the schedulers' writes arrive, or have just taken effect, others {what}"
    )


def do_meddle(world: World, params: Params) -> None:
    random, until = Random(params["seed"]), world.now + params["seconds"]

    left = MOST_MEDDLED

    def meddle(call: ClientCall) -> None:
        nonlocal left
        if left and world.now < until and random.random() < params["chance"]:
            left -= 1
            world.meddle(params["what"], call)

    world.server.meddle = meddle


# --- plugins and extenders --------------------------------------------------------------------------------------------


def make_mood(random: Random, plan: Plan) -> tuple[Params, str]:
    points: tuple[str, ...] = POINTS
    if plan.extender and random.random() < 0.5:
        points = ("extender filter", "extender prioritize", "extender bind", "extender preempt")
    point, way, seconds = random.choice(points), random.choice(WAYS), random.choice((3, 10, 30))
    chance = random.choice((0.1, 0.5, 1.0))
    if plan.liar and random.random() < 0.5:
        point, way = LIES, "lies"
    return {"point": point, "way": way, "seconds": seconds, "chance": chance}, (
        f"for {seconds}s {chance:.0%} of the calls of {point} go wrong: it {way}"
    )


def do_mood(world: World, params: Params) -> None:
    world.mood.set(params["point"], params["way"], params["chance"], params["seed"])
    world.later(params["seconds"], lambda: world.mood.calm(params["point"]))


ACTIONS: dict[str, Any] = {
    "calls fail": Act(make_fail, do_fail),
    "calls late": Act(make_late, do_late),
    "calls twice": Act(make_twice, do_twice),
    "watch cut": Act(make_cut, do_cut),
    "watch stale": Act(make_stale, do_stale),
    "compaction": Act(make_compact, do_compact),
    "old lists": Act(make_old_lists, do_old_lists),
    "bookmarks": Act(make_bookmarks, do_bookmarks),
    "restart": Act(make_restart, do_restart),
    "rollback": Act(make_rollback, do_rollback),
    "kill": Act(make_kill, do_kill),
    "freeze": Act(make_freeze, do_freeze),
    "drift": Act(make_drift, do_drift),
    "jump": Act(make_jump, do_jump),
    "mood": Act(make_mood, do_mood),
    "meddle": Act(make_meddle, do_meddle),
}
WEIGHTS = {
    "calls fail": 10,
    "calls late": 5,
    "calls twice": 3,
    "watch cut": 5,
    "watch stale": 4,
    "compaction": 2,
    "old lists": 2,
    "bookmarks": 1,
    "restart": 2,
    "rollback": 1,
    "kill": 5,
    "freeze": 4,
    "drift": 1,
    "jump": 1,
    "mood": 6,
    "meddle": 6,
}
