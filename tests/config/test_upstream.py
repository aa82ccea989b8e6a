"""Recorded answers of kube-scheduler 1.36.4 itself: what it loads, what it refuses, and what it makes of it.

``upstream.jsonl.gz`` has one random configuration a line: ``{"config", "error"?, "plugins"?, "yaml"?}``, the latter two
being the plugins of each profile by point, with weights, and the file that ``--write-config-to`` writes. The corpus of
recorded decisions adds the configurations that it was made with.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.config.support import POINTS

from kubesched.config.dump import to_yaml
from kubesched.config.errors import ConfigError
from kubesched.config.load import Loaded, load
from kubesched.config.plugins import expand
from kubesched.config.types import Point

HERE = Path(__file__).parent
CORPUS = HERE.parent / "conformance" / "corpus"


class Recorded(msgspec.Struct):
    config: str | dict[str, object]
    error: str = ""
    plugins: dict[str, dict[Point, list[tuple[str, int]]]] = {}
    yaml: str = ""


class Expectation(msgspec.Struct):
    error: str = ""


class Scenario(msgspec.Struct):
    name: str
    expect: Expectation
    config: dict[str, object] | None = None


def recorded() -> Iterator[Recorded]:
    for line in gzip.decompress((HERE / "upstream.jsonl.gz").read_bytes()).splitlines():
        yield msgspec.json.decode(line, type=Recorded)


def scenarios() -> Iterator[Scenario]:
    for path in sorted(CORPUS.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            yield msgspec.json.decode(line, type=Scenario)


def loaded(config: str | dict[str, object], error: str) -> Loaded | None:
    if not error:
        return load(config, points=POINTS)
    with pytest.raises(ConfigError):
        load(config, points=POINTS)
    return None


@pytest.mark.parametrize("case", list(recorded()))
def test_recorded_configurations(case: Recorded) -> None:
    """What kube-scheduler loads is loaded, expanded and written alike; what it refuses is refused."""
    answer = loaded(case.config, case.error)
    if answer is None:
        return
    for profile in answer.config.profiles:
        resolved = expand(profile, POINTS)
        for point in Point:
            names = [name for name, _ in case.plugins[profile.scheduler_name].get(point, [])]
            assert list(resolved[point]) == names
        assert list(resolved.score) == case.plugins[profile.scheduler_name][Point.SCORE]
    assert to_yaml(answer.config) == case.yaml


def test_configurations_of_the_corpus() -> None:
    """Every configuration that decisions were recorded with loads without a warning, or fails where it should."""
    seen = 0
    for scenario in scenarios():
        if scenario.config is not None:
            answer = loaded(scenario.config, scenario.expect.error)
            assert answer is None or answer.warnings == []
            seen += 1
    assert seen > 300
