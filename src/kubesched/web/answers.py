"""The answers that the page asks for, by path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from aiohttp import web

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.config import dump
from kubesched.explain.amounts import requested, shown
from kubesched.web.changes import ObjectEditor
from kubesched.web.configuring import Configuring, moved_pods
from kubesched.web.decisions import of_attempt
from kubesched.web.editor_answers import EditorAnswers, body_of
from kubesched.web.model import ClusterModel, bound_time, taint_text
from kubesched.web.moments import as_columns
from kubesched.web.questions import Questions
from kubesched.web.queue_view import from_pods, from_scheduler
from kubesched.web.scheduler_link import SchedulerLink
from kubesched.web.stream import Broadcaster

Answer = Callable[[web.Request], Awaitable[JSON]]
MOST_FOUND = 50
MOST_MOMENTS = 10_000


@dataclass(slots=True)
class About:
    """What the page is about."""

    title: str
    mode: str
    """live, files or simulation"""
    notes: list[str] = field(default_factory=list)


class PageAnswers:
    """Reads from the model at once, and asks the thread for what takes longer."""

    def __init__(
        self,
        about: About,
        model: ClusterModel,
        questions: Questions,
        configuring: Configuring,
        link: SchedulerLink | None = None,
        editor: ObjectEditor | None = None,
    ) -> None:
        self.about = about
        self.model = model
        self.questions = questions
        self.configuring = configuring
        self.link = link
        self.editor = editor
        self.broadcaster: Broadcaster
        self._labels: tuple[object, dict[str, int]] = (None, {})

    def routes(self) -> Iterator[tuple[str, str, Answer]]:
        """Method, path below /api/ and handler."""
        for path, answer in (
            ("about", self._about),
            ("nodes", self._nodes),
            ("label", self._label),
            ("rates", self._rates),
            ("node", self._node),
            ("node/explanation", self._node_explanation),
            ("pods", self._pods),
            ("pending", self._pending),
            ("decision", self._decision),
            ("attempts", self._attempts),
            ("attempt", self._attempt),
            ("timeline", self._timeline),
            ("placements", self._placements),
        ):
            yield "GET", path, answer
        yield "GET", "configuration", self._configuration
        yield "POST", "configuration/check", self._check
        yield "POST", "configuration/compare", self._compare
        if self.editor is not None:
            yield "POST", "configuration", self._configure
            yield from EditorAnswers(self.editor).routes()

    def queue(self) -> JSON:
        """The queue, as the scheduler or the pods tell."""
        told = self.link is not None and self.link.queue
        found = from_scheduler(told) if told else from_pods(self.model.unbound.values())
        return {**found, "unbound": len(self.model.unbound)}

    async def _about(self, request: web.Request) -> JSON:
        problem = self.link.problem if self.link is not None else ""
        notes = [*self.about.notes, *([f"the scheduler cannot be asked: {problem}"] if problem else [])]
        return {
            "title": self.about.title,
            "mode": self.about.mode,
            "notes": notes,
            "scheduler": self.link is not None,
            "objects": self.editor is not None,
            "changes": self.editor is not None and self.editor.allowed,
            "embedded": self.editor is not None and self.editor.embedded,
            "now": self.model.clock(),
        }

    # --- the cluster --------------------------------------------------------------------------------------------------

    async def _nodes(self, request: web.Request) -> JSON:
        frame = self.broadcaster.current()
        if self._labels[0] != frame.structure:
            self._labels = frame.structure, await asyncio.to_thread(self.model.labels)
            frame = self.broadcaster.current()
        return {"tick": self.broadcaster.tick, "labels": self._labels[1], **self.model.snapshot(frame)}

    async def _label(self, request: web.Request) -> JSON:
        return self.model.label(request.query["key"])

    async def _rates(self, request: web.Request) -> JSON:
        return {"exact": self.model.rates.exact, **self.model.rates.columns()}

    async def _node(self, request: web.Request) -> JSON:
        """One node and its pods, as they are."""
        table = self.model.state.nodes
        row = table.row_of.get(request.query["name"])
        if row is None or table.nodes[row] is None:
            raise LookupError(f"the cluster has no node {request.query['name']!r}")
        node = table.node(row)
        amounts = []
        for name, column in table.resource_columns.items():
            offered, used = int(table.allocatable[column, row]), int(table.used[column, row])
            if offered or used:
                texts = [shown(name, offered), shown(name, used), shown(name, offered - used)]
                amounts.append([name, *texts, used / offered if offered else None])
        return {
            "name": node.name,
            "created": node.metadata.creation_timestamp,
            "labels": node.labels,
            "taints": [taint_text(each) for each in node.spec.taints],
            "cordoned": node.spec.unschedulable,
            "amounts": amounts,
            "pods": self._residents([each.pod for each in table.pods[row].values()]),
        }

    def _residents(self, pods: list[api.Pod]) -> JSON:
        classes = self.model.state.classes
        requests = []
        for pod in pods:
            wanted = requested(classes.info(pod).pod_class.node_requests)
            requests.append(", ".join(f"{name} {shown(name, n)}" for name, n in wanted.items() if name != "pods"))
        return {
            "pod": [pod.key for pod in pods],
            "priority": [pod.priority for pod in pods],
            "since": [bound_time(pod) or None for pod in pods],
            "terminating": [pod.is_terminating for pod in pods],
            "requests": requests,
        }

    async def _node_explanation(self, request: web.Request) -> JSON:
        return await self.questions.node(request.query["name"])

    async def _pods(self, request: web.Request) -> JSON:
        """Pods whose name contains a text, those without a node first."""
        text = request.query.get("text", "")
        found = (pod for pod in self.model.pods.values() if text in pod.key)
        some = sorted(islice(found, 20 * MOST_FOUND), key=lambda pod: (bool(pod.node_name), pod.key))[:MOST_FOUND]
        return {"pod": [pod.key for pod in some], "node": [pod.node_name for pod in some]}

    # --- decisions ----------------------------------------------------------------------------------------------------

    async def _pending(self, request: web.Request) -> JSON:
        return await self.questions.pending()

    async def _decision(self, request: web.Request) -> JSON:
        text = request.query.get("requests", "")
        requests = msgspec.json.decode(text, type=dict[str, str]) if text else {}
        return await self.questions.decision(request.query["pod"], requests)

    async def _attempts(self, request: web.Request) -> JSON:
        """What is recorded of a pod's attempts, the newest first."""
        key = request.query["pod"]
        if self.link is not None:
            kept = await self.link.pod(key)
            wanted = ("number", "time", "attempt", "outcome", "node", "message", "seconds", "feasibleNodes")
            return {"items": [{name: each[name] for name in wanted} for each in kept]}
        logged = await self.questions.logged(key)
        return {
            "items": [
                {
                    "number": number,
                    "time": each.time,
                    "attempt": each.attempt,
                    "outcome": each.outcome,
                    "node": each.node,
                    "message": each.message,
                    "seconds": each.seconds,
                    "feasibleNodes": each.feasible_nodes,
                }
                for number, each in enumerate(logged)
            ]
        }

    async def _attempt(self, request: web.Request) -> JSON:
        number = int(request.query["number"])
        if self.link is not None:
            found = await self.link.attempt(number)
            return await asyncio.to_thread(of_attempt, found)
        return await self.questions.logged_decision(request.query["pod"], number)

    # --- configuration ------------------------------------------------------------------------------------------------

    async def _configuration(self, request: web.Request) -> JSON:
        if self.editor is not None and self.editor.embedded:
            await self._follow_configuration(await self.editor.configuration())
        return await asyncio.to_thread(self.configuring.shown)

    async def _follow_configuration(self, config: JSON) -> None:
        """A cluster of `kubesched up` may have got another configuration meanwhile."""
        found = self.configuring.following(config)
        if found.config != self.configuring.config:
            self.configuring = found
            await self.questions.reconfigure(dump.to_builtins(found.config), found.plugins)

    async def _check(self, request: web.Request) -> JSON:
        return await asyncio.to_thread(self.configuring.check, await _text(request))

    async def _compare(self, request: web.Request) -> JSON:
        text = await _text(request)
        now, then = await self.questions.ask(lambda: self.configuring.pair(self.questions.cluster, text))
        return await asyncio.to_thread(moved_pods, now, then)

    async def _configure(self, request: web.Request) -> JSON:
        assert self.editor is not None
        if self.configuring.unknown:
            names = ", ".join(self.configuring.unknown)
            raise ValueError(f"the scheduler uses {names}, not known here; start the page with --plugin to change that")
        wanted = await asyncio.to_thread(self.configuring.other, await _text(request))
        self.configuring.check_changeable(wanted)
        await self.editor.configure(dump.to_builtins(wanted.config))
        return await self._configuration(request)

    # --- over time ----------------------------------------------------------------------------------------------------

    async def _timeline(self, request: web.Request) -> JSON:
        found = self.model.moments.newest(MOST_MOMENTS)
        return {"now": self.model.clock(), **await asyncio.to_thread(as_columns, found)}

    async def _placements(self, request: web.Request) -> JSON:
        return self.model.placements.columns(self.broadcaster.current().resources)


async def _text(request: web.Request) -> str:
    # Without a line break it could be the name of a file, which would be read.
    return str((await body_of(request))["text"]) + "\n"
