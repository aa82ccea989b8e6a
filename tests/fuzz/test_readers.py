"""Whatever is read from files, watches, extenders and requests: refused with words or accepted, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.damage import cut_up, documents, kept, quickly
from tests.harness import default_engine

from kubesched.api import objects as api
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.wire import protobuf
from kubesched.base.documents import DocumentError
from kubesched.cel.environment import Environment
from kubesched.cel.errors import CELError
from kubesched.cel.types import DYN
from kubesched.client.kubeconfig import KubeconfigError, parse
from kubesched.client.protocol import ApiError, Malformed
from kubesched.client.wire import decode_line, decode_object, decode_page
from kubesched.cluster.state import ClusterState
from kubesched.config.errors import ConfigError
from kubesched.config.load import load
from kubesched.framework.extender import ExtenderError
from kubesched.scheduler.extender_wire import ExtenderAnswer, decode, meta_victims, node_names, scores
from kubesched.scheduler.handlers import KINDS
from kubesched.simulator.scenario import ScenarioFileError
from kubesched.simulator.yaml_file import load_yaml

BY_NAME = {kind.kind: kind for kind in KINDS}


ALLOCATABLE: dict[str, str | int | float] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
ORDINARY = api.Pod(metadata=api.ObjectMeta(name="ordinary", namespace="default", uid="1"))


def refusal(act: Callable[[], object], *errors: type[Exception]) -> str | None:
    """The words with which something is refused; None if it is accepted. Any other exception fails the test."""
    try:
        act()
    except errors as problem:
        return str(problem)
    return None


@quickly
@given(documents("kubeconfig"))
def test_kubeconfigs(text: bytes) -> None:
    """A damaged kubeconfig is refused with the file's name."""
    said = refusal(lambda: parse(text, "the-file"), KubeconfigError)
    assert said is None or "the-file" in said


@quickly
@given(documents("config"))
def test_configurations(text: bytes) -> None:
    """A damaged KubeSchedulerConfiguration is refused with the file's name, or is complete."""
    said = refusal(lambda: load(text, "the-file"), ConfigError)
    assert said is None or "the-file" in said


@quickly
@given(documents("scenario"))
@example(b'{"apiVersion": "kubesched.io/v1alpha1", "kind": "Scenario", "cluster": {"nodeGroups": [null]}}')
def test_scenarios(text: bytes) -> None:
    """A damaged scenario is refused with the file's name."""
    said = refusal(lambda: load_yaml(Path("the-file.yaml"), text), ScenarioFileError)
    assert said is None or "the-file.yaml" in said


@quickly
@given(documents("objects"))
@example(b'{"kind": "Node", "metadata": {"name": "\xff"}}')
def test_objects_from_a_watch(text: bytes) -> None:
    """A damaged object is malformed, refused by name, or takes part; an ordinary pod gets a node all the same."""
    kind = next((each for name, each in BY_NAME.items() if f'"{name}"'.encode() in text), api.Pod)
    found = decode_object(kind, text)
    made = ClusterState()
    made.set(api.Node(metadata=api.ObjectMeta(name="good"), status=api.NodeStatus(allocatable=ALLOCATABLE)))
    engine = default_engine(made)
    if not isinstance(found, Malformed):
        said = refusal(lambda: made.set(found), api.InvalidObject)
        assert said is None or found.kind in said
        if isinstance(found, api.Pod):
            refusal(lambda: engine.schedule(made.classes.info(found)), api.InvalidObject)
    assert engine.schedule(made.classes.info(ORDINARY)).chosen


@quickly
@given(documents("objects"), st.sampled_from(KINDS))
def test_lists_and_watch_lines(text: bytes, kind: type[api.Object]) -> None:
    """A damaged page or line is refused as an answer of the API server, or holds what can be read."""
    for body in (text, b'{"metadata":{},"items":[' + text + b"]}"):
        assert refusal(lambda body=body: decode_page(body), ApiError) != ""  # type: ignore[misc]
    for line in (text, b'{"type":"ADDED","object":' + text + b"}"):
        assert refusal(lambda line=line: decode_line(kind, line), ApiError) != ""  # type: ignore[misc]


def filtered(value: object) -> object:
    answer = ExtenderAnswer(value, "ExtenderFilterResult")
    return node_names(answer), answer.text_map("FailedNodes"), answer.texts("NodeNames")


def victims(value: object) -> object:
    return meta_victims(ExtenderAnswer(value, "ExtenderPreemptionResult"))


@quickly
@given(documents("extender"), st.sampled_from((filtered, victims, scores)))
def test_answers_of_extenders(text: bytes, read: Callable[[object], object]) -> None:
    """A damaged answer is an error of the extender."""
    assert refusal(lambda: read(decode(text)), ExtenderError) != ""


CEL = Environment({"object": DYN})
OBJECT = {"a": [1, "x", {"b": None}], "n": 2**62, "s": "y" * 1000}
PIECES = [text.decode() for text in kept("cel")]
TOKENS = [*" ()[]{}.,?:+-*/%<>=!&|'", "in", "size", "has", "map", "all", "1", "0u", "1e9", "r'a'", "b''", "null"]
EXPRESSIONS = st.one_of(
    cut_up("cel").map(lambda text: text.decode("utf-8", "replace")),
    st.lists(st.sampled_from(TOKENS)).map(" ".join),
    st.tuples(st.sampled_from(PIECES), st.sampled_from([" && ", " + ", " in ", "."]), st.sampled_from(PIECES)).map(
        "".join
    ),
)


@quickly
@given(EXPRESSIONS)
def test_expressions(source: str) -> None:
    """A damaged CEL expression does not compile, or evaluates within its cost limit."""
    assert refusal(lambda: CEL.compile(source)({"object": OBJECT}), CELError) != ""


POD = type_of("core.Pod")


@quickly
@given(st.one_of(cut_up("protobuf"), st.sampled_from(kept("protobuf"))))
def test_protobuf(data: bytes) -> None:
    """Damaged protobuf is refused."""
    assert POD is not None
    assert refusal(lambda: msgspec.json.encode(protobuf.decode(data, POD)), protobuf.ProtobufError, DocumentError) != ""
