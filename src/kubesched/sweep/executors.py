"""Where runs happen: processes here, joblib, a Dask or Ray cluster, or any other `concurrent.futures.Executor`."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

PROCESSES = "processes"
T = TypeVar("T")


class ExecutorError(Exception):
    """There is no such executor. The message says what to do."""


@contextmanager
def opened_executor(spec: str = PROCESSES, workers: int | None = None) -> Iterator[Executor]:
    """An executor by its name.

    ``processes``; ``joblib``; ``dask:tcp://host:8786``; ``ray``, or ``ray:ADDRESS`` for a cluster; ``module:function``
    for a function that returns an executor.
    """
    kind, _, rest = spec.partition(":")
    if spec == PROCESSES:
        # Forked workers would inherit threads and open files; fresh ones are the same everywhere.
        context = multiprocessing.get_context("spawn")
        count = workers or os.cpu_count()
        with ProcessPoolExecutor(count, mp_context=context, initializer=_end_with_others) as processes:
            yield processes
    elif spec == "joblib":
        with _joblib(workers) as reusable:
            yield reusable
    elif kind == "dask" and rest:
        with _dask(rest) as cluster:
            yield cluster
    elif kind == "ray":
        with _ray(rest, workers) as actors:
            yield actors
    elif rest:
        with _made(kind, rest) as made:
            yield made
    else:
        raise ExecutorError(f"{spec!r} is no executor; give processes, joblib, dask:ADDRESS, ray or module:function")


def _end_with_others() -> None:
    """Let this process end without a traceback at Ctrl-C, which a terminal sends to all processes, and when the one
    that gives it work is killed, because it would wait for more for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise ExecutorError("a Dask cluster needs Dask: pip install 'kubesched[dask]'") from None
    try:
        client = Client(address, timeout="10s")  # type: ignore[no-untyped-call]  # Dask has no types
    except (OSError, ValueError) as error:
        raise ExecutorError(f"dask:{address}: {error}; is the scheduler running there?") from None
    with client, client.get_executor(pure=False) as executor:  # type: ignore[no-untyped-call]  # Dask has no types
        yield executor


def _joblib(workers: int | None) -> Executor:
    try:
        loky = importlib.import_module("joblib.externals.loky")
    except ImportError:
        raise ExecutorError("joblib is not installed: pip install 'kubesched[joblib]'") from None
    made: Executor = loky.get_reusable_executor(workers or os.cpu_count())
    return made


class RayExecutor(Executor):
    """Ray as an executor: each call is a remote task of one CPU."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote = ray.remote(_called)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = self._remote.remote(fn, args, kwargs).future()
        return future


def _called(function: Callable[..., T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> T:
    return function(*args, **kwargs)


@contextmanager
def _ray(address: str, workers: int | None) -> Iterator[Executor]:
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise ExecutorError("Ray is not installed: pip install 'kubesched[ray]'") from None
    try:
        ray.init(address=address or None, num_cpus=None if address else workers, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ExecutorError(f"ray:{address}: {error}; is the cluster running there?") from None
    try:
        yield RayExecutor(ray)
    finally:
        ray.shutdown()


def _made(module: str, name: str) -> Executor:
    try:
        made = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ExecutorError(f"{module}:{name}: {error}") from None
    if not isinstance(made, Executor):
        raise ExecutorError(f"{module}:{name} returned {type(made).__name__}, not a concurrent.futures.Executor")
    return made
