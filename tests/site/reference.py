"""The generated pages of the reference. ``python -m tests.site.reference`` writes them; a test compares."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tests.site.commands import commands_page, exit_codes_page
from tests.site.configuration import configuration_page
from tests.site.markdown import ROOT, attribute_docs, code, page, plain, table

from kubesched.base import annotations as simulated
from kubesched.contrib import gangs, preemption_toleration
from kubesched.daemon.process_metrics import ProcessMetrics
from kubesched.daemon.serving.auth.metrics import AuthMetrics
from kubesched.daemon.serving.pages import slis
from kubesched.daemon.stalls import StallWatch
from kubesched.history import annotations as results
from kubesched.scheduler import resource_metrics
from kubesched.scheduler.metric_types import CounterFamily, Family, Gauge
from kubesched.scheduler.metrics import Metrics
from kubesched.snapshots import cleaning

FOLDER = ROOT / "docs" / "reference"
SOURCE = ROOT / "src" / "kubesched"


def annotations_page() -> str:
    """The page of all annotations that kubesched reads or writes beside those of Kubernetes."""
    return page(
        "Annotations",
        "The annotations that kubesched reads and writes beside those of Kubernetes itself.",
        "## For simulated nodes and pods",
        "`kubesched up`, `simulate` and the other simulations read them. "
        "[The guide](../guides/up.md#annotations) shows how to use them.",
        table(("annotation", "meaning"), _simulated()),
        "## Results of scheduling",
        "`--annotate-results` writes the annotations of kube-scheduler-simulator to each pod. "
        "[The guide](../guides/history.md#annotations-of-kube-scheduler-simulator) says more.",
        table(
            ("annotation", "meaning"),
            (
                (code(f"{results.PREFIX}…-result"), "The results of an extension point, as JSON."),
                (code(f"{results.PREFIX}selected-node"), "The chosen node."),
                (code(results.HISTORY), "The results of all attempts, the newest last."),
                (code(results.LEFT_OUT), "How many nodes are missing in the results, for lack of room."),
            ),
        ),
        "## Of the plugins of scheduler-plugins",
        table(
            ("name", "on", "meaning"),
            (
                (
                    code(preemption_toleration.MINIMUM),
                    "a PriorityClass (annotation)",
                    "The priority from which pods may preempt those of this class.",
                ),
                (
                    code(preemption_toleration.SECONDS),
                    "a PriorityClass (annotation)",
                    "How long after scheduling pods of this class are protected; negative means always.",
                ),
                (code(gangs.GROUP_LABEL), "a pod (label)", "The PodGroup of the pod, for Coscheduling."),
            ),
        ),
        "## In snapshots",
        table(
            ("annotation", "meaning"),
            ((code(cleaning.REMOVED), "On a pod template: tells apart templates that differ only in removed parts."),),
        ),
    )


def _simulated() -> Iterator[tuple[str, str]]:
    tree = ast.parse((SOURCE / "base" / "annotations.py").read_text("utf-8"))
    for name, text in attribute_docs(tree.body).items():
        yield code(getattr(simulated, name)), plain(text)


def metrics_page() -> str:
    """The page of all metrics."""
    families = sorted(all_families(), key=lambda family: family.name)
    own = [each for each in families if each.name.startswith("kubesched_")]
    return page(
        "Metrics",
        "`/metrics` on the secure port serves these metrics. Names, labels, stability and help are kube-scheduler's. "
        "Those of the process (`process_*`) come in addition. Some of kube-scheduler's "
        "[are not there](../guides/deploy.md#metrics-that-are-not-there).",
        "## Metrics of kube-scheduler",
        table(
            ("metric", "type", "stability", "labels", "help"), (_metric(each) for each in families if each not in own)
        ),
        "## Metrics of kubesched",
        table(("metric", "type", "labels", "help"), (*(_metric(each, own=True) for each in own), *_counted())),
        "## On other pages",
        table(
            ("metric", "page", "help"),
            (
                (code(resource_metrics.REQUEST), "`/metrics/resources`", "Requests of each pod, by resource."),
                (code(resource_metrics.LIMIT), "`/metrics/resources`", "Limits of each pod, by resource."),
                (code(slis.HEALTHCHECK), "`/metrics/slis`", "The result of each health check: 1 for success."),
                (code(slis.HEALTHCHECKS), "`/metrics/slis`", "Number of health checks, by name and result."),
            ),
        ),
    )


def all_families() -> list[Family]:
    """The families of a scheduler with everything switched on."""
    metrics = Metrics(process=False, pod_groups=True)
    ProcessMetrics(metrics)
    AuthMetrics(metrics)
    StallWatch(metrics)
    return metrics.families


def _metric(family: Family, *, own: bool = False) -> tuple[str, ...]:
    kind = "counter" if isinstance(family, CounterFamily) else "gauge" if isinstance(family, Gauge) else "histogram"
    stability = () if own else (family.stability.lower(),)
    return (
        code(family.name),
        kind,
        *stability,
        ", ".join(map(code, family.labels)),
        plain(family.text.removeprefix(f"[{family.stability}] ")),
    )


def _counted() -> Iterator[tuple[str, str, str, str]]:
    """The counters that the daemon reads from its parts on each scrape."""
    tree = ast.parse((SOURCE / "daemon" / "process.py").read_text("utf-8"))
    texts = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "count_from":
            name, text, _ = node.args
            assert isinstance(name, ast.Constant)
            assert isinstance(text, ast.Name)
            yield code(str(name.value)), "counter", "", plain(str(texts[text.id]))


PAGES: dict[str, Callable[[], str]] = {
    "annotations.md": annotations_page,
    "commands.md": commands_page,
    "configuration.md": configuration_page,
    "exit-codes.md": exit_codes_page,
    "metrics.md": metrics_page,
}

if __name__ == "__main__":
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made(), "utf-8")
