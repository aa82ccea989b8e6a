"""The default roles of every cluster and who has them, from text files.

`roles.txt` has what clients of any cluster need; `system:kube-scheduler` has exactly upstream's rights there, so least
privilege can be tried. `controller_roles.txt` has upstream's roles for programs that do not run here.

A line without indent names a cluster role, or a role as ``namespace/name``. Below it, a rule reads
``verbs | groups | resources | names`` or ``verbs | paths``. ``to`` names a subject, and ``binding`` the binding if its
name differs. ``parts`` is the label of the roles whose rules this one unites, and ``part of`` is such a label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from kubesched.base.types import JSON


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule. Words are separated by spaces, and ``core`` is the group without a name."""

    verbs: str
    groups: str = ""
    resources: str = ""
    names: str = ""
    paths: str = ""

    def to_json(self) -> JSON:
        if self.paths:
            return {"nonResourceURLs": self.paths.split(), "verbs": self.verbs.split()}
        rule: JSON = {
            "apiGroups": ["" if group == "core" else group for group in self.groups.split()],
            "resources": self.resources.split(),
            "verbs": self.verbs.split(),
        }
        return {**rule, "resourceNames": self.names.split()} if self.names else rule


@dataclass(slots=True)
class DefaultRole:
    """A role with its binding: its rules or the label that it aggregates, and the roles that aggregate it."""

    namespace: str
    name: str
    binding: str
    rules: list[RoleRule] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    """As ``user NAME``, ``group NAME`` or ``account NAMESPACE:NAME``."""
    aggregates: str = ""
    aggregate_to: str = ""

    def read(self, line: str) -> None:
        """Take in one line about the role."""
        word, _, rest = line.partition(" ")
        match word:
            case "to":
                self.subjects.append(rest)
            case "binding":
                self.binding = rest
            case "parts":
                self.aggregates = rest
            case "part":
                self.aggregate_to = rest.removeprefix("of ")
            case _:
                self.rules.append(_rule(*line.split(" | ")))


@cache
def default_roles(*, with_controllers: bool) -> tuple[DefaultRole, ...]:
    """The default roles, in the order of the files."""
    names = ("roles.txt", "controller_roles.txt") if with_controllers else ("roles.txt",)
    folder = files("kubesched.apiserver.auth")
    return tuple(role for name in names for role in _parsed((folder / name).read_text(encoding="utf-8")))


def _parsed(text: str) -> Iterator[DefaultRole]:
    for block in text.split("\n\n"):
        head, *lines = block.splitlines()
        namespace, _, name = head.rpartition("/")
        role = DefaultRole(namespace, name, name)
        for line in lines:
            role.read(line.strip())
        yield role


def _rule(verbs: str, *parts: str) -> RoleRule:
    return RoleRule(verbs, paths=parts[0]) if len(parts) == 1 else RoleRule(verbs, *parts)
