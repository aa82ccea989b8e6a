"""Objects of every kind that the scheduler reads, with any of their fields, most of them odd."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from msgspec import inspect
from tests.fuzz.damage import JUNK

from kubesched.api import objects as api
from kubesched.client.endpoints import endpoint_of
from kubesched.scheduler.handlers import KINDS

WORDS = (
    *("", "a", "b", "good", "ordinary", "default", "kube-system", "a b", "-", "ü", "*", "x" * 300, "\x00"),
    *("zone", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/gpu", "cpu", "memory", "pods"),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "NoExecute", "PreferNoSchedule"),
    *("DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore", "Immediate", "WaitForFirstConsumer", "Bound", "Pending"),
    *("Running", "Succeeded", "ReadWriteOncePod", "Always", "Never", "PreemptLowerPriority", "True", "False", "TCP"),
    *("All", "ExactCount", "default-scheduler", "device.driver == 'x'", "1 + ", "size(device.attributes) > 0"),
)
NUMBERS = (*(0, 1, 2, 5, 80) * 4, -1, 65_536, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30)
ODD_QUANTITIES = ("1.5Ki", "10E", "1e40", "-1", "-1n", "9223372036854775807", "0x1", ".5", "1e-9", "", "x")
QUANTITIES = (*("0", "1", "100m", "1Gi", 3, 0.5) * 8, *ODD_QUANTITIES)
DATES = ("2026-01-01T00:00:00Z", "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60.123456789Z")
LEAVES = {
    inspect.StrType: st.sampled_from((*WORDS, *ODD_QUANTITIES, *DATES)),
    inspect.IntType: st.sampled_from(NUMBERS),
    inspect.FloatType: st.sampled_from((*NUMBERS, 0.5, 1e308, -0.0)),
    inspect.BoolType: st.booleans(),
    inspect.NoneType: st.none(),
    inspect.AnyType: JUNK,
}
TYPES = {kind: cast(inspect.StructType, inspect.type_info(kind)) for kind in KINDS}
OFTEN: tuple[type[api.Object], ...] = (
    *[api.Pod] * 16,
    *[api.Node] * 6,
    *[api.ResourceClaim] * 3,
    *[api.ResourceSlice] * 3,
    *KINDS,
)
FEW = 3
"""Entries of a dictionary and items of a list."""
VERY_RARELY = st.integers(0, 99).map(lambda number: number == 7)
"""An object has dozens of fields, and junk in one of them makes it malformed."""
MOST = 8
"""Fields of a struct that are written."""


@st.composite
def _struct(draw: st.DrawFn, kind: inspect.StructType) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(kind.fields), min_size=1, max_size=MOST, unique_by=id))
    return {field.encode_name: draw(shaped(field.type)) for field in chosen}


@st.composite
def _or_junk(draw: st.DrawFn, kind: inspect.Type) -> Any:
    return draw(JUNK if draw(VERY_RARELY) else _shaped(kind))


_made: dict[int, st.SearchStrategy[Any]] = {}


def shaped(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """JSON of a type, as it is written; rarely something else."""
    found = _made.get(id(kind))  # types have no hash, and those of `TYPES` stay
    if found is None:
        found = _made[id(kind)] = _or_junk(kind)
    return found


def _shaped(kind: inspect.Type) -> st.SearchStrategy[Any]:
    if isinstance(kind, inspect.StructType):
        return _struct(kind) if kind.fields else st.just({})
    if isinstance(kind, inspect.UnionType):
        if {type(each) for each in kind.types} >= {inspect.StrType, inspect.FloatType}:
            return st.sampled_from(QUANTITIES)
        return st.one_of(*map(shaped, kind.types))
    if isinstance(kind, inspect.DictType):
        return st.dictionaries(LEAVES[inspect.StrType], shaped(kind.value_type), max_size=FEW)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return st.lists(shaped(kind.item_type), max_size=FEW)
    return LEAVES[type(kind)]


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """An object with a name that others may have too, as JSON."""
    kind: type[api.Object] = draw(st.sampled_from(OFTEN))
    fields = {field.encode_name: field.type for field in TYPES[kind].fields}
    made = draw(_struct(TYPES[kind]))
    for part in fields.keys() & {"spec", "status"} - made.keys():
        made[part] = draw(shaped(fields[part]))
    metadata = made.get("metadata")
    name = {
        "name": draw(st.sampled_from(("a", "b"))),
        **({"namespace": "default"} if endpoint_of(kind).namespaced else {}),
    }
    made["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), **name}
    return msgspec.json.encode({**made, "kind": kind.kind})
