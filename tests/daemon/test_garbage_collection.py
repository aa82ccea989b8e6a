"""Python's search for garbage while the daemon runs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, time
from kubesched.daemon import garbage_collection

def longest(work):
    began, seconds = [0.0], [0.0]
    def note(phase, info):
        if phase == "start":
            began[0] = time.process_time()
        else:
            seconds.append(time.process_time() - began[0])
    gc.callbacks.append(note)
    work()
    gc.callbacks.remove(note)
    return max(seconds)

def churn():
    kept = [[] for _ in range(300_000)]
    gc.collect()

cluster = [{"pod": [number]} for number in range(300_000)]
before = longest(churn)
garbage_collection.begin()
garbage_collection.settle()
assert gc.get_freeze_count() > 600_000
cluster = None
a = []; a.append(a); del a
assert gc.collect() >= 1
print(before, longest(churn))
garbage_collection.begin()
assert gc.get_freeze_count() == 0
"""


def test_what_was_there_at_the_start_is_not_looked_through_again() -> None:
    """After the cluster has been taken in, a full search for garbage takes no longer than what is new deserves; new
    garbage is still found."""
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    before, after = map(float, output.split())
    assert after < before / 1.5
