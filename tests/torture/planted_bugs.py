"""Plants bugs, one at a time, in a copy of the process, and tells which of them the simulation finds.

    python -m tests.torture.planted_bugs                 all of them, up to 40 stories each
    python -m tests.torture.planted_bugs --write         remember which seed has found which bug
    python -m tests.torture.planted_bugs --stories 100 --only leader

A bug is a text in a file that is replaced by another. The program forks; the child compiles the changed file and gives
its functions the changed code. A bug counts as found when a story breaks an invariant, or does not come to its end.
Without the bug the same story must hold.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
import json
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tests.torture.bugs import BUGS, Bug

from kubesched.torture.run import run_story
from kubesched.torture.story import story_of

ROOT = Path(__file__).parents[2]
RICH = (2805, 1502, 1227, 1409, 806, 2054, 2298, 1119, 2968, 278, 41, 282, 225, 0)
"""Seeds of stories in which much happens. They come first, so that most bugs are found soon."""
HINTS = Path(__file__).with_name("found_by.json")
"""The seed that has found each bug. It is only tried first: what counts is that the story fails today."""
LOOKED_AT = 400
"""Seeds among which stories are chosen that suit a bug."""
SECONDS = 15
"""Processor time after which a story does not end."""


def plant(bug: Bug) -> None:
    """Put a bug into this process. Raises ValueError if its place is not there once."""
    file = ROOT / "src" / "kubesched" / bug.file
    text = file.read_text()
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.words}: its place is {text.count(bug.old)} times in {bug.file}")
    module = importlib.import_module("kubesched." + bug.file.removesuffix(".py").replace("/", "."))
    functions = dict(_functions(module))
    good = dict(_codes(compile(text, str(file), "exec")))
    changed = 0
    for name, code in _codes(compile(text.replace(bug.old, bug.new), str(file), "exec")):
        if name in functions and code.co_code + repr(code.co_consts).encode() != (
            good[name].co_code + repr(good[name].co_consts).encode()
        ):
            functions[name].__code__ = code
            changed += 1
    if not changed:
        raise ValueError(f"{bug.words}: no function has changed")


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The functions of a module and of its classes, by qualified name."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if "<" not in each.co_qualname:
                yield each.co_qualname, each
            yield from _codes(each)


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for owner in (module, *(each for each in vars(module).values() if inspect.isclass(each))):
        for each in vars(owner).values():
            function = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
            function = inspect.unwrap(function) if callable(function) else function
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function.__qualname__, function


def find(bug: Bug, stories: int) -> str:
    """Run stories with the bug, in a process of their own. Returns how it was found, or "missed"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "NOT PLANTED"
        try:
            plant(bug)
            answer = "a simulation that ended with an error"
            answer = _first_violation(bug, stories)
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return answer or "a story that did not end"


def _seeds(bug: Bug, stories: int) -> list[int]:
    """First the seed that found this bug the last time, then stories in which what it needs happens, then others."""
    hints = json.loads(HINTS.read_text())
    first = [hints[bug.words]] if bug.words in hints else []
    likely = [seed for seed in range(LOOKED_AT) if bug.meets and _happens(bug.meets, seed)]
    return list(dict.fromkeys([*first, *likely[: stories // 2], *RICH, *range(stories)]))[:stories]


def _happens(pattern: str, seed: int) -> bool:
    return any(re.search(pattern, str(step)) for step in story_of(seed).steps)


def _first_violation(bug: Bug, stories: int) -> str:
    gc.freeze()
    for seed in _seeds(bug, stories):
        used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
        resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, resource.RLIM_INFINITY))
        found = run_story(seed).violation
        if found is not None:
            return f"seed {seed}, {found.invariant}"
    return "missed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--stories", type=int, default=40, help="how many stories to run for a bug")
    parser.add_argument("--skip", type=int, default=0, help="how many bugs of the list to leave out")
    parser.add_argument("--write", action="store_true", help="write down which seed has found which bug")
    parser.add_argument("--only", default="", help="only bugs with this text in their file or description")
    options = parser.parse_args()
    bugs = [bug for bug in BUGS[options.skip :] if options.only in f"{bug.file} {bug.words}"]
    run_story(0)  # so that everything is imported and built before the first fork
    missed, hints, seeds = [], json.loads(HINTS.read_text()), set()
    for bug in bugs:
        result = find(bug, options.stories)
        found = result not in ("missed", "NOT PLANTED")
        missed += [] if found else [bug.words]
        if found and result.startswith("seed "):
            hints[bug.words] = int(result.split()[1].rstrip(","))
            seeds.add(hints[bug.words])
        print(f"{bug.file}: {bug.words}: {f'found by {result}' if found else result}", flush=True)
    for seed in sorted(seeds):
        if (violation := run_story(seed).violation) is not None:
            sys.exit(f"seed {seed} fails without any bug: {violation}")
    if options.write:
        HINTS.write_text(json.dumps(hints, indent=1, sort_keys=True) + "\n")
    print(f"{len(bugs) - len(missed)} of {len(bugs)} found; missed: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
