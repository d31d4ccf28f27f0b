"""Keras models: what they return, several inputs, their fingerprint, and shadows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.attacks import LiRA, Threshold
from divulge.errors import SpecError, TargetError
from divulge.targets import wrap
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.keras import KerasTarget
from tests.golden import golden

from . import tiny_models as tiny

keras = pytest.importorskip("keras")

RNG = np.random.default_rng(0)


def target(model: Any, output: Any = None, **options: Any) -> Any:
    return wrap.as_target(model, output, **options)


def network(last: Any, *others: Any) -> Any:
    return keras.Sequential([keras.Input((4,)), *others, last])


def with_two_inputs() -> Any:
    numbers = keras.Input((4,), name="numbers")
    codes = keras.Input((2,), name="codes", dtype="int32")
    seen = keras.layers.Flatten()(keras.layers.Embedding(9, 2)(codes))
    both = keras.layers.Concatenate()([numbers, seen])
    return keras.Model([numbers, codes], keras.layers.Dense(1, activation="sigmoid")(both))


class Subclass(keras.Model):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.last = keras.layers.Dense(3, activation="softmax")

    def call(self, x: Any) -> Any:
        return self.last(x)


@pytest.mark.parametrize(
    "last",
    [
        lambda: keras.layers.Dense(3, activation="softmax"),
        lambda: keras.layers.Dense(1, activation="sigmoid"),
        lambda: keras.Sequential([keras.layers.Dense(3), keras.layers.Softmax()]),
        lambda: keras.Sequential([keras.layers.Dense(3), keras.layers.Activation("softmax")]),
    ],
)
def test_a_last_activation_that_makes_probabilities_says_so(last: Any) -> None:
    model = network(last())
    assert target(model) == KerasTarget(model, "probabilities")
    with pytest.raises(SpecError, match="as the activation of the last layer says, got logits"):
        target(model, "logits")


def scaled(x: Any) -> Any:
    return keras.activations.softmax(x) * 2


class Odd(keras.layers.Dense):  # type: ignore[misc, name-defined]
    def call(self, inputs: Any) -> Any:
        return super().call(inputs) * 2


@pytest.mark.parametrize(
    "model",
    [
        lambda: network(keras.layers.Dense(3)),
        lambda: network(keras.layers.Dense(3, activation=scaled)),
        lambda: network(Odd(3, activation="softmax")),
        lambda: network(keras.layers.Softmax(axis=0), keras.layers.Dense(3)),
        lambda: network(keras.layers.Dense(3), keras.layers.Softmax()),
        Subclass,
    ],
)
def test_whatever_else_is_last_must_be_told(model: Any) -> None:
    with pytest.raises(TargetError, match='pass output="logits"'):
        target(model())
    assert target(model(), "logits").offers == KerasTarget(None, "logits").offers


def test_several_sigmoids_are_several_labels() -> None:
    with pytest.raises(TargetError, match="audit each label by itself"):
        target(network(keras.layers.Dense(3, activation="sigmoid")), "probabilities")


def test_a_regression_model_answers_values() -> None:
    model = network(keras.layers.Dense(1))
    answers = target(model, "values", batch_size=3).predict(tiny.X)
    whole = model(tiny.X).detach().numpy()
    # in float32 a sum of four products and a bias, taken in another order, is off by at most 2 n
    # half units of the sum of their sizes (Higham 2002, section 3.1)
    sizes = np.abs(tiny.X) @ np.abs(model.weights[0].value.detach().numpy())
    assert (np.abs(answers - whole) <= 5 * np.finfo(np.float32).eps * sizes).all()
    assert target(network(keras.layers.Dense(1, activation="sigmoid")), "values")


def test_inputs_go_by_their_names() -> None:
    model = with_two_inputs()
    x = {"codes": RNG.integers(0, 9, (7, 2)), "numbers": tiny.X}
    answers = target(model, batch_size=3).predict(x)
    assert answers.shape == (7, 2)
    whole = model([x["numbers"], x["codes"]], training=False)
    np.testing.assert_allclose(answers[:, 1:], whole.detach().numpy(), rtol=1e-5)
    with pytest.raises(TargetError, match="Keras model to answer"):
        target(model).predict({"numbers": tiny.X})


def test_a_model_is_left_as_it_was_found() -> None:
    layers = keras.layers
    model = network(layers.Dense(3), layers.BatchNormalization(), layers.Dropout(0.5))
    model.layers[0].trainable = False
    before = fingerprint_model(model), [(part, part.training) for part in model.modules()]
    first, second = (target(model, "logits").predict(tiny.X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    after = fingerprint_model(model), [(part, part.training) for part in model.modules()]
    assert before == after


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_any_precision_answers_in_float64(precision: str) -> None:
    policy = keras.dtype_policies.DTypePolicy(precision)
    model = network(keras.layers.Dense(3, dtype=policy))
    assert target(model, "logits").predict(tiny.X).dtype == np.float64


def test_several_outputs_are_refused() -> None:
    start = keras.Input((4,))
    model = keras.Model(start, [keras.layers.Dense(3)(start), keras.layers.Dense(2)(start)])
    with pytest.raises(TargetError, match=r"one output of the Keras model, got 2"):
        target(model, "logits").predict(tiny.X)


def test_fingerprints_tell_models_apart() -> None:
    def dense(name: str, activation: str | None, shift: float = 0.0) -> Any:
        last = keras.layers.Dense(3, activation=activation, name=name)
        model = keras.Sequential([keras.Input((4,), name="x"), last], name="model")
        last.set_weights([tiny.WEIGHT + shift, tiny.BIAS])
        return model

    same, other = dense("a", None), dense("a", None)
    assert fingerprint_model(same) == fingerprint_model(other)
    same.compile(loss="mse")
    changed = [dense("a", None, 1e-6), dense("a", "softmax")]
    prints = [fingerprint_model(model) for model in (same, *changed)]
    assert prints[0] == fingerprint_model(other)
    assert None not in prints
    assert len(set(prints)) == 3
    assert fingerprint_model(Subclass()) is None


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_files_of_keras_are_refused_unopened(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"anything")
    with pytest.raises(TargetError, match=r"can run code.*keras.saving.load_model"):
        target(path)


def test_an_audit_with_shadows_finds_what_a_model_remembers() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(120, 6)).astype(np.float32), rng.integers(0, 2, 120)

    def train(x: Any, y: np.ndarray, seed: int) -> Any:
        keras.utils.set_random_seed(seed)
        layers = [keras.layers.Dense(256, activation="relu"), keras.layers.Dense(2)]
        model = keras.Sequential([keras.Input((6,)), *layers])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.02), loss)
        model.fit(x, y, epochs=40, batch_size=64, verbose=0)
        return model

    found = divulge.audit(
        train(x[:60], y[:60], 0),
        members=(x[:60], y[:60]),
        nonmembers=(x[60:], y[60:]),
        shadows=divulge.ShadowModels(4, train),
        access=divulge.Access(output="logits"),
        attacks=[Threshold(), LiRA()],
    )
    assert [one.metrics["auc"].value for one in found.findings] == golden(0.7819, 0.8008)
