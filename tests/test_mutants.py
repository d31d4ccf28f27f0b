"""The list of mutants that no test can notice names mutants of today's code."""

import tomllib
from pathlib import Path

import pytest

from tests.mutation.operators import mutants

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutation" / "equivalent.toml"
KEYS = [entry["key"] for entry in tomllib.loads(LIST.read_text("utf-8"))["mutant"]]


@pytest.mark.parametrize("name", sorted({key.partition(" | ")[0] for key in KEYS}))
def test_each_equivalent_mutant_is_one(name: str) -> None:
    known = {mutant.key for mutant in mutants(Path(name), (ROOT / name).read_text("utf-8"))}
    assert known.issuperset(key for key in KEYS if key.startswith(f"{name} | "))
