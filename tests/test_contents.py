"""What records hold stays where records are: in no run folder, report, export, message or stream.

A text and a number are planted in records, and each way to audit them runs by its command, with
all that can be made of its run. Every file and both streams are searched. Commands that ask an
endpoint are searched in `tests/cli/test_no_key_escapes.py`, with the keys that it needs. What is
wrong with a record is said by its form alone, whoever says it: divulge, a model, or an endpoint.
"""

import csv
import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import divulge
from divulge._util.contents import MISSING, mask, mask_numbers, mask_sent, quote_error
from divulge.cli.main import main
from divulge.data import cells
from divulge.errors import DataError, TargetError
from divulge.targets.function import FunctionTarget
from divulge.targets.http import HTTPTarget
from divulge.targets.predictions import read_predictions
from tests.taint import find, number_forms, text_forms

from .endpoints import serve

NUMBER, WORK = 7319314.159265, "kumquat taster of Zanzibar"
NEEDLES = {"number": number_forms(NUMBER), "text": text_forms(WORK)}

SUBJECT = """
from pathlib import Path
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

people = pd.read_csv(Path(__file__).with_name("people.csv"))
x, y = people[["age", "salary", "work"]], people["label"]
members, nonmembers, reference = ((x[k::3], y[k::3]) for k in range(3))
records = x, y
columns = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["work"]), (StandardScaler(), ["age", "salary"])
)

def train(x, y, seed):
    return make_pipeline(columns, LogisticRegression()).fit(x, y)

model = train(*members, 0)
"""
NETWORK = """
from pathlib import Path
import numpy as np
import pandas as pd
from torch import nn

people = pd.read_csv(Path(__file__).with_name("people.csv"))
x, y = people[["age", "salary"]].to_numpy("float32"), people["label"].to_numpy() == "yes"
records = train = x, y.astype(int)

def network():
    return nn.Linear(2, 2)
"""
ATTACK = '[[attacks]]\nname = "threshold"\n'


@dataclass(frozen=True)
class Way:
    """A way to audit records, in a folder that holds people.csv."""

    command: str
    settings: str
    subject: str = SUBJECT
    exports: bool = True
    """Whether its run can be exported and packed."""


WAYS = {
    "a model": Way(
        "audit",
        '[target]\nmodel = "subject.py:model"\nfingerprint = "1"\n'
        '[data]\nmembers = "subject.py:members"\nnonmembers = "subject.py:nonmembers"\n'
        'reference = "subject.py:reference"\n[shadows]\nmodels = 2\ntrain = "subject.py:train"\n'
        f'{ATTACK}[[attacks]]\nname = "lira"\n[[attacks]]\nname = "quantile"\n',
    ),
    "models in turn": Way(
        "audit",
        '[leave_one_out]\nmodels = 3\ntargets = 2\ntrain = "subject.py:train"\n'
        f'[data]\nrecords = "subject.py:records"\n{ATTACK}',
    ),
    "a table": Way("audit", f'[predictions]\nfile = "people.csv"\nblind = "salary"\n{ATTACK}'),
    "a comparison": Way(
        "compare",
        'models = 3\ntargets = 2\n[data]\nrecords = "subject.py:records"\n'
        '[training]\nnetwork = "subject.py:network"\nepochs = 1\n'
        '[[defences]]\nname = "none"\nway = "one-by-one"\nlabel = "plain"\n'
        '[[defences]]\nname = "none"\nway = "one-by-one"\nlabel = "rounded"\n'
        f'answers = {{name = "rounding", digits = 2}}\n{ATTACK}',
        NETWORK,
        exports=False,
    ),
    "a federation": Way(
        "federate",
        'rounds = 1\n[data]\ntrain = "subject.py:train"\n[clients]\ncount = 4\n'
        '[training]\nnetwork = "subject.py:network"\nlr = 0.1\n',
        NETWORK,
        exports=False,
    ),
}


