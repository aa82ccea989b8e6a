"""Measuring beside other programs, and in a process that other tests have filled."""

from __future__ import annotations

import gc
import json
import time
from typing import Self

from kubesched.simulator import pod
from kubesched.simulator.scenario_client import as_json


class CpuTime:
    """CPU seconds of a block, without searches for garbage: in all that other tests have left, one takes long."""

    def __enter__(self) -> Self:
        gc.disable()
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._began
        gc.enable()


def seconds_of_encoding(times: int = 20_000) -> float:
    """CPU seconds per pod that is encoded and decoded: a peer, which takes as long as the machine is slow, and busy."""
    body = as_json(pod("peer", cpu="1", memory="4Gi", run_time="90m"))
    began = time.process_time()
    for _ in range(times):
        json.loads(json.dumps(body))
    return (time.process_time() - began) / times
