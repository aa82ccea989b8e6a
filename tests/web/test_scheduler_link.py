"""The page's link to a running scheduler."""

from __future__ import annotations

from aiohttp import web
from tests.client.server import answering, serving

from kubesched.library.cluster import Cluster
from kubesched.web.model import ClusterModel
from kubesched.web.questions import Questions
from kubesched.web.scheduler_link import SchedulerLink


async def test_a_response_of_another_shape_is_a_problem_and_not_the_end() -> None:
    """What the scheduler responds cannot end the task that keeps pages up to date."""
    model = ClusterModel()
    questions = Questions(model, Cluster())
    async with serving() as server:
        link = SchedulerLink(server.connection, server.url)
        for text in ("{}", "[]", '{"items": [{}]}', '"text"'):
            server.script = [answering(lambda text=text: web.Response(text=text))] * 4  # type: ignore[misc]
            await link.poll(model, questions)
            assert link.problem
        await link.close()
    questions.close()
