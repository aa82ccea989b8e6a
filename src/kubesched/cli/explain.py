"""`kubesched explain`: why pods are pending, or where they are, for any cluster. `kubectl why` is the same."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import msgspec
from rich.console import Console

from kubesched.cli.explain_source import (
    Flags,
    edit_pods,
    kept_attempts,
    read_cluster,
    read_queue,
)
from kubesched.cli.options import (
    CONTEXT,
    KUBECONFIG,
    PLUGIN,
    PLUGIN_DIR,
    SCHEDULER_CA,
    config_option,
    scheduler_option,
    source_option,
    with_options,
)
from kubesched.cli.output import as_html, as_json, as_markdown, as_yaml, show
from kubesched.cli.problems import in_words
from kubesched.client.protocol import ApiError
from kubesched.explain.document import Block, Text, fit_document, node_document, overview_document, pod_document
from kubesched.explain.explainer import Explainer
from kubesched.explain.places import fit_report, node_report
from kubesched.explain.report import PodReport, as_data
from kubesched.explain.standing import PENDING_STATES, State
from kubesched.framework.errors import PluginStartError
from kubesched.history.reader import HistoryError
from kubesched.library.manifests import read_pod
from kubesched.library.recorded import attempts, recorded_pending, recorded_pod, report_of

PENDING = 3
"""The exit code if a pod is pending. 1 and 2 are errors."""
EXPECTED = (HistoryError, ApiError, PluginStartError, ValueError, LookupError, OSError, TypeError)
"""What the user's files, rights and network may raise."""
SEARCH_SECONDS = 1.0
"""How long an overview looks for fixes."""
OUTPUTS = ("table", "wide", "json", "yaml", "html", "markdown")


_OPTIONS = (
    source_option(
        "Read the cluster from here: kubectl get -o json, manifests, or recorded decisions. May be repeated."
    ),
    KUBECONFIG,
    CONTEXT,
    click.option("-n", "--namespace", metavar="NAME", help="Only this namespace; for a pod, where it is."),
    scheduler_option("The secure port of a kubesched scheduler, whose queue is asked with your credentials."),
    SCHEDULER_CA,
    config_option(
        "Decide with this KubeSchedulerConfiguration, and show the decision of the current one too: the "
        "scheduler's if it can be asked, else the default."
    ),
    PLUGIN,
    PLUGIN_DIR,
    click.option(
        "--what-if",
        multiple=True,
        metavar="CHANGE",
        help="Suppose this change first, such as 'drain N' or 'pod.cpu=3'. May be repeated.",
    ),
    click.option("-o", "--output", type=click.Choice(OUTPUTS), help="What to print. Default: table."),
    click.option("-w", "--watch", is_flag=True, help="Read the cluster again and again, until interrupted."),
    click.option("--interval", type=click.FloatRange(0.1), metavar="SECONDS", help="How often to watch. Default: 5."),
)

_with_options = with_options(_OPTIONS)


class Subjects(click.Group):
    """What can be explained. Any other word is the name of a pod."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "pod", pod, args
        return super().resolve_command(ctx, args)


@click.group(cls=Subjects, invoke_without_command=True)
@_with_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Explain why pods are pending, or why they are where they are, on any cluster.

    The cluster is read once with your kubeconfig, or from files. Nothing is installed or changed there, and read
    permission is enough. Decisions are kube-scheduler's, so it does not matter which scheduler runs the cluster.

    \b
    kubesched explain                        all pending pods, grouped by cause
    kubesched explain pod shop/web-1         node by node, every plugin that rejects it; "pod" may be left out
    kubesched explain pod web-1 --node n7    why (not) this node, and what it would score
    kubesched explain node n7                who is here and why, what still fits
    kubesched explain fit -f pod.yaml        where it would go, and how many more fit

    Every suggested change has been tried: with it, the pod gets a node. Suppose changes of your own with --what-if:

    \b
    'drain N'  'cordon N'  'uncordon N'  'untaint N KEY'  'add 3 like N'
    'delete pod X'  'delete node N'  'pod.cpu=3'

    The exit code is 3 if a pod is pending (with --what-if: would be), 0 if none is, and 1 or 2 for errors.
    """
    context.obj = Flags(**given)
    if context.invoked_subcommand is None:
        _answer(context.obj, _overview)


