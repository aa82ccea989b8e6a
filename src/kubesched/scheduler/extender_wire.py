"""The messages between the scheduler and an extender: JSON with the field names of upstream's ``extender/v1``.

Extenders are written in many languages, against Go's encoder and decoder. So requests carry exactly Go's field names
and nulls, and responses are parsed as leniently as Go does: field names in any case, null for empty, and anything
after the first value ignored. What Go would reject is rejected here with the same text, because people search for it
in events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.framework.extender import ExtenderError, ExtenderVictims
from kubesched.logs.quoting import quote

Json = dict[str, Any]
"""A JSON object with values of any type."""

RawObject = Callable[[api.Object], bytes | None]
"""Returns the whole object as the API server sent it, if it was kept: our structs hold only a part."""


# --- requests ---------------------------------------------------------------------------------------------------------


class Encoder:
    """Encodes objects as JSON. The JSON of a node is cached for as long as the node does not change."""

    def __init__(self, raw: RawObject | None = None) -> None:
        self._raw = raw
        self._nodes: dict[str, tuple[api.Node, msgspec.Raw]] = {}

    def pod(self, pod: api.Pod) -> msgspec.Raw:
        """A v1.Pod."""
        return self._object(pod)

    def node_list(self, nodes: Sequence[api.Node]) -> Json:
        """A v1.NodeList."""
        if len(self._nodes) > 2 * len(nodes) + 1000:
            self._nodes.clear()
        return {"metadata": {}, "items": [self._node(node) for node in nodes]}

    def _node(self, node: api.Node) -> msgspec.Raw:
        known = self._nodes.get(node.name)
        if known is None or known[0] is not node:
            known = self._nodes[node.name] = (node, self._object(node))
        return known[1]

    def _object(self, obj: api.Object) -> msgspec.Raw:
        whole = self._raw(obj) if self._raw is not None else None
        return msgspec.Raw(whole if whole is not None else msgspec.json.encode(obj))


def arguments(encoder: Encoder, pod: api.Pod, nodes: Sequence[api.Node], *, names_only: bool) -> Json:
    """ExtenderArgs: the pod, and the nodes in question in one of two forms."""
    return {
        "Pod": encoder.pod(pod),
        "Nodes": None if names_only else encoder.node_list(nodes),
        "NodeNames": [node.name for node in nodes] if names_only else None,
    }


def preemption_arguments(
    encoder: Encoder, pod: api.Pod, victims: Mapping[str, ExtenderVictims], *, names_only: bool
) -> Json:
    """ExtenderPreemptionArgs: the pod, and its potential victims by node."""

    def some(each: ExtenderVictims) -> Json:
        pods = [{"UID": info.pod.uid} if names_only else encoder.pod(info.pod) for info in each.pods]
        return {"Pods": pods, "NumPDBViolations": each.violations}

    by_node = {node: some(each) for node, each in victims.items()}
    return {
        "Pod": encoder.pod(pod),
        "NodeNameToVictims": None if names_only else by_node,
        "NodeNameToMetaVictims": by_node if names_only else None,
    }


def binding_arguments(pod: api.Pod, node_name: str) -> Json:
    """ExtenderBindingArgs."""
    return {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}


# --- responses --------------------------------------------------------------------------------------------------------


def decode(body: bytes) -> object:
    """The first JSON value of a response."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_as_go(body.decode("utf-8", "replace"))
    except RecursionError:
        raise ExtenderError("exceeded max depth") from None


def _decode_as_go(text: str) -> object:
    start = len(text) - len(text.lstrip(" \t\r\n"))
    if start == len(text):
        raise ExtenderError("EOF")
    try:
        return _DECODER.raw_decode(text, start)[0]
    except json.JSONDecodeError as problem:
        raise ExtenderError(_syntax_error(text, problem)) from None
    except RecursionError:
        raise ExtenderError("exceeded max depth") from None


