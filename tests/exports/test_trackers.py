"""Runs in the stores of MLflow, Weights & Biases and Hugging Face, read by their own libraries."""

import functools
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, version
from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.core import Estimate
from divulge.errors import DataError, SpecError, StoreError
from divulge.exports.trackers.tracked import TrackedFigure, name_figures
from tests.exports import finished
from tests.golden import golden

ROOT = Path(__file__).parents[2]
os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false"}
WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
"""MLflow and wandb warn of what they use themselves."""


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A small run of a kind, made once by the real writers, with a stand-in for its report."""
    return finished.make_runs(tmp_path_factory, report=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """MLflow's local store, a file of SQLite."""
    pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    before = Path.cwd()
    os.chdir(folder)  # where MLflow puts artefacts
    yield f"sqlite:///{folder / 'mlflow.db'}"
    os.chdir(before)


call = functools.partial(finished.call, "export")


@WARNINGS
def test_mlflow_has_figures_verdict_and_report(make: Callable[[str], Path], store: str) -> None:
    from mlflow import MlflowClient

    run, client = make("run-membership"), MlflowClient(tracking_uri=store)
    call(run, "--mlflow", store)
    experiment = client.get_experiment_by_name("divulge")
    assert experiment is not None
    (held,) = client.search_runs([experiment.experiment_id])
    data = held.data
    assert held.info.status == "FINISHED"
    assert data.tags["divulge.version"] == version("divulge")
    found = divulge.load(run)
    assert isinstance(found, divulge.Audit)
    metrics = found.findings[0].metrics["auc"]
    name = next(name for name in data.metrics if name.endswith("/auc"))
    assert data.metrics[name] == metrics.value
    assert data.metrics[f"{name}.low"] == metrics.low
    assert data.tags["divulge.verdict"] == found.verdict.level
    files = client.list_artifacts(held.info.run_id, "divulge")
    assert f"divulge/{found.page}" in {one.path for one in files}
    assert not any("exposed" in one.path or "npz" in one.path for one in files)


