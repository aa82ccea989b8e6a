"""Responses as YAML, for clients that ask for it: keys in order, and quotes where Kubernetes' encoder sets them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

_NOT_TEXT = re.compile(
    r"~?|null|Null|NULL|<<"
    r"|[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE"
    r"|[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?)"
    r"|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|\d{4}-\d\d?-\d\d?([Tt ].*)?"
)
"""Texts that without quotes would be read as something else."""


class _Dumper(yaml.CSafeDumper):
    """Writes texts in the styles of Kubernetes' encoder."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else '"' if _NOT_TEXT.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(body: bytes) -> bytes:
    """A JSON document as YAML."""
    document = msgspec.json.decode(body)
    return yaml.dump(document, Dumper=_Dumper, encoding="utf-8", allow_unicode=True, default_flow_style=False)
