"""The guardrail lets harmless updates pass, and deals with the others as its client chose."""

import logging
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from divulge.core import LocalTraining
from divulge.defences.noise import SecureNoise, SeededNoise
from divulge.defences.updates.local_dp import LocalNoise
from divulge.errors import DataError, SpecError
from divulge.federation.client_checks.base import Outgoing
from divulge.federation.client_checks.composition import ClassMix
from divulge.federation.flower import Guardrail, run_in_process

from . import toy_flower as toy


class Fixed:
    """A test that always says the same, and notes what it was shown."""

    def __init__(self, score: float) -> None:
        self.score = score
        self.shown: list[Outgoing] = []

    def __call__(self, outgoing: Outgoing) -> float:
        self.shown.append(outgoing)
        return self.score


def reply(guard: Guardrail | None, train: Any = toy.fit, kind: str = "train") -> Message:
    """What the server gets from partition 1."""
    app = ServerApp()
    replies: list[Message] = []

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        content = RecordDict(
            {"arrays": toy.record(toy.weights()), "config": ConfigRecord(dict(toy.CONFIG))}
        )
        node = list(grid.get_node_ids())[1]
        replies.extend(grid.send_and_receive([Message(content, node, kind)]))

    run_in_process(app, toy.client_app(guard, train), clients=2)
    (only,) = replies
    return only


def same(one: Message, other: Message) -> bool:
    metrics = one.content.metric_records, other.content.metric_records
    return metrics[0] == metrics[1] and all(
        toy.same(a, b)
        for a, b in zip(
            one.content.array_records.values(), other.content.array_records.values(), strict=True
        )
    )


@pytest.mark.parametrize("above", ["warn", "refuse", LocalNoise(1.0, 1e-5, 1.0)])
def test_an_update_up_to_the_limit_leaves_as_it_is(above: Any, caplog: Any) -> None:
    guard = Guardrail(0.5, above, {"a": Fixed(0.5), "b": Fixed(0.0)})
    assert same(reply(guard), reply(None))
    assert not [r for r in caplog.records if r.name.startswith("divulge")]


def test_the_test_sees_the_change_and_what_the_server_knows() -> None:
    test = Fixed(0.0)
    reply(Guardrail(0.5, tests={"t": test}, training=LocalTraining(momentum=0.9)))
    (shown,) = test.shown
    after = toy.trained(toy.weights(), *toy.data(1), 0.5, 1, 8)
    for name, value in toy.weights().items():
        np.testing.assert_array_equal(shown.sent[name], value)
        np.testing.assert_array_equal(shown.update[name], after[name] - value)
    assert shown.records == 48
    assert shown.training == LocalTraining(lr=0.5, momentum=0.9, epochs=1, batch_size=8)


def test_a_warning_goes_to_the_clients_log_and_nowhere_else(caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "divulge"):
        got = reply(Guardrail(0.4, "warn", {"class mix": Fixed(0.9)}))
    assert same(got, reply(None))
    assert "leaks class mix, score 0.9; limit 0.4" in caplog.text


@pytest.mark.parametrize("score", [0.41, 1.0, float("nan")])
def test_a_refusal_says_the_same_whatever_the_reason(score: float) -> None:
    def broken(message: Message, context: Context) -> Message:
        out = toy.fit(message, context)
        out.content["arrays"] = ArrayRecord({"x": Array(np.zeros(2))})
        return out

    refused = reply(Guardrail(0.4, "refuse", {"secret name": Fixed(score)}))
    untestable = reply(Guardrail(0.4, "refuse", {"secret name": Fixed(0.0)}), broken)
    assert refused.has_error()
    assert untestable.has_error()
    assert refused.error == untestable.error
    assert "secret" not in str(refused.error)


