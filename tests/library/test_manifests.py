"""Objects are read from all that people have, and everything that is wrong is said at once."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kubesched import ManifestError
from kubesched.api import objects as api
from kubesched.library.manifests import read_objects, read_paths, read_pod, read_pods

NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1"}, "spec": {"containers": []}}
DEPLOYMENT: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d1"}}


def keys(*sources: Any) -> list[str]:
    """Kind and key of everything that was read."""
    return [f"{each.kind} {each.key}" for each in read_objects(sources).objects]


@pytest.mark.parametrize(
    "source",
    [
        {"apiVersion": "v1", "kind": "List", "items": [NODE, POD]},
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}),
        json.dumps([NODE, POD]),
        json.dumps(NODE, indent=2) + "\n" + json.dumps(POD, indent=2),
        yaml.safe_dump_all([NODE, POD]),
        yaml.safe_dump([NODE, POD]),
        "---\n" + yaml.safe_dump(NODE) + "---\n---\n" + yaml.safe_dump(POD),
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}).encode(),
    ],
)
def test_every_form_has_the_same_objects(source: Any) -> None:
    """Lists, several documents, several JSON values: whatever kubectl prints and people write."""
    assert keys(source) == ["Node n1", "Pod default/p1"]


def test_a_typed_list_names_its_items() -> None:
    """The items of a PodList have no kind of their own."""
    item = {"metadata": {"name": "p1"}}
    assert keys({"apiVersion": "v1", "kind": "PodList", "items": [item]}) == ["Pod default/p1"]
    assert keys(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [item]})) == ["Pod default/p1"]
    assert keys(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": None})) == []


def test_other_kinds_are_counted_and_ignored() -> None:
    """A folder of manifests has much that scheduling does not read."""
    manifests = read_objects([DEPLOYMENT, DEPLOYMENT, NODE])
    assert dict(manifests.ignored) == {"Deployment": 2}
    assert [each.name for each in manifests.objects] == ["n1"]


def test_files_and_folders(tmp_path: Path) -> None:
    """A folder is read with its subfolders, sorted by name; other files are left alone."""
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "pods.json").write_text(json.dumps(POD))
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(NODE))
    (tmp_path / "logs.txt").write_text("not: [a manifest")
    assert [each.name for each in read_paths([tmp_path]).objects] == ["p1", "n1"]
    assert [each.name for each in read_paths([tmp_path / "nodes.yaml"]).objects] == ["n1"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError, match=r"empty: no \.json, \.yaml, \.yml file is in this folder"):
        read_paths([tmp_path / "empty"])
    with pytest.raises(FileNotFoundError):
        read_paths([tmp_path / "missing.yaml"])


def test_a_file_that_is_no_manifest_is_not_shown_whole(tmp_path: Path) -> None:
    """Only the beginning of a text is in the message: it may be long, or a secret."""
    (tmp_path / "a.yaml").write_text("word " * 1000)
    with pytest.raises(ManifestError, match=r"got 'word word .*…$") as caught:
        read_paths([tmp_path / "a.yaml"])
    assert len(str(caught.value)) < 300


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Each problem names the file, the document, the object and the field."""
    wrong = {**NODE, "status": {"allocatable": {"cpu": "four"}}}
    future = {"apiVersion": "policy/v2", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([NODE, wrong, {"metadata": {}}, "text"]))
    (tmp_path / "b.yaml").write_text("a: [")
    (tmp_path / "c.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [future]}))
    with pytest.raises(ManifestError) as caught:
        read_paths([tmp_path])
    problems = [each.removeprefix(f"{tmp_path}/") for each in caught.value.problems]
    assert problems[0].startswith('a.yaml, document 2: Node n1: status.allocatable["cpu"]: quantity "four"')
    assert problems[1].startswith("a.yaml, document 3: object: kind: kind ''")
    assert problems[2] == "a.yaml, document 4: expected an object with apiVersion and kind, got 'text'"
    assert problems[3].startswith("b.yaml: not valid YAML or JSON: ")
    assert problems[4].startswith("c.json items[0]: PodDisruptionBudget: kind: apiVersion 'policy/v2' is not")
    assert len(problems) == 5


@pytest.mark.parametrize("text", ["[" * 80_000, "[" * 5000 + "]" * 5000, "a: " + "[" * 80_000])
def test_a_hostile_manifest_is_refused_with_the_limit(text: str) -> None:
    """Nesting that would end the process is refused with the limit."""
    with pytest.raises(ManifestError, match="nested deeper than 128 levels"):
        read_objects([text])


def test_one_pod_is_wanted() -> None:
    """What is no pod, and more pods than one, are refused with words that help."""
    assert read_pod(POD).name == "p1"
    assert [each.name for each in read_pods([POD, api.Pod(metadata=api.ObjectMeta(name="p2"))])] == ["p1", "p2"]
    with pytest.raises(ManifestError, match=r"expected a Pod, got a Deployment; .* spec\.template"):
        read_pod(DEPLOYMENT)
    with pytest.raises(ManifestError, match="expected one Pod, got 2"):
        read_pod(yaml.safe_dump_all([POD, POD]))
    with pytest.raises(TypeError, match="expected an object, a dict or the text of a manifest, got int: 7"):
        read_objects([7])  # type: ignore[list-item]


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    """Whatever the text is, the only error is a `ManifestError`."""
    with suppress(ManifestError):
        read_objects([text])


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@example("List", {"items": True})
@given(
    st.sampled_from(["Pod", "Node", "List", "PodList", "Deployment", ""]),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "items"]), JSONS),
)
def test_any_object_is_read_or_refused(kind: str, fields: dict[str, Any]) -> None:
    """The same holds for objects with the wrong things in them, as text and as a dict."""
    body = {"apiVersion": "v1", "kind": kind, **fields}
    for source in (body, json.dumps(body)):
        with suppress(ManifestError):
            read_objects([source])
