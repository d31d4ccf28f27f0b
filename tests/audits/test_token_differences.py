"""Texts of two sets may differ in what tables say of them beside the model: it is looked at."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.audits.result import Audit
from divulge.errors import DataError

from ..token_tables import draw

Rows = list[dict[str, Any]]
DRAWN = divulge.Options(membership="fixed")


def silent(texts: int = 120) -> Rows:
    """Texts of a model that knows none of them better."""
    tokens, member = draw(texts, 0.0, np.random.default_rng(4))
    own, other = tokens.split(tokens.logprob), tokens.split(tokens.reference[0])
    return [
        {"member": int(m), "logprobs": a.tolist(), "reference_logprobs": b.tolist()}
        for m, a, b in zip(member, own, other, strict=True)
    ]


def audit(folder: Path, rows: Rows) -> Audit:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    attacks = [divulge.attack("token-threshold", signal="loss")]
    return divulge.audit_predictions(path, texts=divulge.Texts(), attacks=attacks, options=DRAWN)


def warnings(found: Audit) -> set[str]:
    return {check.name for check in found.checks if check.verdict is divulge.Verdict.WARNING}


def test_sets_that_are_alike_differ_in_nothing(tmp_path: Path) -> None:
    found = audit(tmp_path, [{**r, "date": k % 7} for k, r in enumerate(silent())])
    assert not warnings(found) & {"tokens each", "dates"}
    assert found.verdict.level == "no leak found"


@pytest.mark.parametrize("cut", [0, 1])
def test_one_set_that_is_cut_short_is_seen(cut: int, tmp_path: Path) -> None:
    names = ("logprobs", "reference_logprobs")
    rows = [
        {**r, **{name: r[name][:10] for name in names}} if r["member"] == cut else r
        for r in silent()
    ]
    found = audit(tmp_path, rows)
    assert "tokens each" in warnings(found)
    assert found.verdict.level == "confounded"


def test_texts_whose_tokens_are_cut_are_told_apart_by_their_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [
        {
            "member": r["member"],
            "text": " ".join(rng.choice(["a", "b", "c", "d"], 30)),  # signs, and no words
            "logprobs": r["logprobs"][:6] if r["member"] else r["logprobs"],
        }
        for r in silent()
    ]
    assert "blind baseline" in warnings(audit(tmp_path, rows))


def test_dates_are_compared_where_texts_are_not_given(tmp_path: Path) -> None:
    rows = [{**r, "date": f"202{4 - r['member']}-01-0{1 + k % 9}"} for k, r in enumerate(silent())]
    found = audit(tmp_path, rows)
    assert "dates" in warnings(found)
    assert found.verdict.level == "confounded"


def test_texts_with_the_same_tokens_in_both_sets_are_copies(tmp_path: Path) -> None:
    rows = [r for r in silent() if len(r["logprobs"]) >= 10]
    twice = [{**r, "member": member} for r in rows for member in (0, 1)]
    with pytest.raises(DataError, match="exact copies of members"):
        audit(tmp_path, twice)


def test_short_lists_may_be_equal_by_chance(tmp_path: Path) -> None:
    rows = [{"member": k % 2, "logprobs": [-1.0, -0.5 - k % 3]} for k in range(60)]
    assert audit(tmp_path, rows).findings


def test_a_lone_surrogate_is_no_reason_to_stop(tmp_path: Path) -> None:
    rows = [{**r, "text": f"\ud800 {k} of {k % 5}"} for k, r in enumerate(silent())]
    assert audit(tmp_path, rows).verdict.level == "no leak found"