def test_noise_of_the_promised_size_is_added_and_the_metrics_stay() -> None:
    noise = LocalNoise(1.0, 1e-5, clip=1e-9)  # clipped to nothing, so that only noise is left
    scale = LocalNoise(1.0, 1e-5, clip=1.0).scale
    strong = LocalNoise(1.0, 1e-5, clip=1.0)
    clean = reply(None)
    quiet = reply(Guardrail(0.0, noise, {"t": Fixed(1.0)}))
    for name, value in toy.arrays(quiet.content).items():
        np.testing.assert_allclose(value, toy.weights()[name], atol=1e-6)
    assert quiet.content["metrics"] == clean.content["metrics"]
    drawn = []
    seeded = SeededNoise(np.random.default_rng(0))
    guard = Guardrail(0.0, strong, {"t": Fixed(1.0)}, noise=seeded)
    for _ in range(30):
        got = toy.arrays(reply(guard).content)
        assert got["fc.weight"].dtype == np.float32
        drawn += [np.ravel(got[name] - value) for name, value in toy.weights().items()]
    every = np.concatenate(drawn)
    # 840 normal draws around a change of norm 1 over 28 entries: the standard deviation of their
    # root mean square is scale / sqrt(2 * 840), and the change adds less than 1 % to it
    assert abs(np.sqrt((every**2).mean()) - scale) < 5 * scale / np.sqrt(2 * 840)


def test_noise_that_leaves_comes_from_the_systems_entropy() -> None:
    guard = Guardrail(0.0, LocalNoise(1.0, 1e-5, 1.0), {"t": Fixed(1.0)})
    assert isinstance(guard.noise, SecureNoise)
    np.random.seed(0)
    one = toy.arrays(reply(guard).content)
    np.random.seed(0)
    other = toy.arrays(reply(guard).content)
    assert not (one["fc.weight"] == other["fc.weight"]).any()


def test_counters_get_no_noise() -> None:
    def train(message: Message, context: Context) -> Message:
        arrays = toy.arrays(message.content)
        metrics = toy.fit(message, context).content["metrics"]
        content = RecordDict({"arrays": toy.record({**arrays, "fc.bias": np.array([7] * 4)})})
        content["metrics"] = metrics
        return Message(content, reply_to=message)

    noise = LocalNoise(1.0, 1e-5, 1.0)
    got = toy.arrays(reply(Guardrail(0.0, noise, {"t": Fixed(1.0)}), train).content)
    assert got["fc.bias"].tolist() == [7] * 4
    assert np.abs(got["fc.weight"] - toy.weights()["fc.weight"]).max() > 0.1


def diverged(message: Message, context: Context) -> Message:
    out = toy.fit(message, context)
    broken = {name: np.full_like(v, np.nan) for name, v in toy.arrays(out.content).items()}
    out.content["arrays"] = toy.record(broken)
    return out


def whole_numbers(message: Message, context: Context) -> Message:
    out = toy.fit(message, context)
    counts = {name: value.astype(np.int64) for name, value in toy.arrays(out.content).items()}
    out.content["arrays"] = toy.record(counts)
    return out


def test_an_update_to_which_no_noise_can_be_added_is_refused() -> None:
    noise = LocalNoise(1.0, 1e-5, 1.0)
    assert reply(Guardrail(0.0, noise, {"t": Fixed(1.0)}), whole_numbers).has_error()


def test_an_update_that_diverged_leaves_as_noise_alone() -> None:
    noise, seeded = LocalNoise(1.0, 1e-5, 1.0), SeededNoise(np.random.default_rng(0))
    got = reply(Guardrail(0.0, noise, {"t": Fixed(1.0)}, noise=seeded), diverged)
    moved = [value - toy.weights()[name] for name, value in toy.arrays(got.content).items()]
    assert all(np.isfinite(one).all() for one in moved)
    assert np.concatenate([one.ravel() for one in moved]).std() > noise.scale / 2


@pytest.mark.parametrize("error", [DataError("cannot tell"), ZeroDivisionError("oops")])
def test_a_test_that_fails_lets_nothing_pass_but_with_a_warning(
    error: Exception, caplog: Any
) -> None:
    def fails(outgoing: Outgoing) -> float:
        raise error

    assert reply(Guardrail(1.0, "refuse", {"t": fails})).has_error()
    assert reply(Guardrail(1.0, LocalNoise(1.0, 1e-5, 1.0), {"t": fails})).has_error()
    assert same(reply(Guardrail(1.0, "warn", {"t": fails})), reply(None))
    assert str(error) in caplog.text


