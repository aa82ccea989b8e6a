"""Validation of the volumes of pods."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.apiserver.validation.checks import each, is_negative
from kubesched.apiserver.validation.claims import check_claim_spec, check_nfs
from kubesched.apiserver.validation.containers import (
    check_field_reference,
    check_local_path,
    check_name,
    check_resource_reference,
)
from kubesched.apiserver.validation.device_names import check_driver
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_MODE_RULE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 1 << 32


def check_volumes(spec: JSON, path: str, problems: Problems) -> set[str]:
    """Check the volumes of a pod. Returns the names of those that containers can mount."""
    names: set[str] = set()
    usable: set[str] = set()
    for volume, where in each(spec.get("volumes"), f"{path}.volumes"):
        before = len(problems.found)
        sources = [name for name, value in volume.items() if name != "name" and value is not None]
        for extra in sources[1:]:
            problems.forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        for source in sources[:1]:
            if (check := _SOURCES.get(source)) is not None:
                check(volume[source], f"{where}.{source}", problems)
        check_name(volume, where, names, problems)
        if len(problems.found) == before:
            usable.add(volume.get("name") or "")
    return usable


def _require(*fields: str) -> Callable[[JSON, str, Problems], None]:
    def check(source: JSON, path: str, problems: Problems) -> None:
        for field in fields:
            if not source.get(field):
                problems.required(f"{path}.{field}")

    return check


def _empty_dir(source: JSON, path: str, problems: Problems) -> None:
    if is_negative(source.get("sizeLimit")):
        problems.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: JSON, path: str, problems: Problems) -> None:
    place = source.get("path") or ""
    if not place:
        problems.required(f"{path}.path")
    elif ".." in place.split("/"):
        problems.invalid(f"{path}.path", place, "must not contain '..'")
    if (source.get("type") or "") not in _HOST_PATHS:
        problems.unsupported(f"{path}.type", source["type"], _HOST_PATHS)


def _check_mode(part: JSON, field: str, path: str, problems: Problems) -> None:
    mode = part.get(field)
    if mode is not None and not 0 <= mode <= 0o777:
        problems.invalid(f"{path}.{field}", mode, _MODE_RULE)


def _file_path(text: str, path: str, problems: Problems) -> None:
    check_local_path(text, path, problems)
    if text.startswith("..") and ".." not in text.split("/"):
        problems.invalid(path, text, "must not start with '..'")


def _items(source: JSON, path: str, problems: Problems) -> None:
    for item, where in each(source.get("items"), f"{path}.items"):
        _require("key", "path")(item, where, problems)
        _file_path(item.get("path") or "", f"{where}.path", problems)
        _check_mode(item, "mode", where, problems)


def _keys(field: str) -> Callable[[JSON, str, Problems], None]:
    """Check files from the keys of an object that a field names."""

    def check(source: JSON, path: str, problems: Problems) -> None:
        _require(field)(source, path, problems)
        _check_mode(source, "defaultMode", path, problems)
        _items(source, path, problems)

    return check


def _downward(source: JSON, path: str, problems: Problems) -> None:
    _check_mode(source, "defaultMode", path, problems)
    for item in source.get("items") or []:
        _require("path")(item, path, problems)
        _file_path(item.get("path") or "", f"{path}.path", problems)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            check_field_reference(field, f"{path}.fieldRef", problems, in_file=True)
        elif resource is not None:
            check_resource_reference(resource, f"{path}.resourceFieldRef", problems, in_file=True)
        else:
            problems.required(path, "one of fieldRef and resourceFieldRef is required")
        _check_mode(item, "mode", path, problems)


def _projected(source: JSON, path: str, problems: Problems) -> None:
    _check_mode(source, "defaultMode", path, problems)
    taken: set[str] = set()
    for part, where in each(source.get("sources"), f"{path}.sources"):
        for kind in ("secret", "configMap"):
            if part.get(kind) is not None:
                _require("name")(part[kind], f"{where}.{kind}", problems)
                _items(part[kind], f"{where}.{kind}", problems)
                _no_conflicts(part[kind], taken, path, problems, part[kind].get("name"))
        if part.get("downwardAPI") is not None:
            _downward(part["downwardAPI"], f"{where}.downwardAPI", problems)
            _no_conflicts(part["downwardAPI"], taken, path, problems)
        if part.get("serviceAccountToken") is not None:
            _token(part["serviceAccountToken"], path, f"{where}.serviceAccountToken", problems)


def _no_conflicts(part: JSON, taken: set[str], path: str, problems: Problems, name: str | None = None) -> None:
    """No two files of a volume have the same path."""
    for item in part.get("items") or []:
        place = item.get("path") or ""
        if place and place in taken:
            problems.invalid(path, name if name is not None else place, "conflicting duplicate paths")
        taken.add(place)


def _token(token: JSON, volume: str, path: str, problems: Problems) -> None:
    seconds = token.get("expirationSeconds") or 0
    if seconds < _SHORTEST_TOKEN:
        problems.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST_TOKEN:
        problems.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    _require("path")(token, volume, problems)
    _file_path(token.get("path") or "", f"{volume}.path", problems)


def _ephemeral(source: JSON, path: str, problems: Problems) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        problems.required(f"{path}.volumeClaimTemplate")
    else:
        check_claim_spec(template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec", problems)


def _csi(source: JSON, path: str, problems: Problems) -> None:
    check_driver(source.get("driver"), f"{path}.driver", problems)


_SOURCES: dict[str, Callable[[JSON, str, Problems], None]] = {
    "configMap": _keys("name"),
    "csi": _csi,
    "downwardAPI": _downward,
    "emptyDir": _empty_dir,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "iscsi": _require("targetPortal", "iqn"),
    "nfs": check_nfs,
    "persistentVolumeClaim": _require("claimName"),
    "projected": _projected,
    "secret": _keys("secretName"),
}
