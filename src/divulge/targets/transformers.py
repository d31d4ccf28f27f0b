"""Text classifiers of Hugging Face's transformers, asked by their pipeline."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from divulge._util.arguments import Count, check_arguments
from divulge.core import Need
from divulge.errors import TargetError
from divulge.targets.batching import translate_model_errors
from divulge.targets.outputs import access_of, to_probabilities
from divulge.targets.torch import evaluation_mode


@check_arguments
@dataclass(frozen=True, slots=True)
class TransformersTarget:
    """A text-classification pipeline: texts in, probabilities of all its labels out.

    Columns follow ``config.id2label``. Texts are cut as the pipeline cuts them.

    Args:
        pipeline: what ``transformers.pipeline("text-classification", ...)`` returns.
        batch_size: how many texts to ask at a time, where the pipeline does not say; one, where
            its tokenizer cannot fill up shorter texts.
        labels: all labels in the order of columns, where another model gave them their order.

    Raises:
        TargetError: it is a pipeline of another task, or its labels are no classes.
    """

    pipeline: Any
    batch_size: Count = 32
    labels: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        task = getattr(self.pipeline, "task", type(self.pipeline).__name__)
        if task != "text-classification":
            raise TargetError(
                f"expected a text-classification pipeline, got {task}: pass a model of another "
                "task itself, with records as a dict of the arrays that it takes, and its output"
            )
        config = self.pipeline.model.config
        refuse_other_problems(config)
        chosen = getattr(self.pipeline, "_postprocess_params", {}).get("function_to_apply")
        if "sigmoid" in str(getattr(chosen, "value", chosen)):
            raise _several_labels("function_to_apply='sigmoid'")
        names = [config.id2label[k] for k in range(config.num_labels)]
        if len(names) < 2 or len(set(names)) < len(names):
            raise TargetError(
                f"expected two or more labels with different names, got {', '.join(names[:10])}: "
                "correct id2label in the model's config"
            )
        if self.labels and self.class_labels and set(self.class_labels) != set(self.labels):
            raise TargetError(
                f"expected the labels {', '.join(map(str, self.labels[:10]))}, got "
                f"{', '.join(names[:10])}: give all models the same id2label"
            )

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        return access_of("probabilities")

    @property
    def class_labels(self) -> tuple[str, ...]:
        """The labels in the order of ``id2label``; none where nobody has named them."""
        names = self._names()
        return () if names == [f"LABEL_{k}" for k in range(len(names))] else tuple(names)

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """Probabilities in float64, from the logits.

        Args:
            x: texts, or dicts with ``text`` and ``text_pair``.

        Raises:
            TargetError: the records are no texts, or the pipeline failed.
        """
        texts = as_texts(x)
        with (
            translate_model_errors(
                "the pipeline to answer",
                "ask it about a few texts yourself; truncation=True makes it cut long ones",
            ),
            evaluation_mode(self.pipeline.model),
        ):
            answers = self.pipeline(
                texts, top_k=None, function_to_apply="none", batch_size=self._batch_size()
            )
        order = self.labels if self.labels and self.class_labels else self._names()
        scores = [{entry["label"]: entry["score"] for entry in answer} for answer in answers]
        logits = np.array([[score[name] for name in order] for score in scores])
        return to_probabilities(logits, "logits", len(texts))

    def _names(self) -> list[str]:
        config = self.pipeline.model.config
        return [config.id2label[k] for k in range(config.num_labels)]

    def _batch_size(self) -> int:
        if self.pipeline.tokenizer.pad_token_id is None:
            return 1
        return int(getattr(self.pipeline, "_batch_size", None) or self.batch_size)


def refuse_other_problems(config: Any) -> None:
    """Refuse a model whose configuration says that it does not give each record one class.

    Raises:
        TargetError: it gives several labels, or numbers.
    """
    problem = getattr(config, "problem_type", None)
    if problem == "multi_label_classification":
        raise _several_labels(f"problem_type={problem!r}")
    if problem == "regression":
        raise TargetError(
            "expected a classifier, got a model with problem_type='regression', which answers "
            'numbers: pass the model itself, its inputs as records, and output="values"'
        )


def fingerprint_pipeline(pipeline: Any, model: str) -> str | None:
    """A hash of a pipeline's model, tokenizer and settings; None for tokenizers written in Python.

    Args:
        pipeline: what ``transformers.pipeline`` returned.
        model: the fingerprint of its model.
    """
    backend = getattr(pipeline.tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    table = json.loads(backend.to_str())
    for state in ("padding", "truncation"):  # of the last call
        table.pop(state, None)
    names = ("model_max_length", "padding_side", "truncation_side", "pad_token_id")
    settings = [getattr(pipeline.tokenizer, name, None) for name in names]
    parts = [model, table, settings, repr(pipeline._preprocess_params)]
    return hashlib.blake2b(json.dumps(parts).encode()).hexdigest()


def as_texts(x: Any) -> list[Any]:
    """Records as a list of texts, or of dicts with texts.

    Raises:
        TargetError: they are others.
    """
    for name in ("tolist", "to_list"):  # arrays and pandas, polars
        if hasattr(x, name):
            x = getattr(x, name)()
            break
    if isinstance(x, list) and x and all(isinstance(entry, str | dict) for entry in x):
        return x
    raise TargetError(
        f"expected texts for the pipeline, got {type(x[0] if isinstance(x, list) and x else x)}: "
        "pass a list of strings, and token ids to the model itself"
    )


def as_plain_texts(x: Any) -> list[str]:
    """Records as a list of texts alone.

    Raises:
        TargetError: they are others.
    """
    texts = as_texts(x)
    if not all(isinstance(text, str) for text in texts):
        raise TargetError("expected texts, got dicts: pass each text as one string")
    return texts


def _several_labels(what: str) -> TargetError:
    return TargetError(
        f"expected a model that gives each record one class, got {what}: a record may have "
        "several labels there; audit each label by itself, with a function that returns its "
        "probability"
    )
