"""The locked versions for deployment: complete, hashed, and without the address of a registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "deploy/requirements.txt").read_text("utf-8")
ENTRIES = re.findall(r"^\S.*(?:\n +.*)*", LOCK, re.MULTILINE)


def test_every_dependency_is_locked_to_a_version_that_fits() -> None:
    """`make lock` must run again after a dependency was added, or its lowest version raised."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    locked = [Requirement(each.partition("\\")[0].strip()) for each in ENTRIES]
    for wanted in map(Requirement, project["dependencies"]):
        same = [each for each in locked if canonicalize_name(each.name) == canonicalize_name(wanted.name)]
        assert same, f"{wanted.name} is not in deploy/requirements.txt; run make lock"
        for each in same:
            (version,) = each.specifier
            assert version.operator == "=="
            assert wanted.specifier.contains(version.version), f"{each} is not {wanted}; run make lock"


def test_every_entry_has_hashes_and_nothing_names_a_registry() -> None:
    """Without a hash for every entry pip refuses the file; an address would bind it to one place."""
    assert ENTRIES
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", each) for each in ENTRIES)
    assert not re.search(r"://|^--?[a-z]", LOCK, re.MULTILINE)
