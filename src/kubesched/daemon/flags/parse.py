"""Parses a command line into `Options` by pflag's rules.

pflag stops at the first mistake. In a manifest each mistake costs the start of a pod, so here all are reported at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kubesched.config.errors import suggest
from kubesched.daemon.flags.flag import Flag, FlagSection, attribute_of
from kubesched.daemon.flags.gates import FeatureGates
from kubesched.daemon.flags.options import Options


@dataclass
class Parsed:
    """The options, and all problems with the command line."""

    options: Options = field(default_factory=Options)
    problems: list[str] = field(default_factory=list)


def parse(words: Iterable[str], options: Options | None = None) -> Parsed:
    """Parse a command line without the program's name. `options` may be a subclass with more flags."""
    return _Parser(deque(words), options or Options()).run()


class _Parser:
    def __init__(self, words: deque[str], options: Options) -> None:
        self._words = words
        self._parsed = Parsed(options)
        self._flags: dict[str, tuple[FlagSection, Flag]] = {}
        self._shorthands: dict[str, str] = {}
        self._arguments: list[str] = []
        for section in self._parsed.options.sections():
            for each in type(section).flags():
                self._flags[each.name] = (section, each)
                if each.shorthand:
                    self._shorthands[each.shorthand] = each.name

    def run(self) -> Parsed:
        words = self._words
        while words:
            word = words.popleft()
            if word == "--":
                self._arguments += words
                break
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and len(word) > 1:
                self._short(word)
            else:
                self._arguments.append(word)
        given = [word for word in self._arguments if word]
        if given:
            self._problem(f"it does not take any arguments, got {' '.join(given)}")
        options = self._parsed.options
        options.gates = FeatureGates.of(options.feature_gate.feature_gates)
        self._parsed.problems += options.problems()
        return self._parsed

    def _problem(self, problem: str) -> None:
        self._parsed.problems.append(problem)

    def _long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        name = name.replace("_", "-")
        if not name or name.startswith("-"):
            self._problem(f"bad flag syntax: {word}")
        elif name not in self._flags:
            hint = suggest(name, self._flags).replace("did you mean ", "did you mean --").replace(" or ", " or --")
            self._problem(f"unknown flag: --{name}" + (f"; {hint}" if hint else "; see --help"))
            if not equals and self._words and not self._words[0].startswith("-"):
                # This is probably the unknown flag's value: not worth a second message.
                self._words.popleft()
        else:
            self._value(name, f"--{name}", value if equals else None)

    def _short(self, word: str) -> None:
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            name = self._shorthands.get(letter)
            if name is None:
                hint = f"; did you mean -{word}?" if word[1:].partition("=")[0] in self._flags else ""
                self._problem(f"unknown shorthand flag: '{letter}' in {word}{hint}")
                return
            if self._flags[name][1].value_type.bare and not letters.startswith("="):
                self._value(name, f"-{letter}", None)
            else:
                self._value(name, f"-{letter}", letters.removeprefix("=") or None)
                return

    def _value(self, name: str, shown: str, text: str | None) -> None:
        section, flag = self._flags[name]
        if text is None:
            text = flag.value_type.bare or (self._words.popleft() if self._words else None)
        if text is None:
            self._problem(f"flag needs an argument: {shown}")
            return
        try:
            value = flag.value_type.parse(text)
        except ValueError as error:
            self._problem(f'invalid argument "{text}" for "--{name}" flag: {error}')
            return
        changed = self._parsed.options.changed
        field_name = attribute_of(name)
        if flag.value_type.add is not None and name in changed:
            value = flag.value_type.add(getattr(section, field_name), value)
        setattr(section, field_name, value)
        changed.add(name)
