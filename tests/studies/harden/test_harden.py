"""The search for a model under a ceiling: what is tried, what is chosen, and what is claimed."""

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import divulge
from divulge._util.progress import track_silently
from divulge.attacks import catalog
from divulge.audits.result import Audit
from divulge.audits.runner import RunHeading
from divulge.audits.subject import AuditInputs
from divulge.cli.main import main
from divulge.core import Estimate, Head, Records
from divulge.defences import catalog as defences
from divulge.errors import SpecError, StoreError
from divulge.metrics.measure import GUESSING
from divulge.report.markdown import make_inert
from divulge.studies.compare.defences import Variant
from divulge.studies.cost_estimates import CostEstimate, SearchCost
from divulge.studies.harden import final, model_bench, run, space
from divulge.studies.harden.final import BesideKnown, FreshRecords
from divulge.studies.harden.leaks import Leak
from divulge.studies.harden.proposal import stages
from divulge.studies.harden.result import HardenedModel, HardeningFacts
from divulge.studies.harden.trials import ModelLog, SearchTrial, choose, find_chosen
from divulge.targets.files import load_target
from divulge.targets.function import FunctionTarget
from divulge.training import Recipe
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import LocalWorkers
from tests.uneven_tables import TABLES

from ...defences import trained_table
from ...report import cases, markup

pytest.importorskip("optuna")

RECORDS = trained_table.draw(240, 0)
RECIPE = Recipe(trained_table.network, "adam", lr=0.02, epochs=24, batch_size=16)
ATTACKS = (catalog.attack("threshold"), catalog.attack("gap"))
SEARCH = divulge.SearchSettings(
    ("relaxloss", "complementary-distillation"), ("top-1",), budget=24, models=4, shadows=2
)


def hardened(folder: Path, **more: Any) -> HardenedModel:
    """A search of synthetic records; every fourth label can only be learned by heart."""
    asked: dict[str, Any] = {
        "records": RECORDS,
        "ceiling": {"auc": 0.75, "advantage": 0.6},
        "attacks": ATTACKS,
        "search": SEARCH,
        "run": folder,
        "options": divulge.Options(name="<b>", resume=(folder / "run.json").exists()),
    }
    return divulge.harden(RECIPE, **asked | more)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> HardenedModel:
    return hardened(tmp_path_factory.mktemp("harden") / "run")


def test_each_defence_is_tried_as_its_authors_set_it_then_what_is_proposed(
    found: HardenedModel,
) -> None:
    proposals = [trial.proposal for trial in found.trials]
    assert [(one.defence, dict(one.settings)) for one in proposals[:3]] == [
        ("none", {}),
        ("relaxloss", {"alpha": 0.5}),
        ("complementary-distillation", {"folds": 2, "temperature": 3.0}),
    ]
    assert len(proposals) > 3
    settings = [replace(one, stop_after=None, answers="none") for one in proposals]
    assert all(settings.count(one) == 1 for one in settings)


def test_a_search_stays_within_its_budget(found: HardenedModel) -> None:
    spent = sum(trial.trainings for trial in found.trials)
    work = found.chosen.proposal.work(RECIPE)
    assert found.log.final is not None
    assert found.log.final == pytest.approx(3 * work)
    assert spent + found.log.final <= SEARCH.budget
    assert found.trials[0].trainings >= 3  # the undefended model is trained for all epochs


def test_each_setting_is_seen_at_several_epochs_behind_each_defence_of_answers(
    found: HardenedModel,
) -> None:
    seen = [(look.epochs, look.answers) for look in found.trials[0].looks]
    epochs = sorted({look.epochs for look in found.trials[0].looks if look.epochs is not None})
    assert seen == [(epoch, answers) for epoch in epochs for answers in ("none", "top-1")]
    assert epochs == list(stages(24))[: len(epochs)]
    labelled = found.trials[0].at_each_look()
    assert labelled[0].label == "undefended (epochs=24, stop_after=2)"
    assert labelled[1].label == "undefended (epochs=24, stop_after=2), answers by top-1"
    assert found.undefended.label == "undefended (epochs=24)"


