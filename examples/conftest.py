"""Lets a test import the plugin beside it by its plain name, as `--plugin=file.py` does for what a plugin imports."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(folder) for folder in sorted(Path(__file__).parent.iterdir()) if folder.is_dir()]