def test_a_client_that_changes_the_message_in_place_does_not_fool_it() -> None:
    test = Fixed(0.0)

    def train(message: Message, context: Context) -> Message:
        out = toy.fit(message, context)
        message.content["arrays"] = out.content["arrays"]
        return out

    reply(Guardrail(0.5, tests={"t": test}), train)
    assert np.abs(test.shown[0].update["fc.bias"]).max() > 0


def test_evaluation_passes_untested() -> None:
    test = Fixed(1.0)
    assert reply(Guardrail(0.0, "refuse", {"t": test}), kind="evaluate").has_content()
    assert not test.shown


def test_by_default_the_class_mix_is_attacked_and_found_out() -> None:
    """Client 1 has seven records of ten in one of four classes: by hand a score of 0.6."""
    test, seen = ClassMix(), []

    def noted(outgoing: Outgoing) -> float:
        seen.append(test(outgoing))
        return seen[-1]

    reply(Guardrail(1.0, tests={"t": noted}))
    labels = toy.data(1)[1]
    shares = np.bincount(labels, minlength=toy.CLASSES) / len(labels)
    truth = np.abs(shares - 0.25).sum() / 2 / 0.75
    assert 0.2 < seen[0] < truth, "it learns while it trains, so that the guess is too even"
    assert reply(Guardrail(seen[0] - 0.01, "refuse")).has_error()
    assert reply(Guardrail(seen[0] + 0.01, "refuse")).has_content()


@pytest.mark.parametrize("limit", [-0.1, 1.5, float("nan")])
def test_a_limit_that_makes_no_sense_is_refused(limit: float) -> None:
    with pytest.raises(SpecError, match="limit from 0 to 1"):
        Guardrail(limit)


def test_an_action_that_does_not_exist_is_refused_when_it_is_made() -> None:
    # in a process of its own: here the tests' type checker would refuse it first
    program = """
from divulge.errors import SpecError
from divulge.federation.flower import Guardrail
for above in ("refuze", None, 0.5):
    try:
        Guardrail(0.5, above=above)
    except SpecError as error:
        print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert said.splitlines() == [
        "expected warn, refuse or a LocalNoise as above, got 'refuze': did you mean 'refuse'?",
        "expected warn, refuse or a LocalNoise as above, got None: known: refuse, warn",
        "expected warn, refuse or a LocalNoise as above, got 0.5: known: refuse, warn",
    ]


@pytest.mark.parametrize("kind", ["train", "evaluate"])
@pytest.mark.parametrize("above", ["warn", "refuse", LocalNoise(1.0, 1e-5, 1.0)])
def test_what_a_client_raises_is_not_told_to_the_server(
    above: Any, kind: str, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[Context] = []

    def fails(message: Message, context: Context) -> Message:
        context.state["half"] = ConfigRecord({"done": True})
        contexts.append(context)
        raise ValueError("cannot read the record of Jane Doe")

    refused = reply(Guardrail(0.4, "refuse", {"t": Fixed(1.0)}))
    monkeypatch.setattr(toy, "evaluate", fails)
    got = reply(Guardrail(0.5, above, {"t": Fixed(0.0)}), fails, kind)
    assert got.error == refused.error
    assert "Jane Doe" in caplog.text
    assert "half" not in contexts[0].state, "what a client that fails has half written is kept"


@pytest.mark.parametrize("kind", ["train", "evaluate"])
@pytest.mark.parametrize("above", ["warn", "refuse", LocalNoise(1.0, 1e-5, 1.0)])
def test_an_error_reply_of_the_clients_own_code_is_not_passed_on(
    above: Any, kind: str, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def errs(message: Message, context: Context) -> Message:
        return Message(Error(77_001_019, "cannot read the record of Jane Doe"), reply_to=message)

    refused = reply(Guardrail(0.4, "refuse", {"t": Fixed(1.0)}))
    monkeypatch.setattr(toy, "evaluate", errs)
    got = reply(Guardrail(0.5, above, {"t": Fixed(0.0)}), errs, kind)
    assert got.error == refused.error, "which of the two it was would tell the server"
    assert "Jane Doe" in caplog.text
    assert "77001019" in caplog.text
    assert "Jane Doe" in str(reply(None, errs, kind).error), "Flower alone passes it on"


def test_no_test_is_no_guardrail() -> None:
    with pytest.raises(SpecError, match="and a test"):
        Guardrail(0.5, tests={})
