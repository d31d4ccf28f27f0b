"""Audits that are given the model as it was during its training."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import divulge
from divulge.attacks import catalog
from divulge.audits import checkpoints
from divulge.audits.challenges import membership
from divulge.audits.model_sections import TargetSpec
from divulge.audits.subject import AuditInputs
from divulge.core import ControlOutcome, Game, Membership, ModelView, Need, Records, Scores
from divulge.errors import DataError, DivulgeError, SpecError
from divulge.secrets import controls
from divulge.testing.membership import SeenInTraining

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype(np.float32)
MEMBERS, NONMEMBERS = ((X[rows], np.arange(60) % 2) for rows in (slice(60), slice(60, 120)))
LT_IQR = catalog.attack("lt-iqr")


def network(classes: int = 2) -> Any:
    return nn.Linear(3, classes).double()


def states(count: int) -> list[Any]:
    torch.manual_seed(0)
    return [network() for _ in range(count)]


def audit(*models: Any, **options: Any) -> divulge.Audit:
    model, *before = models
    access = divulge.Access("logits", checkpoints=before, **options)
    return divulge.audit(
        model, members=MEMBERS, nonmembers=NONMEMBERS, access=access, attacks=[LT_IQR]
    )


def expected_trace(models: list[Any], records: Records) -> np.ndarray:
    """The cross-entropies, one record and one model after another, by PyTorch."""
    rows = [
        [
            nn.functional.cross_entropy(
                model(torch.tensor(x, dtype=torch.float64)[None]), torch.tensor([y])
            ).item()
            for model in models
        ]
        for x, y in zip(records.x, records.y, strict=True)
    ]
    return np.array(rows)


def naive_score(losses: list[float]) -> float:
    """Quantiles by linear interpolation between the two nearest ranks, as the authors' pandas."""
    ranked = sorted(losses)

    def quantile(share: float) -> float:
        place = share * (len(ranked) - 1)
        below = int(place)
        above = min(below + 1, len(ranked) - 1)
        return ranked[below] + (place - below) * (ranked[above] - ranked[below])

    return quantile(0.75) - quantile(0.25) - losses[-1]


def test_the_trace_is_each_losses_of_all_models_and_last_the_target() -> None:
    final, *before = states(4)
    subject = AuditInputs(
        divulge.targets.TorchTarget(final, "logits"),
        Records(*MEMBERS),
        Records(*NONMEMBERS),
        checkpoints=checkpoints.from_models(tuple(before), divulge.Access("logits")),
        batch_size=7,
    )
    view = membership.pose(subject).game.view
    assert Need.LOSS_TRACE in view.offers
    expected = expected_trace([*before, final], view.records)
    assert view.loss_trace is not None
    np.testing.assert_allclose(view.loss_trace, expected, atol=1e-9)
    found = LT_IQR(view, np.random.default_rng(0)).score
    np.testing.assert_allclose(found, [naive_score(row) for row in expected.tolist()], atol=1e-9)


def test_the_attack_runs_by_default_and_the_page_says_what_it_supposes(tmp_path: Path) -> None:
    final, *before = states(3)
    access = divulge.Access("logits", checkpoints=before)
    found = divulge.audit(final, members=MEMBERS, nonmembers=NONMEMBERS, access=access)
    assert "lt-iqr" in {finding.attack for finding in found.findings}
    assert "as it was then" in found.report(tmp_path / "page").read_text(encoding="utf-8")
    without = divulge.audit(
        final, members=MEMBERS, nonmembers=NONMEMBERS, access=divulge.Access("logits")
    )
    assert "lt-iqr" not in {finding.attack for finding in without.findings}


def test_other_checkpoints_are_another_challenge() -> None:
    final, one, other = states(3)
    audits = [audit(final, one), audit(final, one), audit(final, other), audit(final)]
    digests = [found.summary.reproduction.challenge for found in audits]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_questions_to_checkpoints_are_not_counted_nor_limited() -> None:
    final, *before = states(5)
    found = audit(final, *before, budget=200)
    assert found.findings[0].queries == 0


def test_without_checkpoints_the_attack_does_not_apply() -> None:
    (finding,) = audit(*states(1)).findings
    assert finding.status.value == "not applicable"
    assert "loss trace" in finding.reason


