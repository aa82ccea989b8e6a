"""Everything that reads input from outside, with the input that it is tried with.

A target takes bytes, does its checks and raises if one fails: refused with words or accepted, never another exception.
Its corpus has good documents, from which damaged ones are made, and inputs that once did harm.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from tests.fuzz import shapes
from tests.fuzz.damage import CORPUS, cut_up, documents, kept
from tests.fuzz.server_process import STATUS, Servers
from tests.fuzz.watched import one_line, watch
from tests.fuzz.writes import writes as shapes_of_writes

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.wire import protobuf
from kubesched.base.documents import DocumentError
from kubesched.cel.environment import Environment
from kubesched.cel.errors import CELError
from kubesched.cel.types import DYN
from kubesched.client.kubeconfig import KubeconfigError, parse
from kubesched.config.errors import ConfigError
from kubesched.config.load import load
from kubesched.framework.extender import ExtenderError
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.extender_wire import ExtenderAnswer, decode, meta_victims, node_names, scores
from kubesched.simulator.scenario import ScenarioFileError
from kubesched.simulator.yaml_file import load_yaml

Check = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads. `corpus` names the folder of its kept inputs."""

    corpus: str
    examples: st.SearchStrategy[bytes]
    opened: Callable[[], AbstractContextManager[Check]]


def refusal(act: Callable[[], object], *errors: type[Exception]) -> str | None:
    """The words with which something is refused; None if it is accepted. Any other exception fails the test."""
    try:
        act()
    except errors as problem:
        return str(problem)
    return None


def plainly(check: Check) -> Callable[[], AbstractContextManager[Check]]:
    """For a check that needs nothing around it."""

    @contextmanager
    def opened() -> Iterator[Check]:
        yield check

    return opened


def kubeconfig(text: bytes) -> None:
    """A damaged kubeconfig is refused with the file's name."""
    said = refusal(lambda: parse(text, "the-file"), KubeconfigError)
    assert said is None or "the-file" in said


POINTS = in_tree_registry().points


def configuration(text: bytes) -> None:
    """A damaged KubeSchedulerConfiguration is refused with the file's name, or is complete."""
    said = refusal(lambda: load(text, "the-file", points=POINTS), ConfigError)
    assert said is None or "the-file" in said


def scenario(text: bytes) -> None:
    """A damaged scenario is refused with the file's name."""
    said = refusal(lambda: load_yaml(Path("the-file.yaml"), text), ScenarioFileError)
    assert said is None or "the-file.yaml" in said


def _filtered(value: object) -> object:
    answer = ExtenderAnswer(value, "ExtenderFilterResult")
    return node_names(answer), answer.text_map("FailedNodes"), answer.texts("NodeNames")


def _victims(value: object) -> object:
    return meta_victims(ExtenderAnswer(value, "ExtenderPreemptionResult"))


def extender(text: bytes) -> None:
    """A damaged answer is an error of the extender, whatever was expected."""
    assert refusal(lambda: _filtered(decode(text)), ExtenderError) != ""
    assert refusal(lambda: _victims(decode(text)), ExtenderError) != ""
    assert refusal(lambda: scores(decode(text)), ExtenderError) != ""


CEL = Environment({"object": DYN})
OBJECT = {"a": [1, "x", {"b": None}], "n": 2**62, "s": "y" * 1000}
PIECES = [text.decode() for text in kept("cel")]
TOKENS = [*" ()[]{}.,?:+-*/%<>=!&|'", "in", "size", "has", "map", "all", "1", "0u", "1e9", "r'a'", "b''", "null"]
EXPRESSIONS = st.one_of(
    cut_up("cel"),
    st.lists(st.sampled_from(TOKENS)).map(" ".join).map(str.encode),
    st.tuples(st.sampled_from(PIECES), st.sampled_from([" && ", " + ", " in ", "."]), st.sampled_from(PIECES))
    .map("".join)
    .map(str.encode),
)


def cel(source: bytes) -> None:
    """A damaged CEL expression does not compile, or evaluates within its cost limit."""
    text = source.decode("utf-8", "replace")
    assert refusal(lambda: CEL.compile(text)({"object": OBJECT}), CELError) != ""


POD = type_of("core.Pod")


