"""Scripts in earlier packs of evidence ask here for what is in `divulge.exports.evidence.pack`."""

import importlib
from pathlib import Path
from typing import Any


def describe_run(run: Path) -> Any:
    """The manifest of a run; `divulge.exports` is above this package and found by its name."""
    return importlib.import_module("divulge.exports.evidence.pack").describe_run(run)
