import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest
from sklearn.preprocessing import FunctionTransformer

from divulge.data import tables
from divulge.errors import DataError, TargetError
from divulge.targets import predictions
from divulge.targets.files import fingerprint_file, load_target, open_target
from divulge.targets.torch import TorchTarget

from . import tiny_models as tiny

SUFFIXES = (".onnx", ".pt2", ".safetensors", ".skops")


def _load(path: Path) -> Any:
    for package in ("onnxruntime", "torch", "safetensors", "skops"):
        pytest.importorskip(package)
    return open_target(path, "probabilities", factory=tiny.module)


class Payload:
    """Creates a file when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("format_", ["pickle", "torch"])
def test_a_pickle_in_disguise_is_not_opened(suffix: str, format_: str, tmp_path: Path) -> None:
    path, mark = tmp_path / f"model{suffix}", tmp_path / "executed"
    if format_ == "pickle":
        path.write_bytes(pickle.dumps(Payload(mark)))
    else:
        pytest.importorskip("torch").save(Payload(mark), path)
    with pytest.raises(TargetError, match=r"expected .*, got .*: "):
        _load(path)
    assert not mark.exists()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_pickle_in_the_disguise_of_a_table_is_not_opened(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path, mark = tmp_path / f"table{suffix}", tmp_path / "executed"
    path.write_bytes(pickle.dumps(Payload(mark)))
    with pytest.raises(DataError, match="expected"):
        predictions.read_predictions(path)
    with pytest.raises(DataError, match="expected"):
        tables.read_columns(path, ["label"])
    assert not mark.exists()


@pytest.mark.parametrize(
    ("suffix", "way_out"),
    [
        (".pkl", "skops.io.dump"),
        (".pickle", "skops.io.dump"),
        (".joblib", "skops.io.dump"),
        (".pt", "torch.export.save"),
        (".pth", "safetensors.torch.save_file"),
        (".csv", "divulge.audit_predictions"),
        (".mlmodel", "pass a function"),
        ("", "pass a function"),
    ],
)
def test_other_formats_are_refused_with_the_way_out(
    suffix: str, way_out: str, tmp_path: Path
) -> None:
    path, mark = tmp_path / f"model{suffix}", tmp_path / "executed"
    path.write_bytes(pickle.dumps(Payload(mark)))
    with pytest.raises(TargetError, match=way_out):
        load_target(path, "logits")
    assert not mark.exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_and_empty_files_are_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    with pytest.raises(TargetError, match="there is none"):
        _load(path)
    path.touch()
    with pytest.raises(TargetError, match="an empty file"):
        _load(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    for package in ("onnx", "torch", "safetensors", "skops"):
        pytest.importorskip(package)
    return {
        ".onnx": tiny.save_onnx(folder / "model.onnx"),
        ".pt2": tiny.save_exported(folder / "model.pt2", tiny.module(), low=0),
        ".safetensors": tiny.save_safetensors(folder / "model.safetensors", tiny.module()),
        ".skops": tiny.save_skops(folder / "model.skops", tiny.estimator()),
    }


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_truncated_files_are_refused(
    suffix: str, share: float, whole: dict[str, Path], tmp_path: Path
) -> None:
    content = whole[suffix].read_bytes()
    path = tmp_path / f"model{suffix}"
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(TargetError, match="expected"):
        _load(path)


@pytest.mark.parametrize("suffix", [".pt2", ".safetensors"])
def test_networks_do_not_say_what_they_return(suffix: str, whole: dict[str, Path]) -> None:
    with pytest.raises(TargetError, match='pass output="logits" or output="probabilities"'):
        load_target(whole[suffix], factory=tiny.module)


def test_weights_need_their_network(whole: dict[str, Path]) -> None:
    with pytest.raises(TargetError, match="pass factory="):
        load_target(whole[".safetensors"], "logits")


def test_weights_of_another_network_are_refused(whole: dict[str, Path]) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TargetError, match=r"size mismatch.*check both belong together"):
        load_target(whole[".safetensors"], "logits", factory=lambda: torch.nn.Linear(4, 2))
    with pytest.raises(TargetError, match="Missing key"):
        load_target(
            whole[".safetensors"],
            "logits",
            factory=lambda: torch.nn.Sequential(tiny.module(), torch.nn.BatchNorm1d(3)),
        )


def test_weights_that_are_shared_are_loaded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("safetensors")

    def tied() -> Any:
        layer = torch.nn.Linear(4, 4)
        return torch.nn.Sequential(layer, layer)

    model = tied()
    path = tiny.save_safetensors(tmp_path / "tied.safetensors", model)
    loaded = load_target(path, "logits", factory=tied)
    assert (loaded.predict(tiny.X) == TorchTarget(model, "logits").predict(tiny.X)).all()


def test_types_that_skops_does_not_trust_are_listed(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    path = tiny.save_skops(tmp_path / "model.skops", FunctionTransformer(tiny.logits))
    with pytest.raises(TargetError, match=r"tiny_models\.logits"):
        open_target(path)


def test_what_skops_holds_must_be_a_classifier(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    with pytest.raises(TargetError, match="fitted classifier"):
        open_target(tiny.save_skops(tmp_path / "list.skops", [1, 2]))


def test_the_fingerprint_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"content")
    assert fingerprint_file(path) == hashlib.blake2b(b"content").hexdigest()
    with pytest.raises(TargetError, match="there is none"):
        fingerprint_file(tmp_path / "missing")