@WARNINGS
def test_mlflow_that_cannot_be_reached_is_an_error_that_says_so(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    pytest.importorskip("mlflow")
    (tmp_path / "text.db").write_text("no database " * 100)
    for uri in ("nonsense://x", f"sqlite:///{tmp_path / 'text.db'}"):
        refused = call(make("run-membership"), "--mlflow", uri, code=2)
        assert "expected MLflow to take the run" in refused.stderr


def count_runs(store: str) -> int:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    return len(client.search_runs([one.experiment_id for one in client.search_experiments()]))


@WARNINGS
def test_nothing_is_written_where_one_output_cannot_be(
    make: Callable[[str], Path], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, before = make("run-membership"), count_runs(store)
    files = [tmp_path / name for name in ("x.xml", "x.sarif", "x.md", "README.md", "x.zip")]
    names = ("--junit", "--sarif", "--job-summary", "--model-card", "--archive")
    places = [word for pair in zip(names, files, strict=True) for word in pair]
    for wandb, mlflow, message in (
        (tmp_path / "none", store, "expected a folder at"),
        (tmp_path, "nonsense://x", "expected MLflow to take the run"),
    ):
        trackers = ("--mlflow", mlflow, "--wandb", wandb)
        assert message in call(run, *places, *trackers, "--fail-on", "leak", code=2).stderr
        assert not list(tmp_path.iterdir())
    for package in ("wandb", "mlflow"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            trackers = ("--mlflow", store, "--wandb", tmp_path)
            assert ".[report]" in call(run, *places, *trackers, code=2).stderr
        assert not list(tmp_path.iterdir())
    assert count_runs(store) == before


@WARNINGS
def test_an_experiment_that_was_deleted_is_refused_before_anything_is_written(
    make: Callable[[str], Path], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    client.delete_experiment(client.create_experiment("gone"))
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "gone")
    place = tmp_path / "x.xml"
    refused = call(make("run-membership"), "--junit", place, "--mlflow", store, code=2)
    assert "got 'gone', which was deleted" in refused.stderr
    assert not place.exists()


@WARNINGS
def test_a_tracker_that_fails_late_is_named_beside_what_was_written(
    make: Callable[[str], Path], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no space on the server")

    monkeypatch.setattr("divulge.exports.trackers.mlflow_runs.add", fail)
    place = tmp_path / "x.xml"
    refused = call(make("run-membership"), "--junit", place, "--mlflow", store, code=2).stderr
    assert "no space on the server" in refused
    assert f"(written: {place}; not written: a run of MLflow)" in refused


@WARNINGS
def test_wandb_has_an_offline_run_and_nothing_of_the_machine(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    wandb = pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    run = make("run-membership")
    call(run, "--wandb", tmp_path)
    wandb.teardown()  # waits until all is written
    (place,) = (tmp_path / "wandb").glob("offline-run-*")
    (stored,) = place.glob("*.wandb")
    content = DataStore()
    content.open_for_scan(str(stored))
    records = []
    while (raw := content.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(raw)
        records.append(record)
    content.close()
    figures = {
        item.key or "/".join(item.nested_key): item.value_json
        for record in records
        for item in record.summary.update
    }
    found = divulge.load(run).findings[0].metrics["auc"].value
    assert any(
        name.endswith("/auc") and float(value) == found for name, value in figures.items()
    ), (figures, found)
    settings = {
        item.key: item.value_json
        for record in records
        for item in record.run.config.update
        if not item.key.startswith("_")
    }
    assert settings["divulge.verdict"] == '"leak"'
    page = place / "files" / "report.html"
    assert page.read_bytes() == (run / "report.html").read_bytes()
    sent = {one.path for record in records for one in record.files.files}
    assert "report.html" in sent
    assert not any(record.run.host or record.run.git.commit for record in records)
    refused = call(run, "--wandb", tmp_path / "none", code=2)
    assert "expected a folder at" in refused.stderr


def test_the_metadata_of_a_model_card_have_figures_which_the_next_replace(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    from huggingface_hub import ModelCard

    place = tmp_path / "README.md"
    place.write_text("---\nlicense: mit\ntags:\n- tabular\n---\n\n# Mine\n\nText.\n")
    run = make("run-membership")
    call(run, "--model-card", place, "--model-index", "mine")
    once = place.read_text(encoding="utf-8")
    call(run, "--model-card", place, "--model-index", "mine")
    assert place.read_text(encoding="utf-8") == once
    card = ModelCard.load(place, ignore_metadata_errors=False)
    assert card.data.license == "mit"
    assert card.data.model_name == "mine"
    assert card.data.eval_results is not None
    found = divulge.load(run)
    assert isinstance(found, divulge.Audit)
    assert len(card.data.eval_results) == len(found.figures())
    for result, (label, metrics) in zip(
        card.data.eval_results, found.figures().items(), strict=True
    ):
        assert result.metric_type == "auc"
        assert result.metric_value == round(metrics["auc"].value, 4)
        assert result.metric_name is not None
        assert result.metric_name.startswith(f"{label}: auc 0.")
        assert "95 % interval" in result.metric_name
    assert card.text.count("## Privacy audit") == 1
    call(run, "--model-card", tmp_path / "new.md", "--model-index", "mine")
    assert ModelCard.load(tmp_path / "new.md").data.model_name == "mine"
    place.write_text("---\nmodel-index: 3\n---\n# Mine\n")
    before = place.read_bytes()
    assert "metadata" in call(run, "--model-card", place, "--model-index", "x", code=2).stderr
    assert place.read_bytes() == before
    with pytest.raises(SpecError, match="add --model-card"):
        divulge.export(run, model_index="mine", junit=tmp_path / "junit.xml")


def test_a_run_without_its_report_is_refused(make: Callable[[str], Path], tmp_path: Path) -> None:
    run = make("run-membership")
    page = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    try:
        with pytest.raises(StoreError, match="divulge report"):
            divulge.export(run, wandb=tmp_path)
    finally:
        (run / "report.html").write_bytes(page)
    assert not (tmp_path / "wandb").exists()


def test_names_that_differ_in_odd_characters_alone_stay_two() -> None:
    same = Estimate(0.5, 0.4, None)
    odd = ["a(b)", "a[b]", "..", "/", "\N{SNOWMAN}"]
    named = name_figures(tuple(TrackedFigure("", one, "auc", same, False, True) for one in odd))
    other = name_figures((TrackedFigure("DP-SGD", "gap", "auc", same, True, True),))
    assert other == {"DP-SGD/gap/auc": 0.5}
    assert len(named) == 2 * len(odd)
    assert "a_b/auc" in named
    assert "a_b/auc_2" in named
    assert "unnamed/auc_3.low" in named


@WARNINGS
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_mlflow_evaluates_with_the_plugin(store: str) -> None:
    import mlflow
    import pandas as pd
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry
    from sklearn.tree import DecisionTreeClassifier

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    group = "mlflow.model_evaluator"  # installed or not, as declared
    plugin = EntryPoint("divulge", project["entry-points"][group]["divulge"], group)
    _model_evaluation_registry.register("divulge", plugin.load())
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    frame["label"] = np.arange(120) % 2
    member = np.arange(120) < 60
    columns = ["a", "b", "c"]
    tree = DecisionTreeClassifier(random_state=0).fit(frame[columns][member], frame.label[member])

    def answer(asked: pd.DataFrame) -> np.ndarray:
        assert list(asked.columns) == columns
        return np.asarray(tree.predict_proba(asked))

    mlflow.set_tracking_uri(store)
    evaluate = functools.partial(
        mlflow.models.evaluate,
        answer,
        frame,
        targets="label",
        model_type="classifier",
        evaluators="divulge",
    )
    with mlflow.start_run() as run:
        result = evaluate(evaluator_config={"member": member})
    stored = mlflow.get_run(run.info.run_id).data
    assert stored.metrics == result.metrics
    assert stored.tags["divulge.verdict"] == "leak"
    assert result.metrics["threshold_signal_loss/auc.low"] == golden(0.5832)
    for wrong, error in (
        ({"member": member.astype(int)}, DataError),
        ({"member": member[1:]}, DataError),
        ({}, SpecError),
        ({"member": member, "attack": 1}, SpecError),
    ):
        with pytest.raises(error):
            evaluate(evaluator_config=wrong)
