"""Audits of models that take tables, texts and tokens, with labels of any kind."""

from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import divulge
from divulge.attacks import LiRA, Quantile, Threshold
from divulge.core import ControlOutcome, Verdict
from tests.golden import golden

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
N = 240
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N),
        "job": RNG.choice(["cook", "smith", "clerk"], N),
        "city": pd.Categorical(RNG.choice(list("abcdef"), N)),
    }
)
WORDS = ("cat", "dog", "bird", "tree", "car", "house", "sun", "moon")
TEXTS = [" ".join(RNG.choice(WORDS, 5)) for _ in range(N)]
LABELS = RNG.choice(["no", "yes"], N)
IN, OUT, OWN = slice(0, 80), slice(80, 160), slice(160, N)


def table_model() -> Any:
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["job", "city"]), remainder="passthrough"
    )
    return make_pipeline(columns, RandomForestClassifier(20, random_state=0))


def text_model() -> Any:
    return make_pipeline(TfidfVectorizer(), RandomForestClassifier(20, random_state=0))


def sets(rows: Any, labels: Any = LABELS) -> dict[str, Any]:
    names = {"members": IN, "nonmembers": OUT, "reference": OWN}
    return {name: (rows[part], labels[part]) for name, part in names.items()}


def check(found: divulge.Audit, name: str) -> str:
    return next(one.text for one in found.checks if one.name == name)


@pytest.mark.parametrize(
    ("rows", "aucs"),
    [(FRAME, (0.8343, 0.8216, 0.8250)), (TEXTS, (0.8823, 0.8403, 0.7961))],
    ids=["table", "texts"],
)
def test_a_pipeline_is_audited_as_it_is_with_its_shadows(
    rows: Any, aucs: tuple[float, ...]
) -> None:
    model = table_model() if rows is FRAME else text_model()
    model.fit(rows[IN], LABELS[IN])
    found = divulge.audit(model, **sets(rows), shadows=4, attacks=[Threshold(), Quantile(), LiRA()])
    assert [one.metrics["auc"].value for one in found.findings] == golden(*aucs)
    assert found.facts.class_names == ("no", "yes")
    assert "'no' is 0, 'yes' is 1" in check(found, "labels")
    assert "columns of 0 and 1" in check(found, "encoding") or rows is TEXTS
    outcomes = {one.control.outcome for one in found.contents.entries if one.control is not None}
    assert outcomes == {ControlOutcome.PASSED}


def test_figures_are_those_of_the_same_records_as_numbers() -> None:
    """Only what is read out of features may differ: a code for each word is not a hash."""
    codes = FRAME.assign(job=FRAME.job.astype("category").cat.codes, city=FRAME.city.cat.codes)
    forest = RandomForestClassifier(20, random_state=0).fit(codes[IN], LABELS[IN] == "yes")

    def model(frame: Any) -> np.ndarray:
        jobs = frame.job.map({"clerk": 0, "cook": 1, "smith": 2}).astype("int8")
        as_numbers = frame.assign(job=jobs, city=frame.city.cat.codes)
        return np.asarray(forest.predict_proba(as_numbers))

    options = divulge.Options(class_names=("no", "yes"))
    mixed = divulge.audit(model, **sets(FRAME), attacks=[Threshold()], options=options)
    plain = divulge.audit(
        forest, **sets(codes, (LABELS == "yes").astype(int)), attacks=[Threshold()]
    )
    one, other = mixed.findings[0].metrics["auc"], plain.findings[0].metrics["auc"]
    assert one.value == pytest.approx(other.value, abs=1e-12)


@pytest.mark.slow
def test_leave_one_out_and_compare_take_texts() -> None:
    found = divulge.leave_one_out(
        text_model(), records=(TEXTS, LABELS), rotation=divulge.Rotation(4), attacks=[Threshold()]
    )
    assert found.findings[0].metrics["auc"].value == golden(0.8374)


def test_a_resumed_run_asks_nothing_again(tmp_path: Any) -> None:
    asked: list[int] = []
    model = text_model().fit(TEXTS[IN], LABELS[IN])

    def answer(texts: Any) -> np.ndarray:
        asked.append(len(texts))
        return np.asarray(model.predict_proba(texts))

    def run(*, resume: bool) -> divulge.Audit:
        return divulge.audit(
            answer,
            **sets(TEXTS),
            attacks=[Threshold()],
            access=divulge.Access(fingerprint="1"),
            run=tmp_path / "run",
            options=divulge.Options(class_names=("no", "yes"), resume=resume),
        )

    first = run(resume=False)
    before = sum(asked)
    assert before > N
    assert run(resume=True).findings[0].metrics == first.findings[0].metrics
    assert sum(asked) == before


