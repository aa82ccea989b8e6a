"""The recorded decisions of kube-scheduler are all reproduced."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.conformance.compare import check_file

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.jsonl.gz"))


def test_the_corpus_is_whole() -> None:
    """The corpus contains all fourteen themes."""
    assert len(CORPUS) == 14


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_decisions_are_kube_schedulers(path: Path) -> None:
    """No field of any attempt in a theme differs."""
    report = check_file(path)
    assert report.attempts > 400
    assert report.differences == []
