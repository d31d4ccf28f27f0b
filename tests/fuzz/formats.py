"""Every kind of file that divulge reads: how a small one is made, and what reads it.

Makers use the real writers. Readers are the commands and functions that a user would call.
"""

import contextlib
import io
import json
import logging
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import divulge
from divulge._util import seals
from divulge.cli.main import main
from divulge_papers import conversion, datasets

SUBJECT = """
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 3))
y = (x[:, 0] > 0).astype(int)
members, nonmembers, records = (x[:30], y[:30]), (x[30:], y[30:]), (x, y)
names = [f"person {k}" for k in range(30)]
def model(asked):
    chance = 1 / (1 + np.exp(-asked[:, 0]))
    return np.column_stack([1 - chance, chance])
def train(x, y, seed):
    return model
def network():
    from torch import nn
    return nn.Linear(3, 2)
"""

MODEL = """
name = "small"
seed = 3
[target]
model = "subject.py:model"
output = "probabilities"
batch_size = 16
classes = 2
budget = 1000
epsilon = 4.0
delta = 1e-5
answers = {name = "rounding", digits = 2}
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
reference = "subject.py:records"
class_names = ["no", "yes"]
membership = "coins"
[shadows]
models = 2
train = "subject.py:train"
augment = []
[known]
share = 0.5
pattern = "block"
fill = "mean"
[[attacks]]
name = "threshold"
signal = "loss"
[metrics]
delta = 1e-6
[gate]
fail_on = ["leak"]
fail_above = {auc = 0.6}
judge = "low"
claim = true
"""

PREDICTIONS = """
name = "table"
[predictions]
file = "answers.csv"
probabilities = "p_*"
label = "label"
member = "member"
id = "who"
class_names = ["no", "yes"]
membership = "fixed"
[[attacks]]
name = "threshold"
signal = "loss"
[[attacks]]
name = "gap"
"""

IN_TURN = """
name = "in turn"
[leave_one_out]
models = 3
targets = 2
train = "subject.py:train"
output = "probabilities"
[data]
records = "subject.py:records"
[[attacks]]
name = "calibrated"
"""

COMPARE = """
name = "small"
models = 3
targets = 2
lambdas = [1.0, 2.0]
[data]
records = "subject.py:records"
[training]
network = "subject.py:network"
epochs = 2
batch_size = 20
[[defences]]
name = "none"
label = "undefended"
[[defences]]
name = "dp-sgd"
epsilon = 4.0
delta = 1e-5
[[defences]]
train = "subject.py:train"
label = "own"
answers = {name = "rounding", digits = 2}
[[attacks]]
name = "calibrated"
"""

FEDERATE = """
name = "toy"
rounds = 1
rule = "fedavg"
participation = 1.0
[data]
train = "subject.py:members"
test = "subject.py:nonmembers"
[clients]
count = 3
[training]
network = "subject.py:network"
lr = 1.0
epochs = 1
batch_size = 5
[[defences]]
name = "top-k"
share = 0.5
"""

UPDATES = """
name = "counts"
[updates]
transcript = "transcript"
network = "subject.py:network"
reference = "subject.py:nonmembers"
class_names = ["no", "yes"]
clients = ["0", "1"]
[updates.counts]
0 = [5, 5]
1 = [5, 5]
[[attacks]]
name = "label-counts"
method = "uniform"
"""

INTERACTIONS = """
name = "films"
[interactions]
transcript = "films"
truth = "films.csv"
clients = ["0", "1"]
[[attacks]]
name = "random-interactions"
"""