def test_a_defence_of_answers_is_looked_at_on_the_same_models(found: HardenedModel) -> None:
    looks = found.trials[0].looks
    for plain, behind in zip(looks[::2], looks[1::2], strict=True):
        assert plain.accuracy == behind.accuracy  # top-1 changes no label
        assert plain.leaks != behind.leaks


def test_the_leader_has_more_models_and_is_the_most_accurate_look_under_all_ceilings(
    found: HardenedModel,
) -> None:
    assert found.chosen.models == SEARCH.models
    left = SEARCH.budget - sum(trial.trainings for trial in found.trials)
    under = [
        look
        for trial in found.trials
        for look in trial.at_each_look()
        if look.useful
        and all(look.leaks[name].limit <= most for name, most in found.facts.ceilings.items())
        and 3 * look.proposal.work(RECIPE) <= left
    ]
    assert under
    assert found.chosen.accuracy.value == max(look.accuracy.value for look in under)


def trial(number: int, accuracy: float, leak: Leak, *, useful: bool = True) -> SearchTrial:
    proposal = space.first_proposal("none", 24)
    shown = Estimate(accuracy, accuracy - 0.1, accuracy + 0.1)
    return SearchTrial(number, proposal, 3, 3.0, shown, {"auc": leak}, False, useful)


def leak(value: float, high: float, likely: float) -> Leak:
    return Leak(value, 2 * value - high, high, "lira", likely=likely)


@pytest.mark.parametrize(
    ("ceiling", "chosen"),
    [
        (0.80, 2),  # trial 1 is more accurate, but three of four audits would stay under .82 alone
        (0.72, 3),
        (0.65, 4),  # no limit is there: the mean limit of trial 4 is
        (0.58, 2),  # no mean limit either: trials 2 to 4 leak no more
        (0.40, 3),  # nothing is there: the nearest limit; trial 5 is useless
    ],
)
def test_the_most_accurate_setting_under_the_ceiling_is_chosen_by_the_strictest_limit_that_is_met(
    ceiling: float, chosen: int
) -> None:
    trials = [
        trial(1, 0.9, leak(0.7, 0.79, 0.82)),
        trial(2, 0.8, leak(0.55, 0.74, 0.75)),
        trial(3, 0.7, leak(0.56, 0.66, 0.68)),
        trial(4, 0.6, leak(0.57, 0.64, 0.70)),
        trial(5, 0.3, leak(0.5, 0.55, 0.56), useful=False),
    ]
    assert choose(trials, {"auc": ceiling}).number == chosen
    assert choose(trials[4:], {"auc": ceiling}).number == 5


def test_the_log_names_the_setting_or_leaves_it_to_the_ceilings() -> None:
    better, other = (
        trial(number, accuracy, leak(0.6, 0.7, 0.7)) for number, accuracy in ((1, 0.9), (2, 0.8))
    )
    stopped = replace(trial(3, 0.95, leak(0.5, 0.6, 0.6)), given_up=True)
    log = ModelLog((better, other, stopped))
    assert find_chosen(log, {"auc": 0.8}) == better
    assert find_chosen(replace(log, chosen=2), {"auc": 0.8}) == other
    assert find_chosen(replace(log, trials=(stopped,)), {"auc": 0.8}) == stopped


def test_looks_have_the_figures_of_audits_in_turn(found: HardenedModel, tmp_path: Path) -> None:
    """Three models after all epochs: accuracy, values and limits by `divulge.leave_one_out`."""
    searched, _ = final.split_records(RECORDS, 0.5, 0)
    audits = divulge.leave_one_out(
        divulge.training.Fleet(RECIPE, way="one-by-one", workers=1),
        records=RECORDS.take(searched),
        attacks=ATTACKS,
        rotation=divulge.Rotation(3),
    )
    assert found.undefended.accuracy.value == pytest.approx(
        np.mean([one.value for one in audits.accuracies("non-members")])
    )
    each = [one.figures(best_of=2).values() for one in audits.targets]
    for name, found_leak in found.undefended.leaks.items():
        assert found_leak.value == pytest.approx(
            np.mean([max(metrics[name].value for metrics in one) for one in each])
        )
        highs = [max(metrics[name].high or 1.0 for metrics in one) for one in each]
        assert found_leak.high == pytest.approx(np.mean(highs))
        assert found_leak.spread == pytest.approx(np.std(highs, ddof=1))


