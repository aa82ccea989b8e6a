"""Reads the files of traces one row at a time: CSV, JSON lines and JSON arrays, perhaps compressed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from kubesched.traces.model import TraceError

CHUNK = 1 << 20
GZIP = b"\x1f\x8b"
LONGEST_TOKEN = 12
"""At least as long as an escape or a literal of JSON that the end of a chunk can cut."""
_BETWEEN = re.compile(r"[ \t\r\n,\[\]]*")
EMPTY = frozenset(("", "nan", "none", "null", "na"))


class TraceRow:
    """A row of a file, by names of columns."""

    __slots__ = ("_cells", "_line", "_path")

    def __init__(self, path: Path, line: int, cells: Mapping[str, Any]) -> None:
        self._path, self._line, self._cells = path, line, cells

    def __contains__(self, column: str) -> bool:
        return column in self._cells

    def text(self, *columns: str) -> str:
        """The first of these columns that is there; "" if it is empty, and for every way to write "none"."""
        for column in columns:
            value = self._cells.get(column)
            if value is not None:
                text = str(value).strip()
                return "" if text.lower() in EMPTY else text
        return ""

    def value(self, column: str) -> Any:
        """What JSON has under a name."""
        return self._cells.get(column)

    def part(self, cells: Mapping[str, Any]) -> TraceRow:
        """An object within this one."""
        return TraceRow(self._path, self._line, cells)

    def number(self, *columns: str, default: float | None = None) -> float:
        """A number; `default` where it is missing."""
        text = self.text(*columns)
        if not text and default is not None:
            return default
        try:
            number = float(text)
        except ValueError:
            raise self.problem(columns[0], text, "a number") from None
        if not abs(number) <= 2**63:
            raise self.problem(columns[0], text, "a finite number")
        return number

    def amount(self, *columns: str, default: float | None = None) -> float:
        """A number that is not negative."""
        number = self.number(*columns, default=default)
        if number < 0:
            raise self.problem(columns[0], self.text(*columns), "0 or more")
        return number

    def seconds(self, *columns: str) -> float | None:
        """A time as a number of seconds or a date; None where it is missing."""
        text = self.text(*columns)
        if not text:
            return None
        try:
            float(text)
        except ValueError:
            return self._moment(text, columns[0])
        return self.number(*columns)

    def _moment(self, text: str, column: str) -> float:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise self.problem(column, text, "seconds or a date such as 2020-04-01 00:30:00") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def problem(self, column: str, value: object, expected: str) -> TraceError:
        """An error that names the place."""
        found = f"is {value!r}" if value not in ("", None) else "is missing"
        return TraceError(f"{self._path}:{self._line}: {column} {found}; expected {expected}")


def rows(path: Path, names: Sequence[str] = ()) -> Iterator[TraceRow]:
    """The rows of a CSV file. With `names` it has no header; a header that is there anyway is skipped."""
    with opened(path) as file:
        lines = csv.reader(file)
        try:
            if not names:
                names = [each.strip() for each in next(lines, [])]
            first = True
            for cells in lines:
                if cells and not (first and cells[0] == names[0]):
                    yield TraceRow(path, lines.line_num, dict(zip(names, cells, strict=False)))
                first = False
        except csv.Error as error:
            raise TraceError(f"{path}:{lines.line_num}: not CSV: {error}") from None


def columns(path: Path) -> list[str]:
    """The cells of a CSV file's first line."""
    with opened(path) as file:
        lines = csv.reader(file)
        try:
            return [each.strip() for each in next(lines, [])]
        except csv.Error as error:
            raise TraceError(f"{path}:{lines.line_num}: not CSV: {error}") from None


def objects(path: Path) -> Iterator[TraceRow]:
    """The objects of JSON lines, or of one JSON array, which is not read as a whole."""
    decoder = json.JSONDecoder()
    with opened(path) as file:
        text, at, line, ended = "", 0, 1, False
        while True:
            begin = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            line, at = line + text.count("\n", at, begin), begin
            try:
                found, end = decoder.raw_decode(text, at)
            except json.JSONDecodeError as error:
                if ended and at == len(text):
                    return
                if ended or not _may_go_on(error, text):
                    place = f"{path}:{line + text.count(chr(10), at, error.pos)}"
                    raise TraceError(f"{place}: not JSON: {error.msg}; expected JSON lines or a JSON array") from None
                chunk = file.read(CHUNK)
                text, at, ended = text[at:] + chunk, 0, not chunk
                continue
            except (RecursionError, ValueError) as error:  # nested too deep; a number of thousands of digits
                raise TraceError(f"{path}:{line}: not JSON: {error}") from None
            if not isinstance(found, dict):
                raise TraceError(f"{path}:{line}: expected an object, got {found!r}")
            yield TraceRow(path, line, found)
            line, at = line + text.count("\n", at, end), end


def _may_go_on(error: json.JSONDecodeError, text: str) -> bool:
    """Whether more text could make an object whole. If not, the rest of the file is not read."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - LONGEST_TOKEN


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """A text file, decompressed if it is compressed with gzip, whatever its name is."""
    try:
        with path.open("rb") as stored:
            binary = gzip.GzipFile(fileobj=stored) if stored.peek(2)[:2] == GZIP else stored
            yield io.TextIOWrapper(cast(IO[bytes], binary), encoding="utf-8-sig", newline="")
    except UnicodeError as error:
        raise TraceError(f"{path}: not text: {error}; expected CSV or JSON, perhaps compressed with gzip") from None
    except (EOFError, zlib.error):
        raise TraceError(f"{path}: the compressed file is cut off or damaged; download it again") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
