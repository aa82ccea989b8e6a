"""python -m tests.e2e.soak [--minutes M] [--seed S]: the long run, from the command line."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.parts import missing
from tests.e2e.soak.soak import Soak


def main() -> int:
    parser = argparse.ArgumentParser(description="Real parts, random kills, and the proof that nothing went wrong.")
    parser.add_argument("--minutes", type=float, default=60, help="how long things break [default: 60]")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="where chance comes from")
    options = parser.parse_args()
    if lacking := missing():
        print(f"no {', '.join(lacking)}: make parts builds them", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="kubesched-soak-"))
    print(f"seed {options.seed}, logs in {folder}", file=sys.stderr)
    soak = Soak(folder, options.seed, fsync=True)
    try:
        soak.run(options.minutes * 60)
    finally:
        print(soak.figures.report(), flush=True)
    return 1 if soak.figures.proof.problems else 0


if __name__ == "__main__":
    sys.exit(main())