@command.command()
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option("--node", default="", metavar="NAME", help="Only about this node.")
@_with_options
@click.pass_obj
def pod(outer: Flags | None, /, name: str, node: str, **given: Any) -> None:
    """Explain one pod: every plugin that rejects each node, or the scores of the nodes that fit.

    For a pod that has a node, the scheduler's record of the decision is shown if there is one. Without one, and with
    --what-if, --config or --plugin, the pod is decided again on the cluster as it is now.
    """
    options = Flags(**given).over(outer)
    _answer(options, lambda explainer, opts: _pod(explainer, opts, name, node), _key(options, name))


@command.command()
@click.argument("name")
@_with_options
@click.pass_obj
def node(outer: Flags | None, /, name: str, **given: Any) -> None:
    """Explain one node: its pods and where they would go today, and which pending pods fit."""

    def answer(explainer: Explainer, options: Flags) -> Answer:
        report = node_report(explainer, name)
        wide = options.output == "wide"
        return Answer("NodeExplanation", report, list(node_document(report, wide=wide)), pending=False)

    _answer(_with_cluster(Flags(**given).over(outer)), answer)


@command.command()
@click.option("-f", "--filename", required=True, type=click.File("rb"), metavar="FILE", help="A Pod; - for stdin.")
@_with_options
@click.pass_obj
def fit(outer: Flags | None, /, filename: Any, **given: Any) -> None:
    """Say where a pod would go, how many more like it fit, and what runs out first."""
    text: bytes = filename.read()

    def answer(explainer: Explainer, options: Flags) -> Answer:
        report = fit_report(explainer, explainer.find(_template(text)))
        wide = options.output == "wide"
        return Answer("FitExplanation", report, list(fit_document(report, wide=wide)), pending=not report.count)

    _answer(_with_cluster(Flags(**given).over(outer)), answer, _template(text), added=text)


@click.command()
@click.argument("name", required=False, metavar="POD")
@click.option("--node", default="", metavar="NAME", help="Only about this node.")
@_with_options
def why(name: str | None, node: str, **given: Any) -> None:
    """Say why a pod is pending, or where it is: `kubectl why POD`. Without a pod, all pending ones.

    The same as `kubesched explain`, whose --help says more. The exit code is 3 if a pod is pending.
    """
    options = Flags(**given)
    if name is None:
        _answer(options, _overview)
    else:
        _answer(options, lambda explainer, opts: _pod(explainer, opts, name, node), _key(options, name))


@dataclass(frozen=True)
class Answer:
    """A report with its text, and whether a pod is pending."""

    kind: str
    report: msgspec.Struct
    blocks: list[Block]
    pending: bool


def _with_cluster(options: Flags) -> Flags:
    if options.only_recorded:
        raise click.UsageError("recorded decisions have no cluster in them; add one with another --from")
    return options


def _key(options: Flags, name: str) -> str:
    name = name.removeprefix("pod/")
    return f"{options.namespace}/{name}" if options.namespace and "/" not in name else name


def _overview(explainer: Explainer, options: Flags) -> Answer:
    # Processor time: how much is shown must not depend on what else runs on the machine.
    end = time.process_time() + (math.inf if options.output == "wide" else SEARCH_SECONDS)
    found = explainer.pending(lambda: time.process_time() > end)
    if options.namespace:
        inside = tuple(each for each in found.pods if each.pod.startswith(f"{options.namespace}/"))
        found = msgspec.structs.replace(found, pods=inside)
    blocks = list(overview_document(found, wide=options.output == "wide"))
    pending = any(_is_pending(each, options) for each in found.pods)
    return Answer("PendingPods", found, blocks, pending=pending)


