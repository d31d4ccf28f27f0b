"""The search for a federation within limits: what is tried, chosen, and run with fresh clients."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from torch import nn

import divulge
from divulge.attacks import catalog as attacks
from divulge.cli.main import main
from divulge.core import Estimate
from divulge.defences import DPSGD, LocalNoise, TopK, catalog
from divulge.errors import SpecError, StoreError
from divulge.federation import Federation, iid, simulate
from divulge.studies.harden import federated, federated_trial
from divulge.training import Recipe
from tests.defences import trained_table as table
from tests.report import markup

pytest.importorskip("optuna")

POOL = table.draw(240, 0)
LIMITS = divulge.FederationLimits(class_shares=0.05, which_client=0.9)


def network() -> nn.Module:
    return nn.Linear(table.FEATURES, table.CLASSES)


FEDERATION = Federation(POOL, iid(POOL, [30] * 8), Recipe(network, lr=0.2, epochs=3), workers=1)


def hardened(folder: Path, **more: Any) -> divulge.HardenedFederation:
    """Of synthetic records of three classes."""
    asked: dict[str, Any] = {
        "limits": LIMITS,
        "test": table.draw(200, 1),
        "reference": table.draw(90, 2),
        "rounds": 2,
        "budget": 4,
        "defences": ("top-k", "local-noise"),
        "candidates": 24,
        "run": folder,
    }
    return divulge.harden_federation(FEDERATION, **asked | more)


TRAIN_NOTHING = federated.QUICK[:2]
"""Attacks on class shares that invent no clients: for the time that it takes."""


@pytest.fixture(scope="module")
def few() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federated, "LAST", TRAIN_NOTHING)
        patch.setattr(federated, "QUICK", TRAIN_NOTHING)
        yield


@pytest.fixture(scope="module")
def found(few: None, tmp_path_factory: pytest.TempPathFactory) -> divulge.HardenedFederation:
    del few
    return hardened(tmp_path_factory.mktemp("federation") / "run")


@pytest.mark.slow
def test_clients_are_invented_who_send_through_each_defence(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federated, "LAST", federated.QUICK)
        found = hardened(tmp_path / "run")
    assert not found.refused
    for trial in (*found.trials, found.fresh):
        assert trial.leaks.keys() == {"class_shares", "which_client"}


def test_an_attack_that_invents_clients_is_told_the_defence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[tuple[str, dict[str, Any]]] = []

    def update_attack(name: str, **settings: Any) -> Any:
        built.append((name, settings))
        return attack

    attack = attacks.update_attack("label-counts", method="rlu")
    monkeypatch.setattr(attacks, "update_attack", update_attack)
    limits = divulge.FederationLimits(class_shares=0.0)
    design = federated_trial.TrialDesign(
        FEDERATION, limits, table.draw(20, 1), table.draw(90, 2), 1, 24, federated.QUICK
    )
    for name, settings, told in (
        ("none", {}, {}),
        ("top-k", {"share": 0.1}, {"defence": {"name": "top-k", "share": 0.1}}),
    ):
        built.clear()
        design.run(divulge.FederationVariant(name, settings, 1), 0)
        assert built == [*federated.QUICK[:2], ("decaf", {**federated.QUICK[2][1], **told})]


@pytest.mark.slow
def test_each_defence_is_tried_first(found: divulge.HardenedFederation) -> None:
    assert not found.refused
    settings = [trial.setting for trial in found.trials]
    assert [one.defence for one in settings] == ["none", "top-k", "local-noise"]
    assert settings[1].build() == TopK()  # its default
    assert [one.epochs for one in settings] == [3, 3, 3]
    for trial in (*found.trials, found.fresh):
        assert trial.leaks.keys() == {"class_shares", "which_client"}


def test_the_chosen_setting_runs_with_clients_that_the_search_never_saw(
    found: divulge.HardenedFederation,
) -> None:
    assert found.chosen in found.trials
    assert found.fresh.setting == found.chosen.setting
    assert found.fresh.leaks != found.chosen.leaks
    searched, fresh = federated._halve(FEDERATION)
    rows = [set(np.concatenate(half.clients).tolist()) for half in (searched, fresh)]
    assert len(searched.clients) == len(fresh.clients) == 4
    assert not rows[0] & rows[1]


def test_a_search_that_stopped_at_any_moment_ends_the_same(
    found: divulge.HardenedFederation, tmp_path: Path
) -> None:
    """The first is stopped at its third trial, which a kill cuts off likewise."""

    def stop(items: Any, title: str, *_: Any) -> Any:
        if title.startswith("Trial 3"):
            raise KeyboardInterrupt
        return items

    with pytest.raises(KeyboardInterrupt):
        hardened(tmp_path / "run", progress=stop)
    with pytest.raises(StoreError, match="interrupted: continue it with --resume"):
        divulge.load(tmp_path / "run")
    assert len(list((tmp_path / "run/trials").iterdir())) == 2
    with pytest.raises(StoreError, match="different ones: start a new run"):
        hardened(tmp_path / "run", resume=True, candidates=25)
    again = hardened(tmp_path / "run", resume=True)
    assert (again.trials, again.fresh) == (found.trials, found.fresh)


def test_what_is_stored_is_what_was_found(found: divulge.HardenedFederation) -> None:
    loaded = divulge.load(found.path)
    assert isinstance(loaded, divulge.HardenedFederation)
    assert (loaded.trials, loaded.fresh) == (found.trials, found.fresh)
    assert (loaded.chosen, loaded.outcome) == (found.chosen, found.outcome)
    page = loaded.report().read_text("utf-8")
    assert found.headline in page
    figures = json.loads((found.path / "summary.json").read_text("utf-8"))
    assert figures["outcome"] == found.outcome
    assert len(figures["trials"]) == 3
    with pytest.raises(StoreError, match="keeps figures alone"):
        loaded.measure()


def test_a_damaged_trial_is_refused(found: divulge.HardenedFederation, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "trials").mkdir(parents=True)
    for name in ("run.json", "fresh.json"):
        (run / name).write_bytes((found.path / name).read_bytes())
    with pytest.raises(StoreError, match="trials"):
        divulge.load(run)
    (run / "trials/001.json").write_text('{"setting": 1}')
    with pytest.raises(StoreError, match=r"001.json as divulge wrote it"):
        divulge.load(run)
    (run / "trials/001.json").write_bytes((found.path / "trials/002.json").read_bytes())
    with pytest.raises(StoreError, match="no trial of undefended"):
        hardened(run, resume=True)


def test_the_model_after_the_last_round_is_judged_in_each_clients_class_mix() -> None:
    test = table.draw(200, 1)
    design = federated_trial.TrialDesign(FEDERATION, LIMITS, test, table.draw(90, 2), 3, 24, ())
    transcript = simulate(FEDERATION, 3)
    weights = transcript.rounds[-1].aggregated
    assert weights is not None
    right = (test.x @ weights["weight"].T + weights["bias"]).argmax(axis=1) == test.y
    by_class = [right[test.y == k].mean() for k in range(table.CLASSES)]
    mixes = [np.bincount(POOL.y[rows], minlength=3) / len(rows) for rows in FEDERATION.clients]
    found = design._accuracy(FEDERATION, transcript)
    assert found.value == pytest.approx(np.mean(mixes @ np.array(by_class)), abs=1e-9)


def test_clients_with_layers_of_their_own_are_judged_by_their_own_models(tmp_path: Path) -> None:
    """The global model has an untrained last layer, and classifies nothing."""
    network = table.network
    found = divulge.harden_federation(
        replace(FEDERATION, recipe=replace(FEDERATION.recipe, network=network)),
        limits=divulge.FederationLimits(which_client=1.0),
        test=table.draw(200, 1),
        reference=table.draw(90, 2),
        rounds=3,
        budget=4,
        defences=("own-last-layer", "secure-sum"),
        candidates=24,
        run=tmp_path / "run",
    )
    plain, own, summed = found.trials
    assert not found.refused
    assert (own.setting.defence, summed.setting.defence) == ("own-last-layer", "secure-sum")
    assert own.accuracy.value > 0.5  # of three classes, with one of four labels wrong
    assert own.setting.build().personal
    assert summed.leaks["which_client"] == Estimate(0.5, 0.5, 0.5)
    # a sum changes the weights by its rounding alone
    assert summed.accuracy.value == pytest.approx(plain.accuracy.value, abs=0.02)


def test_the_server_of_a_secure_sum_guesses_the_same_of_everyone() -> None:
    federation = replace(FEDERATION, defence=catalog.update_defence("secure-sum"))
    transcript = federated_trial.as_one_client(simulate(federation, 2))
    for played in transcript.rounds:
        (got,) = played.received.values()
        assert got.records == 30
        assert played.masked is None
    first = transcript.rounds[0]
    change = first.change(federated_trial.TOGETHER)
    for name, array in first.sent.items():
        assert first.aggregated is not None
        np.testing.assert_allclose(array + change[name], first.aggregated[name], atol=1e-6)


def made(accuracy: float, l1: float, right: float) -> divulge.FederationTrial:
    def near(value: float) -> Estimate:
        return Estimate(value, value - 0.1, value + 0.1)

    leaks = {"class_shares": near(l1), "which_client": near(right)}
    return divulge.FederationTrial(divulge.FederationVariant("none", {}, 1), near(accuracy), leaks)


def test_the_most_accurate_within_all_limits_is_chosen_else_the_nearest() -> None:
    limits = divulge.FederationLimits(class_shares=0.5, which_client=0.4)
    accurate, worse, leaky = made(0.8, 0.7, 0.2), made(0.6, 1.2, 0.2), made(0.9, 0.7, 0.35)
    assert accurate.excess(limits) == pytest.approx(-0.05)  # .6 of .5, on a range of 2
    assert leaky.excess(limits) == pytest.approx(0.05)
    assert limits.choose([worse, accurate, leaky]) is accurate
    assert limits.choose([leaky, made(0.9, 0.1, 0.2)]) is leaky
    shares = divulge.FederationLimits(class_shares=0.5)
    assert shares.choose([accurate, leaky]) is leaky


@pytest.mark.parametrize(
    ("l1", "right", "outcome", "said"),
    [
        (0.61, 0.2, "within", "This federation stays within the limits: local-noise"),
        (0.55, 0.2, "undecided", "was shown to exist; the nearest is local-noise"),
        (0.45, 0.2, "undecided", "was shown to exist; the nearest is local-noise"),
        (0.35, 0.2, "over", "No federation within these limits was found; the nearest is local"),
        (0.61, 0.85, "undecided", "was shown to exist"),
        (0.61, 0.95, "undecided", "was shown to exist"),
        (0.61, 1.05, "over", "was found"),
    ],
)
def test_the_fresh_run_decides(
    found: divulge.HardenedFederation, l1: float, right: float, outcome: str, said: str
) -> None:
    setting = divulge.FederationVariant(
        "local-noise", {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0}, 2
    )
    fresh = replace(made(0.8, l1, right), setting=setting)
    limits = divulge.FederationLimits(class_shares=0.5, which_client=0.9)
    head = replace(found.head, facts=replace(found.facts, limits=limits), name="<b>")
    log = replace(found.log, refused={"x|y": "<b>"})
    told = replace(found, head=head, fresh=fresh, log=log)
    assert told.outcome == outcome
    assert said in told.headline
    lines = told.table().splitlines()
    (row,) = [line for line in lines if line.endswith("| fresh clients |")]
    assert "| 0.800 (0.700-0.900) |" in row
    assert lines[-1] == "x&#124;y could not be tried: &#60;b&#62;"
    assert sum(line.endswith("| chosen |") for line in lines) == 1
    assert setting.build() == LocalNoise(1.0, 1e-5, 1.0)
    assert 'name = "local-noise"\nepsilon = 1.0\ndelta = 1e-05\n' in setting.as_toml()
    files = {name: content.decode() for name, content in told.files().items()}
    page = markup.parse(files["report.html"])
    toml = " ".join(setting.as_toml().split())
    for text in (said, "0.800 (0.700-0.900)", "<b>", "x|y could not be tried", toml):
        assert text in page.text
    assert "<b>" not in files["report.html"]
    assert setting.as_toml() in files["summary.md"]
    assert files["trials.csv"].count("\n") == 2 + len(told.trials)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"defences": ("top-kk",)}, "did you mean 'top-k'"),
        ({"defences": ("chain",)}, "an update defence that is searched"),
        ({"budget": 1}, "a budget of 2 federations"),
    ],
)
def test_searches_that_cannot_be_made_are_refused(
    more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=said):
        hardened(tmp_path / "run", **more)
    assert not (tmp_path / "run").exists()


def test_federations_that_cannot_be_halved_or_have_a_defence_are_refused() -> None:
    private = DPSGD(FEDERATION.recipe, delta=1e-5, noise_multiplier=1.0)
    for changed, said in (
        ({"clients": FEDERATION.clients[:5]}, "6 clients or more, got 5"),
        ({"defence": TopK()}, "a federation without a defence"),
        ({"trainer": private}, "without a trainer of its own"),
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


SUBJECT = """
import numpy as np
from torch import nn

