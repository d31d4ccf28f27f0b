"""The stand-in packs of federations, where `DIVULGE_DATA` has them."""

import os
from pathlib import Path

import pytest

from divulge.federation.local_models import AssignmentGame
from divulge_papers.papers.nist import games


def shared_file(name: str) -> Path:
    path = Path(os.environ.get("DIVULGE_DATA", ""), name)
    if "DIVULGE_DATA" not in os.environ or not path.is_file():
        pytest.skip(f"no {name} in the folder DIVULGE_DATA")
    return path


def pack(name: str, tier: str) -> AssignmentGame:
    """Answers and truth of one stand-in pack at one privacy tier."""
    shared_file(f"nist-soybean/logits_{name}.npz.xz")
    return games.load_pack(name, tier)
