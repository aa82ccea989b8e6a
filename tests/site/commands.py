"""The reference of commands and of exit codes, made from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc

import click
from tests.site.markdown import code, page, plain, table

from kubesched.cli.explain import why
from kubesched.cli.go_flags import GoFlagsCommand
from kubesched.cli.main import COMMANDS, main
from kubesched.daemon.flags import Options
from kubesched.daemon.flags.flag import Flag, FlagSection
from kubesched.daemon.flags.usage import INTRODUCTION
from kubesched.local.flags import DETAILS, UpOptions
from kubesched.local.flags import INTRODUCTION as UP

GO_HELP = {"run": INTRODUCTION.format(program="kubesched run"), "up": UP + DETAILS}
NO_DEFAULT = ("", "false", "0", "[]")
PROGRAMS = ("curl", "export", "kubectl", "kubesched")


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by what one types, those inside groups after their group."""
    context = click.Context(main, info_name="kubesched")
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        yield f"kubesched {name}", command
        inner = command.commands if isinstance(command, click.Group) else {}
        yield from ((f"kubesched {name} {each}", inner[each]) for each in inner)
    yield "kubectl why", why


def commands_page() -> str:
    """The page of all commands and their options."""
    return page(
        "Commands",
        "Every command with its options, as `--help` shows them. Results go to stdout, everything else to stderr. "
        "All commands have `--help`; [exit codes](exit-codes.md) have a page of their own.",
        *(part for name, command in all_commands() for part in _command(name, command)),
    )


def _command(name: str, command: click.Command) -> Iterator[str]:
    yield f"## {name}"
    if isinstance(command, GoFlagsCommand):
        yield from _paragraphs(GO_HELP[name.split()[-1]])
        sections = _sections(name)
        if name == "kubesched up":
            yield "It also has all flags of [kubesched run](#kubesched-run)."
        for section in sections:
            yield f"### {section.title} flags of {name}"
            yield plain(section.note)
            yield table(("flag", "default", "effect"), map(_flag, type(section).flags()))
        return
    context = click.Context(command, info_name=name)
    yield f"```\n{name} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield from _paragraphs(cleandoc(command.help or ""))
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    yield table(("option", "default", "effect"), map(_option, options))


def _sections(name: str) -> list[FlagSection]:
    """The sections of a command's flags; for `up` those that `run` does not have."""
    known = {section.title for section in Options().sections()}
    if name == "kubesched run":
        return list(Options().sections())
    return [section for section in UpOptions().sections() if section.title not in known]


def _flag(flag: Flag) -> tuple[str, str, str]:
    short = f"-{flag.shorthand}, " if flag.shorthand else ""
    shown = flag.value_type.show(flag.default)
    effect = plain(flag.help) + (f" No effect here: {plain(flag.no_effect)}" if flag.no_effect else "")
    return code(f"{short}--{flag.name} {flag.value_type.word}".rstrip()), code(_given(shown)), effect


def _option(option: click.Option) -> tuple[str, str, str]:
    names = ", ".join((*option.opts, *option.secondary_opts))
    default = _given(str(option.default)) if option.show_default else ""
    effect = plain(option.help or "") or ("Required." if option.required else "")
    return code(f"{names} {_value(option)}".rstrip()), code(default), effect


def _given(shown: str) -> str:
    return "" if shown in NO_DEFAULT else shown


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if option.metavar:
        return option.metavar
    return "|".join(option.type.choices) if isinstance(option.type, click.Choice) else option.type.name.upper()


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of help. Those that are indented, or that click must not wrap, are commands."""
    for paragraph in text.strip("\n").split("\n\n"):
        if paragraph.startswith(("\b\n", "  ")):
            yield _block(cleandoc(paragraph.removeprefix(chr(8))))
        elif paragraph.strip():
            yield plain(paragraph)


def _block(text: str) -> str:
    """A block, for a shell if it holds commands; what stands beside them becomes a remark."""
    if text.split()[0] not in PROGRAMS:
        return f"```\n{text}\n```"
    return "```sh\n" + re.sub(r"(?m)(?<=\S)( {2,})(?=[^-\s])", r"\1# ", text) + "\n```"


def exit_codes_page() -> str:
    """The page of exit codes: the rules, and what each command's help says beyond them."""
    return page(
        "Exit codes",
        "The same rules hold for all commands:",
        table(
            ("code", "meaning"),
            (
                ("0", "success; for a command that runs until it is stopped, an orderly end"),
                ("1", "an error, or what was checked does not hold; stderr says what"),
                ("2", "a wrong option or argument; `run` and `up` return 1 for those, as kube-scheduler does"),
                (
                    "3",
                    "the answer is no: a pod is pending or does not fit, or a condition of `--fail-if` holds",
                ),
                ("130", "interrupted with Ctrl-C, where that is not the orderly end"),
            ),
        ),
        "[Run it in a cluster](../guides/deploy.md#exit-codes) has more on those of `kubesched run`. "
        "These commands say more about theirs:",
        table(("command", "exit code"), _exit_codes()),
    )


def _exit_codes() -> Iterator[tuple[str, str]]:
    for name, command in all_commands():
        text = GO_HELP[name.split()[-1]] if isinstance(command, GoFlagsCommand) else command.help or ""
        text = " ".join(text.split())
        found = re.findall(r"(?:The exit code is|It exits with) .*?\.(?=\s|$)", text)
        if found:
            yield code(name), plain(" ".join(found))
