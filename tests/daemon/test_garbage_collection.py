"""Python's search for garbage while the daemon runs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from kubesched.daemon import garbage_collection

def searched():
    kept = [[] for _ in range(300_000)]
    gc.collect()
    return len(gc.get_objects())

cluster = [{"pod": [number]} for number in range(300_000)]
before = searched()
garbage_collection.begin()
garbage_collection.settle()
assert gc.get_freeze_count() > 600_000
cluster = None
a = []; a.append(a); del a
assert gc.collect() >= 1
print(before, searched())
garbage_collection.begin()
assert gc.get_freeze_count() == 0
"""


def test_what_was_there_at_the_start_is_not_looked_through_again() -> None:
    """After the cluster has been taken in, a full search for garbage looks only at what is new; new garbage is still
    found."""
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    before, after = map(int, output.split())
    assert before > 900_000
    assert after < 400_000
