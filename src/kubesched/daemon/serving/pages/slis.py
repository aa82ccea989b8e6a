"""/metrics/slis: the results of health checks as metrics, from which availability is computed."""

from __future__ import annotations

import time

from kubesched.scheduler.metric_types import STABLE, go_float

HEALTHCHECK = "kubernetes_healthcheck"
HEALTHCHECKS = "kubernetes_healthchecks_total"


class Slis:
    """Counts outcomes by check and by page."""

    def __init__(self, started: float | None = None) -> None:
        self._started = time.time() if started is None else started
        self._last: dict[tuple[str, str], bool] = {}
        self._counts: dict[tuple[str, str, str], int] = {}

    def observe(self, check: str, kind: str, passed: bool) -> None:
        """Count the outcome of a check."""
        self._last[check, kind] = passed
        key = (check, kind, "success" if passed else "error")
        self._counts[key] = self._counts.get(key, 0) + 1

    def reset(self) -> None:
        """Forget everything."""
        self._last.clear()
        self._counts.clear()

    def render(self) -> str:
        """Return the page in Prometheus' text format."""
        lines: list[str] = []
        if self._last:
            lines += _heading(HEALTHCHECK, "This metric records the result of a single healthcheck.", "gauge")
            lines += [
                f'{HEALTHCHECK}{{name="{check}",type="{kind}"}} {int(passed)}'
                for (check, kind), passed in sorted(self._last.items())
            ]
        if self._counts:
            lines += _heading(HEALTHCHECKS, "This metric records the results of all healthcheck.", "counter")
            lines += [
                f'{HEALTHCHECKS}{{name="{check}",status="{outcome}",type="{kind}"}} {count}'
                for (check, kind, outcome), count in sorted(self._counts.items())
            ]
        name = "process_start_time_seconds"
        lines += [
            f"# HELP {name} [ALPHA] Start time of the process since unix epoch in seconds.",
            f"# TYPE {name} gauge",
            f"{name} {go_float(self._started)}",
        ]
        return "\n".join(lines) + "\n"


def _heading(name: str, text: str, kind: str) -> list[str]:
    return [f"# HELP {name} [{STABLE}] {text}", f"# TYPE {name} {kind}"]
