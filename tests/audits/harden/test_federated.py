"""The search for a federation within limits: what is tried, chosen, and run with fresh clients."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

import divulge
from divulge.audits.harden import federated
from divulge.core import Estimate, UpdateDefence
from divulge.defences import LocalNoise, TopK
from divulge.errors import SpecError
from divulge.federation import Federation, iid
from divulge.training import Recipe

from ...defences import trained_table as table

pytest.importorskip("optuna")

POOL = table.draw(240, 0)
LIMITS = divulge.FederationLimits(class_shares=0.05, which_client=0.9)


def network() -> nn.Module:
    return nn.Linear(table.FEATURES, table.CLASSES)


FEDERATION = Federation(POOL, iid(POOL, [30] * 8), Recipe(network, lr=0.2, epochs=3), workers=1)


def hardened(**more: Any) -> divulge.HardenedFederation:
    """Of synthetic records of three classes."""
    asked: dict[str, Any] = {
        "limits": LIMITS,
        "test": table.draw(200, 1),
        "reference": table.draw(90, 2),
        "rounds": 2,
        "budget": 4,
        "defences": ("top-k", "local-noise"),
        "candidates": 24,
    }
    return divulge.harden_federation(FEDERATION, **asked | more)


@pytest.fixture(scope="module")
def found() -> divulge.HardenedFederation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federated, "LAST", federated.QUICK)  # for the time that it takes
        return hardened()


def test_each_defence_is_tried_first(found: divulge.HardenedFederation) -> None:
    assert not found.refused
    assert [trial.defence.name for trial in found.trials] == ["none", "top-k", "local-noise"]
    assert found.trials[1].defence == TopK()  # its default
    assert [trial.epochs for trial in found.trials] == [3, 3, 3]
    for trial in (*found.trials, found.fresh):
        assert trial.leaks.keys() == {"class_shares", "which_client"}


def test_the_chosen_setting_runs_with_clients_that_the_search_never_saw(
    found: divulge.HardenedFederation,
) -> None:
    assert found.chosen in found.trials
    assert (found.fresh.defence, found.fresh.epochs) == (found.chosen.defence, found.chosen.epochs)
    assert found.fresh.leaks != found.chosen.leaks
    searched, fresh = federated._halve(FEDERATION, 0)
    rows = [set(np.concatenate(half.clients).tolist()) for half in (searched, fresh)]
    assert len(searched.clients) == len(fresh.clients) == 4
    assert not rows[0] & rows[1]


def test_the_same_seed_finds_the_same(
    found: divulge.HardenedFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federated, "LAST", federated.QUICK)
    again = hardened(budget=2)
    assert again.trials == found.trials[:1]


def made(accuracy: float, l1: float, right: float) -> divulge.FederationTrial:
    def near(value: float) -> Estimate:
        return Estimate(value, value - 0.1, value + 0.1)

    leaks = {"class_shares": near(l1), "which_client": near(right)}
    return divulge.FederationTrial(UpdateDefence(), 1, near(accuracy), leaks)


def test_the_most_accurate_within_all_limits_is_chosen_else_the_nearest() -> None:
    limits = divulge.FederationLimits(class_shares=0.5, which_client=0.4)
    accurate, worse, leaky = made(0.8, 0.7, 0.2), made(0.6, 1.2, 0.2), made(0.9, 0.7, 0.35)
    assert accurate.excess(limits) == pytest.approx(-0.05)  # .6 of .5, on a range of 2
    assert leaky.excess(limits) == pytest.approx(0.05)
    assert limits.choose([worse, accurate, leaky]) is accurate
    assert limits.choose([leaky, made(0.9, 0.1, 0.2)]) is leaky
    shares = divulge.FederationLimits(class_shares=0.5)
    assert shares.choose([accurate, leaky]) is leaky


def test_the_outcome_and_the_table_are_those_of_the_fresh_run(
    found: divulge.HardenedFederation,
) -> None:
    fresh = replace(made(0.8, 0.7, 0.2), defence=LocalNoise(1.0, 1e-5, 1.0))
    limits = divulge.FederationLimits(class_shares=0.5)
    told = replace(found, limits=limits, fresh=fresh, refused={"x|y": "<b>"})
    assert told.outcome == "within"
    assert replace(told, limits=divulge.FederationLimits(class_shares=0.7)).outcome == "not within"
    lines = told.table().splitlines()
    assert lines[2].startswith("| **fresh clients**: LocalNoise(epsilon=1.0")
    assert "0.800 (0.700-0.900)" in lines[2]
    assert lines[-1] == "Not tried: x&#124;y: &#60;b&#62;"
    assert sum("chosen: " in line for line in lines) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"defences": ("top-kk",)}, "did you mean 'top-k'"),
        ({"defences": ("secure-sum",)}, "an update defence that is searched"),
        ({"budget": 1}, "a budget of 2 federations"),
    ],
)
def test_searches_that_cannot_be_made_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        hardened(**more)


def test_federations_that_cannot_be_halved_or_have_a_defence_are_refused() -> None:
    for changed, said in (
        ({"clients": FEDERATION.clients[:5]}, "6 clients or more, got 5"),
        ({"defence": TopK()}, "a federation without a defence"),
    ):
        with pytest.raises(SpecError, match=said):
            divulge.harden_federation(
                replace(FEDERATION, **changed),
                limits=LIMITS, test=POOL, reference=POOL, rounds=1,
            )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "expected a limit, got none"),
        ({"class_shares": 2.1}, "class_shares from 0 to 2"),
        ({"which_client": -0.1}, "which_client from 0 to 1"),
    ],
)
def test_limits_without_meaning_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        divulge.FederationLimits(**settings)
