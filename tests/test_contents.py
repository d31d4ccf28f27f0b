"""What records hold stays where records are: in no run folder, report, export, message or stream.

A text and a number are planted in records, and each way to audit them runs by its command, with
all that can be made of its run. Every file and both streams are searched. Commands that ask an
endpoint are searched in `tests/cli/test_no_key_escapes.py`, with the keys that it needs.
"""

import csv
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import divulge
from divulge.cli.main import main
from tests.taint import find, number_forms, text_forms

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
