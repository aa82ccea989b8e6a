"""ValidatingAdmissionPolicies: writes that break a rule of a bound policy are refused, or warned about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubesched.apiserver.kinds.registry import ResourceRegistry
from kubesched.apiserver.policies.attributes import AdmissionAttributes
from kubesched.apiserver.policies.expressions import CELError, Expressions, Program
from kubesched.apiserver.policies.matching import matches, selects
from kubesched.apiserver.storage.store import Record, Store
from kubesched.apiserver.wire.status import Cause, StatusError, forbidden
from kubesched.base.types import JSON

_GROUP = "admissionregistration.k8s.io"
POLICIES = f"{_GROUP}/validatingadmissionpolicies"
BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_MAX_MESSAGE = 5 << 10


class PolicyError(Exception):
    """Why a policy cannot be evaluated."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A rule that a write breaks."""

    message: str
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class _Rule:
    expression: str
    program: Program
    message: str
    message_program: Program | None
    reason: str


class CompiledPolicy:
    """One policy with its expressions compiled. `error` is the reason if that failed."""

    def __init__(self, policy: JSON) -> None:
        spec = policy.get("spec") or {}
        self.name: str = policy["metadata"]["name"]
        self.match: JSON | None = spec.get("matchConstraints")
        self.param_kind: JSON | None = spec.get("paramKind")
        self.ignores_errors = spec.get("failurePolicy") == "Ignore"
        self.error = ""
        self._conditions: list[Program] = []
        self._rules: list[_Rule] = []
        try:
            self._compile(spec)
        except CELError as error:
            self.error = str(error)

    def _compile(self, spec: JSON) -> None:
        variables = ((each["name"], each["expression"]) for each in spec.get("variables") or [])
        self._expressions = Expressions(self.param_kind is not None, variables)
        for condition in spec.get("matchConditions") or []:
            self._conditions.append(self._expressions.compile(condition["expression"], with_variables=False))
        for rule in spec.get("validations") or []:
            message = rule.get("messageExpression")
            self._rules.append(
                _Rule(
                    rule["expression"].strip(),
                    self._expressions.compile(rule["expression"]),
                    (rule.get("message") or "").strip(),
                    self._expressions.compile(message) if message else None,
                    rule.get("reason") or "Invalid",
                )
            )

    def denials(self, base: dict[str, object]) -> Iterator[Denial]:
        """The rules that a write breaks. An expression that fails counts as broken unless the policy ignores errors."""
        if self.error:
            yield from self._failed(self.error)
            return
        try:
            if not all(condition(base) is True for condition in self._conditions):
                return
        except CELError as error:
            yield from self._failed(str(error))
            return
        activation = self._expressions.activation(base)
        for rule in self._rules:
            try:
                if rule.program(activation) is not True:
                    yield Denial(_message(rule, activation), rule.reason)
            except CELError as error:
                yield from self._failed(f"expression '{rule.expression}' resulted in error: {error}")

    def _failed(self, message: str) -> Iterator[Denial]:
        if not self.ignores_errors:
            yield Denial(message)


def _message(rule: _Rule, activation: dict[str, object]) -> str:
    message: object = ""
    if rule.message_program is not None:
        try:
            message = rule.message_program(activation)
        except CELError:
            message = ""
    text = message.strip() if isinstance(message, str) else ""
    if len(text) > _MAX_MESSAGE or "\n" in text:
        text = ""
    return text or rule.message or f"failed expression: {rule.expression}"


class ValidatingPolicies:
    """Evaluates the bound policies for every write."""

    def __init__(self, store: Store, registry: ResourceRegistry) -> None:
        self._store = store
        self._registry = registry
        self._policies = store.shelf(POLICIES)
        self._bindings = store.shelf(BINDINGS)
        self._cache: dict[str, tuple[int, CompiledPolicy]] = {}

    def check(self, attributes: AdmissionAttributes) -> None:
        """Raise the refusal of the first policy that denies a write."""
        if not self._bindings.records or attributes.resource.group == _GROUP:
            return
        for record in tuple(self._bindings.records.values()):
            binding = record.load()
            policy = self._policy(binding["spec"]["policyName"])
            if policy is None or not matches(self._store, policy.match, attributes):
                continue
            if not matches(self._store, binding["spec"].get("matchResources"), attributes):
                continue
            for denial in self._denials(policy, binding, attributes):
                self._act(policy, binding, denial, attributes)

    def _policy(self, name: str) -> CompiledPolicy | None:
        record = self._policies.records.get(name)
        if record is None:
            return None
        known = self._cache.get(name)
        if known is None or known[0] != record.version:
            known = self._cache[name] = (record.version, CompiledPolicy(record.load()))
        return known[1]

    def _denials(self, policy: CompiledPolicy, binding: JSON, attributes: AdmissionAttributes) -> Iterator[Denial]:
        base: dict[str, object] = {
            "object": attributes.obj,
            "oldObject": attributes.old,
            "request": attributes.request(),
            "namespaceObject": self._namespace(attributes),
        }
        if policy.param_kind is None:
            yield from policy.denials(base)
            return
        try:
            found = self._params(policy.param_kind, binding["spec"].get("paramRef"), attributes)
        except PolicyError as error:
            if not policy.ignores_errors:
                yield Denial(f"failed to configure binding: {error}")
            return
        for params in found:
            yield from policy.denials({**base, "params": params})

    def _namespace(self, attributes: AdmissionAttributes) -> JSON | None:
        if attributes.resource.storage == "/namespaces" or not attributes.namespace:
            return None
        record = self._store.get("/namespaces", attributes.namespace)
        return None if record is None else record.load()

    # --- parameters ---------------------------------------------------------------------------------------------------

    def _params(self, kind: JSON, reference: JSON | None, attributes: AdmissionAttributes) -> list[JSON | None]:
        """The objects that a binding names as parameters. None stands for none."""
        if reference is None:
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
        found = [
            record.load() for record in self._store.records(resource.storage, namespace) if _is_named(record, reference)
        ]
        if found:
            return list(found)
        if reference.get("parameterNotFoundAction") == "Deny":
            raise PolicyError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return []

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _act(self, policy: CompiledPolicy, binding: JSON, denial: Denial, attributes: AdmissionAttributes) -> None:
        where = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding['metadata']['name']}'"
        actions = binding["spec"].get("validationActions") or []
        if "Warn" in actions:
            attributes.warn(f"Validation failed for {where}: {denial.message}")
        if "Deny" in actions:
            raise _refusal(f"{where} denied request: {denial.message}", denial.reason, attributes)


def _is_named(record: Record, reference: JSON) -> bool:
    if reference.get("name"):
        return bool(record.name == reference["name"])
    return selects(reference.get("selector") or {}, record.labels)


def _refusal(message: str, reason: str, attributes: AdmissionAttributes) -> StatusError:
    resource = attributes.resource
    plain = forbidden(resource.plural, resource.group, attributes.name, message)
    details = plain.status().get("details")
    return StatusError(
        _CODES.get(reason, 422), plain.message, reason=reason, details=details, causes=(Cause("", message),)
    )
