"""Documents on a terminal, as Markdown, and as a page of HTML that stands by itself; data as JSON and YAML."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import Any, TextIO, cast

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as RichText

from kubesched.explain.document import Block, Heading, Items, Table, Text

STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:.5rem 0}th,td{text-align:left;vertical-align:top;padding:.25rem .75rem;"
    "border-bottom:1px solid #8886}code{font-size:.9em;overflow-wrap:anywhere}"
    "figure{margin:1rem 0}svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:currentColor}"
)
GAP = 3
"""Spaces between columns."""
RULE = "\u2500"
_SPECIAL = "\\`*_{}[]<>#|~"


def show(blocks: Iterable[Block], console: Console) -> None:
    """Print to a terminal, in its width. Text from the cluster is never read as markup."""
    before: Block | None = None
    for block in blocks:
        if before is not None and (isinstance(block, Heading) or isinstance(before, Table)):
            console.print()
        before = block
        if isinstance(block, Heading):
            _show_text(block.text, console, "bold" if block.level == 1 else "bold cyan")
        elif isinstance(block, Text):
            _show_text(block.text, console)
        elif isinstance(block, Items):
            _show_items(block, console)
        else:
            _show_table(block, console)


def _show_text(text: str, console: Console, style: str = "", start: str = "") -> None:
    """Print a paragraph after `start`, in the width of the terminal. Words stay whole."""
    lines = "\n".join(_hanging(start, _wrapped(_printable(text), console.width - len(start))))
    console.print(RichText(lines, style=style), soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _hanging(start: str, lines: Sequence[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        yield (start if not index else " " * len(start)) + line


def _printable(text: str) -> str:
    """Text that is no command to the terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def _show_items(block: Items, console: Console) -> None:
    for number, (text, commands) in enumerate(block.items, 1):
        _show_text(text, console, start=f"{number}. " if block.numbered else "- ")
        for command in commands:
            # The terminal breaks the line, not we, so that it can be copied.
            console.print(RichText(f"   {_printable(command)}", style="dim"), soft_wrap=True)


def _show_table(block: Table, console: Console) -> None:
    """Print a table whose cells break between words only; if the terminal is too narrow for that, a list of records."""
    rows = [[_printable(cell) for cell in row] for row in (block.columns, *block.rows)]
    widths = _fitted(list(zip(*rows, strict=True)), console.width - GAP * (len(block.columns) - 1))
    if widths is None:
        _show_records(rows, console)
        return
    head, *body = rows
    for line in _lines(head, widths):
        console.print(RichText(line, style="bold"), soft_wrap=True)
    lines = (line for row in body for line in _lines(row, widths))
    console.out(RULE * sum(widths, GAP * (len(widths) - 1)), *lines, sep="\n", highlight=False)


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row. Most rows have one, and wrapping takes most of the time."""
    if all(len(cell) <= width for cell, width in zip(row, widths, strict=True)):
        yield _line(row, widths)
        return
    wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    for cells in zip_longest(*wrapped, fillvalue=""):
        yield _line(cells, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))
    return (" " * GAP).join(padded).rstrip()


def _fitted(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Widths that fit the room: the widest columns give way, but never below their longest word."""
    widths = [max(map(cell_len, column)) for column in columns]
    least = [max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [width - low for width, low in zip(widths, least, strict=True)]
        widest = max(range(len(widths)), key=lambda index: (spare[index] > 0, widths[index]))
        widths[widest] -= 1
    return widths


def _show_records(rows: Sequence[Sequence[str]], console: Console) -> None:
    """A line per cell, with the column's name before it; an empty line between rows."""
    (first, *others), *body = rows
    margin = max(map(len, (first, *others))) + GAP
    for index, row in enumerate(body):
        if index:
            console.out("")
        console.print(RichText(first.ljust(margin)), RichText(row[0], style="bold"), sep="", soft_wrap=True)
        for name, cell in zip(others, row[1:], strict=True):
            if cell not in ("", "-"):
                _show_text(cell, console, start=name.ljust(margin))


def as_markdown(blocks: Iterable[Block]) -> str:
    """Markdown, with everything from the cluster escaped."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_escaped(block.text)}"
    if isinstance(block, Text):
        return _escaped(block.text)
    if isinstance(block, Items):
        lines = []
        for number, (text, commands) in enumerate(block.items, 1):
            lines.append(f"{number}. {_escaped(text)}" if block.numbered else f"- {_escaped(text)}")
            lines += [f"\n       {command}" for command in commands]
        return "\n".join(lines)
    rows = [block.columns, ["---"] * len(block.columns), *([_escaped(cell) for cell in row] for row in block.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escaped(text: str) -> str:
    return "".join(f"\\{each}" if each in _SPECIAL else each for each in text)


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture for a page: SVG that was made here, with nothing from outside in it unescaped."""

    svg: str


def as_html(title: str, blocks: Iterable[Block | Figure]) -> str:
    """A page without scripts and without links to elsewhere."""
    body = "\n".join(map(_html, blocks))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _html(block: Block | Figure) -> str:
    if isinstance(block, Figure):
        return f"<figure>{block.svg}</figure>"
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Text):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Items):
        tag = "ol" if block.numbered else "ul"
        return f"<{tag}>" + "".join(f"<li>{_item(text, commands)}</li>" for text, commands in block.items) + f"</{tag}>"
    head = "".join(f"<th>{escape(each)}</th>" for each in block.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in block.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _item(text: str, commands: tuple[str, ...]) -> str:
    return escape(text) + "".join(f"<br><code>{escape(each)}</code>" for each in commands)


# Data


def as_json(data: Mapping[str, Any]) -> str:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def as_yaml(data: Mapping[str, Any]) -> str:
    """YAML of plain data. A library takes seconds for the verdicts on 5,000 nodes."""
    return "\n".join(_mapping(data, "")) + "\n"


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_NOT_STRINGS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])


def _mapping(data: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{indent}{_scalar(key)}:", value, indent)


def _entry(start: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield start
        yield from _mapping(value, indent + "  ")
    elif isinstance(value, list | tuple) and value:
        yield start
        yield from _sequence(value, indent)
    else:
        yield f"{start} {_scalar(value)}"


def _sequence(values: Sequence[Any], indent: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping | list | tuple) and value:
            inner = indent + "  "
            lines = _mapping(value, inner) if isinstance(value, Mapping) else _sequence(value, inner)
            first = next(iter(lines))
            yield f"{indent}- {first[len(inner) :]}"
            yield from lines
        else:
            yield f"{indent}- {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_STRINGS:
        return value
    # JSON is YAML. Lists and objects that come here are empty.
    return json.dumps(value, ensure_ascii=False)


class _Trimmed:
    """A text stream that writes lines without the blanks at their ends."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(re.sub(r" +((?:\x1b\[[0-9;]*m)*)$", r"\1", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def data_console(*, highlight: bool = True) -> Console:
    """A console for standard output whose lines have no blanks at their ends, also in tables with padded columns."""
    return Console(file=cast(TextIO, _Trimmed(sys.stdout)), highlight=highlight)
