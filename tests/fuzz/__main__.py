"""python -m tests.fuzz: try every target with damaged input for a while, other input each day. `make fuzz` runs it.

Each target has a process of its own, of limited memory. The kept corpus comes first, then one round of
examples after the other. The seeds of the rounds follow from the day, so that a failure can be repeated: its input and
the command are printed.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import click
import hypothesis
from hypothesis import HealthCheck, given, settings
from tests.fuzz.damage import CORPUS
from tests.fuzz.servers import limit_memory
from tests.fuzz.targets import TARGETS, Check
from tests.torture.today import first_seed

ROUND = settings(
    max_examples=200,
    database=None,
    deadline=None,
    derandomize=False,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
HANG_CPU_SECONDS = 60.0
HANG_SECONDS = 900
"""One input takes milliseconds, and a large one a few seconds. After so much CPU time, or after so long if it waits for
something, the stack is printed and the process ends. A busy machine must not look like a hang."""
SHOWN = 2000
INPUTS = Path(".cache/fuzz")
"""The last input of each target, in a file, because a crash or a hang leaves nothing else."""


class Watched:
    """A check with a time limit. It notes each input before it is tried."""

    def __init__(self, check: Check, file: Path) -> None:
        self._check = check
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.tried = 0
        faulthandler.register(signal.SIGVTALRM, chain=True)  # prints the stack, and the default action ends the process

    def __call__(self, data: bytes) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, HANG_CPU_SECONDS)
        self._check(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.cancel_dump_traceback_later()
        self.tried += 1


def run_round(check: Watched, name: str, seed: int) -> None:
    """Try some hundred inputs; the same seed gives the same ones."""

    @hypothesis.seed(seed)
    @ROUND
    @given(TARGETS[name].examples)
    def inputs(data: bytes) -> None:
        check(data)

    inputs()


def fuzz(name: str, first: int, seconds: float) -> None:
    """Try one target in this process: the corpus, then rounds until the time is up. An exception is a finding.

    It prints the seed of each round before, and the number of inputs after it.
    """
    INPUTS.mkdir(parents=True, exist_ok=True)
    with TARGETS[name].opened() as opened:
        limit_memory()
        check, until = Watched(opened, INPUTS / name), time.monotonic() + seconds
        print("corpus", flush=True)
        for path in sorted((CORPUS / TARGETS[name].corpus).iterdir()):
            check(path.read_bytes())
        seed = first
        while seed == first or time.monotonic() < until:
            print(seed, flush=True)
            run_round(check, name, seed)
            seed += 1
    print(check.tried, flush=True)


def run_target(name: str, first: int, minutes: float) -> bool:
    """Try one target in another process. Returns whether nothing was found, and prints what was."""
    command = [sys.executable, "-m", "tests.fuzz", "--in-this-process", "--seed", str(first), "--minutes", str(minutes)]
    result = subprocess.run([*command, name], capture_output=True, text=True, errors="replace", check=False)
    printed = result.stdout.split()
    if result.returncode == 0:
        click.echo(f"{name}: {int(printed[-1]):,} inputs, seeds {first} to {printed[-2]}, nothing found")
        return True
    click.echo(f"{name}: FAILED\n{result.stderr[-20_000:]}\n{_last_input(name)}\n{_how_to_replay(name, printed)}")
    return False


def _last_input(name: str) -> str:
    file = INPUTS / name
    if not file.exists():
        return "No input was tried yet."
    data = file.read_bytes()
    dots = "…" if len(data) > SHOWN else ""
    return f"The input has {len(data):,} bytes and is in {file}:\n{data[:SHOWN]!r}{dots}"


def _how_to_replay(name: str, printed: list[str]) -> str:
    seed = printed[-1] if printed and printed[-1].isdigit() else ""
    return (
        f"Replay it: make fuzz TARGETS={name} {f'SEED={seed} ' if seed else ''}MINUTES=0\n"
        f"When it is mended, keep the input: cp {INPUTS / name} {os.path.relpath(CORPUS / TARGETS[name].corpus)}"
    )


@click.command()
@click.argument("targets", nargs=-1, type=click.Choice(list(TARGETS)))
@click.option("--minutes", default=1.0, help="How long each target is tried. With 0, the corpus and one round.")
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Run the seeds of another day.")
@click.option("--seed", type=int, help="The seed of the first round, instead of the day's.")
@click.option("--at-once", default=2, help="How many targets are tried at once.")
@click.option("--in-this-process", is_flag=True, hidden=True)
def main(
    targets: tuple[str, ...],
    minutes: float,
    day: datetime | None,
    seed: int | None,
    at_once: int,
    in_this_process: bool,
) -> None:
    """Try TARGETS, all without an argument, with damaged input. The exit code is 1 if something was found."""
    first = seed if seed is not None else first_seed(day or datetime.now(UTC))
    if in_this_process:
        fuzz(targets[0], first, minutes * 60)
        return
    click.echo(f"{minutes:g} minutes each, from seed {first}")
    with ThreadPoolExecutor(at_once) as pool:
        good = list(pool.map(lambda name: run_target(name, first, minutes), targets or TARGETS))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
