"""Models of several works, trained side by side: the same bits wherever that is."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from divulge.defences import catalog
from divulge.errors import DivulgeError, TargetError
from divulge.training.fleet import Fleet
from divulge.training.shadows import workers, workers_by_name
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.train import prepare_workload
from divulge.training.shadows.workers import LocalWorkers, Workers
from divulge.training.shadows.workload import ShadowPredictions, TrainingTask

from ...defences import trained_table as table


class Refusing:
    """A trainer whose models cannot be trained."""

    def many(self, *_: Any) -> Any:
        raise TargetError("expected a model, got none: this one refuses")


def tasks() -> list[TrainingTask]:
    """Two models after each of two epochs, two of a second work, and one that fails."""
    alone: dict[str, Any] = {"way": "one-by-one", "workers": 1}
    plain = Fleet(replace(table.RECIPE, select=None), **alone)
    defended = catalog.trained_defence("relaxloss", table.RECIPE, **alone)
    found = []
    for trainer, epochs in ((plain, (2, 15)), (defended, ())):
        work = prepare_workload(ShadowPlan(trainer, 2), (table.POOL,), 0, 2)
        work = replace(work, epochs=epochs)
        found += [TrainingTask(work, k) for k in range(2)]
    refused = prepare_workload(ShadowPlan(Refusing(), 1), (table.POOL,), 0)
    return [*found, TrainingTask(refused, 0)]


def answers(who: Workers) -> dict[int, Any]:
    """By task, what its model says after each epoch; or why it could not be trained."""
    found: dict[int, Any] = {}
    for k, one in who.train_each(tasks()):
        assert k not in found
        if isinstance(one, DivulgeError):
            found[k] = str(one)
            continue
        assert isinstance(one, ShadowPredictions)
        found[k] = [each.answers for stage in one.stages for each in stage]
    return found


@pytest.fixture(scope="module")
def here() -> dict[int, Any]:
    return answers(LocalWorkers())


def same(found: dict[int, Any], expected: dict[int, Any]) -> None:
    assert found.keys() == expected.keys() == set(range(5))
    assert found[4] == expected[4] == "expected a model, got none: this one refuses"
    for k in range(4):
        assert len(found[k]) == len(expected[k]) == (2 if k < 2 else 1)
        for one, other in zip(found[k], expected[k], strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_work_is_asked_after_each_of_its_epochs(here: dict[int, Any]) -> None:
    same(here, here)
    early, late = here[0]
    assert not np.array_equal(early, late)


def test_processes_that_save_less_than_their_start_are_not_started(
    here: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MIN_SAVED_SECONDS", 1e9)
    monkeypatch.setattr(LocalWorkers, "processors", lambda _: 2)
    monkeypatch.setattr(workers, "_train_in_processes", lambda *_: pytest.fail("started"))
    same(answers(LocalWorkers()), here)


def test_processes_that_save_more_than_their_start_are_started_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "MIN_SAVED_SECONDS", -1.0)
    monkeypatch.setattr(LocalWorkers, "processors", lambda _: 8)
    begun = []

    def start(tasks: Any, processes: int) -> Any:
        begun.append((len(tasks), processes))
        yield from ()

    monkeypatch.setattr(workers, "_train_in_processes", start)
    assert list(answers(LocalWorkers())) == [0]
    assert begun == [(4, 4)]


@pytest.mark.slow
def test_processes_train_the_same_models(
    here: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MIN_SAVED_SECONDS", -1.0)
    monkeypatch.setattr(LocalWorkers, "processors", lambda _: 2)
    begun = []
    started = workers._train_in_processes

    def count(*given: Any) -> Any:
        begun.append(given)
        return started(*given)

    monkeypatch.setattr(workers, "_train_in_processes", count)
    same(answers(LocalWorkers()), here)
    ((rest, processes),) = begun
    assert (len(rest), processes) == (4, 2)


@pytest.mark.slow
def test_a_cluster_trains_the_same_models(here: dict[int, Any]) -> None:
    pytest.importorskip("ray")
    who = workers_by_name("ray")
    with who.session():
        same(answers(who), here)
