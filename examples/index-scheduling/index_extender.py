"""The rule of IndexScheduling as a scheduler extender: a small HTTP server that any kube-scheduler can call.

python examples/index-scheduling/index_extender.py
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from aiohttp import web
from index_scheduling import mismatch

PATH = "/api/scheduler/filter"
PORT = 10261
LARGEST_BODY = 64 * 2**20  # without nodeCacheCapable every node comes as a whole object


def app() -> web.Application:
    """The server. Whatever is not a POST gets a 405 from aiohttp itself."""
    made = web.Application(client_max_size=LARGEST_BODY)
    made.router.add_post(PATH, answer)
    return made


async def answer(request: web.Request) -> web.Response:
    """ExtenderArgs in, ExtenderFilterResult out."""
    try:
        body = json.loads(await request.read())
    except ValueError:
        raise web.HTTPBadRequest(text="the body is not JSON") from None
    given = {key.lower(): value for key, value in body.items()} if isinstance(body, dict) else {}  # as Go reads it
    pod = given.get("pod")
    if not isinstance(pod, dict):
        raise web.HTTPBadRequest(text="there is no Pod in the body")
    try:
        return web.json_response(judge(_name(pod), given.get("nodes"), given.get("nodenames")))
    except (AttributeError, KeyError, TypeError):
        raise web.HTTPBadRequest(text="the body is no ExtenderArgs") from None


def judge(pod_name: str, nodes: dict[str, Any] | None, names: list[str] | None) -> dict[str, Any]:
    """The nodes that fit. They are objects or, for an extender that is nodeCacheCapable, names; so are those
    that are returned."""
    failed: dict[str, str] = {}

    def fits(node_name: str) -> bool:
        reason = mismatch(pod_name, node_name)
        if reason:
            failed[node_name] = reason
        return not reason

    result: dict[str, Any] = {"Nodes": None, "NodeNames": None, "FailedNodes": failed, "Error": ""}
    if nodes is not None:
        result["Nodes"] = nodes | {"items": [node for node in nodes.get("items") or () if fits(_name(node))]}
    if names is not None:
        result["NodeNames"] = [name for name in names if fits(name)]
    return result


def _name(thing: dict[str, Any]) -> str:
    return str(thing["metadata"]["name"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT)
    chosen = parser.parse_args()
    web.run_app(app(), host=chosen.host, port=chosen.port)