def _pod(explainer: Explainer, options: Flags, name: str, node_name: str) -> Answer:
    if node_name and explainer.cluster.nodes.row_of.get(node_name) is None:
        raise LookupError(f"the cluster has no node {node_name!r}")
    found = explainer.find(_key(options, name))
    report: PodReport = explainer.pod(found, node_name)
    if report.state is State.BOUND and not node_name and not (options.what_if or explainer.is_reconfigured):
        kept = [*attempts(options.decisions, found.key), *kept_attempts(options, found.key)]
        report = next((report_of(each) for each in kept if each.node == found.node_name), report)
    blocks = list(pod_document(report, wide=options.output == "wide"))
    return Answer("PodExplanation", report, blocks, pending=_is_pending(report, options))


def _is_pending(report: PodReport, options: Flags) -> bool:
    """Whether the pod waits for a node. With suppositions, one that would get a node does not."""
    if options.what_if and report.state is State.SCHEDULABLE:
        return False
    return report.state in PENDING_STATES


def _template(text: bytes) -> str:
    return read_pod(text).key


# Asking


def _answer(
    options: Flags,
    ask: Callable[[Explainer, Flags], Answer],
    about: str = "",
    *,
    added: bytes | None = None,
) -> None:
    """Read the cluster, ask, print; with --watch again and again."""
    with _reported():
        if not options.watch:
            answer, notes = _asked(options, ask, about, added)
            click.echo(_text(answer, notes, options), nl=False)
            raise click.exceptions.Exit(PENDING if answer.pending else 0)
        _watch(options, ask, about, added)


def _watch(options: Flags, ask: Callable[[Explainer, Flags], Answer], about: str, added: bytes | None) -> None:
    before = ""
    while True:
        answer, notes = _asked(options, ask, about, added)
        text = _text(answer, notes, options)
        if text != before:
            if sys.stdout.isatty():
                click.clear()
            click.echo(text, nl=False)
            before = text
        time.sleep(options.interval or 5)


@contextmanager
def _reported() -> Iterator[None]:
    """What the user can do something about is one line on stderr."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except EXPECTED as problem:
        raise click.ClickException(in_words(problem)) from None


def _asked(
    options: Flags, ask: Callable[[Explainer, Flags], Answer], about: str, added: bytes | None
) -> tuple[Answer, tuple[str, ...]]:
    if options.only_recorded:
        return _recorded(options, about), ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read = read_cluster(options)
        cluster = read.cluster
        if added is not None:
            cluster.add(added)
        edits = cluster.suppose(*options.what_if)
        if edits:
            edit_pods(cluster, edits, about)
        explainer = cluster.explainer(now=time.time(), tries=read.tries, queue=read_queue(options))
        read.show_current(explainer)
        answer = ask(explainer, options)
    notes = tuple(dict.fromkeys(str(each.message) for each in caught))
    if options.what_if:
        answer.blocks.insert(1, Text(f"Supposing: {'; '.join(options.what_if)}."))
    for note in notes:
        click.echo(f"Warning: {note}", err=True)
    return answer, notes


def _recorded(options: Flags, about: str) -> Answer:
    """What a scheduler has written down; there is no cluster to decide on."""
    wide = options.output == "wide"
    if about:
        report = recorded_pod(options.decisions, about)
        pending = report.state in PENDING_STATES
        return Answer("PodExplanation", report, list(pod_document(report, wide=wide)), pending=pending)
    found = recorded_pending(options.decisions, time.time())
    return Answer("PendingPods", found, list(overview_document(found, wide=wide)), pending=bool(found.pods))


# Printing


def _text(answer: Answer, notes: tuple[str, ...], options: Flags) -> str:
    output = options.output or "table"
    if output in ("json", "yaml"):
        data = as_data(answer.kind, answer.report, notes)
        return as_json(data) if output == "json" else as_yaml(data)
    if output == "markdown":
        return as_markdown(answer.blocks)
    if output == "html":
        return as_html(str(getattr(answer.blocks[0], "text", "kubesched explain")), answer.blocks)
    console = Console(highlight=False)
    with console.capture() as capture:
        show(answer.blocks, console)
    return capture.get()
