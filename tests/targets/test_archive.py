"""Ways to run code from a .pt2 file; each works on torch.export.load, none of them on us."""

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.errors import TargetError
from divulge.targets.files import open_target

from . import tiny_models as tiny

torch: Any = pytest.importorskip("torch")

Records = dict[str, bytes]
Attack = Callable[[Records, Any, Path], None]


class Payload:
    """Creates a file when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def _code(mark: Path) -> str:
    return f"__import__('pathlib').Path({str(mark)!r}).touch()"


def _saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _pickled_weight(records: Records, program: Any, mark: Path) -> None:
    config = json.loads(records["data/weights/model_weights_config.json"])
    config["config"]["weight"]["use_pickle"] = True
    records["data/weights/model_weights_config.json"] = json.dumps(config).encode()
    records["data/weights/weight_0"] = _saved(Payload(mark))


def _opaque_constant(records: Records, program: Any, mark: Path) -> None:
    meta = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    config = {"config": {"c": meta}}
    records["data/constants/model_constants_config.json"] = json.dumps(config).encode()
    records["data/constants/opaque_obj_0"] = pickle.dumps(Payload(mark))


def _sample_inputs(records: Records, program: Any, mark: Path) -> None:
    records["data/sample_inputs/model.pt"] = _saved((Payload(mark),))


def _size(records: Records, program: Any, mark: Path) -> None:
    size = {"as_expr": {"expr_str": _code(mark), "hint": None}}
    program["graph_module"]["graph"]["tensor_values"]["input"]["sizes"][0] = size


def _name(records: Records, program: Any, mark: Path) -> None:
    # A default value in the signature that is generated from the names of the inputs.
    name = f"input={_code(mark)}"
    old, new = json.dumps({"name": "input"}), json.dumps({"name": name})
    text = json.dumps(program).replace(old, new).replace('"input": {', f"{json.dumps(name)}: {{")
    program.clear()
    program |= json.loads(text)


def _guard(records: Records, program: Any, mark: Path) -> None:
    program["guards_code"] = [_code(mark)]


def _operator(records: Records, program: Any, mark: Path) -> None:
    # Maps a file into memory, and creates it first.
    settings = {"filename": {"as_string": str(mark)}, "shared": {"as_bool": True}}
    settings["size"] = {"as_int": 4}
    inputs = [{"name": name, "arg": arg, "kind": 1} for name, arg in settings.items()]
    node: dict[str, Any] = {
        "target": "torch.ops.aten.from_file.default",
        "inputs": inputs,
        "outputs": [{"as_tensor": {"name": "mapped"}}],
        "metadata": {},
        "is_hop_single_tensor_return": None,
        "name": "mapped",
    }
    graph = program["graph_module"]["graph"]
    graph["nodes"].insert(0, node)
    graph["tensor_values"]["mapped"] = graph["tensor_values"]["p_bias"]


def _import(records: Records, program: Any, mark: Path) -> None:
    (mark.parent / "payload_module.py").write_text(_code(mark))
    spec = program["graph_module"]["module_call_graph"][0]["signature"]
    enum = {"__enum__": True, "fqn": "payload_module:Kind", "name": "A"}
    leaf = {"type": "builtins.tuple", "context": json.dumps(enum), "children_spec": []}
    spec["out_spec"] = json.dumps([1, leaf])


ATTACKS: dict[str, Attack] = {
    "pickled weight": _pickled_weight,
    "opaque constant": _opaque_constant,
    "sample inputs": _sample_inputs,
    "size": _size,
    "name": _name,
    "guard": _guard,
    "operator": _operator,
    "import": _import,
}
LEFT_OUT = ("sample inputs", "guard")
each = pytest.mark.parametrize("name", ATTACKS)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    return tiny.save_exported(folder / "clean.pt2", tiny.module(), low=0)


def _rewrite(clean: Path, path: Path, change: Callable[[Records, Any], None]) -> Path:
    with zipfile.ZipFile(clean) as archive:
        records = {n.split("/", 1)[1]: archive.read(n) for n in archive.namelist()}
    program = json.loads(records["models/model.json"])
    change(records, program)
    records["models/model.json"] = json.dumps(program).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"model/{name}", content)
    return path


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Is there once a payload ran."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "executed"


@each
def test_the_attack_is_real(name: str, clean: Path, mark: Path) -> None:
    path = _rewrite(clean, mark.with_suffix(".pt2"), lambda r, p: ATTACKS[name](r, p, mark))
    # Most payloads run before torch notices that something is wrong.
    with contextlib.suppress(Exception):
        torch.export.load(path).module()(torch.zeros(5, 4))
    if not mark.exists():
        pytest.skip("this version of torch does not fall for it")


@each
def test_nothing_runs(name: str, clean: Path, mark: Path) -> None:
    path = _rewrite(clean, mark.with_suffix(".pt2"), lambda r, p: ATTACKS[name](r, p, mark))
    if name in LEFT_OUT:
        answers = open_target(path, "logits").predict(tiny.X)
        np.testing.assert_allclose(answers, tiny.probabilities(tiny.X), atol=1e-6)
    else:
        with pytest.raises(TargetError, match="which could run code: export it to ONNX"):
            open_target(path, "logits")
    assert not mark.exists()


def _machine_code(records: Records, program: Any) -> None:
    records["data/aotinductor/model/model.so"] = b"\x7fELF"


def _no_weights(records: Records, program: Any) -> None:
    del records["data/weights/weight_0"]


def _no_program(records: Records, program: Any) -> None:
    program.clear()


def _no_inputs(records: Records, program: Any) -> None:
    del program["graph_module"]["signature"]["input_specs"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_no_inputs, "to be an exported program, got KeyError"),
        (_machine_code, "compiled machine code"),
        (_no_weights, "to be a .pt2 archive, got KeyError"),
        (_no_program, "to be a .pt2 archive, got KeyError"),
    ],
)
def test_odd_archives_are_refused(
    change: Callable[[Records, Any], None], message: str, clean: Path, tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match=message):
        open_target(_rewrite(clean, tmp_path / "odd.pt2", change), "logits")


def test_compressed_archives_are_refused(clean: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.pt2"
    with (
        zipfile.ZipFile(clean) as archive,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for name in archive.namelist():
            small.writestr(name, archive.read(name))
    with pytest.raises(TargetError, match="compressed records"):
        open_target(path, "logits")
