"""Classifiers of Hugging Face: by their pipeline, by their inputs, and with shadows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.attacks import LiRA, Threshold
from divulge.data.records import as_records
from divulge.errors import SpecError, TargetError
from divulge.targets import wrap
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.model_facts import class_labels
from divulge.targets.transformers import TransformersTarget
from tests.golden import golden

from . import tiny_models as tiny

transformers = pytest.importorskip("transformers")

RNG = np.random.default_rng(0)


WORDS = ("cat", "dog", "bird", *(f"name{k}" for k in range(120)))
TEXTS = [" ".join((f"name{k}", *RNG.choice(WORDS[:3], 1 + k % 5))) for k in range(120)]
"""Each names somebody, whose label a model can remember."""
NAMES = {0: "neutral", 1: "bad", 2: "good"}
IDS = {name: number for number, name in NAMES.items()}


def target(model: Any, output: Any = None, **options: Any) -> Any:
    return wrap.as_target(model, output, **options)


def classifier(**settings: Any) -> Any:
    named = {"id2label": NAMES, "label2id": IDS} | settings
    config = tiny.bert_config(len(WORDS), **named)
    return transformers.BertForSequenceClassification(config)


def pipeline(model: Any, **settings: Any) -> Any:
    tokenizer = tiny.tokenizer(*WORDS)
    return transformers.pipeline(
        "text-classification", model=model, tokenizer=tokenizer, device="cpu", **settings
    )


def test_answers_are_those_of_the_pipeline_in_the_order_of_its_labels() -> None:
    pipe = pipeline(classifier().eval())
    wrapped = target(pipe, batch_size=3)
    answers = wrapped.predict(TEXTS[:10])
    for text, row in zip(TEXTS, answers, strict=False):
        said = {one["label"]: one["score"] for one in pipe(text, top_k=None)}
        np.testing.assert_allclose(row, [said[NAMES[k]] for k in range(3)], rtol=1e-4)
    assert class_labels(wrapped) == ("neutral", "bad", "good")
    assert class_labels(target(pipeline(classifier(id2label=None)))) == ()
    pairs = [{"text": "cat", "text_pair": "dog"}, {"text": "dog", "text_pair": "cat"}]
    assert wrapped.predict(pairs).shape == (2, 3)


def test_columns_are_in_the_order_that_is_asked_for() -> None:
    pipe, order = pipeline(classifier()), ("bad", "good", "neutral")
    mine, asked = TransformersTarget(pipe), TransformersTarget(pipe, labels=order)
    answers = mine.predict(TEXTS)[:, [1, 2, 0]]
    np.testing.assert_allclose(asked.predict(TEXTS), answers, rtol=1e-12)
    with pytest.raises(TargetError, match="the same id2label"):
        TransformersTarget(pipe, labels=("bad", "good"))


def test_a_model_in_training_is_asked_without_dropout_and_left_in_training() -> None:
    model = classifier(hidden_dropout_prob=0.5).train()
    wrapped = target(pipeline(model))
    np.testing.assert_array_equal(wrapped.predict(TEXTS), wrapped.predict(TEXTS))
    assert model.training


def test_long_texts_are_cut_where_the_pipeline_cuts_them() -> None:
    long = ["cat dog " * 20]
    with pytest.raises(TargetError, match="truncation=True makes it cut"):
        target(pipeline(classifier())).predict(long)
    assert target(pipeline(classifier(), truncation=True)).predict(long).shape == (1, 3)


def test_texts_that_cannot_be_filled_up_are_asked_one_by_one() -> None:
    pipe = pipeline(classifier().eval())
    answers = target(pipe).predict(TEXTS)
    pipe.tokenizer.pad_token = None
    np.testing.assert_allclose(target(pipe).predict(TEXTS), answers, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"problem_type": "multi_label_classification"}, "several labels"),
        ({"problem_type": "regression"}, "answers numbers"),
        ({"id2label": {0: "one"}}, "two or more labels"),
        ({"id2label": {0: "one", 1: "one"}}, "with different names"),
    ],
)
def test_what_gives_no_single_class_is_refused(settings: Any, message: str) -> None:
    model = classifier(**settings)
    with pytest.raises(TargetError, match=message):
        target(pipeline(model))
    if "problem_type" in settings:
        with pytest.raises(TargetError, match=message):
            target(model, "logits")


def test_a_regression_model_answers_values_about_its_inputs() -> None:
    model = classifier(problem_type="regression", id2label={0: "price"})
    tokens = dict(tiny.tokenizer(*WORDS)(TEXTS, padding=True, return_tensors="np"))
    assert target(model, "values").predict(tokens).shape == (120, 1)


def test_what_is_no_classification_of_texts_is_refused() -> None:
    with pytest.raises(TargetError, match="several labels"):
        target(pipeline(classifier(), function_to_apply="sigmoid"))
    with pytest.raises(SpecError, match="leave it out"):
        target(pipeline(classifier()), "logits")
    with pytest.raises(TargetError, match="expected texts"):
        target(pipeline(classifier())).predict(np.zeros((3, 2)))
    model = transformers.BertModel(tiny.bert_config(len(WORDS)))
    other = transformers.pipeline("feature-extraction", model, tokenizer=tiny.tokenizer(*WORDS))
    with pytest.raises(TargetError, match="got feature-extraction"):
        target(other)


def test_fingerprints_tell_pipelines_apart_and_survive_questions() -> None:
    model = classifier().eval()
    pipe = pipeline(model)
    before = fingerprint_model(pipe)
    target(pipe).predict(TEXTS)
    assert fingerprint_model(pipe) == before
    others = [pipeline(model, truncation=True), pipeline(classifier())]
    prints = [before, *map(fingerprint_model, others)]
    assert None not in prints
    assert len(set(prints)) == 3


def test_the_number_of_heads_is_part_of_a_modules_fingerprint() -> None:
    one, two = (transformers.BertConfig(hidden_size=16, num_attention_heads=n) for n in (1, 2))
    model = classifier()
    first = fingerprint_model(model)
    model.config = one
    second = fingerprint_model(model)
    model.config = two
    assert len({first, second, fingerprint_model(model)}) == 3


def test_a_model_is_asked_by_its_inputs_as_its_pipeline_is() -> None:
    model = classifier().eval()
    tokens = dict(tiny.tokenizer(*WORDS)(TEXTS, padding=True, return_tensors="np"))
    answers = target(model, "logits", batch_size=50).predict(tokens)
    np.testing.assert_allclose(answers, target(pipeline(model)).predict(TEXTS), rtol=1e-4)
    vision = transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            image_size=8,
            patch_size=4,
            num_labels=5,
        )
    )
    pixels = {"pixel_values": RNG.normal(size=(7, 3, 8, 8))}
    assert target(vision, "logits", batch_size=3).predict(pixels).shape == (7, 5)


def train(texts: Any, labels: Any, seed: int, folder: Path) -> Any:
    transformers.set_seed(seed)
    model, tokenizer = classifier(), tiny.tokenizer(*WORDS)
    data = [
        {**tokenizer(text), "labels": IDS[str(label)]}
        for text, label in zip(texts, labels, strict=True)
    ]
    settings = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=15,
        learning_rate=0.02,
        per_device_train_batch_size=32,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=seed,
    )
    transformers.Trainer(model, settings, train_dataset=data, processing_class=tokenizer).train()
    return pipeline(model)


def test_an_audit_of_texts_with_shadows_trained_by_trainer(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    datasets = pytest.importorskip("datasets")
    labels = [NAMES[k] for k in np.random.default_rng(0).integers(0, 3, len(TEXTS))]
    inside, outside = (TEXTS[:60], labels[:60]), (TEXTS[60:], labels[60:])

    def shadow(x: Any, y: Any, seed: int) -> Any:
        return train(x, y, seed, tmp_path)

    found = divulge.audit(
        shadow(*inside, 0),
        members=inside,
        nonmembers=datasets.Dataset.from_dict({"text": outside[0], "label": outside[1]}),
        shadows=divulge.ShadowModels(4, shadow),
        attacks=[Threshold(), LiRA()],
    )
    assert [one.metrics["auc"].value for one in found.findings] == golden(0.8158, 0.8169)
    assert found.facts.class_names == ("neutral", "bad", "good")
    assert not any(tmp_path.iterdir())


def test_tokens_of_a_data_set_are_taken_as_the_model_takes_them() -> None:
    datasets = pytest.importorskip("datasets")
    tokenizer = tiny.tokenizer(*WORDS)
    raw = datasets.Dataset.from_dict({"text": TEXTS, "labels": [0, 1] * 60}).map(
        lambda one: tokenizer(one["text"], padding="max_length"), remove_columns="text"
    )
    records = as_records(raw, "members")
    answers = target(classifier(), "logits").predict(records.rows())
    assert answers.shape == (120, 3)
