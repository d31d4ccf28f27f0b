"""Answers in every form that people have: taken right, or refused with an advice that works.

The tests follow each advice literally: they read it from the message, and pass it on.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int
from sklearn.metrics import roc_auc_score

import divulge
from divulge.errors import DivulgeError, TargetError
from divulge.targets import forms
from divulge.targets.outputs import to_probabilities

RECORDS = 240
MEMBER = np.arange(RECORDS) % 2 == 0

Answers = Float[np.ndarray, "records classes"]
Labels = Int[np.ndarray, " records"]


def make_answers(classes: int, seed: int = 0) -> tuple[Answers, Labels]:
    """Probabilities of a model that is surer of members, and the true classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, RECORDS)
    logits = rng.normal(size=(RECORDS, classes))
    logits[np.arange(RECORDS), y] += 1 + 2 * MEMBER
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True), y


def auc_of_loss(p: Answers, y: Labels) -> float:
    return float(roc_auc_score(MEMBER, p[np.arange(RECORDS), y]))


def auc_of_gap(predicted: Labels, y: Labels) -> float:
    return float(roc_auc_score(MEMBER, predicted == y))


class Form(NamedTuple):
    """Answers as someone exports them."""

    columns: Callable[[Answers], np.ndarray]
    """What is exported, one column a class, or one alone."""
    names: str = ""
    """What the refusal has to name; empty where the answers are taken as they are."""
    output: str | None = None
    """What the user declares."""
    labels: bool = False
    """Whether only the class is left."""
    tolerance: float = 1e-9
    """By how much rounding may change the AUC."""
    classes: tuple[int, ...] = (2, 5)


def one(p: Answers) -> np.ndarray:
    return p[:, 1]


def margin(p: Answers) -> np.ndarray:
    """The logit of class 1, as boosters give it."""
    return np.asarray(np.log(p[:, 1]) - np.log(p[:, 0]))


FORMS = {
    "probabilities": Form(lambda p: p),
    "one column": Form(one, classes=(2,)),
    "3 decimals": Form(lambda p: p.round(3), tolerance=0.01),
    "2 decimals": Form(lambda p: p.round(2), tolerance=0.02),
    "1 decimal": Form(lambda p: p.round(1), tolerance=0.06),
    "one column, 2 decimals": Form(lambda p: one(p).round(2), tolerance=0.02, classes=(2,)),
    "float32": Form(lambda p: p.astype(np.float32), tolerance=1e-3),
    "float16": Form(lambda p: p.astype(np.float16), tolerance=0.01),
    "percentages": Form(lambda p: 100 * p, "percentages"),
    "percentages, 2 decimals": Form(lambda p: (100 * p).round(2), "percentages", tolerance=0.01),
    "whole percentages": Form(lambda p: (100 * p).round(), "percentages", tolerance=0.02),
    "one percentage": Form(lambda p: 100 * one(p), "percentages", classes=(2,)),
    "percentages as logits": Form(lambda p: 100 * p, "percentages", "logits"),
    "one percentage as logits": Form(lambda p: 100 * one(p), "percentages", "logits", classes=(2,)),
    "probabilities as percentages": Form(lambda p: p, "probabilities", "percentages"),
    "one probability as percentages": Form(one, "probabilities", "percentages", classes=(2,)),
    "members rounded": Form(lambda p: np.where(MEMBER[:, None], p.round(2), p), tolerance=0.02),
    "others' percentages rounded": Form(
        lambda p: np.where(MEMBER[:, None], 100 * p, (100 * p).round()),
        "percentages",
        tolerance=0.02,
    ),
    "probabilities as logits": Form(lambda p: p, "probabilities", "logits"),
    "one probability as logits": Form(one, "probabilities", "logits", classes=(2,)),
    "log-probabilities": Form(np.log, "logarithms"),
    "log-probabilities as logits": Form(np.log, "", "logits"),
    "logits": Form(lambda p: np.log(p) + 3, "logits"),
    "logits as percentages": Form(lambda p: np.log(p) - 3, "logits", "percentages"),
    "one margin": Form(margin, "logits", classes=(2,)),
    "one margin as logits": Form(margin, "", "logits", classes=(2,)),
    "class numbers": Form(lambda p: p.argmax(axis=1), "labels", labels=True),
    "class numbers as floats": Form(
        lambda p: p.argmax(axis=1).astype(float), "labels", labels=True
    ),
    "class numbers as logits": Form(lambda p: p.argmax(axis=1), "labels", "logits", labels=True),
    "class numbers, declared": Form(lambda p: p.argmax(axis=1), "", "labels", labels=True),
}


