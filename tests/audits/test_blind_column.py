"""A table of answers with a column that comes from elsewhere than the model."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import divulge
from divulge.core import Verdict
from divulge.data.tables import CellError
from divulge.errors import DataError
from tests import resealed

GAP = [divulge.attack("threshold")]


def write_table(path: Path, *, easier: float = 0.0, leak: float = 0.0, blind: bool = True) -> Path:
    """Answers of a model about 300 members and as many others, and another model's loss."""
    rng = np.random.default_rng(1)
    member = np.arange(600) < 300
    easy = rng.normal(size=600) + easier * member
    sure = 1 / (1 + np.exp(-(easy + 0.3 * rng.normal(size=600) + leak * member)))
    other = -easy + 0.3 * rng.normal(size=600)
    rows = (
        f"{p!r},{1 - p!r},0,{int(inside)}" + f",{loss!r}" * blind
        for p, inside, loss in zip(sure.tolist(), member, other.tolist(), strict=True)
    )
    path.write_text("\n".join(["p_0,p_1,label,member" + ",base_loss" * blind, *rows]))
    return path


def test_a_table_alone_cannot_tell_a_leak_from_a_shift(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", leak=1.0, blind=False)
    found = divulge.audit_predictions(table, attacks=GAP)
    assert found.verdict.level == "leak or shift"
    assert found.gate(fail_on=["leak"]).undecided
    assert found.gate(fail_on=["leak-or-shift"]).failed
    assert found.gate(fail_above={"auc": 0.6}).undecided


@pytest.mark.parametrize("how", ["coins", "fixed"])
def test_members_drawn_at_random_are_a_leak(tmp_path: Path, how: Literal["coins", "fixed"]) -> None:
    """The first of the two advices."""
    table = write_table(tmp_path / "t.csv", leak=1.0, blind=False)
    options = divulge.Options(membership=how)
    found = divulge.audit_predictions(table, attacks=GAP, options=options)
    assert found.verdict.level == "leak"


@pytest.mark.parametrize(
    ("easier", "leak", "level"),
    [(0.0, 1.0, "leak"), (0.5, 0.0, "confounded"), (0.0, 0.0, "no leak found")],
)
def test_a_blind_column_tells_them_apart(
    tmp_path: Path, easier: float, leak: float, level: str
) -> None:
    """The second advice. The column is a loss: it is low where records are easy."""
    table = write_table(tmp_path / "t.csv", easier=easier, leak=leak)
    found = divulge.audit_predictions(table, attacks=GAP, blind="base_loss")
    assert found.verdict.level == level
    check = next(one for one in found.checks if one.name == "difficulty baseline")
    assert check.verdict == (Verdict.WARNING if easier else Verdict.PASS)
    assert "'base_loss'" in check.text


@pytest.mark.slow
def test_settings_name_it_too(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", easier=0.5)
    settings = tmp_path / "audit.toml"
    settings.write_text(
        '[[attacks]]\nname = "threshold"\n[predictions]\nfile = "t.csv"\nblind = "base_loss"\n'
    )
    found = divulge.audit_file(settings, run=tmp_path / "run")
    assert found.verdict.level == "confounded"
    again = divulge.load(tmp_path / "run")
    assert isinstance(again, type(found))
    assert again.verdict == found.verdict


def test_a_table_of_losses_has_one_as_well(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", easier=0.5)
    found = divulge.audit_predictions(table, score="p_0", blind="base_loss")
    assert found.verdict.level == "confounded"


@pytest.mark.parametrize("odd", ["2019", "3.5"])
def test_dates_and_numbers_are_not_compared(tmp_path: Path, odd: str) -> None:
    seen = ["2020-03-01"] * 60 + [odd]
    rows = [f"{k / 61!r},{k % 2},{day}" for k, day in enumerate(seen)]
    (tmp_path / "t.csv").write_text("\n".join(["score,member,seen", *rows]))
    with pytest.raises(CellError, match=r"expected a date, as in the first row, in .*, row 61"):
        divulge.audit_predictions(tmp_path / "t.csv", score="score", blind="seen")


def test_a_column_that_is_the_same_everywhere_rules_no_shift_out(tmp_path: Path) -> None:
    rows = [f"{k / 60!r},{int(k >= 30)},0.5" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["score,member,base", *rows]))
    with pytest.raises(DataError, match="in each of 60 rows: they explain nothing"):
        divulge.audit_predictions(tmp_path / "t.csv", score="score", blind="base")


def test_dates_are_read(tmp_path: Path) -> None:
    rows = [
        f"{k * 0.618 % 1!r},{int(k < 100)},{2020 + (k >= 100)}-03-0{1 + k % 9}" for k in range(200)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["score,member,seen", *rows]))
    found = divulge.audit_predictions(tmp_path / "t.csv", score="score", blind="seen")
    assert found.verdict.level == "confounded"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("member", "which holds the membership"),
        ("nothing", "'nothing'"),
        ("word", "a finite number or an ISO date"),
        ("when", "a finite number or an ISO date"),
    ],
)
def test_other_columns_are_refused(tmp_path: Path, column: str, message: str) -> None:
    rows = [f"{k},{k % 2},{'x' * (k > 3) or k},today" for k in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["score,member,word,when", *rows]))
    with pytest.raises(divulge.DivulgeError, match=message):
        divulge.audit_predictions(tmp_path / "t.csv", score="score", blind=column)


def test_the_class_is_no_blind_column(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv")
    with pytest.raises(divulge.DivulgeError, match="which holds the class"):
        divulge.audit_predictions(table, attacks=GAP, blind="label")


@pytest.mark.parametrize("damaged", [np.zeros(3), np.full(600, np.nan), np.zeros(600, int)])
def test_a_damaged_ease_of_a_run_is_refused(tmp_path: Path, damaged: np.ndarray) -> None:
    table = write_table(tmp_path / "t.csv")
    divulge.audit_predictions(table, attacks=GAP, blind="base_loss", run=tmp_path / "run")
    path = tmp_path / "run" / "candidates.npz"
    with np.load(path) as file:
        arrays = {**file, "ease0": damaged}
    np.savez(path, **arrays)
    resealed.renew(tmp_path / "run", path.name)
    with pytest.raises(divulge.StoreError, match="an ease that does not fit"):
        divulge.load(tmp_path / "run")


def test_a_ceiling_beside_a_leak_says_how_to_make_the_sets_alike(tmp_path: Path) -> None:
    """The advice of the verdict is about the leak, that of the ceiling about the comparison."""
    rng = np.random.default_rng(3)
    rows = []
    for inside in (1, 0):
        kinds = rng.random(1000) < (0.7 if inside else 0.5)
        sure = 1 / (1 + np.exp(-(rng.normal(size=1000) + 2.0 * inside)))
        rows += [
            f"{p if kind else 1 - p!r},{1 - p if kind else p!r},{int(not kind)},{inside}"
            for p, kind in zip(sure.tolist(), kinds.tolist(), strict=True)
        ]
    (tmp_path / "t.csv").write_text("\n".join(["p_0,p_1,label,member", *rows]))
    options = divulge.Options(membership="fixed")
    found = divulge.audit_predictions(tmp_path / "t.csv", attacks=GAP, options=options)
    assert found.verdict.level == "leak"
    (undecided,) = found.gate(fail_above={"auc": 0.6}).undecided
    assert "the two sets differ" in undecided
    assert found.verdict.next_step not in undecided
    assert "from one pool" in undecided
