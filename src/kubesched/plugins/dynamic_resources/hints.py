"""PreEnqueue, and which pods a change of a claim may help."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.framework.events import Hint
from kubesched.plugins.dynamic_resources.claims import ClaimError, claims_of, refers_to
from kubesched.plugins.dynamic_resources.context import ClaimContext
from kubesched.plugins.dynamic_resources.messages import DETAILS

MOST_NAMES = 100_000
"""Claims to remember. With more, every claim event is checked against every waiting pod."""


class ClaimHints:
    """Knows which claims the waiting pods mention."""

    def __init__(self, context: ClaimContext) -> None:
        self._context = context
        self._named: dict[str, set[str]] = {}
        """Claims by key, and the UIDs of pods that mention them and are not bound yet."""

    def problem(self, pod: api.Pod) -> str | None:
        """Why a pod's claims cannot be used now."""
        try:
            for _ in claims_of(pod, self._context.ledger, of_groups=self._context.of_groups):
                pass
        except ClaimError as problem:
            return str(problem)
        return None

    def note(self, pod: api.Pod) -> None:
        """Remember the claims that a waiting pod mentions."""
        if len(self._named) <= MOST_NAMES:
            for key in _mentioned(pod):
                self._named.setdefault(key, set()).add(pod.uid)

    def forget(self, pod: api.Pod) -> None:
        """Forget them: the pod is about to be bound."""
        for key in _mentioned(pod):
            users = self._named.get(key)
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self._named[key]

    def pods_helped(self, old: api.Object | None, new: api.Object | None) -> Collection[str] | None:
        """A claim helps the pods that mention it. One that is deallocated may help any pod."""
        before = old.status.allocation if isinstance(old, dra.ResourceClaim) else None
        if not isinstance(new, dra.ResourceClaim) or (before is not None and new.status.allocation is None):
            return None
        if len(self._named) > MOST_NAMES:
            return None
        owners = (owner.uid for owner in new.metadata.owner_references if owner.controller)
        return {*owners, *self._named.get(new.key, ())}

    def after_claim_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        """Whether a waiting pod may be schedulable now that a claim was created or has changed."""
        if not isinstance(new, dra.ResourceClaim):
            return Hint.QUEUE
        before = old if isinstance(old, dra.ResourceClaim) else None
        freed = before is not None and before.status.allocation is not None and new.status.allocation is None
        if not freed and not refers_to(pod, new):
            return Hint.SKIP  # most claims belong to other pods, so this is checked first
        if self.problem(pod) is not None:
            return Hint.SKIP
        if freed:
            return Hint.QUEUE  # its devices are there for others
        if before is not None and before.status == new.status:
            return Hint.SKIP
        message = "claim for pod got created" if before is None else "status of claim for pod got updated"
        self._context.handle.log(DETAILS, message, pod=pod, claim=new)
        return Hint.QUEUE

    def after_pod_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        """Whether a waiting pod may be schedulable now that the names of its claims are known."""
        if not isinstance(new, api.Pod):
            return Hint.QUEUE
        if new.uid != pod.uid:
            return Hint.SKIP
        self.note(new)
        if self.problem(new) is not None:
            return Hint.SKIP
        self._context.handle.log(DETAILS, "pod got updated and is schedulable", pod=pod)
        return Hint.QUEUE


def _mentioned(pod: api.Pod) -> Iterator[str]:
    """The claims that a pod mentions, in its spec or in its status."""
    named = (reference.resource_claim_name for reference in pod.spec.resource_claims)
    made = (status.resource_claim_name for status in pod.status.resource_claim_statuses)
    return (f"{pod.namespace}/{name}" for name in chain(named, made) if name is not None)
