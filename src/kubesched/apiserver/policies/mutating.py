"""MutatingAdmissionPolicies: bound policies change objects before they are checked and stored."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from kubesched.apiserver.apply.fields import merge
from kubesched.apiserver.apply.requests import undeclared
from kubesched.apiserver.apply.shapes import MergeShape
from kubesched.apiserver.auth.rbac import Authorizer
from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.policies.attributes import AdmissionAttributes
from kubesched.apiserver.policies.bound import BoundPolicies, CompiledPolicy, Invocation, PolicyError
from kubesched.apiserver.policies.expressions import CELError, Program
from kubesched.apiserver.rest.body import custom_type
from kubesched.apiserver.rest.patch import JsonPatchError, JsonPatchTestError, json_patch
from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.validation.typecheck import WrongTypeError, drop_unknown
from kubesched.apiserver.wire.status import Cause, StatusError, forbidden
from kubesched.base.types import JSON
from kubesched.cel.patches import JSON_PATCH, OBJECT, to_json, wrong_names
from kubesched.cel.types import list_of
from kubesched.cel.values import StructValue

Prepare = Callable[[JSON], None]
"""Completes an object: defaults, built-in admission, and what the kind prescribes. May run twice."""


@dataclass(frozen=True, slots=True)
class _Mutation:
    program: Program
    is_json_patch: bool


class MutatingPolicy(CompiledPolicy):
    """A policy with its mutations."""

    def compile(self, spec: JSON) -> None:
        self.reinvoked = spec.get("reinvocationPolicy") == "IfNeeded"
        self.mutations: list[_Mutation] = []
        for each in spec.get("mutations") or []:
            is_json_patch = each.get("patchType") == "JSONPatch"
            source = (each.get("jsonPatch" if is_json_patch else "applyConfiguration") or {}).get("expression") or ""
            result = list_of(JSON_PATCH) if is_json_patch else OBJECT
            program = self.expressions.compile(source, result, patches=True)
            self.mutations.append(_Mutation(program, is_json_patch))


class MutatingPolicies:
    """Runs the bound policies for every write."""

    def __init__(self, store: Store, registry: ResourceRegistry, authorizer: Authorizer) -> None:
        self._bound = BoundPolicies(store, registry, authorizer, "mutatingadmission", MutatingPolicy)

    @property
    def is_used(self) -> bool:
        """Whether there are policies."""
        return self._bound.is_used

    def apply(
        self,
        attributes: AdmissionAttributes,
        shape: Callable[[], MergeShape],
        prepare: Prepare,
        prepare_changed: Prepare,
    ) -> JSON:
        """The object of a write, completed and changed by the policies that apply to it.

        If a policy changed something, the object is completed again, and policies that ask for it run a second time.
        """
        obj = cast(JSON, attributes.obj)
        prepare(obj)
        run = _Run(self._bound, shape)
        changed = run.pass_over(replace(attributes, obj=obj))
        if changed == obj:
            return obj
        before = copy.deepcopy(changed)
        prepare_changed(changed)
        if changed != before:
            run.require_all()
        again = run.pass_over(replace(attributes, obj=changed), second=True)
        if again != changed:
            prepare_changed(again)
        return again


class _Run:
    """The policies that ran for one write."""

    def __init__(self, bound: BoundPolicies[MutatingPolicy], shape: Callable[[], MergeShape]) -> None:
        self._bound = bound
        self._shape = shape
        self._reinvocable: set[tuple[str, ...]] = set()
        """Invocations that run again once a later one has changed the object."""
        self._due: set[tuple[str, ...]] = set()
        self._errors: list[str] = []

    def require_all(self) -> None:
        """The object has changed since: all that ran and can run again are due."""
        self._due |= self._reinvocable

    def pass_over(self, attributes: AdmissionAttributes, *, second: bool = False) -> JSON:
        """The object after all policies. In the second pass only those run that are due again."""
        self._errors = []
        name = attributes.name
        # As upstream, bindings that cannot be used are reported before anything runs.
        for invocation in sorted(self._bound.invocations(attributes), key=lambda each: not each.error):
            if second and invocation.key not in self._due:
                continue
            changed = self._invoke(invocation, attributes)
            if changed != attributes.obj:
                self.require_all()
            if not invocation.error and not invocation.policy.error and invocation.policy.reinvoked:
                self._reinvocable.add(invocation.key)
            attributes = replace(attributes, obj=changed)
        if self._errors:
            raise _refusal(self._errors, attributes.resource, name)
        return cast(JSON, attributes.obj)

    def _invoke(self, invocation: Invocation[MutatingPolicy], attributes: AdmissionAttributes) -> JSON:
        obj = cast(JSON, attributes.obj)
        policy = invocation.policy
        try:
            if invocation.error:
                raise PolicyError(invocation.error)
            if not policy.applies(self._bound.variables(invocation, attributes)):
                return obj
        except PolicyError as error:
            self._failed(invocation, error)
            return obj
        for mutation in policy.mutations:
            try:
                base = self._bound.variables(invocation, replace(attributes, obj=obj))
                obj = self._mutated(mutation, obj, policy.expressions.activation(base), attributes)
            except PolicyError as error:
                self._failed(invocation, error)
        return obj

    def _failed(self, invocation: Invocation[MutatingPolicy], error: PolicyError) -> None:
        if not invocation.policy.ignores_errors:
            where = f"policy '{invocation.policy.name}' with binding '{invocation.binding_name}'"
            self._errors.append(f"{where} denied request: {error}")

    def _mutated(
        self, mutation: _Mutation, obj: JSON, activation: dict[str, object], attributes: AdmissionAttributes
    ) -> JSON:
        """The object after one mutation. Raises PolicyError."""
        try:
            value = mutation.program(activation)
            if mutation.is_json_patch:
                return _patched(obj, cast(list[StructValue], value), attributes)
            return _merged(obj, value, attributes, self._shape())
        except CELError as error:
            source = mutation.program.source
            raise PolicyError(f"expression '{source}' resulted in error: {error}") from None


# --- apply configurations ---------------------------------------------------------------------------------------------


def _merged(obj: JSON, value: object, attributes: AdmissionAttributes, shape: MergeShape) -> JSON:
    """`obj` with an apply configuration merged in, as by server-side apply."""
    if names := list(wrong_names(value, OBJECT.name)):
        raise PolicyError("type mismatch: " + "\n".join(names))
    wanted = {**cast(JSON, to_json(value)), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    start = "error applying patch: "
    if problem := _type_problem(wanted, attributes):
        raise PolicyError(f"{start}failed to convert patch object to typed object: {problem}")
    if atomics := list(_atomics(wanted, shape, "")):
        why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise PolicyError(f"{start}invalid ApplyConfiguration: {why}")
    return copy.deepcopy(cast(JSON, merge(obj, wanted, shape)))


def _type_problem(wanted: JSON, attributes: AdmissionAttributes) -> str:
    try:
        unknown = drop_unknown(copy.deepcopy(wanted), type_of(attributes.resource.schema) or custom_type())
    except WrongTypeError as error:
        return error.typed
    return undeclared(unknown) if unknown else ""


def _atomics(value: Any, shape: MergeShape, path: str) -> list[str]:
    """The lists and maps in a value that are replaced as a whole. Setting a part of one would drop the rest."""
    found: list[str] = []
    if isinstance(value, dict):
        found += [path] if shape.atomic else []
        for name, child in value.items():
            child_shape, declared = shape.field(name)
            found += _atomics(child, child_shape, f"{path}.{name}") if declared else []
    elif isinstance(value, list):
        found += [path] if shape.keys is None else []
        for index, child in enumerate(value):
            found += _atomics(child, shape.item, f"{path}[{index}]")
    return found


# --- JSON patches -----------------------------------------------------------------------------------------------------


def _patched(obj: JSON, value: list[StructValue], attributes: AdmissionAttributes) -> JSON:
    """`obj` after a list of operations. One whose test fails changes nothing."""
    operations = [_operation(each) for each in value]
    try:
        patched = json_patch(copy.deepcopy(obj), operations)
    except JsonPatchTestError:
        return obj
    except JsonPatchError as error:
        raise PolicyError(f"JSON Patch: {error.detail}") from None
    except StatusError as error:
        raise PolicyError(f"JSON Patch: {error.message}") from None
    if not isinstance(patched, dict):
        raise _internal("the patch leaves no object")
    patched |= {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    kind = type_of(attributes.resource.schema)
    try:
        unknown = drop_unknown(patched, kind) if kind is not None else []
    except WrongTypeError as error:
        raise _internal(str(error)) from None
    if unknown:
        raise _internal("strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown))
    return patched


def _operation(value: StructValue) -> JSON:
    operation: JSON = {}
    for field in ("op", "path", "from"):
        text = value.get(field, "")
        if not isinstance(text, str):
            raise PolicyError(f"unexpected type for JSONPatchType '{field}' field")
        if text or field != "from":
            operation[field] = text
    if "value" in value:
        created = value["value"]
        if isinstance(created, StructValue) and (names := list(wrong_names(created, created.type_name))):
            raise PolicyError("type mismatch: " + "\n".join(names))
        operation["value"] = to_json(created)
    return operation


def _internal(message: str) -> StatusError:
    return StatusError(500, f"Internal error occurred: {message}", causes=(Cause("", message),))


def _refusal(errors: list[str], resource: ApiResource, name: str) -> StatusError:
    details = forbidden(resource.plural, resource.group, name, "").status().get("details")
    causes = [Cause("", message) for message in errors]
    return StatusError(403, errors[0], reason="Invalid", details=details, causes=causes)