def pod_protobuf(data: bytes) -> None:
    """Damaged protobuf is refused."""
    assert POD is not None
    assert refusal(lambda: msgspec.json.encode(protobuf.decode(data, POD)), protobuf.ProtobufError, DocumentError) != ""


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
NO_TYPE = b'"message":"failed to create typed patch object '
"""kube-apiserver has no better status than 500 for this."""


@contextmanager
def patches() -> Iterator[Check]:
    """A server with a Deployment that is patched without keeping the result."""
    client = LocalClient(ApiServer())
    with asyncio.Runner() as runner:
        body = msgspec.json.decode((CORPUS / "patches" / "apply.json").read_bytes())
        runner.run(client.create(DEPLOYMENTS, body))

        def check(text: bytes) -> None:
            for kind in TYPES:
                path = f"{DEPLOYMENTS}/web?dryRun=All&fieldManager=fuzz&force=true"
                response = runner.run(client.send("PATCH", path, text, content_type=kind))
                assert response.status < 500 or NO_TYPE in response.body, response.body
                assert response.status < 400 or b'"message":"' in response.body

        yield check


@contextmanager
def writes() -> Iterator[Check]:
    """A server in which an object of any kind is created, replaced, patched, read and deleted."""
    client, written = LocalClient(ApiServer()), 0
    with asyncio.Runner() as runner:

        def send(method: str, path: str, body: Any = None, kind: str = "application/json") -> int:
            response = runner.run(client.send(method, path, body, content_type=kind))
            assert response.status < 500 or NO_TYPE in response.body, response.body
            return response.status

        def check(text: bytes) -> None:
            nonlocal client, written
            written += 1
            if written % EVERY == 0:  # what finalizers keep must not fill the memory
                client = LocalClient(ApiServer())
            write = msgspec.json.decode(text)
            if send("POST", write["path"], write["body"]) != 201:
                return
            path = f"{write['path']}/{write['body']['metadata']['name']}"
            send("PUT", path, write["body"])
            for kind in TYPES[1:3]:
                send("PATCH", path, write["patch"], kind)
            for method in ("GET", "DELETE"):
                send(method, path)

        yield check


def repeated(text: bytes, times: int) -> bytes:
    """The operations of a JSON patch, also those that copy, many times over."""
    inner = text.strip().removeprefix(b"[").removesuffix(b"]")
    return b"[" + b",".join([inner] * times) + b"]"


PATCHES = st.one_of(documents("patches"), st.builds(repeated, documents("patches"), st.integers(1, 50)))
EVERY = 100


@contextmanager
def requests(port: str, patience: float) -> Iterator[Check]:
    """The servers. No bytes lead to an internal error, and both stay well."""
    sent = 0
    with tempfile.TemporaryDirectory() as folder, Servers(Path(folder) / "log") as servers:

        def check(data: bytes) -> None:
            nonlocal sent
            received = servers.exchange(port, data.replace(b"{TOKEN}", servers.token.encode()), patience)
            assert [code for code in STATUS.findall(received) if code >= b"500"] == [], received
            sent += 1
            if sent % EVERY == 0:
                servers.healthy()

        yield check
        servers.healthy()


SEVERAL_REQUESTS = st.lists(cut_up("requests"), min_size=1, max_size=3).map(b"".join)
WATCHED = st.lists(st.one_of(documents("objects").map(one_line), shapes.objects()), min_size=1, max_size=4)

TARGETS = {
    "kubeconfig": Target("kubeconfig", documents("kubeconfig"), plainly(kubeconfig)),
    "config": Target("config", documents("config"), plainly(configuration)),
    "scenario": Target("scenario", documents("scenario"), plainly(scenario)),
    "watch": Target("objects", WATCHED.map(b"\n".join), plainly(watch)),
    "protobuf": Target("protobuf", st.one_of(cut_up("protobuf"), st.binary()), plainly(pod_protobuf)),
    "extender": Target("extender", documents("extender"), plainly(extender)),
    "cel": Target("cel", EXPRESSIONS, plainly(cel)),
    "patches": Target("patches", PATCHES, patches),
    "writes": Target("writes", shapes_of_writes(), writes),
    "api-server": Target("requests", SEVERAL_REQUESTS, lambda: requests("api", 60.0)),
    "secure-port": Target("requests", cut_up("requests"), lambda: requests("secure", 0.05)),
}
