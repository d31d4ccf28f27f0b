"""Attacks are shown by strength, each family once."""

import numpy as np

from divulge.core import Status
from divulge.report import markdown, page
from divulge.report.ranking import rank
from divulge.report.summary import summarise

from . import cases


def test_the_deciding_attack_comes_first_then_the_highest_auc() -> None:
    made = cases.bench(400, 400)
    contents = made.contents(
        [
            made.done("gap", made.shifted(0.2)),
            made.done("lira", made.shifted(2.0)),
            made.done("rmia", made.shifted(1.0)),
            made.done("nervous", made.shifted(3.0), cases.NERVOUS),
            cases.lost("shadow", Status.NOT_APPLICABLE, "needs shadows"),
            cases.lost("quantile", Status.NOT_APPLICABLE, "needs reference"),
            cases.lost("broken", Status.FAILED, "it broke"),
        ]
    )
    summary = summarise(contents)
    assert [row.label for row in rank(summary.attacks, "gap").heads] == [
        "gap", "lira", "rmia", "nervous"
    ]  # fmt: skip
    ranked = rank(summary.attacks, summary.verdict.attack)
    assert [row.label for row in ranked.heads] == ["lira", "rmia", "gap", "nervous"]
    assert ranked.lost == {
        ("not applicable", ""): ("shadow", "quantile"),
        ("failed", "it broke"): ("broken",),
    }
    assert "<bdi>shadow</bdi>, <bdi>quantile</bdi>." in page.render(summary, _no_figures())


def test_an_attack_with_several_settings_stands_once_and_the_rest_is_folded() -> None:
    summary = cases.summary("leaky")
    ranked = rank(summary.attacks, summary.verdict.attack)
    families = [row.attack for row in ranked.heads]
    assert len(set(families)) == len(families)
    assert {row.label for row in ranked.heads + ranked.others} == {
        row.label for row in summary.attacks if row.status == "done"
    }
    for row in ranked.others:
        (head,) = (one for one in ranked.heads if one.attack == row.attack)
        assert head.metrics["auc"].value >= row.metrics["auc"].value


def test_attacks_that_rank_all_records_alike_share_a_row() -> None:
    made = cases.bench(400, 400)
    score = made.shifted(1.0)
    other = score.copy()
    inside, outside = np.flatnonzero(made.member)[0], np.flatnonzero(~made.member)[0]
    other[[inside, outside]] = other[[outside, inside]]
    contents = made.contents(
        [
            made.done("threshold(signal=loss)", score),
            made.done("threshold(signal=margin)", np.exp(score)),
            made.done("renyi", 3 * score),
            made.done("other", other),
            made.done("nervous", score, cases.NERVOUS),
        ]
    )
    summary = summarise(contents)
    ranked = rank(summary.attacks, summary.verdict.attack)
    (first,) = ranked.twins
    assert {first, *ranked.twins[first]} == {
        "threshold(signal=loss)", "threshold(signal=margin)", "renyi"
    }  # fmt: skip
    assert {row.label for row in ranked.heads + ranked.others} == {first, "other", "nervous"}
    shown = page.render(summary, _no_figures())
    for label in ranked.twins[first]:
        assert f"<bdi>{page.make_breakable(label)}</bdi>" in shown.split("also: ")[1]
    assert markdown.render(summary).count("(also: ") == 1


def _no_figures() -> dict[str, str]:
    return dict.fromkeys(("roc", "scores", "attacks", "classes"), "")
