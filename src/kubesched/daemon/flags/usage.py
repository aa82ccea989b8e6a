"""The help: what the command is for, how to start, and every flag in upstream's sections."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

from kubesched.daemon.flags.flag import Flag
from kubesched.daemon.flags.gates import COUNTS
from kubesched.daemon.flags.options import Options

INTRODUCTION = """\
Schedules the pods of a Kubernetes cluster: takes kube-scheduler's place, or works beside it under another name. It
reads kube-scheduler's configuration file and takes its flags, as --flag=value or --flag value.

Beside the scheduler of the cluster that kubectl talks to, for pods that ask for it by a schedulerName of its own:

  {program} --config=second.yaml

with this in second.yaml:

  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  clientConnection: {{kubeconfig: /home/me/.kube/config}}
  leaderElection: {{resourceName: kubesched}}
  profiles: [{{schedulerName: kubesched}}]

In its place, for all other pods, as soon as its lease is free:

  {program} --kubeconfig=$HOME/.kube/config

Look at it while it runs, with a token of somebody who may:

  curl -k 'https://127.0.0.1:10259/readyz?verbose'
  curl -k -H "Authorization: Bearer $TOKEN" https://127.0.0.1:10259/metrics
  curl -k -H "Authorization: Bearer $TOKEN" -X PUT -d 5 https://127.0.0.1:10259/debug/flags/v

SIGTERM ends it after the bindings that have begun. SIGUSR2 logs what it thinks of the cluster and compares that with
the API server. It exits with 1 when it loses its lease, so that whatever started it starts it again.
"""
MOST_WIDTH = 140
INDENT = 6


def usage(
    program: str = "kubesched run", width: int = 0, *, introduction: str = INTRODUCTION, options: Options | None = None
) -> str:
    """The whole help text."""
    columns = min(width or shutil.get_terminal_size().columns, MOST_WIDTH)
    parts = [_filled(introduction.format(program=program), columns), f"Usage:\n  {program} [flags]\n"]
    for section in (options or Options()).sections():
        parts.append(f"{section.title} flags:")
        if section.note:
            parts.append(textwrap.fill(section.note, columns, initial_indent="  ", subsequent_indent="  "))
        parts.append("\n".join(_lines(list(type(section).flags()), columns)) + "\n")
    longest = max(map(len, COUNTS))
    gates = "\n".join(f"      {name:<{longest}}  {what}" for name, what in COUNTS.items())
    parts.append(f"Feature gates that count here:\n{gates}\n")
    return "\n".join(parts)


def _filled(text: str, columns: int) -> str:
    """Paragraphs to the terminal's width; what is indented stays as it is, to be copied."""
    paragraphs = text.strip("\n").split("\n\n")
    return (
        "\n\n".join(
            each if each.startswith(" ") else textwrap.fill(each, columns, break_on_hyphens=False)
            for each in paragraphs
        )
        + "\n"
    )


def _lines(flags: list[Flag], columns: int) -> Iterator[str]:
    heads = [_head(flag) for flag in flags]
    start = min(max(map(len, heads)) + 3, columns // 2)
    for flag, head in zip(flags, heads, strict=True):
        text = textwrap.wrap(flag.help + _default(flag), max(columns - start, 30), break_on_hyphens=False) or [""]
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
