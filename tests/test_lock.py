"""The locked versions for deployment: complete, hashed, and without the address of a registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = {
    "deploy/requirements.txt": PROJECT["project"]["dependencies"],
    "deploy/requirements-build.txt": PROJECT["build-system"]["requires"],
}


def entries(file: str) -> list[str]:
    """The packages of a lock file, each with its hashes."""
    return re.findall(r"^\S.*(?:\n +.*)*", (ROOT / file).read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("file", LOCKS)
def test_every_dependency_is_locked_to_a_version_that_fits(file: str) -> None:
    """`make lock` must run again after a dependency was added, or its lowest version raised."""
    locked = [Requirement(each.partition("\\")[0].strip()) for each in entries(file)]
    for wanted in map(Requirement, LOCKS[file]):
        same = [each for each in locked if canonicalize_name(each.name) == canonicalize_name(wanted.name)]
        assert same, f"{wanted.name} is not in {file}; run make lock"
        for each in same:
            (version,) = each.specifier
            assert version.operator == "=="
            assert wanted.specifier.contains(version.version), f"{each} is not {wanted}; run make lock"


@pytest.mark.parametrize("file", LOCKS)
def test_every_entry_has_hashes_and_nothing_names_a_registry(file: str) -> None:
    """Without a hash for every entry pip refuses the file; an address would bind it to one place."""
    assert entries(file)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", each) for each in entries(file))
    assert not re.search(r"://|^--?[a-z]", (ROOT / file).read_text("utf-8"), re.MULTILINE)
