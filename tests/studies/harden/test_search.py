"""The one search: what it proposes, when it ends, and what it does not compute twice."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import divulge
from divulge._util.progress import as_track, track_silently
from divulge.core import Estimate
from divulge.errors import DataError
from divulge.finished_runs.run_json import new_head
from divulge.studies.harden.federated_bench import FederationBench
from divulge.studies.harden.federated_result import FederationSearchFacts
from divulge.studies.harden.search import run_search

pytest.importorskip("optuna")

LIMITS = divulge.FederationLimits(which_client=0.6)
Rule = Callable[[divulge.FederationVariant], tuple[float, float]]
"""Accuracy and leak of a setting."""


def by_noise(setting: divulge.FederationVariant) -> tuple[float, float]:
    """More noise, fewer epochs: less accuracy and less leakage."""
    epochs = (setting.epochs or 3) / 3
    share = float(setting.settings.get("share", 1.0))  # type: ignore[arg-type]
    return 0.5 + 0.4 * epochs * share, 0.5 + 0.3 * epochs * share


@dataclass
class Invented:
    """A simulator whose figures follow a rule, and that counts what it is asked for."""

    rule: Rule = by_noise
    limits: divulge.FederationLimits = LIMITS
    asked: list[divulge.FederationVariant] = field(default_factory=list)

    def run(self, setting: divulge.FederationVariant, seed: int) -> divulge.FederationTrial:
        del seed
        self.asked.append(setting)
        accuracy, leak = self.rule(setting)
        return divulge.FederationTrial(
            setting,
            Estimate(accuracy, accuracy - 0.05, accuracy + 0.05),
            {"which_client": Estimate(leak, leak - 0.01, leak + 0.01)},
        )


def searched(
    folder: Path,
    simulator: Invented,
    families: tuple[str, ...] = ("none", "top-k"),
    budget: int = 9,
    **more: Any,
) -> divulge.HardenedFederation:
    facts = FederationSearchFacts(
        limits=simulator.limits, rounds=1, budget=budget, searched=4, fresh=4
    )
    head = new_head("hardened-federation", "invented", 0, {}, challenge="one", facts=facts)
    bench = FederationBench(simulator, Invented(simulator.rule), families, 3, budget, 0)
    asked: dict[str, Any] = {"track": track_silently, "resume": False}
    return run_search(bench, head, folder, **asked | more)


def test_defaults_come_first_then_what_is_proposed_until_the_budget_is_spent(
    tmp_path: Path,
) -> None:
    simulator = Invented()
    found = searched(tmp_path / "run", simulator)
    assert [one.label for one in simulator.asked[:2]] == [
        "undefended (epochs=3)",
        "top-k (share=0.1, epochs=3)",
    ]
    assert len(simulator.asked) == 8  # of 9: the last one runs the chosen setting afresh
    assert len({one.label for one in simulator.asked}) == 8
    assert tuple(trial.setting for trial in found.trials) == tuple(simulator.asked)
    within = [one for one in found.trials if one.leaks["which_client"].high <= 0.6]  # type: ignore[operator]
    assert within
    assert found.chosen == max(within, key=lambda one: one.accuracy.value)
    assert found.fresh.setting == found.chosen.setting


def test_a_search_ends_when_all_settings_were_tried(tmp_path: Path) -> None:
    """Two defences without settings of their own, each with one to three epochs."""
    simulator = Invented()
    found = searched(tmp_path / "run", simulator, ("none", "own-last-layer"), budget=30)
    tried = {(one.defence, one.epochs) for one in simulator.asked}
    assert tried == {(name, k) for name in ("none", "own-last-layer") for k in (1, 2, 3)}
    assert len(found.trials) == len(simulator.asked) == 6


def test_a_budget_for_fewer_than_all_defences_tries_the_first_ones(tmp_path: Path) -> None:
    simulator = Invented()
    searched(tmp_path / "run", simulator, ("none", "top-k", "sign"), budget=3)
    assert [one.defence for one in simulator.asked] == ["none", "top-k"]


def test_what_cannot_be_simulated_is_noted_and_spends_its_part_of_the_budget(
    tmp_path: Path,
) -> None:
    def refuse(setting: divulge.FederationVariant) -> tuple[float, float]:
        if setting.defence == "top-k":
            raise DataError("expected another defence")
        return by_noise(setting)

    simulator = Invented(refuse)
    found = searched(tmp_path / "run", simulator, budget=7)
    assert len(simulator.asked) == 6
    assert len(found.trials) + len(found.refused) == 6
    assert found.refused["top-k (share=0.1, epochs=3)"] == "expected another defence"
    assert {trial.setting.defence for trial in found.trials} == {"none"}


def test_a_search_whose_undefended_setting_fails_ends(tmp_path: Path) -> None:
    def refuse(_: divulge.FederationVariant) -> tuple[float, float]:
        raise DataError("expected clients")

    with pytest.raises(DataError, match="expected clients"):
        searched(tmp_path / "run", Invented(refuse))
    assert not (tmp_path / "run/trials").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> divulge.HardenedFederation:
    return searched(tmp_path_factory.mktemp("invented") / "run", Invented())


@pytest.mark.parametrize("last", [0, 1, 2, 7])
def test_a_search_that_stops_after_any_trial_goes_on_as_if_it_had_not(
    whole: divulge.HardenedFederation, tmp_path: Path, last: int
) -> None:

    def stop(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
        del done
        if text.startswith(f"Trial {last + 1} "):
            raise KeyboardInterrupt
        return items

    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path / "run", Invented(), track=as_track(stop))
    assert len(list((tmp_path / "run").glob("trials/*.json"))) == last
    simulator = Invented()
    again = searched(tmp_path / "run", simulator, resume=True)
    assert (again.trials, again.fresh) == (whole.trials, whole.fresh)
    assert len(simulator.asked) == 8 - last