ASSIGNMENT = """
name = "clinics"
[assignment]
colluder = "cat"
truth = "tables/owners.csv"
probabilities = "p_*"
[assignment.predictions]
ann = "tables/ann.csv"
cat = "tables/cat.csv"
[[attacks]]
name = "nobody"
"""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file or folder."""

    make: Callable[[Path], None]
    """Fills a new folder."""
    read: Callable[[Path], object]
    """Reads what is in the folder."""
    damaged: tuple[str, ...] = ("*",)
    """Patterns of the files that are damaged; the others stay as they are."""
    packages: tuple[str, ...] = ()
    """What has to be installed."""


def _run(*words: object) -> None:
    """A command; what it refuses is raised, where the program would print it."""
    name, *rest = map(str, words)
    command: Any = main
    for word in name.split():
        command = command.commands[word]
    with contextlib.suppress(SystemExit):  # how a command says that an attack failed
        command.main(rest, standalone_mode=False)


def _settings(text: str, **files: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "subject.py").write_text(SUBJECT)
        (folder / "settings.toml").write_text(text)

    return make


def _load_model(folder: Path) -> None:
    from divulge.audits import config, inputs, runner
    from divulge.audits.requested_attacks import requested_attacks
    from divulge.finished_runs import gate
    from divulge.studies import planning

    asked = config.read_config(folder / "settings.toml")
    runner.check_attacks(requested_attacks(asked, folder))
    gate.Gate(tuple(asked.gate.fail_on), asked.gate.fail_above, asked.gate.judge, asked.about)
    assert isinstance(asked, config.ModelAuditSpec | config.PredictionsAuditSpec)
    inputs.load_inputs(asked, folder)
    planning.plan_file(folder / "settings.toml")


def _make_predictions(folder: Path) -> None:
    """A table of answers that tell members, with ids, and settings beside it."""
    rng = np.random.default_rng(0)
    label, member = rng.integers(0, 2, 60), np.arange(60) % 2
    right = np.clip(0.5 + 0.4 * member + 0.1 * rng.normal(size=60), 0.01, 0.99)
    p1 = np.where(label == 1, right, 1 - right)
    rows = [
        f"person {k},{1 - p1[k]:.6f},{p1[k]:.6f},{label[k]},{member[k]}" for k in range(len(label))
    ]
    (folder / "answers.csv").write_text("\n".join(["who,p_0,p_1,label,member", *rows, ""]))
    (folder / "settings.toml").write_text(PREDICTIONS)


def _audit_predictions(folder: Path) -> None:
    _run("audit", folder / "settings.toml", "--run", folder / "run", "--format", "json")


def _make_membership_run(folder: Path) -> None:
    _make_predictions(folder)
    divulge.audit_file(folder / "settings.toml", folder / "run")
    _keep_only(folder, "run")


def _keep_only(folder: Path, name: str) -> None:
    """Leave one run in the folder, without what rendering it writes."""
    for other in folder.iterdir():
        if other.name != name:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    for pattern in ("figures", "*.html", "*.md", "summary.json", "exposed.csv"):
        for path in list((folder / name).rglob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _read_run(folder: Path) -> None:
    """Without the checksums, which would refuse every damage before anything is read."""
    with patch.multiple(seals, refuse_edited_json=_accept, refuse_other_files=_accept):
        _read_unsealed_run(folder)


def _accept(*_: object, **__: object) -> None:
    pass


def _read_unsealed_run(folder: Path) -> None:
    _run("report", folder / "run")
    _run("measure", folder / "run")
    _run("export", folder / "run", "--junit", folder / "run" / "junit.xml", "--job-summary",
         folder / "run" / "job.md", "--sarif", folder / "run" / "divulge.sarif")  # fmt: skip


def _make_in_turn_run(folder: Path) -> None:
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "settings.toml").write_text(IN_TURN)
    divulge.audit_file(folder / "settings.toml", folder / "run")
    _keep_only(folder, "run")


def _make_comparison(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    named: dict[str, Any] = {}
    exec(SUBJECT, named)  # noqa: S102  # our own text, above
    divulge.compare(
        {"plain": named["train"], "again": named["train"]},
        records=(x, (x[:, 0] > 0).astype(int)),
        rotation=divulge.Rotation(3, targets=2),
        attacks=[divulge.attack("gap")],
        run=folder / "run",
    )
    _keep_only(folder, "run")


def _read_in_turn_settings(folder: Path) -> None:
    from divulge.audits import config
    from divulge.studies.leave_one_out.design import design_from_config

    asked = config.read_config(folder / "settings.toml")
    assert isinstance(asked, config.LeaveOneOutAuditSpec)
    design_from_config(asked, folder)


def _read_compare_settings(folder: Path) -> None:
    from divulge.studies.compare import config, design

    design.design_from_config(config.read(folder / "settings.toml"), folder)


def _read_federate_settings(folder: Path) -> None:
    from divulge.federation import config, from_config

    asked = config.read(folder / "settings.toml")
    items = asked.recommender or asked.ranker
    load = from_config.load_item_federation if items else from_config.load_federation
    load(asked, folder)


def _make_transcript(folder: Path) -> None:
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "federate.toml").write_text(FEDERATE)
    divulge.federate_file(folder / "federate.toml", folder / "transcript")


def _read_transcript(folder: Path) -> None:
    from divulge.federation import Transcript

    _run("transcript inspect", folder / "transcript", "--format", "json")
    _run("transcript inspect", folder / "transcript")
    for played in Transcript.open(folder / "transcript").rounds:
        for update in played.received.values():
            for tensor in update.tensors.values():
                np.asarray(tensor).sum()


def _make_updates(folder: Path) -> None:
    _make_transcript(folder)
    (folder / "settings.toml").write_text(UPDATES)


def _pose(folder: Path) -> None:
    from divulge.audits import config
    from divulge.audits.requested_attacks import requested_attacks

    asked = config.read_config(folder / "settings.toml")
    requested_attacks(asked, folder)
    assert isinstance(asked, config.FederationAuditSpec)
    asked.secret.pose(getattr(asked, asked.section), folder)


def _make_films(folder: Path) -> None:
    from divulge.data import interactions
    from divulge.data.interactions import synthetic_interactions
    from divulge.defences.updates.compose import no_defence
    from divulge.federation.recommender.model import NeuralCF
    from divulge.federation.recommender.users import Recommending
    from divulge.federation.transcript import writer

    log = synthetic_interactions(2, 8, np.random.default_rng(0))
    played, truth = Recommending(log, NeuralCF(width=2, hidden=(2,))).round(range(2), no_defence())
    writer.write(folder / "films", "films", [played], items="items")
    interactions.write_interactions(folder / "films.csv", truth)
    (folder / "settings.toml").write_text(INTERACTIONS)


def _make_clinics(folder: Path) -> None:
    from divulge.federation import prediction_tables
    from divulge.testing import clients

    game = clients.draw_game(0, clients=2, classes=2).challenge
    prediction_tables.write(folder / "tables", game.view, ("ann", "cat"), game.truth)
    (folder / "settings.toml").write_text(ASSIGNMENT)


def _made_federation_run(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def make_run(folder: Path) -> None:
        make(folder)
        divulge.audit_file(folder / "settings.toml", folder / "run")
        _keep_only(folder, "run")

    return make_run


def _make_npz(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        folder / "records.npz",
        x=rng.normal(size=(12, 3)).astype(np.float32),
        y=np.arange(12) % 2,
        who=np.array([f"person {k}" for k in range(12)]),
    )


def _make_table(suffix: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        import pandas as pd

        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.random((12, 3)).round(4), columns=["age", "p_0", "p_1"])
        frame["p_1"] = 1 - frame["p_0"]
        frame["label"], frame["member"] = np.arange(12) % 2, np.arange(12) // 6
        frame["who"] = [f"person {k}" for k in range(12)]
        path = folder / f"records{suffix}"
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)

    return make


def _read_records(suffix: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        from divulge.data import ids, records
        from divulge.targets.predictions import read_predictions

        path = folder / f"records{suffix}"
        if suffix != ".npz":
            answers = read_predictions(path)
            answers.target.predict(np.arange(2)[:, None])
        (found,) = records.load_record_sets([path.name], "label", folder, ("who",))
        ids.read_ids(path, "who", len(found))

    return read


def _make_queries(folder: Path) -> None:
    lines = [f"{k % 3} qid:{k // 4} 1:{k / 7:.3f} 2:0.5 # doc {k}" for k in range(12)]
    (folder / "queries.txt").write_text("\n".join([*lines, ""]))
    (folder / "pairs.csv").write_text("client,item\n0,1\n0,2\n1,5\n")
    (folder / "u.data").write_text("1\t5\t3\t100\n2\t6\t1\t100\n")
    (folder / "steam.csv").write_text('1,"A, B",purchase,1.0,0\n2,C,play,3.5,0\n')


def _read_queries(folder: Path) -> None:
    from divulge.data import interactions, ranking

    ranking.read_queries(folder / "queries.txt")
    interactions.read_interactions(folder / "pairs.csv")
    interactions.movielens_100k(folder / "u.data")
    interactions.steam_200k(folder / "steam.csv")


def _make_published_lines(folder: Path) -> None:
    rng = np.random.default_rng(0)
    places = [",".join(map(str, [1 + k, *rng.integers(0, 2, 446)])) for k in range(4)]
    (folder / "bangkok").write_text("\n".join([*places, ""]))
    names = ",".join([f"pixel{k:04}" for k in range(2352)] + ["label"])
    skin = [",".join(map(str, [*rng.integers(0, 256, 2352), k])) for k in range(2)]
    (folder / "hmnist_28_28_RGB.csv").write_text("\n".join([names, *skin, ""]))


def _read_published_lines(folder: Path) -> None:
    for number, name in enumerate(("location30", "ham10000")):
        conversion.convert(name, folder, folder / f"data-{number}")


def _make_published_archives(folder: Path) -> None:
    rng = np.random.default_rng(0)
    with tarfile.open(folder / "images.tar.gz", "w:gz") as archive:
        for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
            content = bytes([1]) + rng.bytes(3072)
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with zipfile.ZipFile(folder / "places.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("data/bangkok", ",".join(["3", *"01" * 223]) + "\n")


def _read_published_archives(folder: Path) -> None:
    for name, archive in (("cifar10", "images.tar.gz"), ("location30", "places.zip")):
        conversion.convert(name, folder / archive, folder / f"data-{name}")


def _make_idx(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        head = np.array([0x0803, 3, 28, 28], ">u4").tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + rng.bytes(3 * 784))
        head = np.array([0x0801, 3], ">u4").tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + bytes(range(3)))


def _read_idx(folder: Path) -> None:
    """Without the checksums, which would refuse every damage before anything is read."""
    known = datasets.DATA_SETS["mnist"]
    files = [replace(file, names=dict.fromkeys(file.names, "")) for file in known.published]
    unchecked = replace(known, published=tuple(files))
    with patch.dict(datasets.DATA_SETS, mnist=unchecked):
        conversion.convert("mnist", folder, folder / "data")


def _make_model(suffix: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from ..targets import tiny_models as tiny

        path = folder / f"model{suffix}"
        if suffix == ".onnx":
            tiny.save_onnx(path)
        elif suffix == ".pt2":
            tiny.save_exported(path, tiny.module(), 1, 64)
        elif suffix == ".safetensors":
            tiny.save_safetensors(path, tiny.module())
        else:
            tiny.save_skops(path, tiny.estimator())

    return make


def _make_followed(folder: Path) -> None:
    """A model of estimators whose numbers compiled code follows."""
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
        VotingClassifier,
    )
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    from ..targets import tiny_models as tiny

    x = np.random.default_rng(0).normal(size=(40, 4))
    parts = {
        "forest": RandomForestClassifier(2, max_depth=2, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=1, max_depth=2, random_state=0),
        "histograms": HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=5),
        "neighbours": KNeighborsClassifier(3, algorithm="kd_tree", leaf_size=5),
        "vectors": SVC(),
    }
    voting = VotingClassifier(list(parts.items())).fit(x, (x[:, 0] > 0) * 1 + (x[:, 1] > 0))
    tiny.save_skops(folder / "model.skops", voting)


def _read_model(suffix: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        from divulge.targets.files import fingerprint_file, open_target

        from ..targets import tiny_models as tiny

        path = folder / f"model{suffix}"
        factory = tiny.module if suffix == ".safetensors" else None
        target = open_target(path, "logits" if suffix != ".skops" else None, factory=factory)
        target.predict(tiny.X)
        fingerprint_file(path)

    return read


def _make_kept(folder: Path) -> None:
    """Answers of a model, and numbers of shadow models, as a run folder keeps them."""
    from divulge.targets.prediction_file import PredictionFile
    from divulge.training.shadows.store import RowFile

    answers = PredictionFile(folder / "answers.sqlite", "model")
    answers.append({bytes([k] * 16): np.full(2, k / 8).tobytes() for k in range(4)}, 2)
    rows = RowFile(folder, "kept", 3, 4)
    for k in range(3):
        rows.put(k, np.full(4, float(k)))


def _read_kept(folder: Path) -> None:
    from divulge.targets.prediction_file import PredictionFile
    from divulge.training.shadows.store import RowFile

    PredictionFile(folder / "answers.sqlite", "model").read()
    RowFile(folder, "kept", 3, 4)


def _make_reply(folder: Path) -> None:
    """A client's answer to Flower's server: arrays as bytes, what is said of them, and figures."""
    from ..federation import toy_flower as toy

    about = {}
    for name, array in toy.weights(1).items():
        np.save(folder / f"{name}.npy", array)
        about[name] = {"dtype": str(array.dtype), "shape": array.shape, "stype": "numpy.ndarray"}
    metrics = {"num-examples": 40, "loss": 0.5}
    (folder / "reply.json").write_text(json.dumps({"arrays": about, "metrics": metrics}))


def _read_reply(folder: Path) -> None:
    """What the recorder writes down of it, alone and behind a guardrail, is read again."""
    from divulge.defences import LocalNoise
    from divulge.federation import Transcript
    from divulge.federation.flower import Guardrail, Recorder, run_in_process

    from ..federation import toy_flower as toy

    content = _flower_reply(folder)
    guards = (None, Guardrail(0.0), Guardrail(0.0, "refuse"), Guardrail(0.0, LocalNoise(1, 0.1, 1)))
    for number, guard in enumerate(guards):
        client = toy.client_app(guard, lambda message, _: toy.reply(content, message))
        with _errors_logged():
            strategy = toy.Keeping(fraction_evaluate=0.0)
            recorder = Recorder(strategy, folder / f"transcript-{number}")
            run_in_process(toy.server_app(recorder, rounds=1), client, clients=2)
        for seen in Transcript.open(recorder.folder).rounds:
            assert seen.sent


def _flower_reply(folder: Path) -> Any:
    """The answer in a folder, as far as Flower itself lets such records be made."""
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

    from divulge.errors import DataError

    plain = {p.name: p for p in folder.iterdir() if p.is_file() and not p.is_symlink()}
    plain = {name: path for name, path in plain.items() if path.stat().st_size < 2**20}
    try:
        said = json.loads(plain["reply.json"].read_text())
        arrays = {
            name: Array(**{**about, "shape": tuple(about["shape"])}, data=path.read_bytes())
            for name, about in said["arrays"].items()
            if (path := plain.get(f"{name}.npy"))
        }
        return RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord(said["metrics"])})
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise DataError("expected records that Flower sends, got others: send those") from error


@contextlib.contextmanager
def _errors_logged() -> Iterator[None]:
    """Raise what the recorder or the guardrail caught, unless it is an error of ours."""
    caught: list[BaseException] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if error is not None and not isinstance(error, divulge.DivulgeError):
                caught.append(error)

    log, keep = logging.getLogger("divulge"), Keep()
    log.addHandler(keep)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # it says what it does, in colours
    try:
        yield
    finally:
        log.removeHandler(keep)
    for error in caught:
        raise error


SETTINGS = ("settings.toml",)

FORMATS: Mapping[str, Format] = {
    "settings-model": Format(_settings(MODEL), _load_model, SETTINGS),
    "settings-predictions": Format(_make_predictions, _audit_predictions),
    "settings-in-turn": Format(_settings(IN_TURN), _read_in_turn_settings, SETTINGS),
    "settings-compare": Format(_settings(COMPARE), _read_compare_settings, SETTINGS, ("opacus",)),
    "settings-federate": Format(_settings(FEDERATE), _read_federate_settings, SETTINGS, ("torch",)),
    "settings-updates": Format(_make_updates, _pose, SETTINGS, ("torch",)),
    "settings-interactions": Format(_make_films, _pose, ("settings.toml", "films.csv"), ("torch",)),
    "settings-assignment": Format(_make_clinics, _pose, ("settings.toml", "*.csv")),
    "run-membership": Format(_make_membership_run, _read_run),
    "run-in-turn": Format(_make_in_turn_run, _read_run),
    "run-comparison": Format(_make_comparison, _read_run),
    "run-composition": Format(_made_federation_run(_make_updates), _read_run, packages=("torch",)),
    "run-interactions": Format(_made_federation_run(_make_films), _read_run, packages=("torch",)),
    "run-assignment": Format(_made_federation_run(_make_clinics), _read_run),
    "transcript": Format(
        _make_transcript, _read_transcript, ("*.json", "*.safetensors"), ("torch",)
    ),
    "flower-reply": Format(_make_reply, _read_reply, packages=("flwr", "torch")),
    "npz": Format(_make_npz, _read_records(".npz")),
    "csv": Format(_make_table(".csv"), _read_records(".csv"), packages=("pandas",)),
    "parquet": Format(
        _make_table(".parquet"), _read_records(".parquet"), packages=("pandas", "pyarrow")
    ),
    "lines": Format(_make_queries, _read_queries),
    "published-lines": Format(_make_published_lines, _read_published_lines, packages=("PIL",)),
    "published-archives": Format(
        _make_published_archives, _read_published_archives, packages=("PIL",)
    ),
    "idx": Format(_make_idx, _read_idx),
    "onnx": Format(_make_model(".onnx"), _read_model(".onnx"), packages=("onnx", "onnxruntime")),
    "pt2": Format(_make_model(".pt2"), _read_model(".pt2"), packages=("torch",)),
    "safetensors": Format(
        _make_model(".safetensors"), _read_model(".safetensors"), packages=("torch",)
    ),
    "skops": Format(_make_model(".skops"), _read_model(".skops"), packages=("skops",)),
    "skops-followed": Format(_make_followed, _read_model(".skops"), packages=("skops",)),
    "kept": Format(_make_kept, _read_kept),
}
