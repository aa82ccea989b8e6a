"""Writes docs/reference/upstream-suite.md from `upstream_specs.txt`: ``python -m tests.e2e.upstream_page``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.upstream_suite import AREAS, Spec, specs

PAGE = Path(__file__).parents[2] / "docs/reference/upstream-suite.md"

REASONS = {
    "driver": "Needs a device driver in containers, which talks to the kubelet on its node",
    "webhook": "Needs a webhook server that runs in a pod",
    "server": "Needs an API server that runs in a pod",
    "output": "Reads what a container printed or wrote",
    "inside": "Talks to a program in a container",
    "shell": "Needs the outcome of a shell script in a container",
    "alpha": "Alpha features that are off by default and not there yet",
    "not-yet": "Does not work yet",
}
"""Why a spec does not pass, by its verdict."""
NEED_CONTAINERS = ("driver", "webhook", "server", "output", "inside", "shell")

_ABOUT = {
    "scheduling": "`[sig-scheduling]`, all",
    "devices": "`[DRA]`, all",
    "api-machinery": "`[sig-api-machinery]`, conformance",
    "apps": "`[sig-apps]`, conformance",
    "auth": "`[sig-auth]`, conformance",
}
_HEAD = """# Upstream's end-to-end suite

Kubernetes has an end-to-end suite of its own (`k8s.io/kubernetes/test/e2e`). It runs against any cluster, and so
against `kubesched up`. There are no containers here, so specs that need a program to run in one cannot pass.
`make parts` builds the suite from the Go module, once. On a clean machine the other parts take 13 minutes of CPU time
and the suite some minutes more; its binary has 109 MB.

```sh
make upstream-suite                  # all specs that pass, on three clusters at the same time
make upstream-suite AREA=scheduling  # one area
```

`make e2e` runs the specs that take few seconds each. Where the suite is not built, as on a new machine whose time for
building was used up by the other parts, it skips them and says so.

"""


def page() -> str:
    """The whole page."""
    return _HEAD + "\n".join([*_counts(), "", *_lists(), ""])


def _counts() -> Iterator[str]:
    yield "| area | specs | pass | need running containers | not yet |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    known = specs()
    for area in AREAS:
        found = [spec for spec in known if spec.area == area]
        passing = sum(spec.passes for spec in found)
        containers = sum(spec.verdict in NEED_CONTAINERS for spec in found)
        yield f"| {_ABOUT[area]} | {len(found)} | {passing} | {containers} | {len(found) - passing - containers} |"


def _lists() -> Iterator[str]:
    yield "## What does not pass"
    for verdict, reason in REASONS.items():
        failing = [spec for spec in specs() if spec.verdict == verdict]
        if failing:
            yield from ("", f"### {reason}", "", *(f"- {_short(spec)}" for spec in failing))
    yield from ("", "## What passes")
    for area in AREAS:
        yield from ("", f"### {area}", "")
        yield from (f"- {_short(spec)}" for spec in specs() if spec.area == area and spec.passes)


def _short(spec: Spec) -> str:
    """A spec without its labels."""
    return " ".join(re.sub(r"\[[\w:.-]+\]", "", spec.name).split())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
