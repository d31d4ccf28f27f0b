"""One linear classifier, and the same classifier in every form there is."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from divulge.core import Target

if TYPE_CHECKING:
    import torch

WEIGHT = np.array([[0.5, -1.0, 0.25], [2.0, 0.0, -0.5], [-1.5, 0.75, 1.0], [0.125, 0.25, -2.0]])
BIAS = np.array([0.5, -0.25, 0.0])

X: np.ndarray = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
X.flags.writeable = False


def logits(x: np.ndarray) -> np.ndarray:
    return np.asarray(x @ WEIGHT + BIAS)


def probabilities(x: np.ndarray) -> np.ndarray:
    return np.asarray(softmax(logits(x), axis=1))


def estimator(weight: np.ndarray = WEIGHT, bias: np.ndarray = BIAS) -> LogisticRegression:
    model = LogisticRegression()
    model.coef_, model.intercept_ = weight.T.copy(), bias.copy()
    model.classes_, model.n_features_in_ = np.arange(len(bias)), len(weight)
    return model


def module(weight: np.ndarray = WEIGHT, bias: np.ndarray = BIAS) -> "torch.nn.Module":
    import torch

    model = torch.nn.Linear(*weight.shape)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(weight.T))
        model.bias.copy_(torch.tensor(bias))
    return model


def _each_class_of_each() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every record once for each class, as heavy as the class is probable.

    Trees that hold each record apart reach these probabilities. Weights are large, since XGBoost
    makes no split that gains less than 0.000001.
    """
    y = np.tile(np.arange(3), len(X))
    return X.astype(np.float64).repeat(3, axis=0), y, probabilities(X).ravel() * 1e6


@cache
def xgboost_booster() -> Any:
    import xgboost

    x, y, weight = _each_class_of_each()
    params = {"objective": "multi:softprob", "num_class": 3, "eta": 1, "lambda": 0, "nthread": 1}
    params |= {"min_child_weight": 0, "tree_method": "exact"}
    return xgboost.train(params, xgboost.DMatrix(x, y, weight=weight), 60)


@cache
def lightgbm_booster() -> Any:
    import lightgbm

    x, y, weight = _each_class_of_each()
    params = {"objective": "multiclass", "num_class": 3, "learning_rate": 1, "num_leaves": 7}
    params |= {"min_data_in_leaf": 1, "min_data_in_bin": 1, "min_sum_hessian_in_leaf": 0}
    params |= {"num_threads": 1, "verbosity": -1}
    return lightgbm.train(params, lightgbm.Dataset(x, y, weight=weight), 400)


@cache
def catboost_model() -> Any:
    import catboost

    x, y, weight = _each_class_of_each()
    params = {"loss_function": "MultiClass", "iterations": 60, "learning_rate": 1, "verbose": 0}
    params |= {"l2_leaf_reg": 0, "bootstrap_type": "No", "random_strength": 0}
    params |= {"allow_writing_files": False, "thread_count": 1}
    return catboost.CatBoost(params).fit(x, y, sample_weight=weight)


def keras_model(*, softmax: bool = True) -> Any:
    import keras

    last = keras.layers.Dense(3, activation="softmax" if softmax else None)
    model = keras.Sequential([keras.Input((4,)), last])
    last.set_weights([WEIGHT, BIAS])
    return model


def tokenizer(*words: str) -> Any:
    """Splits at spaces, and knows these words alone."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = {word: number for number, word in enumerate(("[PAD]", "[UNK]", *words))}
    found = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    found.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=found, pad_token="[PAD]", unk_token="[UNK]", model_max_length=8
    )


def bert_config(words: int, **settings: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=words + 2,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        **settings,
    )


def pipeline_of_numbers() -> Any:
    """A pipeline that answers about the text "0", "1", ... as the classifier about that record."""
    import torch
    from transformers import BertForSequenceClassification, pipeline

    class Lookup(BertForSequenceClassification):  # type: ignore[misc]
        def forward(self, input_ids: Any, **_: Any) -> Any:
            answers = torch.tensor(np.vstack([np.zeros((2, 3)), logits(X)]), dtype=torch.float32)
            return {"logits": answers[input_ids[:, 0]]}

    numbers = [str(at) for at in range(len(X))]
    model = Lookup(bert_config(len(numbers), num_labels=3))
    return pipeline("text-classification", model=model, tokenizer=tokenizer(*numbers))


def save_onnx(
    path: Path,
    batch: int | str = "batch",
    weight: np.ndarray = WEIGHT,
    bias: np.ndarray = BIAS,
) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants = [
        numpy_helper.from_array(value.astype(np.float32), name)
        for name, value in (("weight", weight), ("bias", bias))
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"]),
        helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
    ]
    real, whole = TensorProto.FLOAT, TensorProto.INT64
    features, classes = weight.shape
    outputs = [
        helper.make_tensor_value_info("label", whole, [batch]),
        helper.make_tensor_value_info("probabilities", real, [batch, classes]),
        helper.make_tensor_value_info("logits", real, [batch, classes]),
    ]
    x = helper.make_tensor_value_info("x", real, [batch, features])
    graph = helper.make_graph(nodes, "tiny", [x], outputs, constants)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def save_exported(
    path: Path, model: "torch.nn.Module", low: int | None = None, high: int | None = None
) -> Path:
    """Exported for any number of records from ``low`` on, or for exactly five."""
    import torch

    dim = None if low is None else ({0: torch.export.Dim("batch", min=low, max=high)},)
    program = torch.export.export(model, (torch.zeros(5, 4),), dynamic_shapes=dim)
    torch.export.save(program, path)
    return path


def save_safetensors(path: Path, model: "torch.nn.Module") -> Path:
    import safetensors.torch

    safetensors.torch.save_model(model, str(path))
    return path


def save_skops(path: Path, model: Any) -> Path:
    import skops.io

    skops.io.dump(model, path)
    return path


class Recording:
    """A target that remembers what it was asked, and can be told to fail."""

    def __init__(self, target: Target, fail_after: int | None = None) -> None:
        self.target = target
        self.asked: list[np.ndarray] = []
        self.fail_after = fail_after

    @property
    def offers(self) -> Any:
        return self.target.offers

    def predict(self, x: np.ndarray) -> np.ndarray:
        if self.fail_after is not None and len(self.asked) >= self.fail_after:
            raise KeyboardInterrupt
        self.asked.append(np.array(x))
        return self.target.predict(x)

    @property
    def rows(self) -> int:
        return sum(len(x) for x in self.asked)