@pytest.mark.slow
def test_a_saved_pipeline_is_audited_from_settings(tmp_path: Any) -> None:
    skops = pytest.importorskip("skops.io")
    model = table_model().fit(FRAME[IN], LABELS[IN])
    skops.dump(model, tmp_path / "model.skops")
    FRAME.astype({"city": str}).assign(repaid=LABELS).to_csv(tmp_path / "people.csv")
    (tmp_path / "subject.py").write_text(
        "import pandas as pd\n"
        "from pathlib import Path\n"
        "file = Path(__file__).with_name('people.csv')\n"
        "people = pd.read_csv(file, index_col=0, dtype={'city': 'category'})\n"
        "x, y = people.drop(columns='repaid'), people['repaid']\n"
        "members, nonmembers = (x[:80], y[:80]), (x[80:160], y[80:160])\n"
    )
    settings = tmp_path / "audit.toml"
    settings.write_text(
        '[target]\nmodel = "model.skops"\n'
        '[data]\nmembers = "subject.py:members"\nnonmembers = "subject.py:nonmembers"\n'
        '[[attacks]]\nname = "threshold"\n'
    )
    found = divulge.audit_file(settings)
    same = divulge.audit(
        model,
        members=(FRAME[IN], LABELS[IN]),
        nonmembers=(FRAME[OUT], LABELS[OUT]),
        attacks=[Threshold()],
    )
    assert isinstance(found, divulge.Audit)
    assert found.facts.class_names == ("no", "yes")
    assert found.findings[0].metrics["auc"].value == same.findings[0].metrics["auc"].value


def test_a_module_with_several_inputs_and_a_dict_of_answers() -> None:
    torch = pytest.importorskip("torch")

    class Tokens(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed = torch.nn.Embedding(50, 4)
            self.last = torch.nn.Linear(4, 2)

        def forward(self, input_ids: Any, attention_mask: Any) -> dict[str, Any]:
            hidden = (self.embed(input_ids) * attention_mask[..., None]).mean(1)
            return {"logits": self.last(hidden), "hidden": hidden}

    tokens = {"input_ids": RNG.integers(0, 50, (N, 6)), "attention_mask": np.ones((N, 6), int)}
    parts: dict[str, Any] = {
        name: ({key: array[part] for key, array in tokens.items()}, LABELS[part] == "yes")
        for name, part in (("members", IN), ("nonmembers", OUT))
    }
    found = divulge.audit(
        Tokens(), **parts, attacks=[Threshold()], access=divulge.Access(output="logits")
    )
    auc = found.findings[0].metrics["auc"]
    assert auc.low is not None
    assert auc.high is not None
    assert auc.low < 0.5 < auc.high


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nonmembers": (TEXTS[OUT], ["maybe"] * 80)}, "got 'maybe'"),
        ({"nonmembers": (FRAME[OUT], LABELS[OUT])}, "one kind of container"),
        ({"nonmembers": (TEXTS[OUT], [None] * 80)}, "got none at index 0"),
        ({"nonmembers": (TEXTS[OUT], LABELS[IN][:3])}, "one label per record"),
        ({"shadows": divulge.ShadowModels(2, augment=["mirror"])}, "records that are numbers"),
        ({"known": divulge.KnownFeatures(share=0.5)}, "records that are numbers"),
    ],
)
def test_what_does_not_fit_is_refused(change: Any, message: str) -> None:
    model = text_model().fit(TEXTS[IN], LABELS[IN])
    with pytest.raises(divulge.DivulgeError, match=message):
        divulge.audit(model, **(sets(TEXTS) | change))


def test_labels_need_an_order_of_the_model() -> None:
    with pytest.raises(divulge.DataError, match="pass class_names"):
        divulge.audit(lambda texts: np.full((len(texts), 2), 0.5), **sets(TEXTS))


def test_checks_of_records_see_a_shift_in_words() -> None:
    other = [f"{text} and more" for text in TEXTS]
    model = text_model().fit(TEXTS[IN], LABELS[IN])
    asked = sets(TEXTS) | {"nonmembers": (other[OUT], LABELS[OUT])}
    found = divulge.audit(model, **asked, attacks=[Threshold()])
    blind = next(one for one in found.checks if one.name == "blind baseline")
    assert blind.verdict is Verdict.WARNING


def test_a_run_names_the_libraries_of_the_model_and_of_its_data() -> None:
    from importlib.metadata import version

    x, y = FRAME, LABELS
    model = table_model().fit(x[IN], y[IN])
    found = divulge.audit(
        model, members=(x[IN], y[IN]), nonmembers=(x[OUT], y[OUT]), attacks=[divulge.attack("gap")]
    )
    environment = found.head.environment
    assert environment["pandas"] == version("pandas")
    assert environment["scikit-learn"] == version("scikit-learn")
    assert found.summary.reproduction.environment == environment
    assert found.facts.model_kind == "forest"
