"""What plugins sign of a pod: the parts they read, by upstream's names. Equal signatures mean equal answers."""

from __future__ import annotations

from typing import Final

import msgspec

from kubesched.api import objects as api

Signature = dict[str, object]

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def tolerations(pod: api.Pod) -> Signature:
    return {"v1.Pod.Spec.Tolerations": unordered(pod.spec.tolerations)}


def volumes(pod: api.Pod) -> Signature:
    """Volumes without their names. Those that scheduling reads nothing of do not count."""
    sources = [msgspec.structs.replace(each, name="") for each in pod.spec.volumes]
    return {"v1.Pod.Spec.Volumes.NonSyntheticSources()": unordered([each for each in sources if each != api.Volume()])}


def unordered(value: object) -> object:
    """A value in which the order of lists does not count."""
    return _sorted(msgspec.to_builtins(value))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return sorted((_sorted(each) for each in value), key=_encode)
    return value
