"""Plants bugs, one at a time, in a copy of the process, and tells which of them the simulation finds.

    python -m tests.torture.planted_bugs                 all of them, up to 12 stories each
    python -m tests.torture.planted_bugs --stories 40 --only leader

A bug is a text in a file that is replaced by another. The program forks; the child compiles the changed file and gives
its functions the changed code. A bug counts as found when a story breaks an invariant, or does not come to its end.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

from kubesched.torture.run import run_story

ROOT = Path(__file__).parents[2]
SECONDS = 90
"""Processor time for the stories of one bug."""


class Bug(NamedTuple):
    """What is wrong, where, and which text is replaced by which."""

    words: str
    file: str
    old: str
    new: str


QUEUE = "queue/scheduling_queue.py"
HANDLERS = "scheduler/handlers.py"
BINDING = "scheduler/binding.py"
CYCLE = "scheduler/cycle.py"
STATE = "cluster/state.py"
INFORMER = "client/informer.py"
LEADER = "client/leader.py"
STORE = "apiserver/storage/store.py"
SUBQUEUES = "queue/subqueues.py"
INFLIGHT = "queue/inflight.py"

BUGS = (
    # --- the queue
    Bug("a pod deleted in flight is requeued", QUEUE, "            flight.gone = True\n", "            pass\n"),
    Bug("a pod gone in flight is taken back", QUEUE, "if flight is not None and flight.gone:", "if False:"),
    Bug("updates in flight are forgotten", QUEUE, "if flight is not None and flight.updated:", "if False:"),
    Bug(
        "a second add is ignored",
        QUEUE,
        "            self.update(known, pod)\n            return",
        "            return",
    ),
    Bug(
        "a recreated pod keeps the old one's place",
        QUEUE,
        "            self.delete(old)\n            self.add(new)\n            return",
        "            return",
    ),
    Bug(
        "events in flight never help",
        QUEUE,
        "return Strategy.AFTER_BACKOFF if events is None else self._hints.strategy(queued, *events)",
        "return Strategy.SKIP",
    ),
    Bug(
        "a pod that failed with an error waits for an event",
        QUEUE,
        "        if not queued.rejectors or queued.in_group:\n            return Strategy.AFTER_BACKOFF",
        "        if not queued.rejectors or queued.in_group:\n            return Strategy.SKIP",
    ),
    Bug(
        "a requeued pod stays in flight",
        QUEUE,
        "        finally:\n            self.done(queued.uid)",
        "        finally:\n            pass",
    ),
    Bug(
        "the end of a backoff wakes nobody",
        QUEUE,
        "        if self._subqueues.after_backoff():\n",
        "        if False:\n",
    ),
    Bug(
        "events move nothing",
        QUEUE,
        "        self._move(waiting, evaluation)\n\n    def assigned_pod_added",
        "\n    def assigned_pod_added",
    ),
    Bug("deleted pods help nobody", QUEUE, "        self.move_all(ASSIGNED_POD_DELETE, pod, None)\n", "        pass\n"),
    Bug(
        "a deleted pod stays nominated", QUEUE, "        self._nominator.remove(uid)\n        flight", "        flight"
    ),
    Bug(
        "a new pod wakes nobody",
        QUEUE,
        "            self._nominator.add(queued.info)\n            self._on_ready()",
        "            self._nominator.add(queued.info)",
    ),
    Bug("deleted pods stay in the queue", QUEUE, "        self._subqueues.take_out(uid)\n", "        pass\n"),
    Bug(
        "events are not kept for pods in flight",
        INFLIGHT,
        "        if not self._flights:\n            return False",
        "        return False",
    ),
    Bug(
        "the first event after a pop is missed",
        INFLIGHT,
        "self._events[flight.start - self._base :]",
        "self._events[flight.start - self._base + 1 :]",
    ),
    Bug("events for one pod in flight are dropped", INFLIGHT, "        flight.own.append(observed)\n", ""),
    Bug(
        "a pod that becomes active stays unschedulable",
        SUBQUEUES,
        "            return False\n        self.unschedulable.remove(queued.uid)\n        self._put_active",
        "            return False\n        self._put_active",
    ),
    Bug(
        "a pod in backoff cannot be deleted",
        SUBQUEUES,
        "self._out_of_active(uid) or self._out_of_backoff(uid) or self.unsched",
        "self._out_of_active(uid) or self.unsched",
    ),
    Bug(
        "hints are understood the wrong way",
        "queue/hints.py",
        "return answer is Hint.QUEUE",
        "return answer is not Hint.QUEUE",
    ),
    Bug(
        "a hint that fails wakes nobody",
        "queue/hints.py",
        "        answer = Hint.QUEUE\n        outcome",
        "        answer = Hint.SKIP\n        outcome",
    ),
    # --- cycle and handlers
    Bug(
        "a failed attempt is forgotten",
        CYCLE,
        "        if attempt.failure is not None:\n            self.fail(attempt)",
        "        if False:\n            self.fail(attempt)",
    ),
    Bug(
        "a pod that has a node is tried again",
        CYCLE,
        "return Skipped.PLACED if pod.metadata.uid in self._shared.cluster.pods else None",
        "return None",
    ),
    Bug(
        "a skipped pod stays in flight",
        CYCLE,
        "            self._shared.queue.done(pod.uid)\n            return None",
        "            return None",
    ),
    Bug(
        "the place of a deleted pod stays taken",
        HANDLERS,
        "            self._cluster.remove_pod(pod.uid)\n            self._queue.assigned_pod_deleted(pod)",
        "            self._queue.assigned_pod_deleted(pod)",
    ),
    Bug(
        "a pod bound by others stays in the queue",
        HANDLERS,
        "            if self._is_ours(old):\n                self._unqueue(old)",
        "            pass",
    ),
    Bug("new nodes wake nobody", HANDLERS, "            self._queue.move_all(NODE_ADD, None, new)\n", ""),
    Bug(
        "changes of nodes are not seen",
        HANDLERS,
        "            self._cluster.set(new)\n            if _zone(old) != _zone(new):",
        "            if _zone(old) != _zone(new):",
    ),
    Bug(
        "changes of nodes wake nobody",
        HANDLERS,
        "                self._queue.move_all(event, old, new)\n                self._handled(event.label, started)",
        "                self._handled(event.label, started)",
    ),
    Bug("deleted nodes stay", HANDLERS, "            self._cluster.remove(old)\n", ""),
    Bug(
        "a recreated pod leaves the old one behind",
        HANDLERS,
        "            self._pod(old, None)\n            old = None",
        "            old = None",
    ),
    Bug("an undone binding loses the pod", HANDLERS, "if old.node_name and not new.node_name:", "if False:"),
    Bug(
        "an assumed pod that is deleted keeps its place",
        HANDLERS,
        "        if pod.uid in self._cluster.pods:\n            self._assumed_pod_deleted(pod)",
        "        if False:\n            pass",
    ),
    Bug(
        "an update before the binding is queued",
        HANDLERS,
        "        if new.uid in self._cluster.assumed:\n",
        "        if False:\n",
    ),
    # --- binding
    Bug(
        "an unclear bind counts as failed", BINDING, "attempt.unclear and await self._turns_out_bound(attempt)", "False"
    ),
    Bug(
        "an unclear bind counts as done",
        BINDING,
        "            return found.uid == pod.uid and found.node_name == attempt.chosen",
        "            return True",
    ),
    Bug("a failed binding keeps its place", BINDING, "        attempt.profile.engine.take_back(attempt)\n", ""),
    Bug("a failed binding loses its pod", BINDING, "        self._failures.handle(attempt)\n", ""),
    Bug(
        "a failed binding is not noticed",
        BINDING,
        "            shared.inbox.put(self._failed, attempt, failure)\n",
        "            pass\n",
    ),
    Bug("a pod being bound stays in flight", BINDING, "        shared.inbox.put(shared.queue.done, pod.uid)\n", ""),
    Bug(
        "a refusal on Permit is ignored",
        BINDING,
        "            if status is not None:\n                return Failure.of_refusal(status)",
        "            pass",
    ),
    Bug(
        "a failed bind counts as done",
        BINDING,
        "            return replace(Failure.of_status(status), maybe_bound=not status.is_skip)",
        "            pass",
    ),
    # --- the cluster
    Bug("assumed pods are not marked", STATE, "        self.assumed.add(info.pod.uid)\n", ""),
    Bug(
        "assumptions are never undone",
        STATE,
        "        if uid in self.assumed:\n            self.remove_pod(uid)",
        "        pass",
    ),
    Bug("counters keep pods that are gone", STATE, "        self.counts.taken_off(info, row)\n", ""),
    Bug(
        "a pod that moves counts twice",
        STATE,
        "            self._take_off(known)\n        self._place(info, pod.node_name)",
        "        self._place(info, pod.node_name)",
    ),
    Bug(
        "bound pods stay nominated",
        STATE,
        "        self.nominations.remove(pod.uid)\n        info = self.classes",
        "        info = self.classes",
    ),
    # --- the informer
    Bug(
        "deletions during a gap are missed",
        INFORMER,
        "            self._remove(key, None)\n            await",
        "            await",
    ),
    Bug(
        "updates during a gap are missed",
        INFORMER,
        "elif old.metadata.resource_version != new.metadata.resource_version:",
        "elif False:",
    ),
    Bug(
        "an expired version is kept",
        INFORMER,
        "        if not _may_resume_watch(error):\n            self._version = None",
        "        pass",
    ),
    Bug(
        "a watch starts again where it began",
        INFORMER,
        "        self._version = event.resource_version or self._version\n",
        "",
    ),
    Bug(
        "deletions are taken for updates",
        INFORMER,
        "DELETED:\n                self._remove(obj.key, obj)\n            else:",
        "DELETED:\n                pass\n            if True:",
    ),
    Bug(
        "a broken watch is not tried again",
        INFORMER,
        "            await self._backoff.wait(at_least)",
        "            await self._backoff.wait(1e6)",
    ),
    # --- the leader
    Bug(
        "a candidate does not wait",
        LEADER,
        "        return self._clock.monotonic() >= self._observed_at + duration",
        "        return True",
    ),
    Bug(
        "the deadline is too late",
        LEADER,
        "self._good_until = sent + self.settings.renew_deadline",
        "self._good_until = sent + 60",
    ),
    Bug(
        "a leader that slept goes on",
        LEADER,
        "        return self._clock.monotonic() < self._good_until",
        "        return self._good_until > 0",
    ),
    Bug(
        "another's lease is taken",
        LEADER,
        "if self.leader and self.leader != self.identity and not self._expired():",
        "if False:",
    ),
    Bug(
        "the lease is never renewed",
        LEADER,
        "            await self._clock.sleep(self.settings.retry_period)\n            remaining",
        "            await self._clock.sleep(1e6)\n            remaining",
    ),
    Bug(
        "leading begins before the lease is held",
        LEADER,
        'lease %s...", self._where)\n        while not await self._try_once():',
        'lease %s...", self._where)\n        while not await self._try_once() and False:',
    ),
    # --- the store and the API server
    Bug(
        "watchers are not woken",
        STORE,
        "        shelf.apply(event)\n        shelf.publish(self.version)",
        "        shelf.apply(event)",
    ),
    Bug(
        "a dropped history is not noticed",
        STORE,
        "        if version < self.oldest:\n            raise expired(version, self.oldest)",
        "        pass",
    ),
    Bug(
        "a watch begins one event too late",
        STORE,
        "return self._dropped + bisect_right(self._versions, version)",
        "return self._dropped + bisect_right(self._versions, version) + 1",
    ),
    Bug(
        "a pod can be bound twice",
        "apiserver/rest/subresources.py",
        '    if spec.get("nodeName"):\n        return f\'pod',
        "    if False:\n        return f'pod",
    ),
)


def plant(bug: Bug) -> None:
    """Put a bug into this process. Raises ValueError if its place is not there once."""
    file = ROOT / "src" / "kubesched" / bug.file
    text = file.read_text()
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.words}: its place is {text.count(bug.old)} times in {bug.file}")
    module = importlib.import_module("kubesched." + bug.file.removesuffix(".py").replace("/", "."))
    functions = dict(_functions(module))
    good = dict(_codes(compile(text, str(file), "exec")))
    changed = 0
    for name, code in _codes(compile(text.replace(bug.old, bug.new), str(file), "exec")):
        if name in functions and code.co_code + repr(code.co_consts).encode() != (
            good[name].co_code + repr(good[name].co_consts).encode()
        ):
            functions[name].__code__ = code
            changed += 1
    if not changed:
        raise ValueError(f"{bug.words}: no function has changed")


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The functions of a module and of its classes, by qualified name."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if "<" not in each.co_qualname:
                yield each.co_qualname, each
            yield from _codes(each)


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for owner in (module, *(each for each in vars(module).values() if inspect.isclass(each))):
        for each in vars(owner).values():
            function = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
            function = inspect.unwrap(function) if callable(function) else function
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function.__qualname__, function


def find(bug: Bug, stories: int) -> str:
    """Run stories with the bug, in a process of their own. Returns how it was found, or "missed"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        answer = "the simulation ended with an error"
        try:
            plant(bug)
            answer = _first_violation(stories)
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return answer or "a story that did not end"


def _first_violation(stories: int) -> str:
    for seed in range(stories):
        found = run_story(seed).violation
        if found is not None:
            return f"seed {seed}, {found.invariant}"
    return "missed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--stories", type=int, default=12, help="how many stories to run for a bug")
    parser.add_argument("--only", default="", help="only bugs in files whose path has this text")
    options = parser.parse_args()
    bugs = [bug for bug in BUGS if options.only in bug.file]
    run_story(0)  # so that everything is imported and built before the first fork
    found = 0
    for bug in bugs:
        result = find(bug, options.stories)
        found += result != "missed"
        print(f"{bug.file}: {bug.words}: {'missed' if result == 'missed' else f'found by {result}'}", flush=True)
    print(f"{found} of {len(bugs)} found")


if __name__ == "__main__":
    main()
