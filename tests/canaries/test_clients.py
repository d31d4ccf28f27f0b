"""Canary clients show what a federation's noise lets through, and nothing is mixed up."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from divulge.canaries import clients
from divulge.canaries.audit import audit_canaries
from divulge.canaries.clients import Sees, make_canary_clients, score_transcript
from divulge.canaries.plan import gaussian_mu
from divulge.canaries.trained import score_canaries
from divulge.cli.main import main
from divulge.core import Round, UpdateDefence
from divulge.data import canary_files as files
from divulge.data.canary_files import Neighbours
from divulge.defences.noise import SeededNoise
from divulge.defences.updates import dp_fedavg
from divulge.defences.updates.compose import chain
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, SpecError, StoreError, TargetError
from divulge.federation.canaries import (
    ROUNDING,
    CanaryClients,
    StatedEpsilon,
    direction,
    in_deviations,
)
from divulge.federation.fedavg import Rule
from divulge.federation.simulation import simulate
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.reader import Transcript
from divulge.finished_runs.stored import PAGE
from tests.canaries import federations, sets

CENTRAL = DPFedAvg(2.0, 1.0, 1e-5)
DISTRIBUTED = chain(DPFedAvg(2.0, 1.0, 1e-5, "clients"), SecureSum())


@pytest.mark.parametrize(
    ("defence", "neighbours", "sees"),
    [
        (CENTRAL, "add-or-remove", "rounds"),
        (CENTRAL, "add-or-remove", "final"),
        (DISTRIBUTED, "add-or-remove", "rounds"),
        (LocalNoise(2.9, 1e-5, 1.0), "replace", "messages"),
    ],
)
def test_noise_that_is_kept_shows_less_than_is_stated_and_not_much_less(
    defence: UpdateDefence, neighbours: Neighbours, sees: Sees, tmp_path: Path
) -> None:
    canaries, run = federations.play(tmp_path, defence, neighbours=neighbours, count=60)
    found = federations.judge(canaries, run, sees=sees)
    promised = defence.guarantee(2)
    assert promised is not None
    assert found.facts.epsilon == pytest.approx(promised.epsilon)
    assert found.verdict.level == "consistent"
    (one,) = found.results
    assert one.gaussian is not None
    mu, seen = (gaussian_mu(each, 1e-5) for each in (promised.epsilon, one.gaussian.value))
    error = math.sqrt(4 / 60 + mu**2 / 120)  # of a difference of means, in deviations
    assert abs(seen - mu) < 3.5 * error  # farther off once in two thousand
    assert len(one.rounds) == (0 if sees == "final" else 2)
    assert "client" in found.facts.neighbours


def silent(_: SeededNoise, values: np.ndarray, scale: float) -> np.ndarray:
    del scale
    return values


def test_noise_that_is_off_is_found_where_the_server_adds_it_and_where_clients_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SeededNoise, "add_normal", silent)
    for name, defence in (("central", CENTRAL), ("distributed", DISTRIBUTED)):
        canaries, run = federations.play(tmp_path / name, defence, count=60)
        assert federations.judge(canaries, run).verdict.level == "contradicted"


def test_clipping_that_is_off_is_found_by_canaries_that_are_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dp_fedavg, "clip_to_norm", lambda vector, _: vector)
    for norm, verdict in ((1.0, "consistent"), (10.0, "contradicted")):
        canaries, run = federations.play(tmp_path / str(norm), CENTRAL, count=60, norm=norm)
        assert federations.judge(canaries, run).verdict.level == verdict


def test_one_round_without_noise_is_found_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DPFedAvg.on_server

    def now_and_then(self: DPFedAvg, view: object, context: object) -> object:
        with pytest.MonkeyPatch.context() as patch:
            if context.number == 3:  # type: ignore[attr-defined]
                patch.setattr(SeededNoise, "add_normal", silent)
            return kept(self, view, context)  # type: ignore[arg-type]

    monkeypatch.setattr(DPFedAvg, "on_server", now_and_then)
    defence = DPFedAvg(4.0, 1.0, 1e-5)
    canaries, run = federations.play(tmp_path, defence, count=100, rounds=8)
    found = federations.judge(canaries, run)
    (one,) = found.results
    assert found.verdict.level == "contradicted"
    assert int(np.argmax([each.bound.value for each in one.rounds])) == 3
    assert "round 4 shows most" in str(found)


@pytest.mark.slow
def test_noise_that_repeats_falls_out_of_the_difference_of_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_canary_clients(tmp_path / "canaries", 60, seed=5)
    verdicts = []
    for name in ("kept", "repeated"):
        federation = federations.federation(CENTRAL, made.folder, participation=0.5)
        simulate(federation, 4, tmp_path / name)
        (made.folder / files.OPENED).unlink(missing_ok=True)
        judged = federations.judge(made.folder, tmp_path / name, sees="differences")
        verdicts.append(judged.verdict.level)

        def again(_: SeededNoise, values: np.ndarray, scale: float) -> np.ndarray:
            return np.asarray(values + np.random.default_rng(3).normal(0.0, scale, values.size))

        monkeypatch.setattr(SeededNoise, "add_normal", again)
    assert verdicts == ["consistent", "contradicted"]


@pytest.mark.parametrize("rule", ["fedavg", "fedsgd"])
def test_without_a_defence_canaries_show_in_weights_and_gradients(
    rule: Rule, tmp_path: Path
) -> None:
    made = make_canary_clients(tmp_path / "canaries", 40, seed=2)
    federation = federations.federation(UpdateDefence(), made.folder)
    object.__setattr__(federation, "rule", rule)
    simulate(federation, 2, tmp_path / "run")
    with pytest.raises(SpecError, match="no transcript that states them"):
        federations.judge(made.folder, tmp_path / "run")
    found = federations.judge(made.folder, tmp_path / "run", epsilon=1.0, delta=1e-5)
    assert found.results[0].auc.value == 1


def test_a_federation_resumed_gives_the_same_scores(tmp_path: Path) -> None:
    made = make_canary_clients(tmp_path / "canaries", 40, seed=2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"

    def scores(run: Path) -> np.ndarray:
        with np.load(score_transcript(made.folder, run, tmp_path / f"{run.name}.npz")) as held:
            return np.asarray(held["rounds"])

    simulate(federations.federation(CENTRAL, made.folder, participation=0.5), 3, whole)
    for rounds in (1, 3):
        federation = federations.federation(CENTRAL, made.folder, participation=0.5)
        simulate(federation, rounds, parts, resume=rounds == 3)
    assert scores(whole).tolist() == scores(parts).tolist()
    other = make_canary_clients(tmp_path / "others", 40, seed=3)
    changed = federations.federation(CENTRAL, other.folder, participation=0.5)
    with pytest.raises(StoreError, match="different ones"):
        simulate(changed, 4, parts, resume=True)


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    canaries, run = federations.play(tmp_path, CENTRAL, count=40, rounds=1)
    other = make_canary_clients(tmp_path / "others", 40).folder
    records = sets.make(tmp_path, 40)
    plain = tmp_path / "plain"
    simulate(federations.federation(CENTRAL, None), 1, plain)
    path = tmp_path / "scores.npz"
    for folder, transcript, said in (
        (other, run, "canaries that took part in this federation"),
        (canaries, plain, "got one with none"),
        (records, run, "expected canary clients"),
    ):
        with pytest.raises(DataError, match=said):
            score_transcript(folder, transcript, path)
    with pytest.raises(SpecError, match="that all take part"):
        score_transcript(canaries, run, path, sees="messages")
    with pytest.raises(DataError, match="expected canary clients"):
        CanaryClients(records, 1.0)
    with pytest.raises(TargetError):
        score_canaries(canaries, federations.network(), path, output="logits")
    with pytest.raises(SpecError, match="expected a norm above 0"):
        CanaryClients(canaries, 0.0)
    assert not path.exists()
    with pytest.raises(SpecError, match="one of them"):
        audit_canaries(canaries, [score_transcript(canaries, run, path)], epsilon=1.0)
    assert not (canaries / files.OPENED).exists()


def test_messages_behind_a_secure_sum_are_none(tmp_path: Path) -> None:
    canaries, run = federations.play(
        tmp_path, DISTRIBUTED, count=20, rounds=1, neighbours="replace"
    )
    with pytest.raises(DataError, match="sums alone"):
        score_transcript(canaries, run, tmp_path / "scores.npz", sees="messages")


def test_changed_files_and_a_second_run_are_refused(tmp_path: Path) -> None:
    canaries, run = federations.play(tmp_path, CENTRAL, count=40, rounds=1)
    facts = federations.judge(canaries, run).facts
    assert federations.judge(canaries, run).facts == facts  # the same look again is none
    again = tmp_path / "again"
    simulate(federations.federation(DPFedAvg(3.0, 1.0, 1e-5), canaries), 1, again)
    with pytest.raises(StoreError, match="a second look is no test"):
        federations.judge(canaries, again, sees="final")
    train = canaries / files.TRAIN
    with np.load(train) as held:
        arrays = dict(held)
    np.savez(train, allow_pickle=False, **{**arrays, "y": -arrays["y"]})
    with pytest.raises(StoreError, match=r"train\.npz"):
        federations.judge(canaries, run)
    for odd in ({"y": 2 * arrays["y"]}, {"x": arrays["x"][::-1]}, {"x": arrays["x"][:-1]}):
        np.savez(train, allow_pickle=False, **{**arrays, **odd})
        if "x" not in odd or len(odd["x"]) < len(arrays["y"]):
            with pytest.raises(StoreError, match="not of these canaries"):
                CanaryClients(canaries, 1.0)


def test_scores_do_not_depend_on_how_many_rounds_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries, run = federations.play(tmp_path, CENTRAL, count=20, rounds=2)
    paths = [score_transcript(canaries, run, tmp_path / "one.npz")]
    monkeypatch.setattr(clients, "_NUMBERS", 1)
    paths.append(score_transcript(canaries, run, tmp_path / "two.npz"))
    one, two = (np.load(path)["rounds"] for path in paths)
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_a_score_is_in_deviations_under_noise_whatever_the_size() -> None:
    """Along the direction itself it is the root of the number of entries; of nothing it is 0."""
    moves = np.stack([3.0 * direction("k", 400), -direction("k", 400), np.zeros(400)])
    np.testing.assert_allclose(in_deviations(moves, "k"), [20.0, -20.0, 0.0])
    noise = np.random.default_rng(0).normal(size=(2000, 400))
    # the deviation of 2,000 draws is itself known to 1 / sqrt(4000): four of these
    assert abs(in_deviations(noise, "k").std() - 1) < 4 / np.sqrt(4000)


def test_scores_are_those_of_a_loop_over_rounds_and_canaries(tmp_path: Path) -> None:
    canaries, run = federations.play(tmp_path, CENTRAL, count=20, rounds=2)
    keys = files.read_clients(canaries).x.tolist()
    moves = [
        np.concatenate([(done.aggregated[name] - done.sent[name]).ravel().astype(np.float64)
                        for name in sorted(done.sent)])
        for done in Transcript.open(run).rounds if done.aggregated is not None
    ]  # fmt: skip

    def cosine(move: np.ndarray, key: str) -> float:
        along = float(move @ direction(key, len(move)))
        return along / float(np.linalg.norm(move)) * math.sqrt(len(move))

    steps = [first - then for first, then in pairwise(moves)]
    expected: dict[Sees, list[float]] = {
        "rounds": [sum(cosine(move, key) for move in moves) for key in keys],
        "final": [cosine(np.sum(moves, axis=0), key) for key in keys],
        "differences": [sum(cosine(step, key) ** 2 for step in steps) for key in keys],
    }
    for sees, scores in expected.items():
        path = score_transcript(canaries, run, tmp_path / f"{sees}.npz", sees=sees)
        np.testing.assert_allclose(np.load(path)["score"], scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "known"),
    [(1.0, 1e-5, True), (0.0, 1e-5, False), (1.0, 0.0, False), (1.0, 1.0, False),
     (np.inf, 1e-5, False)],
)  # fmt: skip
def test_only_a_statement_that_can_be_tested_is_one(
    epsilon: float, delta: float, known: bool
) -> None:
    found = StatedEpsilon.of(StatedEpsilon(epsilon, delta).as_metrics())
    assert (found is not None) == known


def test_rounding_is_a_share_of_the_whole_change_and_never_more() -> None:
    header = Header("one", "update", {"w": (100,)}, "fedavg", {})
    # of 100 entries of 0.4 each, the change is 4 long, and rounding 10 deviations
    for size, deviation, share in ((0.4, 0.1, 0.25), (0.4, 0.8, 1.0), (0.0, 0.1, 1.0)):
        zeros, moved = {"w": np.zeros(100)}, {"w": np.full(100, size)}
        one = Round(0, "update", zeros, {}, aggregated=moved, metrics={ROUNDING: deviation})
        found = clients._rounding_share(Transcript(header, (one,)), [0])
        assert found == pytest.approx(share)


def test_directions_are_unit_vectors_that_keys_tell_apart() -> None:
    made = np.stack([direction(f"key {k}", 4001) for k in range(30)])
    products = made @ made.T
    np.testing.assert_allclose(np.diag(products), 1.0)
    assert abs(products - np.eye(30)).max() < 6 / math.sqrt(4001)
    assert direction("a", 0).shape == (0,)


def test_the_transcript_does_not_tell_the_coins(tmp_path: Path) -> None:
    for neighbours in ("add-or-remove", "replace"):
        canaries, run = federations.play(
            tmp_path / neighbours, CENTRAL, count=20, rounds=1, neighbours=neighbours
        )
        header = Transcript.open(run).header.settings
        assert ("canary clients" in header) == (neighbours == "replace")
        assert not (canaries / files.OPENED).exists()


def test_the_transcript_names_the_client_that_sends_each_canary(tmp_path: Path) -> None:
    made = make_canary_clients(tmp_path / "canaries", 20, neighbours="replace", seed=5)
    playing = CanaryClients(made.folder, 2.0)
    names = playing.describe(first=6)["canary clients"]
    assert isinstance(names, list)
    assert sorted(map(int, names)) == list(range(6, 26))
    assert names != sorted(names, key=int)  # the trainer's file has an order of its own
    weights = {"w": np.zeros(400)}
    for key, name in zip(files.read_candidates(made.folder).x.tolist(), names, strict=True):
        sent = playing.update(int(name) - 6, weights)["w"]
        assert abs(sent @ direction(key, 400)) == pytest.approx(2.0)


def test_the_commands_lead_from_settings_to_an_exit_code(tmp_path: Path) -> None:
    given = sets.records()
    np.savez(tmp_path / "data.npz", x=given.x, y=given.y)
    (tmp_path / "subject.py").write_text(
        f"from torch import nn\ndef network():\n    return "
        f"nn.Sequential(nn.Linear({sets.FEATURES}, 60), nn.ReLU(), nn.Linear(60, 2))\n"
    )
    settings = """
