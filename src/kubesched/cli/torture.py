"""`kubesched torture`: the production scheduler in a deterministic simulation with faults."""

from __future__ import annotations

import sys
import time

import click

from kubesched.torture.campaign import Campaign, replay_command
from kubesched.torture.run import StoryOutcome, run_story


@click.command()
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="How many stories to run. [default: 100]")
@click.option("--seed", type=int, metavar="S", help="Run one story again, and print its steps.")
@click.option("--steps", metavar="N,N,…", help="With --seed: only these steps of the story.")
@click.option("--minutes", type=click.FloatRange(min=0), metavar="M", help="Start no story after this time.")
@click.option("--from", "first", default=0, metavar="S", help="The first seed. [default: 0]")
@click.option("--coverage", is_flag=True, help="Also list which fault met which code, and how often.")
def command(
    seeds: int | None, seed: int | None, steps: str | None, minutes: float | None, first: int, coverage: bool
) -> None:
    """Run the production scheduler in a deterministic simulation with faults, and check that nothing goes wrong.

    A seed makes up a story: a cluster, a workload, one to three schedulers with leader election, and what happens to
    them. Calls fail before or after they took effect, hang, come late or twice; watches break and lag; the API server
    restarts, or goes back to a backup; schedulers are killed and frozen at any step; clocks drift and jump; nodes
    vanish; plugins and extenders raise. After every moment the invariants are checked: no pod is bound twice or lost,
    every placement was allowed by what the scheduler had seen, all counters are right, one leader acts. When the faults
    have stopped, every pod that fits gets a node, and nothing is left behind.

    A story that fails is reduced to the few steps that it needs, and printed with the command that replays it. The exit
    code is 1 if a story fails, or if a kind of fault never happened in a thousand stories or more.
    """
    if steps and seed is None:
        raise click.UsageError("--steps belongs to a story; name it with --seed")
    if seed is not None:
        sys.exit(_replay(seed, _numbers(steps)))
    campaign = Campaign(progress=_progress)
    started = time.monotonic()
    limit = float("inf") if minutes is None else minutes * 60
    number = seeds if seeds is not None else 100 if minutes is None else sys.maxsize
    for each in range(first, first + number):
        if time.monotonic() - started >= limit:
            break
        failed = campaign.run(each)
        if failed is not None:
            click.echo(_failure(failed))
    click.echo(campaign.summary(time.monotonic() - started))
    if coverage:
        click.echo(campaign.coverage())
    sys.exit(1 if campaign.failed or campaign.never_happened() else 0)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(each) for each in text.split(",") if each.strip()]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers such as 0,4,7", param_hint="--steps") from None


def _replay(seed: int, steps: list[int] | None) -> int:
    outcome = run_story(seed, steps)
    for step in outcome.steps:
        click.echo(f"{step.number:4}  {step}")
    if outcome.violation is None:
        digest = f"{outcome.digest & 0xFFFFFFFF:08x}"
        click.echo(f"holds: {outcome.bound} pods bound, {outcome.decisions} decisions, digest {digest}")
        return 0
    click.echo(
        f"FAILED after step {outcome.steps[outcome.reached - 1].number if outcome.reached else 0}"
        f" at {outcome.violation.at:.3f}s: {outcome.violation}"
    )
    return 1


def _failure(failed: StoryOutcome) -> str:
    assert failed.violation is not None
    story = "\n".join(f"  {step}" for step in failed.steps[: failed.reached])
    return (
        f"seed {failed.seed} FAILED: {failed.violation}\n{story}\n  {failed.violation.at:6.1f}s  {failed.violation}\n"
        f"  replay it: {replay_command(failed)}"
    )


def _progress(text: str) -> None:
    click.echo(text, err=True)
