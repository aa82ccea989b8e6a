"""Settings for the whole suite."""

import gc
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.pages import ROOT, Script, commands
from tests.run_by import runner

# Time limits per example would make results depend on how busy the machine is; the number of examples sets how long a
# search takes. The default profile tries the same examples in every run, so that a change is judged by what it changed.
# HYPOTHESIS_PROFILE=thorough tries others each time, for a long look before a release; "unshrunk" shows the first
# failure as it was found, for when looking for a smaller one takes too long.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("default", PATIENT, max_examples=100, derandomize=True)
settings.register_profile("thorough", PATIENT, max_examples=2000)
settings.register_profile("unshrunk", PATIENT, max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember on the test whether it failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Collect what a failed test left open here, without warnings, or the next test would fail because of it."""
    done = yield
    if item.stash.get(FAILED, False):
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            sys.__dict__.pop(name, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
    return done


@pytest.fixture(scope="session", autouse=True)
def _collected() -> Iterator[None]:
    """Collect garbage while the last test can still fail: after it, a leak would fail the run without naming a test."""
    yield
    gc.collect()


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Script]]:
    """The commands of a page that tests/run_by.py says this test runs; none may be left."""
    test = request.node.nodeid.partition("[")[0]
    given: list[Script] = []

    def give(page: str) -> Script:
        given.append(Script(page, [each for each in commands(ROOT / page) if runner(page, each) == test]))
        return given[-1]

    yield give
    if not request.node.stash.get(FAILED, False):
        assert given
        assert {each.page: each.left for each in given if each.left} == {}, "typed by no other test"
