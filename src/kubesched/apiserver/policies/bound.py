"""What both kinds of admission policies share: finding those that apply to a write, with their parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubesched.apiserver.auth.rbac import AccessRequest, Authorizer
from kubesched.apiserver.kinds.registry import ResourceRegistry
from kubesched.apiserver.policies.attributes import AdmissionAttributes
from kubesched.apiserver.policies.authorization import ResourceCheck, UserAuthorizer
from kubesched.apiserver.policies.expressions import CELError, Expressions, Program
from kubesched.apiserver.policies.matching import matches, selects
from kubesched.apiserver.storage.store import Record, Store
from kubesched.base.types import JSON

GROUP = "admissionregistration.k8s.io"


class PolicyError(Exception):
    """Why a policy cannot be evaluated."""


class CompiledPolicy(ABC):
    """One policy with its expressions compiled. `error` is the reason if that failed."""

    def __init__(self, policy: JSON) -> None:
        spec = policy.get("spec") or {}
        self.name: str = policy["metadata"]["name"]
        self.match: JSON | None = spec.get("matchConstraints")
        self.param_kind: JSON | None = spec.get("paramKind")
        self.ignores_errors = spec.get("failurePolicy") == "Ignore"
        self.error = ""
        self.expressions = Expressions(self.param_kind is not None)
        self._conditions: list[Program] = []
        try:
            self.expressions.add_variables((each["name"], each["expression"]) for each in spec.get("variables") or [])
            for condition in spec.get("matchConditions") or []:
                self._conditions.append(self.expressions.compile_condition(condition["expression"]))
            self.compile(spec)
        except CELError as error:
            self.error = f"compilation failed: {error}"

    @abstractmethod
    def compile(self, spec: JSON) -> None:
        """Compile what the policy does. Raises CELError."""

    def applies(self, base: dict[str, object]) -> bool:
        """Whether all conditions hold. One that is false counts more than one that fails. Raises PolicyError."""
        if self.error:
            raise PolicyError(self.error)
        failures = []
        for condition in self._conditions:
            try:
                if condition(base) is not True:
                    return False
            except CELError as error:
                failures.append(f"expression '{condition.source}' resulted in error: {error}")
        if failures:
            raise PolicyError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True


P = TypeVar("P", bound=CompiledPolicy)


@dataclass(frozen=True, slots=True)
class Invocation(Generic[P]):
    """A policy that applies to a write by a binding, with one of the binding's parameters."""

    policy: P
    binding: JSON
    params: JSON | None = None
    error: str = ""
    """Why the parameters cannot be used."""

    @property
    def binding_name(self) -> str:
        return str(self.binding["metadata"]["name"])

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells invocations for one write apart."""
        meta = (self.params or {}).get("metadata") or {}
        return self.policy.name, self.binding_name, meta.get("namespace", ""), meta.get("name", "")


class BoundPolicies(Generic[P]):
    """All policies of a kind, compiled when they are first needed."""

    def __init__(
        self,
        store: Store,
        registry: ResourceRegistry,
        authorizer: Authorizer,
        plural: str,
        compile_policy: Callable[[JSON], P],
    ) -> None:
        self._store = store
        self._registry = registry
        self._authorizer = authorizer
        self._compile = compile_policy
        self._policies = store.shelf(f"{GROUP}/{plural}policies")
        self._bindings = store.shelf(f"{GROUP}/{plural}policybindings")
        self._cache: dict[str, tuple[int, P]] = {}

    @property
    def is_used(self) -> bool:
        """Whether there are bindings at all."""
        return bool(self._bindings.records)

    def invocations(self, attributes: AdmissionAttributes) -> Iterator[Invocation[P]]:
        """The policies that apply to a write, in the order of their names and those of their bindings."""
        if not self.is_used or attributes.resource.group == GROUP:
            return
        bound = [record.load() for record in tuple(self._bindings.records.values())]
        for binding in sorted(bound, key=lambda each: (each["spec"]["policyName"], each["metadata"]["name"])):
            policy = self._policy(binding["spec"]["policyName"])
            if policy is None or not matches(self._store, policy.match, attributes):
                continue
            if not matches(self._store, binding["spec"].get("matchResources"), attributes):
                continue
            try:
                for params in self._params(policy, binding["spec"].get("paramRef"), attributes):
                    yield Invocation(policy, binding, params)
            except PolicyError as error:
                yield Invocation(policy, binding, error=f"failed to configure binding: {error}")

    def _policy(self, name: str) -> P | None:
        record = self._policies.records.get(name)
        if record is None:
            return None
        known = self._cache.get(name)
        if known is None or known[0] != record.version:
            known = self._cache[name] = (record.version, self._compile(record.load()))
        return known[1]

    def variables(self, invocation: Invocation[P], attributes: AdmissionAttributes) -> dict[str, object]:
        """The variables of expressions, without those that the policy itself defines."""
        subject = UserAuthorizer(self._authorizer, attributes.user)
        resource = attributes.resource
        own = AccessRequest(
            "",
            group=resource.group,
            resource=resource.plural,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        base: dict[str, object] = {
            "object": attributes.obj,
            "oldObject": attributes.old,
            "request": attributes.request(),
            "namespaceObject": self._namespace(attributes),
            "authorizer": subject,
            "authorizer.requestResource": ResourceCheck(subject, own),
        }
        return base if invocation.policy.param_kind is None else {**base, "params": invocation.params}

    def _namespace(self, attributes: AdmissionAttributes) -> JSON | None:
        if attributes.resource.storage == "/namespaces" or not attributes.namespace:
            return None
        record = self._store.get("/namespaces", attributes.namespace)
        return None if record is None else record.load()

    def _params(self, policy: P, reference: JSON | None, attributes: AdmissionAttributes) -> list[JSON | None]:
        """The objects that a binding names as parameters. None stands for none."""
        kind = policy.param_kind
        if kind is None or reference is None:
            return [None]
        group, _, version = kind["apiVersion"].rpartition("/")
        resource = next((r for r in self._registry.of(group, version) if r.kind == kind["kind"]), None)
        if resource is None:
            raise PolicyError(f"paramKind kind `{kind['apiVersion']}, Kind={kind['kind']}` not known")
        namespace = ""
        if resource.namespaced:
            namespace = reference.get("namespace") or str(attributes.metadata.get("namespace", ""))
            if not namespace:
                raise PolicyError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif reference.get("namespace"):
            raise PolicyError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        found = [
            record.load() for record in self._store.records(resource.storage, namespace) if _is_named(record, reference)
        ]
        if found:
            return list(found)
        if reference.get("parameterNotFoundAction") == "Deny":
            raise PolicyError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return []


def _is_named(record: Record, reference: JSON) -> bool:
    if reference.get("name"):
        return bool(record.name == reference["name"])
    return selects(reference.get("selector") or {}, record.labels)