def write_people(path: Path) -> None:
    """Records of which some hold what is planted, and a model's answers about them."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "salary", "work", "label", "p_no", "p_yes", "member"])
        for k in range(120):
            work = WORK if k % 7 == 0 else rng.choice(["cook", "smith"])
            salary = NUMBER if k % 5 == 0 else NUMBER + rng.normal()
            p = rng.random()
            rows.writerow([k, salary, work, rng.choice(["no", "yes"]), 1 - p, p, k % 2])


def call(*words: str, code: int = 0) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, done.output
    assert not find(done.output.encode(), NEEDLES), (words, done.output)


@pytest.mark.parametrize("way", WAYS)
def test_what_records_hold_comes_out_nowhere(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pandas")
    caplog.set_level(logging.DEBUG)
    monkeypatch.chdir(tmp_path)
    how = WAYS[way]
    write_people(tmp_path / "people.csv")
    Path("subject.py").write_text(how.subject)
    Path("audit.toml").write_text(how.settings)
    call(how.command, "audit.toml", "--run", "run")
    if how.command == "federate":
        call("transcript", "inspect", "run")
    else:
        found = divulge.load("run")
        assert not find(f"{found} {found!r}".encode(), NEEDLES)
    if how.exports:
        files = ("--junit", "--sarif", "--job-summary", "--archive")
        call("export", "run", *(word for name in files for word in (name, f"x{name}.zip")))
        call("evidence", "run", "--pack", "pack.zip")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    for path in written:
        held = find(path.read_bytes() + str(path).encode(), NEEDLES)
        assert not held or path.name == "people.csv", (path, held)
    assert not find(caplog.text.encode(), NEEDLES)


BORN = "Ann Smith 1961-02-03"
ROWS = [[0.25, 0.75, 0, 1], [0.5, 0.5, 1, 0], [0.75, 0.25, 0, 1]]


def hold_nothing(text: str) -> None:
    assert not find(text.encode(), NEEDLES), text
    for planted in ("Ann", "Smith", "1961", "kumquat", "Zanzibar", "7319314"):
        assert planted not in text, text


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("planted", [BORN, WORK, f"{NUMBER:,}", f"{NUMBER} EUR", "7,319 EUR"])
def test_a_wrong_cell_of_a_table_is_shown_by_its_form(
    column: int, planted: str, tmp_path: Path
) -> None:
    """The column of labels and that of members have more values than categories would."""
    rows = [[*ROWS[k % 3]] for k in range(30)]
    for k, row in enumerate(rows):
        row[column] = f"{planted}{k}" if column > 1 else planted  # type: ignore[call-overload]
    with (tmp_path / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["p_0", "p_1", "label", "member"], *rows])
    with pytest.raises(DataError, match=r"row 1 below the header") as refused:
        read_predictions(tmp_path / "people.csv")
    hold_nothing(str(refused.value))
    assert f"column '{('p_0', 'p_1', 'label', 'member')[column]}'" in str(refused.value)
    assert cells.show_cell(planted)[1:-1] in str(refused.value)
    (tmp_path / "audit.toml").write_text(f'[predictions]\nfile = "people.csv"\n{ATTACK}')
    done = CliRunner().invoke(main, ["audit", str(tmp_path / "audit.toml")])
    assert done.exit_code == 2, done.output
    hold_nothing(done.output)


def test_the_form_of_a_cell_says_what_is_wrong_with_it() -> None:
    shown = {
        "1,234": "'9,999'", " 12 %": "' 99 %'", "1e5": "'9e9'", "Ünsal-Łuk": "'xxxxx-xxx'",
        "\u0663.\u0665": "'9.9'", "N/A": "'N/A'", " today ": "' today '", "": "''", b"Ann": "'xxx'",
        -np.inf: "-inf", np.float64(31.5): "99.9", np.nan: "nan", True: "True", None: "None",
    }  # fmt: skip
    assert {cell: cells.show_cell(cell) for cell in shown} == shown
    assert {mask(word) for word in MISSING} == MISSING


def test_labels_are_named_where_they_are_categories() -> None:
    few, many = [f"kind {k}" for k in range(10)], [f"kind {k}" for k in range(11)]
    assert cells.show_label("kind 3", few * 9) == "'kind 3'"
    assert cells.show_label("kind 3", many) == cells.show_cell("kind 3") == "'xxxx 9'"
    assert cells.show_label(31.5, np.arange(10.0).repeat(3)) == "31.5"
    assert cells.show_label(31.5, np.arange(11.0)) == "99.9"


@pytest.mark.parametrize("text", [WORK, WORK + " and of all the islands around it", "Ann", "Öz 31"])
def test_an_endpoint_that_repeats_the_request_is_quoted_without_records(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    x = {"salary": np.array([NUMBER, 31.0]), "work": [text, "cook"]}
    with serve(lambda x: x) as endpoint:
        endpoint.faults.append(f"echo:Input should be a number, not {text[:20]} or {NUMBER}")
        with pytest.raises(TargetError) as refused:
            HTTPTarget(endpoint.url + "/predict", "1").predict(x)
    said = str(refused.value)
    assert endpoint.bodies[0]["instances"][0] == {"salary": NUMBER, "work": text}
    assert '"loc": ["body", "instances", 0, 1], "msg": "Input should be a number, not x' in said
    for planted in (text, text[:20], json.dumps(text)[1:-1], f"{NUMBER:.0f}"):
        assert planted not in said + caplog.text
    hold_nothing(said.replace("Ann", "") if text == "Ann" else said)


def test_what_a_request_held_is_masked_whatever_stands_around_it() -> None:
    sent = [[31, -0.25, "no", "in", "Ann"], ["the quick brown fox jumps", "q" * 500]]
    shown = {
        "[31,45,31.0,-0.25]": "[99,45,99.9,-9.99]",
        "row 3 of 4, not in there": "row 3 of 4, not in there",
        '{"in": "in", "Ann": 1}': '{"in": "xx", "xxx": 1}',
        "unknown word 'fox'; the fox": "unknown word 'xxx'; the fox",
        "too long: quick brown fox ju": "too long: xxxxx xxxxx xxx xx",
        "not base64: '" + "q" * 60: "not base64: '" + "x" * 60,
        r"\u0041nn": "xxx",
    }
    assert {text: mask_sent(text, sent) for text in shown} == shown
    assert mask_numbers("at 2024-05-06T07:08, 12,345 of 120, v1.26.4") == (
        "at 9999-99-99T99:99, 99,999 of 120, v1.26.4"
    )


def test_an_error_of_a_model_is_quoted_without_records() -> None:
    def answer(x: np.ndarray) -> np.ndarray:
        raise ValueError(f"could not convert {BORN!r} and {WORK!r}, {x[0, 0]} in row 17")

    with pytest.raises(TargetError) as error:
        FunctionTarget(answer).predict(np.full((3, 2), NUMBER))
    hold_nothing(str(error.value))
    masked = "'xxx xxxxx 9999-99-99' and 'xxxxxxx xxxxxx xx xxxxxxxx', 9999999.999999 in row 17"
    assert f"ValueError: could not convert {masked}: " in str(error.value)
    assert BORN in str(error.value.__cause__)


def test_names_in_the_code_that_raised_an_error_are_no_contents() -> None:
    known, cell = {"no": 0}, json.loads('"Ann"')
    said = []
    for raises in (lambda: known["column"], lambda: known[cell], lambda: cell.missing_method()):
        with pytest.raises((KeyError, AttributeError)) as error:
            raises()
        said.append(quote_error(error.value))
    assert said == ["'column'", "'xxx'", "'str' object has no attribute 'missing_method'"]
