"""Bugs to plant: what is wrong, in which file, and which text is replaced by which.

They are in the queue, the cycle, the binding, the cluster's state, the informer, the election and the store. A bug that
cannot be told from correct code from outside does not belong here.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """What is wrong, where, and which text is replaced by which."""

    words: str
    file: str
    old: str
    new: str
    meets: str = ""
    """What must happen for the bug to matter, as a pattern in a step: its time and its words. Stories with such a step
    come first."""


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
TABLE = "cluster/table.py"

BUGS = (
    # --- the queue
    Bug(
        "events in flight never help",
        QUEUE,
        "return Strategy.AFTER_BACKOFF if events is None else self._hints.strategy(queued, *events, in_flight=True)",
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
        "        self._move(waiting, evaluation)\n\n    def _log_unaffected",
        "\n    def _log_unaffected",
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
        "        self.unschedulable.remove(queued.info.pod.metadata.uid)\n        self._put_active",
        "        self._put_active",
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
        meets="hints raise",
    ),
    Bug(
        "an update wakes no pod that waits",
        QUEUE,
        "            self._update_unschedulable(queued, old, new)\n",
        "            pass\n",
        meets="[3-6][.].s later a label of pod lets them in",
    ),
    Bug(
        "the queue keeps a pod's old state",
        QUEUE,
        "        queued.info = self._classes.info(new)\n        self._nominator.update",
        "        self._nominator.update",
    ),
    Bug("a popped pod is not in flight", QUEUE, "        self._in_flight.start(pod)\n", ""),
    Bug(
        "activated pods stay where they are",
        QUEUE,
        "            activated |= self._activate(pod.uid)\n",
        "            pass\n",
    ),
    Bug(
        "gates are ignored",
        SUBQUEUES,
        "        if not self._passes(queued, event):\n            return False\n        self.unschedulable",
        "        self.unschedulable",
    ),
    Bug(
        "a pod waits for the first of its plugins only",
        "queue/unschedulable.py",
        "for plugin in sorted(queued.rejectors)) or",
        "for plugin in sorted(queued.rejectors)[:1]) or",
    ),
    Bug(
        "a backoff never ends",
        "queue/backoff.py",
        "return self.expiration(queued) >= self._aligned(self._clock.monotonic())",
        "return True",
    ),
    Bug(
        "removed pods are popped",
        "queue/heap.py",
        "            if live.get(queued.uid) is heap[0]:\n",
        "            if True:\n",
    ),
    # --- cycle and handlers
    Bug(
        "a failed attempt is forgotten",
        CYCLE,
        "        if attempt.failure is not None:\n            self.fail(attempt)",
        "        if False:\n            self.fail(attempt)",
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
        "        if self._is_ours(old):\n            self._unqueue(old)",
        "        pass",
    ),
    Bug(
        "new nodes wake nobody",
        HANDLERS,
        "            self._queue.move_all(NODE_ADD, None, new)\n",
        "",
        meets="pods wait for node",
    ),
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
        meets="created again at once",
    ),
    Bug(
        "an undone binding loses the pod",
        HANDLERS,
        "if was_on and not is_on:",
        "if False:",
        meets="restored from a backup",
    ),
    Bug(
        "an assumed pod that is deleted keeps its place",
        HANDLERS,
        "        if pod.uid in self._cluster.pods:\n            self._assumed_pod_deleted(pod)",
        "        if False:\n            pass",
        meets="a pod that waits is deleted",
    ),
    Bug(
        "changes of waiting pods are not seen",
        HANDLERS,
        "        self._queue.update(old, new)\n        nominated",
        "        nominated",
    ),
    Bug(
        "the end of a preemption is not noted",
        "scheduler/victims.py",
        "            plugin.end_preemption(by.obj.uid)\n",
        "            pass\n",
    ),
    Bug("victims are not deleted", "scheduler/victims.py", "                await client.delete_pod(victim)\n", ""),
    Bug(
        "a refused Reserve keeps its place",
        "engine/engine.py",
        "        self.take_back(decision)\n        decision.refused",
        "        decision.refused",
    ),
    Bug(
        "Unreserve is not called",
        "engine/engine.py",
        "        self.framework.run_unreserve(decision.state, decision.assumed, decision.chosen)\n",
        "",
    ),
    Bug(
        "cached answers miss what pods changed",
        "engine/cache.py",
        "        if self._position != table.log_end:\n",
        "        if False:\n",
    ),
    Bug(
        "cached answers outlive a change of nodes",
        "engine/cache.py",
        "if self._node_version != table.node_version or len(self.mask) != table.size:",
        "if len(self.mask) != table.size:",
        meets="cordoned",
    ),
    Bug(
        "cached scores miss what pods changed",
        "engine/cache.py",
        "        self.ranked[row] = total if passes else -1\n",
        "",
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
    Bug("a pod being bound stays in flight", BINDING, "        shared.inbox.put(shared.queue.done, uid)\n", ""),
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
    Bug(
        "a timeout on Permit is ignored",
        "scheduler/waiting.py",
        "        self.reject(plugin, f",
        "        (lambda *_: None)(plugin, f",
    ),
    # --- the cluster
    Bug("assumed pods are not marked", STATE, "        self.assumed.add(uid)\n", ""),
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
        "            self._take_off(known)\n        self._place(info, node_name)",
        "        self._place(info, node_name)",
    ),
    Bug(
        "pods that have ended keep their places",
        "apiserver/inprocess/reader.py",
        "        elif before and previous is not None:\n",
        "        elif before and previous is not None and event.change is ChangeType.DELETED:\n",
    ),
    Bug(
        "labels of a changed node stay",
        TABLE,
        "            column.set(row, node.metadata.labels.get(key))\n            if len(",
        "            if len(",
    ),
    Bug("a node that is gone stays valid", TABLE, "        self.valid[row] = False\n", ""),
    Bug(
        "host ports are never freed",
        TABLE,
        "        del self.pods[row][info.pod.metadata.uid]\n"
        "        if pod_class.tags:\n            self._untag(pod_class, row)\n",
        "        del self.pods[row][info.pod.metadata.uid]\n",
    ),
    Bug(
        "terminating pods count for spreading",
        "cluster/counts.py",
        "            if not (counter.skip_terminating and info.terminating):\n",
        "            if True:\n",
    ),
    # --- the informer
    Bug(
        "deletions during a gap are missed",
        INFORMER,
        "            self._remove(key, None)\n            if self._has",
        "            if self._has",
    ),
    Bug(
        "updates during a gap are missed",
        INFORMER,
        "if old is not None and old.metadata.resource_version == new.metadata.resource_version:",
        "if old is not None:",
    ),
    Bug(
        "an expired version is kept",
        INFORMER,
        "        if not _may_resume_watch(error):\n            self._version = None",
        "        pass",
        meets="forgets its history|history is forgotten",
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
        'lease...", lock=self._where)\n        while not await self._try_once():',
        'lease...", lock=self._where)\n        for _ in () if [await self._try_once()] else (0,):',
    ),
    Bug(
        "renewals of the holder are not seen",
        LEADER,
        "        if spec != self._observed:\n",
        "        if not self._observed:\n",
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
        meets="forgets its history|history is forgotten",
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
    Bug(
        "watches show no deletions",
        STORE,
        "        self._events.append(event)\n        self._versions.append(record.version)\n",
        "        if event.change is not ChangeType.DELETED:\n"
        "            self._events.append(event)\n            self._versions.append(record.version)\n",
    ),
    Bug(
        "a write over a newer version is accepted",
        "apiserver/meta.py",
        '    if (version := after.get("resourceVersion")) and version not in ("0", before["resourceVersion"]):\n',
        "    if False:\n",
        meets="(update_lease|merge_patch) are sent twice",
    ),
    Bug(
        "another pod of the same name is bound",
        "apiserver/rest/writer.py",
        '        if self.uid and self.uid != found["uid"]:\n',
        "        if False:\n",
        meets="others recreate",
    ),
)
