"""The site is whole: every page is in its navigation, links lead to pages, and the generated reference is current."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.pages import Script
from tests.site.commands import all_commands
from tests.site.configuration import meanings
from tests.site.hooks import links, repository_path, rewritten
from tests.site.markdown import ROOT
from tests.site.reference import FOLDER, PAGES

from kubesched.config.args import ARGS
from kubesched.config.types import Extender, KubeSchedulerConfiguration, KubeSchedulerProfile, LeaderElection


def settings() -> dict[str, Any]:
    """The file mkdocs.yml."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    return read


def uris(nav: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(nav, str):
        yield nav
        return
    for each in nav if isinstance(nav, list) else nav.values():
        yield from uris(each)


def test_every_page_is_in_the_navigation_once() -> None:
    """The navigation has all pages of docs/ and all descriptions of examples, and no others."""
    found = sorted(repository_path(uri) for uri in uris(settings()["nav"]))
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")]
    assert found == sorted(path.relative_to(ROOT).as_posix() for path in pages)


def test_the_navigation_has_four_parts() -> None:
    """After the front page come tutorial, how-to, concepts and reference."""
    assert [name for part in settings()["nav"] for name in part] == [
        "Home",
        "Tutorial",
        "How-to",
        "Concepts",
        "Reference",
    ]


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_current(name: str) -> None:
    """A generated page says what the code says now."""
    assert (FOLDER / name).read_text("utf-8") == PAGES[name](), "run make docs and commit what it changes"


def test_every_command_has_a_section() -> None:
    """The page of commands has a section for each, and every section has a text."""
    text = (FOLDER / "commands.md").read_text("utf-8")
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    assert list(sections) == [name for name, _ in all_commands()]
    assert all(len(re.sub(r"```.*?```", "", each, flags=re.DOTALL).split()) > 5 for each in sections.values())


@pytest.mark.parametrize(
    "struct", [KubeSchedulerConfiguration, KubeSchedulerProfile, LeaderElection, Extender, *ARGS.values()]
)
def test_every_field_has_a_meaning(struct: type[msgspec.Struct]) -> None:
    """The source says what each field of the configuration is for, which the reference repeats."""
    assert {field.name for field in msgspec.structs.fields(struct)} <= meanings(struct).keys()


def test_every_annotation_is_on_its_page() -> None:
    """The page has every annotation of kubesched that is named in the guides."""
    known = (FOLDER / "annotations.md").read_text("utf-8")
    named = {
        name
        for path in ROOT.glob("docs/guides/*.md")
        for name in re.findall(r"`(kubesched\.io/[a-z-]+)[`=:]", path.read_text("utf-8"))
    }
    assert len(named) > 5
    assert {name for name in named if f"`{name}`" not in known} == set()


def test_links_out_of_the_documents_lead_into_the_site() -> None:
    """Files of the repository are at the same place of the site, and folders lose their link."""
    text = "[a](../../examples/gpus/pods.yaml), [b](../../examples/contrib), [c](up.md#x) and [d](https://e.org/a)"
    assert (
        rewritten("guides/devices.md", text)
        == "[a](../examples/gpus/pods.yaml), b, [c](up.md#x) and [d](https://e.org/a)"
    )
    assert rewritten("examples/gpus/README.md", "[a](../../docs/guides/up.md)") == "[a](../../guides/up.md)"
    assert list(links("index.md", "```\n[x](y)\n```\n[a](tutorial.md)")) == ["docs/tutorial.md"]


def test_the_tutorial_can_be_typed(script: Callable[[str], Script], tmp_path: Path) -> None:
    """All commands for a shell succeed from top to bottom in an empty folder, with the results that the page names."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script("docs/tutorial.md").take())],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ask for cpu 8 instead of 10: it goes to large" in done.stdout
    assert "goes to large at the next try" in done.stdout
    assert re.search(r"large +has_licence +node\(s\) had no licence for matlab", done.stdout)
