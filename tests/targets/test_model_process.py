"""Model files are loaded and queried in a process of their own, which is ended at its limits."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from divulge.core import Need
from divulge.errors import MissingExtra, SpecError, TargetError
from divulge.targets import model_process
from divulge.targets.files import load_target, open_target
from divulge.targets.model_process import LENGTH, IsolatedTarget
from divulge.targets.outputs import access_of
from tests.slow import slow

from ..patience import PATIENCE
from . import tiny_models as tiny


def _saved(suffix: str, folder: Path) -> Path:
    for package in {".onnx": ("onnxruntime", "onnx"), ".pt2": ("torch",), ".skops": ("skops",)}[
        suffix
    ]:
        pytest.importorskip(package)
    path = folder / f"model{suffix}"
    if suffix == ".onnx":
        return tiny.save_onnx(path)
    if suffix == ".pt2":
        return tiny.save_exported(path, tiny.module(), low=0)
    return tiny.save_skops(path, tiny.estimator())


@pytest.mark.parametrize("suffix", [".onnx", slow(".pt2"), slow(".skops")])
def test_answers_are_those_of_the_same_process_bit_for_bit(suffix: str, tmp_path: Path) -> None:
    path = _saved(suffix, tmp_path)
    output: Any = "logits" if suffix == ".pt2" else None
    isolated, within = load_target(path, output), open_target(path, output)
    assert isinstance(isolated, IsolatedTarget)
    x = np.random.default_rng(0).normal(size=(3000, tiny.X.shape[1])).astype(tiny.X.dtype)
    for records in (x, x[:1], x[::-2]):
        np.testing.assert_array_equal(isolated.predict(records), within.predict(records))
    assert isolated.offers == within.offers
    isolated.predict(x[:1])[0] = 0  # as of any target, answers belong to whoever asked


@pytest.mark.slow
def test_a_pipeline_takes_frames_and_says_its_columns_and_classes(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("skops")
    from sklearn.tree import DecisionTreeClassifier

    from divulge.targets.model_facts import class_labels, describe_model, feature_names

    frame = pandas.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "size": [4.0, 3.0, 2.0, 1.0]})
    tree = DecisionTreeClassifier(random_state=0).fit(frame, ["cat", "dog", "cat", "dog"])
    isolated = load_target(tiny.save_skops(tmp_path / "tree.skops", tree))
    np.testing.assert_array_equal(
        isolated.predict(frame[["size", "age"]]), tree.predict_proba(frame)
    )
    assert describe_model(isolated) == "DecisionTreeClassifier"
    assert feature_names(isolated) == ("age", "size")
    assert class_labels(isolated) == ("cat", "dog")
    assert isinstance(isolated, IsolatedTarget)
    assert isolated.takes_frames


def _loop(path: Path) -> Path:
    """An ONNX model whose loop never ends."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    make, kind = onnx.helper, onnx.TensorProto
    body = make.make_graph(
        [
            make.make_node("Identity", ["go_on"], ["goes_on"]),
            make.make_node("Identity", ["value"], ["same"]),
        ],
        "body",
        [
            make.make_tensor_value_info("number", kind.INT64, []),
            make.make_tensor_value_info("go_on", kind.BOOL, []),
            make.make_tensor_value_info("value", kind.FLOAT, None),
        ],
        [
            make.make_tensor_value_info("goes_on", kind.BOOL, []),
            make.make_tensor_value_info("same", kind.FLOAT, None),
        ],
    )
    graph = make.make_graph(
        [
            make.make_node("Loop", ["", "yes", "x"], ["z"], body=body),
            make.make_node("Softmax", ["z"], ["p"]),
        ],
        "endless",
        [make.make_tensor_value_info("x", kind.FLOAT, ["n", 4])],
        [make.make_tensor_value_info("p", kind.FLOAT, ["n", 4])],
        [make.make_tensor("yes", kind.BOOL, [], [True])],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def test_an_endless_loop_is_ended_and_named(tmp_path: Path) -> None:
    path = _loop(tmp_path / "endless.onnx")
    target = load_target(path, time_limit=PATIENCE)
    assert isinstance(target, IsolatedTarget)
    target._time_limit = 0.5  # loading had the patience of a busy machine
    message = (
        r"endless\.onnx to answer about 3 records within 0\.5 s.*raise time_limit in \[target\]"
    )
    for _ in range(2):  # a second question does not wait again
        with pytest.raises(TargetError, match=message):
            target.predict(np.ones((3, 4), np.float32))
    assert target._process.returncode is not None


def test_a_file_that_takes_long_to_load_is_given_up(tmp_path: Path) -> None:
    path = _saved(".onnx", tmp_path)
    with pytest.raises(TargetError, match=r"model\.onnx to be loaded within 0\.001 s"):
        load_target(path, time_limit=0.001)


def test_a_batch_has_the_time_limit_and_more_records_have_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []

    def request(target: IsolatedTarget, content: np.ndarray, limit: float, what: str) -> Any:
        del target, content
        limits.append(limit)
        raise TargetError(what)

    monkeypatch.setattr(IsolatedTarget, "_request", request)
    target = IsolatedTarget.__new__(IsolatedTarget)
    target._batch_size, target._time_limit = 100, 2.0
    for count in (1, 100, 101, 1000):
        with pytest.raises(TargetError):
            target.predict(np.ones((count, 2)))
    assert limits == [2.0, 2.0, 4.0, 20.0]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory")
def test_memory_is_limited_and_the_variable_named(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    make, kind = onnx.helper, onnx.TensorProto
    graph = make.make_graph(
        [
            make.make_node("ConstantOfShape", ["shape"], ["zeros"]),
            make.make_node("ReduceSum", ["zeros"], ["zero"], keepdims=1),
            make.make_node("Mul", ["x", "zero"], ["z"]),
            make.make_node("Softmax", ["z"], ["p"]),
        ],
        "large",
        [make.make_tensor_value_info("x", kind.FLOAT, ["n", 4])],
        [make.make_tensor_value_info("p", kind.FLOAT, ["n", 4])],
        [make.make_tensor("shape", kind.INT64, [2], [10**11, 1])],
    )
    path = tmp_path / "large.onnx"
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    with pytest.raises(TargetError, match=r"17,179,869,184 bytes.*DIVULGE_MAX_BYTES"):
        load_target(path, time_limit=PATIENCE).predict(np.ones((3, 4), np.float32))


@pytest.mark.slow
def test_damaged_files_print_nothing_of_their_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = _saved(".pt2", tmp_path).read_bytes()
    path = tmp_path / "damaged.pt2"
    at = whole.index(b'"graph"')
    path.write_bytes(whole[:at] + b'"grape"' + whole[at + 7 :])
    with pytest.raises(TargetError, match=r"expected .*damaged\.pt2"):
        load_target(path, "logits", time_limit=PATIENCE)
    assert capfd.readouterr() == ("", "")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _saved(".onnx", tmp_path)
    hidden = "import sys; sys.modules['onnxruntime'] = None; "
    monkeypatch.setattr(model_process, "_CODE", hidden + model_process._CODE)
    with pytest.raises(MissingExtra, match="'onnxruntime' to be installed"):
        load_target(path, time_limit=PATIENCE)


def test_the_process_ends_with_the_target(tmp_path: Path) -> None:
    target = load_target(_saved(".onnx", tmp_path), time_limit=PATIENCE)
    assert isinstance(target, IsolatedTarget)
    process = target._process
    assert process.poll() is None
    del target
    assert process.poll() is not None


@pytest.mark.slow
def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    """However the parent ends, and whatever its model is doing."""
    path = _loop(tmp_path / "endless.onnx")
    code = f"""
        import sys, threading
        import numpy as np
        sys.path[:] = {sys.path!r}
        from divulge.targets.files import load_target
        target = load_target({str(path)!r}, time_limit={PATIENCE})
        print(target._process.pid, flush=True)
        target.predict(np.ones((3, 4), np.float32))
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    gone, _ = psutil.wait_procs([child], timeout=PATIENCE)
    assert gone


# What a hostile process may send.

GOOD = {"offers": access_of("probabilities").value, "takes_frames": False,
        "text": "model", "features": [], "classes": [], "kind": "", "packages": []}  # fmt: skip


def _message(header: Any, body: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return LENGTH.pack(len(raw)) + raw + LENGTH.pack(len(body)) + body


def _hostile(monkeypatch: pytest.MonkeyPatch, folder: Path, *replies: bytes) -> IsolatedTarget:
    """A target whose process sends these bytes, whatever it is asked."""
    code = f"""
        import sys
        for reply in {replies!r}:
            size = int.from_bytes(sys.stdin.buffer.read(8), "little")
            sys.stdin.buffer.read(size)
            sys.stdout.buffer.write(reply)
            sys.stdout.buffer.flush()
        sys.stdin.buffer.read()
    """
    monkeypatch.setattr(model_process, "_CODE", textwrap.dedent(code))
    return IsolatedTarget(folder / "model.onnx", {}, 1024, PATIENCE)


@pytest.mark.parametrize(("code", "how"), [("", "status 0"), ("raise SystemExit(3)", "status 3")])
def test_a_process_that_ends_by_itself_is_told_by_its_status(
    code: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_process, "_CODE", code)
    with pytest.raises(TargetError, match=rf"its process ended instead \({how}\)"):
        IsolatedTarget(tmp_path / "model.onnx", {}, 1024, PATIENCE)


def _answers(*shape: int, value: float = 0.5, size: int | None = None) -> bytes:
    count = int(np.prod(shape)) if size is None else size
    return _message({"shape": shape}, np.full(count, value).tobytes())


REPLIES: dict[str, bytes] = {
    "a header that is too long": LENGTH.pack(2**40) + b"x",
    "no JSON": _message(b"cposix\nsystem\n"),
    "a list": _message([1]),
    "a key twice": _message(b'{"shape": [3, 2], "shape": [3, 2]}'),
    "no shape": _message({}),
    "too few bytes": _answers(3, 2, size=5),
    "too many bytes": _answers(3, 2, size=7),
    "other records": _answers(2, 2),
    "no classes": _message({"shape": [3, 0]}),
    "one column": _answers(3, 1),
    "three axes": _answers(3, 2, 1),
    "a negative size": _answers(-1, -1, size=6),
    "no whole size": _message({"shape": [3, 2.5]}, bytes(48)),
    "a text as shape": _message({"shape": "ab"}, bytes(48)),
    "no probabilities": _answers(3, 2, value=7.0),
    "no numbers": _answers(3, 2, value=np.nan),
    "nothing but an end": b"",
}


def test_a_message_may_be_as_long_as_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    path.write_bytes(LENGTH.pack(3) + b"abc")
    with path.open("rb") as sent:
        assert model_process._read_message(sent, 3) == b"abc"
    with path.open("rb") as sent, pytest.raises(ValueError, match="a message of 3 bytes"):
        model_process._read_message(sent, 2)


@pytest.mark.parametrize("reply", REPLIES)
def test_what_a_hostile_process_sends_is_refused(
    reply: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = REPLIES[reply]
    target = _hostile(monkeypatch, tmp_path, _message(GOOD), *([last] if last else []))
    if not last:
        target._process.kill()
    with pytest.raises(TargetError, match="expected"):
        target.predict(np.ones((3, 2)))


def test_what_an_honest_process_sends_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = _hostile(monkeypatch, tmp_path, _message(GOOD), _answers(3, 2))
    np.testing.assert_array_equal(target.predict(np.ones((3, 2))), np.full((3, 2), 0.5))


@pytest.mark.parametrize(
    "change",
    [{"offers": -1}, {"offers": Need.AUTOGRAD.value}, {"offers": []}, {"features": 7},
     {"classes": [[1]]}, {"classes": [None]}, {"text": None, "features": None},
     {"kind": "a secret"}, {"kind": []}, {"packages": 3}],
)  # fmt: skip
def test_a_model_that_is_described_wrongly_is_refused(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TargetError, match="its process sent something else"):
        _hostile(monkeypatch, tmp_path, _message({**GOOD, **change}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("SpecError", SpecError), ("TargetError", TargetError), ("SystemExit", TargetError),
     ("did_you_mean", TargetError), ("__builtins__", TargetError)],
)  # fmt: skip
def test_errors_are_of_divulges_own_classes_and_fit_to_be_shown(
    name: str, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = _message({"error": name, "text": "expected \x1b[31m" + "x" * 10_000})
    with pytest.raises(kind) as caught:
        _hostile(monkeypatch, tmp_path, reply)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) <= 2000


def test_a_header_of_very_many_tensors_is_refused_at_once(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    pytest.importorskip("torch")
    entry = '"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    header = ("{" + ",".join(entry.format(at) for at in range(10**6)) + "}").encode()
    path = tmp_path / "many.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    begun = time.process_time()
    with pytest.raises(TargetError, match=r"at most 16,777,216 bytes of the header of .*many"):
        load_target(path, "logits", factory=tiny.module)
    assert time.process_time() - begun < 30  # reading it takes minutes


def test_a_tensor_that_stands_twice_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    path = tiny.save_safetensors(tmp_path / "tiny.safetensors", tiny.module())
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + length].rstrip()
    name, value = next(iter(json.loads(header).items()))
    twice = header[:-1] + f",{json.dumps(name)}:{json.dumps(value)}}}".encode()
    path.write_bytes(len(twice).to_bytes(8, "little") + twice + whole[8 + length :])
    with pytest.raises(TargetError, match="stands twice in one object"):
        load_target(path, "logits", factory=tiny.module)


def test_the_process_is_this_python_in_isolation(tmp_path: Path) -> None:
    """Neither the folder of the file nor that of the user is searched for modules."""
    path = _saved(".onnx", tmp_path)
    for name in ("json.py", "onnxruntime.py", "divulge.py"):
        (tmp_path / name).write_text("raise SystemExit('a stranger')")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        load_target(path, time_limit=PATIENCE).predict(tiny.X)
    finally:
        os.chdir(before)