def test_answers_of_the_models_of_a_search_go_with_its_end(found: HardenedModel) -> None:
    assert not (found.path / "trials").exists()
    assert (found.path / "trials.json").exists()


def test_the_search_never_sees_the_fresh_records() -> None:
    searched, fresh = final.split_records(RECORDS, 0.4, 7)
    assert sorted([*searched, *fresh]) == list(range(len(RECORDS)))
    assert len(fresh) == 96
    again, _ = final.split_records(RECORDS, 0.4, 8)
    assert again.tolist() != searched.tolist()


def test_the_final_audit_is_of_fresh_records_drawn_by_coins(found: HardenedModel) -> None:
    facts = found.audit.facts
    assert facts.members + facts.nonmembers == found.facts.fresh == 120
    assert facts.drawn == "coins"
    member = final.draw_members(RECORDS.take(np.arange(120)), 0)
    assert facts.members == member.sum()
    assert facts.model.startswith("ExportedTarget") or "pt2" in facts.model


def test_the_final_audit_trains_its_shadows_on_all_records_of_the_search(
    found: HardenedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited: list[AuditInputs] = []

    def keep(subject: AuditInputs, *_: object) -> Audit:
        audited.append(subject)
        return found.audit

    monkeypatch.setattr(final, "audit_subject", keep)
    answers = FunctionTarget(lambda x: np.full((len(x), 3), 1 / 3))
    monkeypatch.setattr(final, "load_target", lambda *_: answers)
    searched, fresh = (RECORDS.take(rows) for rows in final.split_records(RECORDS, 0.5, 0))
    trainer = divulge.training.Fleet(RECIPE, way="one-by-one", workers=1)
    variant = Variant("undefended", ShadowPlan(trainer, 2, fingerprint="recipe"))
    records = FreshRecords(searched, fresh, final.draw_members(fresh, 0), None)
    heading, who = RunHeading("final", 0, {}), LocalWorkers()
    final.audit_final(
        variant, records, found.model, tmp_path, (), heading, 2, (), track_silently, who
    )
    (subject,) = audited
    assert subject.shadows is not None
    assert subject.shadows.trainer == BesideKnown(trainer, searched)


def test_shadows_of_the_final_audit_learn_all_records_of_the_search() -> None:
    seen: list[tuple[int, np.ndarray]] = []

    class Watched:
        def many(self, pool: Records, subsets: np.ndarray, seeds: Sequence[int]) -> Iterable[Any]:
            del seeds
            seen.append((len(pool), subsets))
            yield FunctionTarget(lambda x: np.full((len(x), 2), 0.5))

    subsets = np.array([[True, False, True]])
    pool, always = trained_table.draw(3, 1), trained_table.draw(4, 2)
    list(BesideKnown(Watched(), always).many(pool, subsets, [1]))  # type: ignore[arg-type]
    ((size, rows),) = seen
    assert size == 7
    assert rows.tolist() == [[True, False, True, True, True, True, True]]


@pytest.mark.parametrize("name", TABLES)
def test_a_model_is_under_where_all_upper_limits_are_and_over_where_one_lower_limit_is(
    name: str,
) -> None:
    audited = cases.on_uneven_table(name)
    figures = {
        metric: (one.estimate.low, 1.0 if one.highest is None else one.highest)
        for metric, one in audited.limits.items()
        if metric in ("auc", "advantage")
    }
    for places in itertools.product(("under", "between", "over"), repeat=len(figures)):
        if "between" in places and any(low == high for low, high in figures.values()):
            continue
        ceilings = {} if len(figures) == 2 else {"advantage": 1.0}  # not measured of so few
        for (metric, (low, high)), place in zip(figures.items(), places, strict=True):
            level = {"under": high, "between": (low + high) / 2, "over": low - 1e-9}
            ceilings[metric] = level[place]
        if any(ceiling <= GUESSING[metric] for metric, ceiling in ceilings.items()):
            continue  # refused: guessing reaches it
        facts = HardeningFacts(budget=1, searched=1, fresh=1, ceilings=ceilings)
        asked = Head(
            kind="hardening", name="x", created="", challenge="", seed=0, settings={},
            environment={}, facts=facts,
        )  # fmt: skip
        found = HardenedModel(head=asked, log=ModelLog(()), path=Path(), audit=audited)
        wanted = "over" if "over" in places else "undecided" if "between" in places else "under"
        unmeasured = len(figures) < 2 and wanted == "under"
        if unmeasured or audited.verdict.level in UNBELIEVED:
            wanted = "undecided"
        assert found.outcome == wanted, (places, audited.verdict.level)


UNBELIEVED = ("inputs doubtful", "instrument failed", "confounded", "nothing measured")


def test_without_a_figure_nothing_is_decided(found: HardenedModel) -> None:
    assert "tpr@0.001" not in found.audit.limits  # of 120 records
    facts = replace(found.facts, ceilings={"auc": 1.0, "tpr@0.001": 1.0})
    assert replace(found, head=replace(found.head, facts=facts)).outcome == "undecided"


def test_the_card_says_how_the_model_was_trained_and_what_the_audit_found(
    found: HardenedModel,
) -> None:
    card = (found.model.parent / "MODEL_CARD.md").read_text()
    assert "Guarantee: none." in card
    assert make_inert(found.chosen.label) in card
    assert make_inert(found.story.headline) in card
    assert card.count("<!-- divulge: end -->") == 1  # the section about the final audit


def test_the_file_answers_as_the_model_that_was_audited(found: HardenedModel) -> None:
    import torch

    network = torch.export.load(found.model).module()
    logits = network(torch.tensor(RECORDS.x[:5])).detach().numpy()
    assert logits.shape == (5, 3)
    answers = load_target(found.model, "logits").predict(RECORDS.x[:5])
    np.testing.assert_allclose(answers.argmax(axis=1), logits.argmax(axis=1))


class _Killed(BaseException):
    pass


def stop_at(begins: str, ends: str) -> Callable[..., Iterable[Any]]:
    """Progress that kills a search before work of this title."""

    def stop(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
        del done
        if text.startswith(begins) and text.endswith(ends):
            raise _Killed
        return items

    return stop


@pytest.fixture
def search_alone(found: HardenedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a search the log alone is new: no final model is trained or audited."""

    def stay(_: object, head: Any, log: Any, path: Path, *__: object) -> HardenedModel:
        return HardenedModel(head, log, path, found.audit)

    monkeypatch.setattr(model_bench, "finish", stay)
    monkeypatch.setattr(HardenedModel, "parts_of_folder", lambda _: [])


@pytest.mark.usefixtures("search_alone")
def test_a_search_that_was_interrupted_has_the_same_log_in_the_end(tmp_path: Path) -> None:
    trained: list[str] = []

    def run(folder: str, **more: Any) -> HardenedModel:
        return divulge.harden(
            replace(RECIPE, epochs=8),
            records=RECORDS,
            ceiling={"auc": 0.8},
            attacks=ATTACKS[:1],
            search=divulge.SearchSettings(("relaxloss",), budget=9, models=3, shadows=2),
            run=tmp_path / folder,
            options=divulge.Options(**more),
        )

    def count(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
        del done
        trained.extend([text] * len(items) if text.endswith("Training models") else [])
        return items

    whole = run("whole", progress=count)
    assert len(trained) == 3 * len(whole.trials)
    with pytest.raises(_Killed):
        run("stopped", progress=stop_at("Trial 2", "Attacking models"))
    with pytest.raises(StoreError, match="interrupted: continue it with --resume"):
        divulge.load(tmp_path / "stopped")
    assert len(list((tmp_path / "stopped/trials").glob("*/*.answers"))) == 6
    trained.clear()
    assert run("stopped", progress=count, resume=True).log == whole.log
    assert len(trained) == 3 * len(whole.trials) - 6  # what is stored is not trained again


def test_a_final_model_that_is_there_is_not_trained_again(tmp_path: Path) -> None:
    class Never:
        def many(self, *_: object) -> Iterable[Any]:
            raise AssertionError

    place = tmp_path / "model/model.pt2"
    place.parent.mkdir()
    place.write_bytes(b"")
    plan = ShadowPlan(Never(), 2, fingerprint="never")  # type: ignore[arg-type]
    records = FreshRecords(RECORDS, RECORDS, np.ones(len(RECORDS), bool), None)
    assert final.train_final(Variant("undefended", plan), records, tmp_path, 0) == place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begins", "ends"),
    [("Trials 2 to 3", "Attacking models"), ("Training the final model", "")],
)
def test_a_search_that_was_interrupted_ends_as_if_it_had_not_been(
    found: HardenedModel, tmp_path: Path, begins: str, ends: str
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(_Killed):
        hardened(folder, options=divulge.Options(name="<b>", progress=stop_at(begins, ends)))
    with pytest.raises(StoreError, match="interrupted: continue it with --resume"):
        divulge.load(folder)
    again = hardened(folder)
    assert again.trials == found.trials
    assert again.audit.findings == tuple(
        replace(new, seconds=old.seconds)
        for new, old in zip(found.audit.findings, again.audit.findings, strict=True)
    )


def test_a_run_is_read_again_and_continued_only_with_the_same_question(
    found: HardenedModel, tmp_path: Path
) -> None:
    again = divulge.load(found.path)
    assert isinstance(again, HardenedModel)
    assert again.trials == found.trials
    assert again.outcome == found.outcome
    with pytest.raises(StoreError, match="start a new run"):
        hardened(found.path, ceiling={"auc": 0.6})
    folder = tmp_path / "copy"
    shutil.copytree(found.path, folder)
    (folder / "trials.json").write_text('{"trials": []}')
    with pytest.raises(StoreError, match=r"trials\.json as divulge wrote it"):
        divulge.load(folder)


@pytest.mark.parametrize(
    ("ceiling", "said"),
    [
        ({}, "expected a ceiling, got none"),
        ({"epsilon": 1.0}, "a metric with an upper limit"),
        ({"tpr@1%": 0.1}, "a metric with an upper limit"),
        ({"auc": 2.0}, "from 0 to 1"),
        ({"auc": 0.5}, "above 0.5, which guessing reaches"),
        ({"tpr@0.001": 0.1}, "records enough for a ceiling on tpr@0.001"),
    ],
)
def test_ceilings_that_cannot_be_held_are_refused(
    tmp_path: Path, ceiling: dict[str, float], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        hardened(tmp_path / "run", ceiling=ceiling)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"defences": ("relax",)}, "did you mean 'relaxloss'"),
        ({"answers": ("round",)}, "did you mean 'rounding'"),
        ({"answers": ("rounding", "rounding")}, "each defence once, got 'rounding'"),
        ({"defences": ("relaxloss", "hamp", "relaxloss")}, "each defence once, got 'relaxloss'"),
        ({"budget": 5}, "at least 26 trainings"),
    ],
)
def test_searches_that_cannot_be_made_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        divulge.SearchSettings(**settings)


def normalised() -> Any:
    """A network that DP-SGD refuses, since the records of a batch depend on each other."""
    from torch import nn

    return nn.Sequential(nn.Linear(trained_table.FEATURES, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


@pytest.mark.usefixtures("search_alone")
def test_a_defence_that_refuses_the_network_is_named_and_left_out(tmp_path: Path) -> None:
    found = divulge.harden(
        replace(RECIPE, network=normalised, epochs=2),
        records=RECORDS,
        ceiling={"auc": 1.0},
        attacks=ATTACKS[:1],
        search=divulge.SearchSettings(("dp-sgd",), budget=12, models=3, shadows=2),
        run=tmp_path / "run",
    )
    assert list(found.log.refused) == ["dp-sgd"]
    assert {trial.proposal.defence for trial in found.trials} == {"none"}
    assert "dp-sgd could not be tried: " in found.table()
    assert "dp-sgd could not be tried: " in found.files()["report.html"].decode()


PREPARATION = {
    "complementary-distillation": 2 * 1 / 2,  # teachers of half of the records
    "selena": 5 * 3 / 5,
    "mist": 1 + 1 / 3,  # a second pass, and the answers of one other sub-model
    "dap": 4 * 0.3 / 2 + 8,  # shadows of half of the records held out, and models of nine r but one
}
"""Trainings on all records before a model's own, with the first value of each setting."""


@pytest.mark.parametrize("name", defences.TRAINED_DEFENCES)
def test_every_defence_says_what_to_search(name: str) -> None:
    cls = defences.trained_defence_class(name)
    assert cls.search
    settings = {
        key: values[0] if isinstance(values, tuple) and not hasattr(values, "log") else values.low
        for key, values in cls.search.items()
        if key != "select" or name == "early-stopping"
    }
    made = defences.trained_defence(name, trained_table.RECIPE, **settings)
    assert space.first_proposal(name, 15).defence == name
    assert getattr(made, "preparation", 0.0) == pytest.approx(PREPARATION.get(name, 0.0))


def test_page_and_tables_say_what_was_chosen_and_escape_names(found: HardenedModel) -> None:
    files = found.files()
    page = markup.parse(files["report.html"].decode())
    assert found.story.headline in page.text
    assert "<b>" in page.text  # the name of the run, as text
    assert b"<b>" not in files["report.html"]
    told = json.loads(files["summary.json"])
    assert told["chosen"] == found.chosen.number
    assert len(told["trials"]) == len(found.trials)
    assert files["trials.csv"].decode().count("\n") == len(found.trials) + 1


@pytest.mark.parametrize(("answers", "told"), [("none", ""), ("rounding", "rounding")])
def test_a_defence_of_answers_is_named_where_the_setting_has_one(
    answers: str, told: str, found: HardenedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = replace(found.chosen.proposal, answers=answers)
    chosen = replace(found.chosen, proposal=proposal)
    monkeypatch.setattr(HardenedModel, "chosen", property(lambda _: chosen))
    story = replace(found).story  # of a copy that remembers no story
    assert story.answers == told
    step = replace(story, outcome="under").next_step
    assert (f"Put {answers} before its answers" in step) == bool(told)


def test_sentences_name_the_price_and_the_optimism(found: HardenedModel) -> None:
    story = found.story
    first, second, third = (
        replace(row, accuracy=Estimate(0.9 - 0.1 * k, 0.0, 1.0), leaks={"auc": _auc(0.9 - 0.1 * k)})
        for k, row in enumerate(story.trials[:3])
    )
    ceilings = (replace(story.ceilings[0], fresh=_auc(0.75), search=_auc(0.8)),)
    told = replace(
        story,
        ceilings=ceilings,
        trials=(first, second, third),
        undefended=first,
        chosen=2,
        down=third,
        accuracy=Estimate(0.7, 0.6, 0.8),
    )
    _, accuracy, optimism, down = told.sentences
    assert "10.0 points less accurate than the undefended model after all epochs" in accuracy
    assert "(AUC 0.900)" in accuracy
    assert "AUC 0.800 there, 0.750 on fresh records; accuracy 0.800 there, 0.700" in optimism
    assert f"trial 3, {third.label}: AUC 0.700 for 0.800, for 10.0 points less accuracy" in down


def _auc(value: float) -> Estimate:
    return Estimate(value, value - 0.05, value + 0.05)


SETTINGS = """
name = "tiny"
ceiling = {{auc = {ceiling}}}
[data]
records = "subject.py:records"
[training]
network = "subject.py:network"
optimiser = "adam"
epochs = 8
lr = 0.02
[search]
defences = []
budget = 9
models = 3
shadows = 2
[[attacks]]
name = "threshold"
"""

SUBJECT = """
from tests.defences import trained_table

RECORDS = trained_table.draw(160, 0)
records = (RECORDS.x, RECORDS.y)
network = trained_table.network
"""


def test_an_estimate_trains_a_few_undefended_models_and_counts_all(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    settings = SETTINGS.format(ceiling=1.0).replace("budget = 9", "budget = 50")
    (tmp_path / "harden.toml").write_text(settings.replace("models = 3", "models = 4"))
    line = ["harden", str(tmp_path / "harden.toml"), "--estimate"]
    done = CliRunner().invoke(main, [*line, "--format", "json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["search"]
    assert not (tmp_path / "runs").exists()
    assert (told["trainings"], told["final"]) == (50, 3)
    assert told["one"]["models"] == 4
    # the last three learn 120 records each, where the others learn 40
    assert told["seconds"] == pytest.approx(told["one"]["seconds"] / 4 * (47 + 3 * 3))
    assert told["disk"] == told["one"]["disk"] // 4 * 47 * len(stages(8))


def test_an_estimate_says_what_the_budget_is() -> None:
    one = CostEstimate(4, 2, 1.0, 1.0, 8.0, False, 10**9, 5_000_000, 3)
    cost = SearchCost(one, 40, 3, 2, 90.0, 20_000_000)
    assert "About 90 s for the work of 40 undefended trainings" in str(cost)
    assert "at most 3 min of processor time (2 at a time)" in str(cost)
    assert "3 models are trained for the final audit" in str(cost)
    assert "1.0 GB of memory, and 20.0 MB on disk" in str(cost)


@pytest.mark.parametrize(("outcome", "code"), [("over", 3), ("undecided", 4)])
def test_the_command_says_by_its_exit_code_that_the_model_is_not_under(
    found: HardenedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outcome: str,
    code: int,
) -> None:
    if outcome == "over":  # by another audit: this model leaks too little
        found = replace(found, audit=Audit(replace(cases.contents("leaky"), missing=())))
    low, high = (
        max(0.5, limit) for limit in (found.measured["auc"].low, found.measured["auc"].high)
    )
    ceiling = (0.5 + low) / 2 if outcome == "over" else (low + high) / 2
    facts = replace(found.facts, ceilings={"auc": ceiling})
    told = replace(found, head=replace(found.head, facts=facts))
    monkeypatch.setattr(run, "harden_file", lambda *_, **__: told)
    (tmp_path / "harden.toml").write_text(SETTINGS.format(ceiling=1.0))
    done = CliRunner().invoke(main, ["harden", str(tmp_path / "harden.toml"), "--format", "json"])
    assert done.exit_code == code, done.output
    assert json.loads(done.stdout.splitlines()[-1])["outcome"] == outcome


def test_the_command_searches_and_says_by_its_exit_code_that_the_model_is_under(
    tmp_path: Path,
) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "harden.toml").write_text(SETTINGS.format(ceiling=1.0))
    line = ["harden", str(tmp_path / "harden.toml"), "--format", "json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["outcome"] == "under"
    assert (tmp_path / "runs/tiny-001/model/model.pt2").exists()
    again = CliRunner().invoke(main, ["report", str(tmp_path / "runs/tiny-001")])
    assert again.exit_code == 0, again.output
    exported = CliRunner().invoke(
        main, ["export", str(tmp_path / "runs/tiny-001"), "--junit", str(tmp_path / "x.xml")]
    )
    assert exported.exit_code == 0, exported.output
    assert 'name="tiny: attacks"' in (tmp_path / "x.xml").read_text()  # of the final audit
