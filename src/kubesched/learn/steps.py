"""The list of steps: where each one is, what it teaches, and how to run it."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kubesched.simulator.python_file import of_module
from kubesched.simulator.scenario import Scenario

NAMES = (
    "step1_random",
    "step2_filter",
    "step3_score",
    "step4_prescore",
    "step5_permit",
    "step6_queue",
    "step7_events",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One of the seven steps."""

    number: int
    name: str

    @property
    def path(self) -> Path:
        return Path(__file__).parent / f"{self.name}.py"

    @property
    def code(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"kubesched.learn.{self.name}")

    @property
    def title(self) -> str:
        """One line that says what the step adds."""
        first = (self.module.__doc__ or "").splitlines()[0]
        return first.partition(": ")[2].rstrip(".")

    @property
    def text(self) -> str:
        """The explanation, one line per paragraph, so that it fits a terminal of any width."""
        paragraphs = (self.module.__doc__ or "").split("\n\n")[1:]
        return "\n\n".join(" ".join(each.split()) for each in paragraphs)

    @property
    def expected(self) -> str:
        """The expected outcome of the scenario."""
        return str(self.module.expected)

    def scenario(self) -> Scenario:
        return of_module(self.module, str(self.path), self.name)

    def diff(self) -> list[str]:
        """The unified diff from the previous step; for the first step, the whole file."""
        before = STEPS[self.number - 2].code.splitlines() if self.number > 1 else []
        names = (STEPS[self.number - 2].name if self.number > 1 else "nothing", self.name)
        return list(difflib.unified_diff(before, self.code.splitlines(), *names, lineterm=""))


STEPS = tuple(Step(number, name) for number, name in enumerate(NAMES, 1))
