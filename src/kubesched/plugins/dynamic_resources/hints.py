"""PreEnqueue, and which pods a change of a claim may help."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

import msgspec

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.framework.events import Hint, queue_because, skip_because
from kubesched.plugins.dynamic_resources.claims import ClaimError, claims_of, refers_to
from kubesched.plugins.dynamic_resources.context import ClaimContext

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
        log = self._context.handle.log
        before = old if isinstance(old, dra.ResourceClaim) else None
        freed = before is not None and before.status.allocation is not None and new.status.allocation is None
        if not freed and not refers_to(pod, new) and log.verbosity < 6:
            return Hint.SKIP  # most claims belong to other pods, so this is checked first
        problem = self.problem(pod)
        if problem is not None:
            owner = next((each for each in new.metadata.owner_references if each.controller), None)
            about = {"claimOwner": None if owner is None else msgspec.to_builtins(owner), "reason": problem}
            why = "pod is not schedulable after resource claim change"
            return skip_because(log, 6, why, pod=pod, claim=new, **about)
        if freed:
            return queue_because(log, 6, "claim with structured parameters got deallocated", pod=pod, claim=new)
        if not refers_to(pod, new):
            return skip_because(log, 6, "unrelated claim got modified", pod=pod, claim=new)
        if before is None:
            return queue_because(log, 5, "claim for pod got created", pod=pod, claim=new)
        if before.status == new.status:
            why = "claim for pod got modified where the pod doesn't care"
            return skip_because(log, 6, why, pod=pod, claim=new)
        return queue_because(log, 5, "status of claim for pod got updated", pod=pod, claim=new)

    def after_pod_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        """Whether a waiting pod may be schedulable now that the names of its claims are known."""
        if not isinstance(new, api.Pod):
            return Hint.QUEUE
        log = self._context.handle.log
        if new.uid != pod.uid:
            why = "pod is not schedulable after change in other pod"
            return skip_because(log, 7, why, pod=pod, modifiedPod=new)
        self.note(new)
        if self.problem(new) is not None:
            return skip_because(log, 6, "pod is not schedulable after being updated", pod=pod)
        return queue_because(log, 5, "pod got updated and is schedulable", pod=pod)


def _mentioned(pod: api.Pod) -> Iterator[str]:
    """The claims that a pod mentions, in its spec or in its status."""
    named = (reference.resource_claim_name for reference in pod.spec.resource_claims)
    made = (status.resource_claim_name for status in pod.status.resource_claim_statuses)
    return (f"{pod.namespace}/{name}" for name in chain(named, made) if name is not None)
