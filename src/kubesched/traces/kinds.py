"""The traces that can be imported."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.traces import alibaba2018, azure2020, borg2019, helios, openb, pai2020, philly
from kubesched.traces.model import TraceKind

KINDS: Mapping[str, TraceKind] = {
    "openb": openb.KIND,
    "alibaba-pai-2020": pai2020.KIND,
    "alibaba-2018": alibaba2018.KIND,
    "azure-packing-2020": azure2020.KIND,
    "helios": helios.KIND,
    "philly": philly.KIND,
    "borg-2019": borg2019.KIND,
}
