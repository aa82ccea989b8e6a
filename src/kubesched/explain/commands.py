"""kubectl commands for a shell: patch an object, create one, or replace one whose fields cannot be changed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from kubesched.api import objects as api

Operation = dict[str, Any]
"""One operation of a JSON patch."""
_SERVERS = ("uid", "resourceVersion", "creationTimestamp", "generation")


def patch(obj: api.Object, operations: list[Operation]) -> str:
    """The command that patches an object."""
    where = f"-n {shlex.quote(obj.namespace)} " if obj.namespace else ""
    kind = type(obj).kind.lower()
    return f"kubectl patch {kind} {where}{shlex.quote(obj.name)} --type=json -p {shlex.quote(json.dumps(operations))}"


def recreate(before: api.Object, after: api.Object) -> str:
    """The command that deletes an object and creates it with changes.

    kubectl makes the patch itself and prints the result, so fields that scheduling never reads are kept.
    """
    operations = list(_differences(_builtin(before), _builtin(after), ""))
    changed = f"{patch(before, operations)} --dry-run=client -o json"
    if isinstance(before, api.Pod) and before.node_name:
        # Its node does not exist, so no kubelet confirms a graceful deletion, and `replace --force` would wait for one.
        where = f"-n {shlex.quote(before.namespace)} {shlex.quote(before.name)}"
        delete = f"kubectl delete pod {where} --force --grace-period=0"
        return f'new="$({changed})" && {delete} && printf %s "$new" | kubectl create -f -'
    return f"{changed} | kubectl replace --force -f -"


def create(obj: api.Object) -> str:
    """The command that creates an object."""
    body = {"apiVersion": type(obj).api_version, "kind": type(obj).kind, **_builtin(obj)}
    body["metadata"] = {name: value for name, value in body["metadata"].items() if name not in _SERVERS}
    return f"echo {shlex.quote(json.dumps(body))} | kubectl create -f -"


def about(command: str, pod: api.Pod, other: api.Pod) -> str:
    """The same command for another pod of the same namespace."""
    where = f" pod -n {shlex.quote(pod.namespace)}"
    return command.replace(f"{where} {shlex.quote(pod.name)} ", f"{where} {shlex.quote(other.name)} ")


def _builtin(obj: api.Object) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(obj)
    built.pop("status", None)
    return built


def _differences(before: Any, after: Any, path: str) -> Iterator[Operation]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            inner = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in after:
                yield {"op": "remove", "path": inner}
            elif key not in before:
                yield {"op": "add", "path": inner, "value": after[key]}
            else:
                yield from _differences(before[key], after[key], inner)
    elif isinstance(before, tuple | list) and isinstance(after, tuple | list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, f"{path}/{index}")
    else:
        yield {"op": "replace", "path": path, "value": after}