@pytest.mark.parametrize(
    ("before", "options", "said"),
    [
        ([network(3)], {}, "with 2 classes, as the model has, got one with 3"),
        ([network()], {"answers": divulge.defences.Rounding(1)}, "no checkpoints beside an answer"),
        (["epoch.pt"], {}, "expected a model in"),
    ],
)
def test_what_cannot_be_a_checkpoint_is_refused(before: Any, options: Any, said: str) -> None:
    with pytest.raises(DivulgeError, match=said):
        audit(*states(1), *before, **options)


def test_a_model_that_answers_numbers_has_no_trace() -> None:
    values = (X[:60], X[:60, 0].astype(np.float64)), (X[60:], X[60:, 0].astype(np.float64))
    model = nn.Linear(3, 1).double()
    access = divulge.Access("values", checkpoints=[model])
    with pytest.raises(SpecError, match="answers a number"):
        divulge.audit(model, members=values[0], nonmembers=values[1], access=access)


def test_a_trace_of_other_records_is_refused() -> None:
    (view,) = SeenInTraining().leaky().views
    with pytest.raises(DataError, match="one row a candidate"):
        dataclasses.replace(view, loss_trace=view.loss_trace[:-1])


@dataclasses.dataclass(frozen=True)
class Steepest:
    """An attack of somebody else's: how far the loss fell."""

    name: ClassVar[str] = "steepest"
    paper: ClassVar[str] = "a test"
    needs: ClassVar[Need] = Need.LOSS_TRACE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        assert view.loss_trace is not None
        return Scores(view.loss_trace[:, 0] - view.loss_trace[:, -1])


@pytest.mark.parametrize("attack", [LT_IQR, Steepest()])
def test_controls_plant_their_leak_in_traces_and_shuffle_them(attack: Any) -> None:
    world = SeenInTraining()
    game = world.leaky()
    challenge = Game(game.views[0], game.truths[0])
    found = controls.run_controls(challenge, attack, attack(challenge.view, RNG))
    assert found.planted is not None
    assert found.planted.low > 0.9
    assert found.blind is not None
    assert found.blind.outcome is ControlOutcome.PASSED


def test_an_attack_that_was_told_fails_on_shuffled_traces() -> None:
    """Its scores do not come from the trace, so that shuffling that changes nothing."""
    world = SeenInTraining()
    (view,), (truth,) = world.leaky().views, world.leaky().truths
    told = replace(view, loss_trace=np.repeat(1.0 - truth.member[:, None], 2, axis=1))

    class Peeking(Steepest):
        def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
            del view, rng
            return Scores(truth.member.astype(float))

    blind = controls.control_on_shuffled(Game(told, Membership(truth.member)), Peeking())
    assert blind.outcome is ControlOutcome.FAILED


def test_files_are_found_by_patterns_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    from safetensors.torch import save_model

    models = states(12)
    (tmp_path / "epochs").mkdir()
    for number, model in enumerate(models):
        save_model(model, str(tmp_path / "epochs" / f"epoch-{number}.safetensors"))
    code = "from torch import nn\n\ndef network():\n    return nn.Linear(3, 2).double()\n"
    code += "\ndef later():\n    return [network()]\n"
    (tmp_path / "subject.py").write_text(code, encoding="utf-8")
    spec = TargetSpec(
        model="subject.py:network", factory="subject.py:network", output="logits",
        checkpoints=("epochs/*.safetensors", "subject.py:later"),
    )  # fmt: skip
    found = [checkpoint() for checkpoint in checkpoints.find_checkpoints(spec, tmp_path)]
    assert len(found) == 13
    for target, model in zip(found, models, strict=False):
        expected = torch.softmax(model(torch.tensor(X).double()), 1).detach().numpy()
        np.testing.assert_allclose(target.predict(X), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("epochs/*.safetensors", "one or more checkpoints"),
        ("subject.py:number", "expected a list of models"),
        ("subject.py:missing", "it is not there"),
    ],
)
def test_names_of_nothing_are_refused(tmp_path: Path, named: str, said: str) -> None:
    (tmp_path / "subject.py").write_text("number = 3\n", encoding="utf-8")
    spec = TargetSpec(model="m.pt2", output="logits", checkpoints=(named,))
    with pytest.raises(SpecError, match=said):
        checkpoints.find_checkpoints(spec, tmp_path)