def _refuse_constant(name: str) -> object:
    raise ExtenderError(f"invalid character '{name[0]}' looking for beginning of value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_AFTER = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}
_LITERALS = {"t": "true", "f": "false", "n": "null"}


def _syntax_error(text: str, problem: json.JSONDecodeError) -> str:
    """Go's text for the same syntax error."""
    message, position = problem.msg.partition(": ")[0], problem.pos
    if message.startswith("Illegal trailing comma"):  # since Python 3.13, at the comma; Go complains about what follows
        position += len(re.match(r",\s*", text[position:])[0])  # type: ignore[index]
        message = "Expecting property name enclosed in double quotes" if text[position] == "}" else "Expecting value"
    if message == "Invalid \\escape":
        position += 1
    if message.startswith("Unterminated string") or position >= len(text):
        return "unexpected EOF"
    literal = _LITERALS.get(text[position])
    if literal is not None and message == "Expecting value":
        return _literal_error(text[position:], literal)
    where = _AFTER.get(message, "looking for beginning of value")
    if message == "Expecting ',' delimiter":
        where = "after array element" if _in_array(text[:position]) else "after object key:value pair"
    return f"invalid character {_char(text[position])} {where}"


def _in_array(text: str) -> bool:
    """Whether the innermost value still open at the end is an array."""
    brackets = re.sub(r'"(?:\\.|[^"\\])*"|[^\[\]{}]', "", text)
    while (fewer := brackets.replace("[]", "").replace("{}", "")) != brackets:
        brackets = fewer
    return brackets.endswith("[")


def _literal_error(text: str, literal: str) -> str:
    for got, expected in zip(text[1:], literal[1:], strict=False):
        if got != expected:
            return f"invalid character {_char(got)} in literal {literal} (expecting {_char(expected)})"
    return "unexpected EOF"


def _char(char: str) -> str:
    """A character as Go quotes it: only its first byte has been read."""
    byte = chr(char.encode()[0])
    return {"'": r"'\''", '"': "'\"'"}.get(byte) or f"'{quote(byte)[1:-1]}'"


class ExtenderAnswer:
    """A JSON object from an extender. Each field is converted to the type that Go has for it."""

    def __init__(self, value: object, kind: str, path: str = "") -> None:
        self._kind = kind
        self._path = path
        self._fields: Json = {}
        if isinstance(value, dict):
            self._fields = {str(key).lower(): item for key, item in value.items()}
        elif value is not None:
            raise ExtenderError(f"json: cannot unmarshal {_json_kind(value)} into Go value of type v1.{kind}")

    def raw(self, field: str) -> object:
        """The unconverted value of a field; None if it is missing."""
        return self._fields.get(field.lower())

    def text(self, field: str) -> str:
        found = self.raw(field)
        return "" if found is None else self._checked(found, str, field, "string")

    def integer(self, field: str) -> int:
        found = self.raw(field)
        if isinstance(found, bool) or (found is not None and not isinstance(found, int)):
            number = f" {found!r}" if isinstance(found, float) else ""
            raise self._mismatch(found, field, "int64", number)
        return found or 0

    def texts(self, field: str) -> list[str] | None:
        """A list of strings; None if the field is missing, which differs from an empty list."""
        found = self.raw(field)
        if found is None:
            return None
        items = self._checked(found, list, field, "[]string")
        return ["" if item is None else self._checked(item, str, field, "string") for item in items]

    def text_map(self, field: str) -> dict[str, str]:
        """Messages by node."""
        found = self.objects_by_name(field, "v1.FailedNodesMap")
        return {k: "" if v is None else self._checked(v, str, field, "string") for k, v in found.items()}

    def objects_by_name(self, field: str, type_name: str) -> Json:
        found = self.raw(field)
        return {} if found is None else self._checked(found, dict, field, type_name)

    def objects(self, field: str, type_name: str) -> list[Any]:
        found = self.raw(field)
        return [] if found is None else self._checked(found, list, field, type_name)

    def _checked(self, value: Any, expected: type, field: str, type_name: str) -> Any:
        if not isinstance(value, expected):
            raise self._mismatch(value, field, type_name)
        return value

    def _mismatch(self, value: object, field: str, type_name: str, which: str = "") -> ExtenderError:
        place = f"Go struct field {self._kind}.{self._path}{field} of type {type_name}"
        return ExtenderError(f"json: cannot unmarshal {_json_kind(value)}{which} into {place}")


def _json_kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    kinds = {str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "null")


def node_names(answer: ExtenderAnswer) -> list[str] | None:
    """The names in a NodeList under ``Nodes``; None if there is no list."""
    if answer.raw("Nodes") is None:
        return None
    nodes = ExtenderAnswer(answer.objects_by_name("Nodes", "v1.NodeList"), "NodeList", "Nodes.")
    items = nodes.objects("items", "[]v1.Node")
    return [ExtenderAnswer(ExtenderAnswer(item, "Node").raw("metadata"), "ObjectMeta").text("name") for item in items]


def scores(value: object) -> dict[str, int]:
    """A HostPriorityList. The scores of a node that is listed twice are added up."""
    if value is not None and not isinstance(value, list):
        raise ExtenderError(f"json: cannot unmarshal {_json_kind(value)} into Go value of type v1.HostPriorityList")
    found: dict[str, int] = {}
    for item in value or ():
        priority = ExtenderAnswer(item, "HostPriority")
        host = priority.text("Host")
        found[host] = found.get(host, 0) + priority.integer("Score")
    return found


def meta_victims(answer: ExtenderAnswer) -> dict[str, tuple[list[str], int]]:
    """NodeNameToMetaVictims: by node, the UIDs of the victims and how many of them violate a disruption budget."""
    found: dict[str, tuple[list[str], int]] = {}
    for node, value in answer.objects_by_name("NodeNameToMetaVictims", "map[string]*v1.MetaVictims").items():
        victims = ExtenderAnswer(value, "MetaVictims")
        uids = [ExtenderAnswer(pod, "MetaPod").text("UID") for pod in victims.objects("Pods", "[]*v1.MetaPod")]
        found[node] = (uids, victims.integer("NumPDBViolations"))
    return found
