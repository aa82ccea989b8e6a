"""The help text: what the command does, how to start, and every flag in upstream's sections."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Collection, Iterator

from kubesched.daemon.flags.flag import Flag
from kubesched.daemon.flags.gates import EFFECTIVE
from kubesched.daemon.flags.options import Options

INTRODUCTION = """\
Schedules the pods of a Kubernetes cluster. It replaces kube-scheduler, or runs beside it under another name. It accepts
kube-scheduler's configuration file and flags, as --flag=value or --flag value.

To run beside the cluster's own scheduler, for pods with its schedulerName:

  {program} --config=second.yaml

with this in second.yaml:

  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  clientConnection: {{kubeconfig: /home/me/.kube/config}}
  leaderElection: {{resourceName: kubesched}}
  profiles: [{{schedulerName: kubesched}}]

To replace kube-scheduler, as soon as its lease is free:

  {program} --kubeconfig=$HOME/.kube/config

To inspect it while it runs, with the token of an authorized user:

  curl -k 'https://127.0.0.1:10259/readyz?verbose'
  curl -k -H "Authorization: Bearer $TOKEN" https://127.0.0.1:10259/metrics
  curl -k -H "Authorization: Bearer $TOKEN" -X PUT -d 5 https://127.0.0.1:10259/debug/flags/v

SIGTERM stops it after the bindings in progress. SIGUSR2 logs its cache and queue and compares them with the API server.
It exits with code 1 when it loses its lease, so that its supervisor restarts it.
"""
MOST_WIDTH = 140
INDENT = 6


def usage(
    program: str = "kubesched run",
    width: int = 0,
    *,
    introduction: str = INTRODUCTION,
    options: Options | None = None,
    titles: Collection[str] = (),
) -> str:
    """Return the help text: the whole, or the sections with some titles and the first sentence on each flag."""
    columns = min(width or shutil.get_terminal_size().columns, MOST_WIDTH)
    parts = [_filled(introduction.format(program=program), columns), f"Usage:\n  {program} [flags]\n"]
    for section in (options or Options()).sections():
        if titles and section.title not in titles:
            continue
        parts.append(f"{section.title} flags:")
        if section.note and not titles:
            parts.append(textwrap.fill(section.note, columns, initial_indent="  ", subsequent_indent="  "))
        parts.append("\n".join(_lines(list(type(section).flags()), columns, brief=bool(titles))) + "\n")
    if titles:
        return "\n".join(parts)
    longest = max(map(len, EFFECTIVE))
    gates = "\n".join(f"      {name:<{longest}}  {what}" for name, what in EFFECTIVE.items())
    parts.append(f"Feature gates with an effect here:\n{gates}\n")
    return "\n".join(parts)


def _filled(text: str, columns: int) -> str:
    """Wrap paragraphs to the terminal's width. Indented lines are commands and stay as they are."""
    paragraphs = text.strip("\n").split("\n\n")
    return (
        "\n\n".join(
            each if each.startswith(" ") else textwrap.fill(each, columns, break_on_hyphens=False)
            for each in paragraphs
        )
        + "\n"
    )


def _lines(flags: list[Flag], columns: int, *, brief: bool) -> Iterator[str]:
    heads = [_head(flag) for flag in flags]
    start = min(max(map(len, heads)) + 3, columns // 2)
    for flag, head in zip(flags, heads, strict=True):
        said = flag.help.partition(". ")[0].removesuffix(".") if brief else flag.help
        width = max(columns - start, 30)
        text = textwrap.wrap(said + _default(flag), width, break_on_hyphens=False, break_long_words=False) or [""]
        if len(head) + 2 > start:
            yield head
            head = ""
        yield f"{head:<{start}}{text[0]}"
        for line in text[1:]:
            yield " " * start + line


def _head(flag: Flag) -> str:
    short = f"-{flag.shorthand}, " if flag.shorthand else ""
    return f"{short:>{INDENT}}--{flag.name} {flag.value_type.word}".rstrip()


def _default(flag: Flag) -> str:
    shown = flag.value_type.show(flag.default)
    if shown in ("", "false", "0", "[]"):
        return ""
    return f' (default "{shown}")' if flag.value_type.word == "string" else f" (default {shown})"
