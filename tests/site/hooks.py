"""Hooks of mkdocs: pages link to files of the repository outside docs/, which the site has too."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from tests.site.markdown import ROOT

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


def repository_path(uri: str) -> str:
    """Where a file of the site is in the repository: what mkdocs knows is in docs/, unless it is an example."""
    return uri if uri.startswith("examples/") else f"docs/{uri}"


def site_path(path: str) -> str:
    """Where a file of the repository is on the site."""
    return path.removeprefix("docs/")


def links(uri: str, text: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    here = posixpath.dirname(repository_path(uri))
    for part in _FENCE.split(text)[::2]:
        for _, target, _ in _LINK.findall(part):
            if "://" not in target:
                yield posixpath.normpath(posixpath.join(here, target))


def rewritten(uri: str, text: str) -> str:
    """The text with links as the site needs them. A folder has no page, so that its name stays without a link."""
    here = repository_path(uri)

    def replace(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        if (ROOT / path).is_dir():
            return label
        return f"[{label}]({posixpath.relpath(site_path(path), posixpath.dirname(uri) or '.')}{anchor})"

    parts = _FENCE.split(text)
    return "".join(part if index % 2 else _LINK.sub(replace, part) for index, part in enumerate(parts))


def on_files(files: Any, config: Any) -> Any:
    """Add the examples' pages, and every file that some page links to."""
    from mkdocs.structure.files import File

    pages = {each.src_uri: each.content_string for each in files if each.src_uri.endswith(".md")}
    for path in sorted(ROOT.glob("examples/**/README.md")):
        pages[path.relative_to(ROOT).as_posix()] = path.read_text("utf-8")
    wanted = set(pages) | {site_path(path) for uri, text in pages.items() for path in links(uri, text)}
    for uri in sorted(wanted):
        if files.get_file_from_path(uri) is None and (ROOT / uri).is_file():
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / uri)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page before mkdocs reads it."""
    return rewritten(page.file.src_uri, markdown)
