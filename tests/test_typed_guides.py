"""The commands of pages that need no running cluster can be typed, with small files and short runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.pages import ROOT, typed

from kubesched.cli.main import main

EXAMPLES = ROOT / "examples"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u,v,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:00:30,30,0
2,u,v,0,4,1,COMPLETED,2020-05-01 00:30:00,2020-05-01 00:30:00,2020-05-01 00:31:00,60,0
"""
SHORTER = {
    "sweep": ("--seeds", "1-2", "--jobs", "1"),
    "tune": ("--trials", "2", "--seeds", "1", "--held-out", "1001-1002", "--jobs", "1"),
    "compare": ("--seeds", "2"),
    "torture": ("--seeds", "1"),
    "bench": ("--list",),
}
"""Fewer runs than the pages ask for: the last of two equal options counts."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the pages name."""
    for name in ("examples", "bench", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "scenarios").mkdir()
    shutil.copy(EXAMPLES / "scenarios/node10.yaml", tmp_path / "scenarios")
    shutil.copy(EXAMPLES / "scenarios/node10.py", tmp_path / "day.py")
    for name in ("packed.yaml", "spread.yaml"):
        (tmp_path / name).write_text(CONFIG, "utf-8")
    for name in ("nodes", "pods"):
        rows = (EXAMPLES / f"gpu-sharing/{name}-small.csv").read_text("utf-8").splitlines()[:20]
        # Without times the pods come one after the other, and stay.
        short = [",".join(row.split(",")[:6]) for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(short) + "\n", "utf-8")
    (tmp_path / "cluster_log.csv").write_text(HELIOS, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("page", "number", "left_out"),
    [
        ("guides/contrib.md", 2, ()),
        ("guides/learn.md", 4, ()),
        ("guides/plugins.md", 2, ("run",)),
        ("guides/scenarios.md", 7, ()),
        ("guides/research.md", 2, ("dask",)),
        ("performance.md", 3, ("DIR",)),
        ("reference/conformance.md", 1, ()),
        ("reliability.md", 4, ()),
    ],
)
def test_a_page_can_be_typed(folder: Path, page: str, number: int, left_out: tuple[str, ...]) -> None:
    """Every command succeeds. Left out are daemons, which have tests of their own, and a Dask cluster."""
    commands = [
        [*(word.replace("corpus/*", "corpus/taints.jsonl.gz") for word in words), *SHORTER.get(words[0], ())]
        for words in typed(ROOT / "docs" / page, "kubesched")
        if not any(word in " ".join(words) for word in left_out)
    ]
    assert len(commands) == number
    for words in commands:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, f"{words}: {done.output}\n{done.exception!r}"