rounds = 2
[data]
train = "data.npz"
[clients]
count = 3
[training]
network = "subject.py:network"
[canaries]
folder = "canaries"
norm = 3.0
[[defences]]
name = "dp-fedavg"
noise_multiplier = 0.01
clip = 1.0
delta = 1e-5
"""
    (tmp_path / "federate.toml").write_text(settings)

    def call(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(main, list(map(str, words)))
        return done.exit_code, done.output

    folder, run, scores = (tmp_path / name for name in ("canaries", "run", "scores.npz"))
    code, said = call("canary", "clients", folder, "--count", 400)
    assert (code, "Sealed" in said) == (0, True), said
    assert call("federate", tmp_path / "federate.toml", "--run", run)[0] == 0
    code, said = call("canary", "score", folder, run, scores)
    assert code == 0, said
    gate = ("--fail-on", "contradicted", "--run", tmp_path / "audit")
    code, said = call("canary", "audit", folder, scores, *gate)
    assert code == 4, said  # ε of thousands is stated, and no so many canaries can contradict it
    low = ("--fail-on", "contradicted", "--run", tmp_path / "low", "--format", "json")
    code, said = call("canary", "audit", folder, scores, "--epsilon", 1, "--delta", 1e-5, *low)
    assert code == 3, said
    (told,) = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    assert told["neighbours"] == "adding or removing one client"
    assert len(told["results"][0]["rounds"]) == 2
    page = (tmp_path / "low" / PAGE).read_text(encoding="utf-8")
    assert "Round by round" in page
    assert "adding or removing one client" in page


@pytest.mark.parametrize(
    ("defence", "neighbours", "sees"),
    [
        (CENTRAL, "add-or-remove", "rounds"),
        (CENTRAL, "add-or-remove", "differences"),
        (DISTRIBUTED, "add-or-remove", "rounds"),
        (LocalNoise(2.9, 1e-5, 1.0), "replace", "messages"),
    ],
)
def test_noise_that_repeats_from_round_to_round_is_found_whoever_adds_it(
    defence: UpdateDefence,
    neighbours: Neighbours,
    sees: Sees,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = SeededNoise.add_normal
    drawn: dict[int, int] = {}

    def again(self: SeededNoise, values: np.ndarray, scale: float) -> np.ndarray:
        size = drawn[values.size] = drawn.get(values.size, -1) + 1
        per_round = {"rounds": 1, "differences": 1, "messages": 46}[sees]
        per_round = 26 if defence is DISTRIBUTED else per_round
        del self
        return kept(SeededNoise(np.random.default_rng(size % per_round)), values, scale)

    for name in ("kept", "repeated"):
        canaries, run = federations.play(
            tmp_path / name, defence, count=40, rounds=3, neighbours=neighbours
        )
        found = federations.judge(canaries, run, sees=sees)
        (one,) = found.results
        assert one.noise is not None
        assert one.noise.stated
        assert bool(one.noise.faults) == (name == "repeated"), one.noise
        assert ("difference of two rounds is free of noise" in str(found)) == (name == "repeated")
        assert (found.verdict.level == "contradicted") == (name == "repeated")
        monkeypatch.setattr(SeededNoise, "add_normal", again)


def test_where_no_scale_is_stated_for_rounds_that_is_said(tmp_path: Path) -> None:
    laplace = LocalNoise(2.9, 0.0, 1.0, "laplace")
    canaries, run = federations.play(tmp_path, laplace, neighbours="replace", count=40)
    said = str(federations.judge(canaries, run, epsilon=3.0, delta=1e-5))
    assert "Noise: whether noise repeats cannot be said without its scale." in said
