"""The recorded decisions of kube-scheduler come out the same, all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.conformance.compare import check_file

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.jsonl.gz"))


def test_the_corpus_is_whole() -> None:
    """All fourteen themes are there."""
    assert len(CORPUS) == 14


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_decisions_are_kube_schedulers(path: Path) -> None:
    """A theme has no difference in any field of any attempt."""
    report = check_file(path)
    assert report.attempts > 400
    assert report.differences == []
