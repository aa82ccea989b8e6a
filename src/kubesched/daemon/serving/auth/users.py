"""The user who sends a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kubesched.base.types import JSON

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user as the API server knows one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def authenticated(self) -> UserInfo:
        """Return the same user, also in the group system:authenticated."""
        if AUTHENTICATED in self.groups or self.name == ANONYMOUS.name or UNAUTHENTICATED in self.groups:
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))

    def as_review(self) -> JSON:
        """Return the user's part of a SubjectAccessReview's spec."""
        spec: JSON = {"user": self.name}
        if self.uid:
            spec["uid"] = self.uid
        if self.groups:
            spec["groups"] = list(self.groups)
        if self.extra:
            spec["extra"] = {key: list(values) for key, values in self.extra.items()}
        return spec


ANONYMOUS: Final = UserInfo("system:anonymous", groups=(UNAUTHENTICATED,))
