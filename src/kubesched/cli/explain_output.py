"""Explanations on a terminal, as Markdown, and as a page of HTML that stands by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from kubesched.explain.document import Block, Heading, Items, Table, Text

STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:.5rem 0}th,td{text-align:left;vertical-align:top;padding:.25rem .75rem;"
    "border-bottom:1px solid #8886}code{font-size:.9em;overflow-wrap:anywhere}"
)
GAP = 2
"""Spaces after a column; the box adds another."""
_SPECIAL = "\\`*_{}[]<>#|~"


def show(blocks: Iterable[Block], console: Console) -> None:
    """Print to a terminal, in its width. Text from the cluster is never read as markup."""
    for index, block in enumerate(blocks):
        if isinstance(block, Heading):
            if index:
                console.print()
            console.print(_plain(block.text, style="bold" if block.level == 1 else "bold cyan"))
        elif isinstance(block, Text):
            console.print(_plain(block.text))
        elif isinstance(block, Items):
            _show_items(block, console)
        else:
            console.print(_table(block, console))


def _plain(text: str, **style: Any) -> RichText:
    """Text that is neither markup nor a command to the terminal."""
    return RichText("".join(each if each.isprintable() else "?" for each in text), **style)


def _show_items(block: Items, console: Console) -> None:
    for number, (text, commands) in enumerate(block.items, 1):
        line = RichTable.grid(padding=(0, 1, 0, 0))
        line.add_row(f"{number}." if block.numbered else "-", _plain(text))
        console.print(line)
        for command in commands:
            # The terminal breaks the line, not we, so that it can be copied.
            console.print(_plain(f"   {command}", style="dim"), soft_wrap=True)


def _table(block: Table, console: Console) -> RichTable:
    """A table whose cells break between words only; if the terminal is too narrow for that, a list of records."""
    cells = [block.columns, *block.rows]
    columns = [[row[index] for row in cells] for index in range(len(block.columns))]
    widths = _fitted(columns, console.width - (GAP + 1) * len(columns))
    if widths is None:
        return _records(block)
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP, 0, 0))
    for name, width in zip(block.columns, widths, strict=True):
        table.add_column(_plain(name), width=width, overflow="fold")
    for row in block.rows:
        table.add_row(*map(_plain, row))
    return table


def _fitted(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Widths that fit the room: the widest columns give way, but never below their longest word."""
    widths = [max(map(len, column)) for column in columns]
    least = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [width - low for width, low in zip(widths, least, strict=True)]
        widest = max(range(len(widths)), key=lambda index: (spare[index] > 0, widths[index]))
        widths[widest] -= 1
    return widths


def _records(block: Table) -> RichTable:
    """A line per cell, with the column's name before it; an empty line between rows."""
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    first, *others = block.columns
    for row in block.rows:
        grid.add_row(_plain(first), _plain(row[0], style="bold"))
        for name, cell in zip(others, row[1:], strict=True):
            if cell not in ("", "-"):
                grid.add_row(_plain(name), _plain(cell))
        grid.add_row("", "")
    return grid


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


def as_html(title: str, blocks: Iterable[Block]) -> str:
    """A page without scripts and without links to elsewhere."""
    body = "\n".join(map(_html, blocks))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _html(block: Block) -> str:
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
