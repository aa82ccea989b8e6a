"""Where runs happen: on the cores of this machine, on a Dask cluster, or on any other `concurrent.futures.Executor`."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

PROCESSES = "processes"


class ExecutorError(Exception):
    """There is no such executor. The message says what to do."""


@contextmanager
def opened_executor(spec: str = PROCESSES, workers: int | None = None) -> Iterator[Executor]:
    """``processes``, ``dask:tcp://host:8786``, or ``module:function`` for a function that returns an executor."""
    kind, _, rest = spec.partition(":")
    if spec == PROCESSES:
        # Forked workers would inherit threads and open files; fresh ones are the same everywhere.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=context) as processes:
            yield processes
    elif kind == "dask" and rest:
        with _dask(rest) as cluster:
            yield cluster
    elif rest:
        with _made(kind, rest) as made:
            yield made
    else:
        raise ExecutorError(f"{spec!r} is no executor; give processes, dask:ADDRESS or module:function")


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise ExecutorError("a Dask cluster needs Dask: pip install 'kubesched[dask]'") from None
    try:
        client = Client(address, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ExecutorError(f"dask:{address}: {error}; is the scheduler running there?") from None
    with client, client.get_executor(pure=False) as executor:  # type: ignore[no-untyped-call]
        yield executor


def _made(module: str, name: str) -> Executor:
    try:
        made = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ExecutorError(f"{module}:{name}: {error}") from None
    if not isinstance(made, Executor):
        raise ExecutorError(f"{module}:{name} returned {type(made).__name__}, not a concurrent.futures.Executor")
    return made
