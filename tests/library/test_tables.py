"""Results show themselves as tables: in a notebook, and as data frames of whichever library there is."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module

import pytest

from kubesched.library import tables
from kubesched.library.cluster import Cluster
from kubesched.testing import node, pod


class Cells(HTMLParser):
    """Collects the tags and the texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def cluster() -> Cluster:
    """Two nodes that fit, one that does not, and a pod."""
    return Cluster(
        node("n1"), node("n2", cpu=2), node("n3", taints=["a=<b>:NoSchedule"]), pod("p", node="n1", cpu="500m")
    )


def test_a_notebook_shows_a_decision() -> None:
    """A row per node, the chosen one first, with scores and reasons."""
    page = Cells(cluster().schedule(pod("web", cpu=1))._repr_html_())
    assert page.texts[0] == "default/web goes to n1"
    assert {"n1", "n2", "n3", "NodeResourcesFit", "node(s) had untolerated taint(s)"} <= set(page.texts)
    assert page.texts.index("n1") < page.texts.index("n2") < page.texts.index("n3")


def test_a_notebook_shows_a_cluster_a_drain_and_a_comparison() -> None:
    """Each has a summary and a table."""
    made = cluster()
    assert "0.5 of 4" in Cells(made._repr_html_()).texts
    assert "1 placed" in Cells(made.drain("n1")._repr_html_()).texts
    assert (
        "0 of 1 pods go elsewhere; pending: 0 with a, 0 with b"
        in Cells(made.compare(None, {}, [pod("web")])._repr_html_()).texts
    )


def test_everything_is_escaped() -> None:
    """Names and messages come from other people's clusters and cannot bring tags along."""
    evil = "<script>alert(1)</script>"
    made = Cluster(node("n1", labels={"x": evil}, taints=[f"a={evil}:NoSchedule"]))
    for text in (
        made._repr_html_(),
        made.schedule(pod(evil))._repr_html_(),
        made.compare(None, {}, [pod(evil)])._repr_html_(),
    ):
        page = Cells(text)
        assert page.tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
        assert any(evil in each for each in page.texts)


def test_a_long_table_is_cut() -> None:
    """A notebook shows the first rows and says how many there are."""
    made = Cluster(*(node(f"n{number:03}") for number in range(tables.MOST_ROWS + 7)))
    assert "and 7 more rows; to_frame() has them all" in Cells(made._repr_html_()).texts


def test_frames_of_pandas() -> None:
    """A data frame has a row per node or pod and all columns."""
    made = cluster()
    frame = made.schedule(pod("web", cpu=1)).to_frame()
    assert isinstance(frame, import_module("pandas").DataFrame)
    assert list(frame["node"]) == ["n1", "n2", "n3"]
    assert frame.loc[0, "chosen"]
    assert frame.loc[2, "rejected by"] == "TaintToleration"
    nodes = made.to_frame().set_index("node")
    assert nodes.loc["n1", "cpu requested"] == 0.5
    assert nodes.loc["n1", "memory"] == 16 * 2**30
    assert list(made.drain("n1").to_frame()["fate"]) == ["placed"]
    assert list(made.compare(None, {}, [pod("web")]).to_frame()["changed"]) == [False]


POLARS = """
import polars
from kubesched.library.cluster import Cluster
from kubesched.testing import node, pod
made = Cluster(node("n1"), node("n2"), node("n3", unschedulable=True))
frame = made.schedule(pod("web")).to_frame()
assert isinstance(frame, polars.DataFrame), frame
assert frame["rejected by"].to_list() == [None, None, "NodeUnschedulable"]
assert isinstance(made.to_frame(), polars.DataFrame)
"""


def test_frames_of_polars() -> None:
    """A program that imported polars gets its data frames."""
    subprocess.run([sys.executable, "-c", POLARS], check=True)


def test_without_either_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is required, and the error says what to do."""
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs pandas or polars; install one of them, or use to_dict\(\)"):
        cluster().to_frame()
