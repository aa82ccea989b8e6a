"""ValidatingAdmissionPolicies: writes that break a rule of a bound policy are refused, or warned about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubesched.apiserver.auth.rbac import Authorizer
from kubesched.apiserver.kinds.registry import ResourceRegistry
from kubesched.apiserver.policies.attributes import AdmissionAttributes
from kubesched.apiserver.policies.bound import BoundPolicies, CompiledPolicy, Invocation, PolicyError
from kubesched.apiserver.policies.expressions import CELError, Program
from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.wire.status import Cause, StatusError, forbidden
from kubesched.base.types import JSON
from kubesched.cel.types import BOOL, STRING

_CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_MAX_MESSAGE = 5 << 10


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


class ValidatingPolicy(CompiledPolicy):
    """A policy with its rules."""

    def compile(self, spec: JSON) -> None:
        self._rules: list[_Rule] = []
        for rule in spec.get("validations") or []:
            message = rule.get("messageExpression")
            self._rules.append(
                _Rule(
                    rule["expression"].strip(),
                    self.expressions.compile(rule["expression"], BOOL),
                    (rule.get("message") or "").strip(),
                    self.expressions.compile(message, STRING) if message else None,
                    rule.get("reason") or "Invalid",
                )
            )

    def denials(self, base: dict[str, object]) -> Iterator[Denial]:
        """The rules that a write breaks. An expression that fails counts as broken unless the policy ignores errors."""
        try:
            if not self.applies(base):
                return
        except PolicyError as error:
            yield from self.failed(str(error))
            return
        activation = self.expressions.activation(base)
        for rule in self._rules:
            try:
                if rule.program(activation) is not True:
                    yield Denial(_message(rule, activation), rule.reason)
            except CELError as error:
                yield from self.failed(f"expression '{rule.expression}' resulted in error: {error}")

    def failed(self, message: str) -> Iterator[Denial]:
        """What an error means for the write."""
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

    def __init__(self, store: Store, registry: ResourceRegistry, authorizer: Authorizer) -> None:
        self._bound = BoundPolicies(store, registry, authorizer, "validatingadmission", ValidatingPolicy)

    @property
    def is_used(self) -> bool:
        """Whether any policy is bound."""
        return self._bound.is_used

    def check(self, attributes: AdmissionAttributes) -> None:
        """Raise the refusal of the first policy that denies a write."""
        for invocation in self._bound.invocations(attributes):
            for denial in self._denials(invocation, attributes):
                _act(invocation, denial, attributes)

    def _denials(self, invocation: Invocation[ValidatingPolicy], attributes: AdmissionAttributes) -> Iterator[Denial]:
        if invocation.error:
            return invocation.policy.failed(invocation.error)
        return invocation.policy.denials(self._bound.variables(invocation, attributes))


def _act(invocation: Invocation[ValidatingPolicy], denial: Denial, attributes: AdmissionAttributes) -> None:
    where = f"ValidatingAdmissionPolicy '{invocation.policy.name}' with binding '{invocation.binding_name}'"
    actions = invocation.binding["spec"].get("validationActions") or []
    if "Warn" in actions:
        attributes.warn(f"Validation failed for {where}: {denial.message}")
    if "Deny" in actions:
        raise _refusal(f"{where} denied request: {denial.message}", denial.reason, attributes)


def _refusal(message: str, reason: str, attributes: AdmissionAttributes) -> StatusError:
    resource = attributes.resource
    plain = forbidden(resource.plural, resource.group, attributes.name, message)
    details = plain.status().get("details")
    return StatusError(
        _CODES.get(reason, 422), plain.message, reason=reason, details=details, causes=(Cause("", message),)
    )
