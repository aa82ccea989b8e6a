"""Runs upstream's own end-to-end suite against `kubesched up`: ``python -m tests.e2e.upstream_suite [AREA...]``.

`upstream_specs.txt` lists every spec of the areas with a verdict: `quick` and `passes` pass, `quick` ones also run
in `make e2e`; anything else is the reason why a spec cannot pass. Without arguments all that pass are run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.parts import SUITE, path_of
from tests.kubectl.local import local

SPECS = Path(__file__).parent / "upstream_specs.txt"
AREAS = ("scheduling", "devices", "api-machinery", "apps", "auth")
PASSING = ("quick", "passes")
NODES = 3
ZONE = "topology.kubernetes.io/zone"
_SPECIAL = frozenset("\\.+*?()|[]{}^$")


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec of the suite, and what is known about it."""

    verdict: str
    area: str
    name: str

    @property
    def passes(self) -> bool:
        return self.verdict in PASSING


@dataclass(frozen=True, slots=True)
class SpecResult:
    """How a spec ended: passed, failed or skipped; how long it took and what it said."""

    name: str
    state: str
    seconds: float
    message: str


def specs() -> list[Spec]:
    """All specs of the list."""
    lines = (line for line in SPECS.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    return [Spec(*(part.strip() for part in line.split("|", 2))) for line in lines]


def run(chosen: Sequence[Spec], *, clusters: int = 1) -> list[SpecResult]:
    """Run specs, on several clusters at the same time: they mostly wait."""
    shares = [share for share in (chosen[number::clusters] for number in range(clusters)) if share]
    with ThreadPoolExecutor(max(1, len(shares))) as pool:
        return [result for results in pool.map(_run_on_one, shares) for result in results]


def _run_on_one(chosen: Sequence[Spec]) -> list[SpecResult]:
    with tempfile.TemporaryDirectory(prefix="kubesched-suite-") as text:
        folder = Path(text)
        with local(folder, f"--nodes={NODES}") as cluster:
            for number in range(1, NODES + 1):
                cluster(f"label node node-{number} {ZONE}=zone-{number}")
            report = folder / "report.json"
            focus = "|".join(_escaped(each.name) for each in chosen)
            command = [str(path_of(SUITE)), f"--kubeconfig={cluster.kubeconfig}", "--provider=skeleton"]
            command += [f"--kubectl-path={path_of('kubectl')}", "--dump-logs-on-failure=false"]
            command += [f"--ginkgo.focus={focus}", "--ginkgo.silence-skips", f"--ginkgo.json-report={report}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if not report.exists():
                raise RuntimeError(f"{SUITE} wrote no report:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            wanted = {each.name for each in chosen}
            return [result for result in _results(report) if result.name in wanted]


def _escaped(name: str) -> str:
    """A name as a regular expression of Go."""
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in name)


def _results(report: Path) -> Iterator[SpecResult]:
    for suite in json.loads(report.read_text("utf-8")):
        for spec in suite["SpecReports"] or []:
            if spec["LeafNodeType"] == "It":
                name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
                message = (spec.get("Failure") or {}).get("Message", "")
                yield SpecResult(name, spec["State"], spec["RunTime"] / 1e9, message)


def main(arguments: Sequence[str]) -> int:
    """Run areas and print how each spec ended; returns the number of specs that did not end as listed."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.upstream_suite", description=__doc__.splitlines()[0])
    parser.add_argument("areas", nargs="*", choices=[[], *AREAS], help="the areas to run; all by default")
    parser.add_argument(
        "--failing", action="store_true", help="run the specs that cannot pass, to see whether one does"
    )
    parser.add_argument("--clusters", type=int, default=3, help="how many clusters to use at the same time")
    given = parser.parse_args(arguments)
    chosen = [s for s in specs() if s.area in (given.areas or AREAS) and s.passes is not given.failing]
    print(f"running {len(chosen)} specs on {given.clusters} clusters", file=sys.stderr, flush=True)
    return _print(run(chosen, clusters=given.clusters), "passed" if not given.failing else "failed")


def _print(results: Iterable[SpecResult], expected: str) -> int:
    surprises = 0
    for result in sorted(results, key=lambda result: result.name):
        print(f"{result.state:8}{result.seconds:7.1f} s  {result.name}")
        if result.state != expected:
            surprises += 1
            print(f"    {' '.join(result.message.split())[:400]}")
    print(f"{surprises} not {expected}")
    return min(surprises, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
