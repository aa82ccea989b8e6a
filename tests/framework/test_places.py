"""Where a plugin is defined, found while reading as little of the file as possible."""

from __future__ import annotations

import sys
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kubesched import Plugin
from kubesched.framework.places import place_of

PROSE = """Isn't this
(among other things,
a document?

```python
import kubesched


@kubesched.filter
def awake(pod, node):
    return None
```
"""


def test_a_function_in_a_document(tmp_path: Path) -> None:
    """A function in a document is found although the text around it is not Python."""
    document = tmp_path / "README.md"
    document.write_text(PROSE)
    names: dict[str, Any] = {"__name__": "example"}
    block = PROSE[PROSE.index("import") : PROSE.rindex("```")]
    exec(compile(block, str(document), "exec"), names)
    assert place_of(names["awake"]) == f"{document}:4"  # of the block, which is all that was compiled


def test_a_class_in_a_file_that_broke_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The location of a class is still found after its file was broken."""
    (tmp_path / "breaking.py").write_text("class Mine:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "breaking", raising=False)
    mine = import_module("breaking").Mine
    (tmp_path / "breaking.py").write_text("class Mine(\n")
    assert place_of(mine).endswith(("breaking.Mine", "breaking.py:1"))  # from 3.13 on a class knows its line


def test_a_wrapped_function_is_where_it_is_written() -> None:
    """A wrapped function is located at its definition, not at the wrapper."""

    class Mine(Plugin):
        name = "Mine"

        def filter(self) -> None: ...

    @wraps(place_of)
    def wrapper() -> None: ...

    assert place_of(wrapper).endswith(place_of(place_of))
    assert "places.py:" in place_of(wrapper)
    line = Mine.filter.__code__.co_firstlineno
    assert place_of(Mine.filter).endswith(f"test_places.py:{line}")
    assert place_of(Mine).endswith(f"test_places.py:{line - 3}")
    assert place_of(len) == "builtins.len"
