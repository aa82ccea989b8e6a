"""Types that every layer uses."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]
"""A JSON object: a manifest, a patch, the body of a request."""
