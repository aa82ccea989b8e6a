"""python -m tests.torture.today: as many stories as fit into the time, in two processes, others each day.

`make stories` runs it. A story that fails is printed, with the command that replays it.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import click

A_DAY = 1000
"""The seeds of one day."""
AT_ONCE = 2


def first_seed(day: datetime) -> int:
    """The first of the seeds of a day."""
    return day.toordinal() * A_DAY


@click.command()
@click.option("--minutes", default=2.0, help="No story starts after this time.")
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Run the stories of another day.")
def main(minutes: float, day: datetime | None) -> None:
    """Run the stories of the day. The exit code is 1 if one of them fails."""
    first, each = first_seed(day or datetime.now(UTC)), A_DAY // AT_ONCE
    kubesched = [sys.executable, "-c", "from kubesched.cli.main import main; main()"]
    running = []
    for start in range(first, first + A_DAY, each):
        options = ["torture", "--from", str(start), "--seeds", str(each), "--minutes", str(minutes)]
        click.echo(f"kubesched {' '.join(options)}")
        running.append(subprocess.Popen([*kubesched, *options]))
    sys.exit(max([process.wait() for process in running]))


if __name__ == "__main__":
    main()