def read_advice(message: str, wanted: str) -> dict[str, Any]:
    """What a message says to pass; of several outputs the one that fits what was exported."""
    outputs = re.findall(r'output="(\w+)"', message)
    fitting = [one for one in outputs if one == wanted] or outputs
    advice: dict[str, Any] = {"output": fitting[0]} if fitting else {}
    assert outputs or "ids=" in message, f"no advice to follow in: {message}"
    if classes := re.search(r"\bclasses=(\d+)", message):
        advice["classes"] = int(classes[1])
    if ids := re.search(r"ids='([^']+)'", message):
        advice["ids"] = ids[1]
    return advice


Audit = Callable[..., divulge.Audit]


def follow(audit: Audit, output: str | None, wanted: str) -> tuple[divulge.Audit, str]:
    """The audit as the user asks for it, else as the refusal advises, and the refusal."""
    try:
        return audit(**({} if output is None else {"output": output})), ""
    except DivulgeError as error:
        return audit(**read_advice(str(error), wanted)), str(error)


def write_table(path: Path, columns: np.ndarray, y: Labels, names: Sequence[str] = ()) -> None:
    columns = columns[:, None] if columns.ndim == 1 else columns
    width = columns.shape[1]
    names = names or (["p_1"] if width == 1 else [f"p_{k}" for k in range(width)])
    lines = [",".join([*names, "label", "member"])]
    lines += [
        ",".join([*map(repr, row), str(label), str(int(member))])
        for row, label, member in zip(columns.tolist(), y, MEMBER, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def audit_table(path: Path, columns: np.ndarray, y: Labels) -> Audit:
    write_table(path, columns, y)
    return lambda **options: divulge.audit_predictions(path, **options)


def audit_function(path: Path, columns: np.ndarray, y: Labels) -> Audit:
    del path
    x = np.arange(RECORDS, dtype=float)[:, None]

    def answer(records: np.ndarray) -> np.ndarray:
        return np.asarray(columns[records[:, 0].astype(int)])

    return lambda **options: divulge.audit(
        answer,
        members=(x[MEMBER], y[MEMBER]),
        nonmembers=(x[~MEMBER], y[~MEMBER]),
        access=divulge.Access(**options),
        attacks=[divulge.attack("threshold"), divulge.attack("gap")],
    )


def audit_module(path: Path, columns: np.ndarray, y: Labels) -> Audit:
    del path
    torch = pytest.importorskip("torch")

    class Lookup(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.from_numpy(columns)[x[:, 0].long()]

    x = np.arange(RECORDS, dtype=np.float32)[:, None]
    return lambda output="probabilities", **options: divulge.audit(
        Lookup(),
        members=(x[MEMBER], y[MEMBER]),
        nonmembers=(x[~MEMBER], y[~MEMBER]),
        access=divulge.Access(output=output, **options),
        attacks=[divulge.attack("threshold"), divulge.attack("gap")],
    )


def find_auc(audit: divulge.Audit, *labels: str) -> float:
    return next(one.metrics["auc"].value for one in audit.findings if one.label in labels)


def check_form(way: Callable[..., Audit], path: Path, name: str, classes: int) -> None:
    form = FORMS[name]
    p, y = make_answers(classes)
    audit = way(path, form.columns(p), y)
    if form.output == "labels" and way is not audit_table:
        audit = partial(audit, classes=classes)
    found, refusal = follow(audit, form.output, "labels" if form.labels else form.names)
    assert form.names in refusal
    assert bool(refusal) == bool(form.names)
    if form.labels:
        assert find_auc(found, "gap") == pytest.approx(auc_of_gap(p.argmax(axis=1), y), abs=1e-9)
    else:
        auc = find_auc(found, "threshold", "threshold(signal=loss)")
        assert auc == pytest.approx(auc_of_loss(p, y), abs=form.tolerance)


CASES = [(name, classes) for name, form in FORMS.items() for classes in form.classes]


@pytest.mark.parametrize(("name", "classes"), CASES)
def test_tables_in_any_form(tmp_path: Path, name: str, classes: int) -> None:
    check_form(audit_table, tmp_path / "p.csv", name, classes)


@pytest.mark.parametrize("name", FORMS)
def test_functions_in_any_form(tmp_path: Path, name: str) -> None:
    check_form(audit_function, tmp_path, name, FORMS[name].classes[-1])


@pytest.mark.parametrize(
    "name",
    [
        "percentages",
        "one percentage as logits",
        "probabilities as logits",
        "one probability as logits",
        "log-probabilities",
        "class numbers as logits",
    ],
)
def test_modules_in_any_form(tmp_path: Path, name: str) -> None:
    check_form(audit_module, tmp_path, name, FORMS[name].classes[-1])


Convert = Callable[[Answers], np.ndarray]
SCALED: dict[str, tuple[Convert, str]] = {
    "per mille": (lambda p: 1000 * p, "rows sum to about 1000"),
    "bytes": (lambda p: np.rint(255 * p), "rows sum to about 255"),
    "votes of 40 trees": (lambda p: np.rint(40 * p), "rows sum to about 40"),
    "logarithms to base 10": (np.log10, "to base 10"),
    "logarithms to base 2": (np.log2, "to base 2"),
    "logarithms to base 10, rounded": (lambda p: np.log10(p).round(3), "to base 10"),
}


@pytest.mark.parametrize("output", ["probabilities", "percentages", "logits"])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("name", SCALED)
def test_shares_of_any_whole_and_logarithms_to_any_base_are_converted_as_advised(
    tmp_path: Path, name: str, classes: int, output: str
) -> None:
    convert, named = SCALED[name]
    p, y = make_answers(classes)
    columns = convert(p)
    with pytest.raises(TargetError, match=named) as caught:
        audit_table(tmp_path / "p.csv", columns, y)(output=output)
    advice = read_advice(str(caught.value), "")
    if "divide each number by the sum of its row" in str(caught.value):
        columns = columns / columns.sum(axis=1, keepdims=True)
    else:
        factor = re.search(r"multiply each by ([\d.]+)", str(caught.value))
        assert factor is not None
        columns = columns * float(factor[1])
    found = audit_table(tmp_path / "p.csv", columns, y)(**advice)
    wanted = auc_of_loss(p, y)
    assert find_auc(found, "threshold(signal=loss)") == pytest.approx(wanted, abs=0.03)


@pytest.mark.parametrize("log", [np.log, np.log10])
@pytest.mark.parametrize("output", ["probabilities", "logits"])
def test_one_column_of_logarithms_is_no_logit(output: str, log: Callable[..., Any]) -> None:
    p = np.random.default_rng(0).beta(0.7, 0.7, RECORDS)
    with pytest.raises(TargetError, match="logarithms of the probabilities of class 1"):
        to_probabilities(log(p), output, RECORDS)  # type: ignore[arg-type]


def test_logits_that_resemble_logarithms_are_taken() -> None:
    """Less their largest, so that a sure model's powers sum to one; or of a rare class."""
    rng = np.random.default_rng(0)
    sure = 20 * rng.normal(size=(200, 3))
    to_probabilities(sure - sure.max(axis=1, keepdims=True), "logits", 200)
    for mean, spread in ((-4, 1.2), (-0.4, 0.13), (-0.06, 0.015)):
        rare = mean + spread * rng.normal(size=2000)
        to_probabilities(rare, "logits", 2000)


def test_percentages_of_a_rare_class_are_asked_about() -> None:
    rare = np.random.default_rng(0).uniform(0.1, 0.9, 40)
    with pytest.raises(TargetError, match="percentages of a rare class divide by 100 before"):
        to_probabilities(rare, "percentages", 40)
    to_probabilities(rare[:20], "percentages", 20)  # of one batch all may be below 1


STRAY: dict[str, Convert] = {
    "ids in any order": lambda p: np.random.default_rng(2).permutation(len(p)),
    "the predicted class": lambda p: p.argmax(axis=1),
    "a fold": lambda p: np.arange(len(p)) % 3,
}


@pytest.mark.parametrize("output", ["probabilities", "logits"])
@pytest.mark.parametrize("name", [*STRAY, "the highest probability"])
def test_a_column_that_is_none_of_the_others_kind_is_named(
    tmp_path: Path, name: str, output: Literal["probabilities", "logits"]
) -> None:
    p, y = make_answers(4)
    if name in STRAY:
        stray = STRAY[name](p)
    elif output == "logits":
        return  # nothing tells
    else:
        stray = p.max(axis=1)
    answers = np.log(p) if output == "logits" else p
    names = [*(f"p_{k}" for k in range(4)), "p_more"]
    write_table(tmp_path / "p.csv", np.column_stack([answers, stray]), y, names)
    with pytest.raises(TargetError, match="'p_more' is no class, so pass ids='p_more'"):
        divulge.audit_predictions(tmp_path / "p.csv", output=output)


def test_whole_logits_and_those_of_a_class_to_compare_with_are_taken() -> None:
    logits = np.random.default_rng(0).normal(size=(50, 3))
    compared = np.column_stack([np.zeros(50), logits])
    assert to_probabilities(compared, "logits", 50).shape == (50, 4)
    compared[::2, 0] = -np.inf
    assert to_probabilities(compared, "logits", 50).shape == (50, 4)
    assert to_probabilities(np.rint(10 * logits), "logits", 50).shape == (50, 3)


@pytest.mark.parametrize("output", ["probabilities", "logits"])
@pytest.mark.parametrize("classes", [2, 5])
def test_a_stray_column_is_named_and_left_out_by_the_advice(
    tmp_path: Path, output: Literal["probabilities", "logits"], classes: int
) -> None:
    p, y = make_answers(classes)
    answers = np.log(p) if output == "logits" else p
    path = tmp_path / "p.csv"
    columns = np.column_stack([np.arange(RECORDS), answers])
    write_table(path, columns, y, ["p_id", *(f"p_{k}" for k in range(classes))])
    audit = partial(divulge.audit_predictions, path, output=output)
    with pytest.raises(TargetError, match="'p_id' is no class") as caught:
        audit()
    found = audit(**read_advice(str(caught.value), output) | {"output": output})
    assert find_auc(found, "threshold(signal=loss)") == pytest.approx(auc_of_loss(p, y), abs=1e-9)


def test_several_labels_a_record_are_audited_one_by_one_as_advised(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, (RECORDS, 3))
    p = 1 / (1 + np.exp(-rng.normal(size=y.shape) - (2 * y - 1) * (1 + 2 * MEMBER[:, None])))
    write_table(tmp_path / "all.csv", p, y[:, 0])
    with pytest.raises(TargetError, match="audit each label by itself"):
        divulge.audit_predictions(tmp_path / "all.csv")
    write_table(tmp_path / "one.csv", p[:, 2], y[:, 2])
    found = divulge.audit_predictions(tmp_path / "one.csv")
    right = np.where(y[:, 2] == 1, p[:, 2], 1 - p[:, 2])
    wanted = roc_auc_score(MEMBER, right)
    assert find_auc(found, "threshold(signal=loss)") == pytest.approx(wanted, abs=1e-9)


def test_a_class_without_a_column_is_missed(tmp_path: Path) -> None:
    p, y = make_answers(4)
    write_table(tmp_path / "p.csv", p[:, :3], np.minimum(y, 2))
    with pytest.raises(TargetError, match="a class has no column"):
        divulge.audit_predictions(tmp_path / "p.csv")


def test_one_hot_answers_are_labels_where_they_are_declared_so() -> None:
    eye = np.eye(3, dtype=int)[[2, 0]]
    np.testing.assert_array_equal(to_probabilities(eye, "labels", 2, 3), eye)
    np.testing.assert_array_equal(to_probabilities(eye.astype(float), "labels", 2, 3), eye)


@pytest.mark.parametrize("classes", [1, 2, 10])
def test_logits_of_an_unsure_model_are_no_probabilities(classes: int) -> None:
    rng = np.random.default_rng(0)
    unsure = rng.uniform(0.3, 0.7, (200, classes))
    assert to_probabilities(unsure, "logits", 200).shape == (200, max(2, classes))


@given(st.integers(1, 29), st.floats(0, 1))
def test_few_logits_may_lie_anywhere(records: int, first: float) -> None:
    column = np.linspace(first, 1, records)
    assert to_probabilities(column, "logits", records).shape == (records, 2)


@pytest.mark.parametrize("decimals", [1, 2, 3])
def test_sums_are_off_by_no_more_than_rounding_explains(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    rounded = rng.dirichlet(np.full(12, 0.4), 5000).round(decimals)
    rounded = rounded[rounded.sum(axis=1) > 0]
    assert forms.are_probabilities(rounded)
    answers = to_probabilities(rounded, "probabilities", len(rounded))
    np.testing.assert_allclose(answers.sum(axis=1), 1, rtol=1e-15)
    beyond = rounded.copy()
    beyond[0, rounded[0].argmax()] += 12 * 10.0**-decimals
    assert not forms.are_probabilities(beyond)


def test_losses_taken_for_probabilities_are_audited_as_advised(tmp_path: Path) -> None:
    p, y = make_answers(3)
    loss = -np.log(p[np.arange(RECORDS), y])
    write_table(tmp_path / "p.csv", loss, y % 2)
    with pytest.raises(TargetError, match="if they are losses or scores, name the column as loss="):
        divulge.audit_predictions(tmp_path / "p.csv")
    found = divulge.audit_predictions(tmp_path / "p.csv", loss="p_1")
    assert find_auc(found, "given-score") == pytest.approx(auc_of_loss(p, y), abs=1e-9)


def test_a_column_without_a_name_is_left_out_by_a_pattern_as_advised(tmp_path: Path) -> None:
    p, y = make_answers(4)
    columns = np.column_stack([np.arange(RECORDS) + 5, p])
    write_table(tmp_path / "p.csv", columns, y, ["", *(f"p_{k}" for k in range(4))])
    with pytest.raises(TargetError, match="pass probabilities= as the others are called"):
        divulge.audit_predictions(tmp_path / "p.csv", probabilities="*")
    found = divulge.audit_predictions(tmp_path / "p.csv", probabilities="p_*")
    assert find_auc(found, "threshold(signal=loss)") == pytest.approx(auc_of_loss(p, y), abs=1e-9)


@pytest.mark.parametrize(
    ("column", "percentages"),
    [([0, 50, 100], True), ([0, 50, 101], False), ([-1, 50, 100], False), ([0, 1, 1], False)],
)
def test_whole_numbers_may_be_percentages_from_0_to_100(
    column: list[float], *, percentages: bool
) -> None:
    """And classes in any case: one column of them does not tell which."""
    advice = forms.explain_refusal(np.array(column, float)[:, None])
    assert "if these are classes" in advice
    assert ("percentages" in advice) == percentages


LOGITS, PERCENTAGES = 'output="logits"', 'output="percentages"'


@pytest.mark.parametrize(
    ("numbers", "said", "unsaid"),
    [
        ([0, 1, 1], 'pass output="labels" and classes=2', PERCENTAGES),
        ([0, 3, 1], 'pass output="labels" and classes=4; if they are percentages, ', LOGITS),
        ([-1, 3, 1], 'pass output="labels" and classes=4', PERCENTAGES),
        ([0, 101, 1], 'pass output="labels" and classes=102', PERCENTAGES),
        ([0, 100, 1], 'and classes=101; if they are percentages, output="percentages"', LOGITS),
        ([0.5, 30.5, 99.0], f"if these are percentages, pass {PERCENTAGES}", "classes"),
        ([-2.5, 3.5, 0.5], f"if these are logits of class 1, pass {LOGITS}", PERCENTAGES),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_single_column_is_explained_by_its_numbers(
    numbers: list[float], said: str, unsaid: str, named: bool
) -> None:
    """A table's column may hold losses or scores; a function answers about classes."""
    answers = np.array(numbers * 100, np.float64)[:, None]
    text = forms._explain_column(answers, ("a",) if named else ())
    assert named or said in text
    assert unsaid not in text
    whole = all(float(number).is_integer() for number in numbers)
    assert ("name the column as loss= or score=" in text) == (named and not whole)