rng = np.random.default_rng(0)
y = np.arange(120) % 2
x = (rng.normal(size=(120, 3)) + y[:, None]).astype(np.float32)
train, test, others = (x[:60], y[:60]), (x[60:90], y[60:90]), (x[90:], y[90:])

def network():
    return nn.Linear(3, 2)
"""

SETTINGS = """
rounds = 1
[data]
train = "subject.py:train"
test = "subject.py:test"
[clients]
count = 6
[training]
network = "subject.py:network"
epochs = 3
[harden]
reference = "subject.py:others"
which_client = {limit}
budget = 4
defences = ["local-noise"]
candidates = 12
"""

KILL = """
import sys
import divulge
from tests.killing import kill_before_writing

kill_before_writing(sys.argv[1])
divulge.harden_federation_file("federate.toml", "killed")
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "subject.py").write_text(SUBJECT)
    path = tmp_path / "federate.toml"
    path.write_text(SETTINGS.format(limit=1.0))
    return path


@pytest.mark.slow
def test_a_search_that_is_killed_ends_as_if_it_had_not_been(settings: Path) -> None:
    root, folder = Path(__file__).parents[3], settings.parent
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    killed = subprocess.run(
        [sys.executable, "-c", KILL, "trials/002.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    divulge.harden_federation_file(settings, folder / "killed", resume=True)
    divulge.harden_federation_file(settings, folder / "whole")
    names = sorted(one.name for one in (folder / "whole/trials").iterdir())
    assert len(names) == 3
    for name in ("fresh.json", *(f"trials/{name}" for name in names)):
        killed_file, whole_file = (folder / run / name for run in ("killed", "whole"))
        assert killed_file.read_bytes() == whole_file.read_bytes()


@pytest.mark.parametrize(("limit", "code", "said"), [(1.0, 0, "within"), (0.0, 3, "over")])
def test_the_command_ends_with_what_was_found(
    settings: Path, limit: float, code: int, said: str
) -> None:
    settings.write_text(SETTINGS.format(limit=limit).replace("budget = 4", "budget = 2"))
    line = ["harden", str(settings), "--format", "json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == code, done.output
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["outcome"] == said
    assert Path(answer["report"]).exists()
    shown = CliRunner().invoke(main, ["report", answer["run"]])
    assert shown.stdout.strip() == answer["report"]


def test_the_command_shows_what_was_tried(settings: Path) -> None:
    settings.write_text(SETTINGS.format(limit=1.0).replace("budget = 4", "budget = 2"))
    done = CliRunner().invoke(main, ["harden", str(settings)])
    assert "This federation stays within the limits: undefended" in done.stdout
    assert "For your federate.toml" in done.stdout
    costs = divulge.estimate_file(settings)
    assert [getattr(costs[name], "rounds") for name in ("rounds", "search")] == [1, 2]  # noqa: B009


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("which_client = 1.0", "", "expected a limit, got none"),
        ("budget = 4", "interactions = 0.6\nbudget = 4", "got one on interactions"),
        ('test = "subject.py:test"', "", r"expected test in \[data\]"),
        ("[harden]", "[privacy]", "reference"),
        ("count = 6", "count = 5", "6 clients or more"),
    ],
)
def test_settings_that_cannot_be_searched_are_refused(
    settings: Path, old: str, new: str, said: str
) -> None:
    settings.write_text(settings.read_text().replace(old, new))
    with pytest.raises(SpecError, match=said):
        divulge.harden_federation_file(settings)
    assert not (settings.parent / "runs").exists()


def test_settings_without_limits_and_other_workers_are_refused(settings: Path) -> None:
    done = CliRunner().invoke(main, ["harden", str(settings), "--workers", "ray"])
    assert done.exit_code == 2
    assert "expected --workers local for a federation" in done.stderr
    settings.write_text(settings.read_text().partition("[harden]")[0])
    done = CliRunner().invoke(main, ["harden", str(settings)])
    assert done.exit_code == 2
    assert "expected [harden]" in done.stderr
