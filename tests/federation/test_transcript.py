"""The transcript: what is written is read again, and what a stranger wrote does no harm."""

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from divulge.core import Guarantee, LocalTraining, MaskedSum, Need, ReceivedUpdate, Round
from divulge.errors import DataError, NotApplicable, SpecError, StoreError
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.reader import Transcript
from divulge.federation.transcript.writer import Writer

SHAPES = {"conv.weight": (2, 1, 3, 3), "fc.bias": (4,), "steps": ()}
HEADER = Header("toy", "weights", SHAPES, "fedavg", {"alpha": 0.5})


def tensors(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "conv.weight": rng.normal(size=(2, 1, 3, 3)).astype(np.float32),
        "fc.bias": rng.normal(size=4).astype(np.float32),
        "steps": np.array(seed, np.int64),
    }


def seen(number: int) -> Round:
    guarantee = Guarantee(2.0, 1e-5, "DP-SGD")
    return Round(
        number,
        "weights",
        tensors(number),
        {
            "ann": ReceivedUpdate(tensors(10 + number), 120, guarantee),
            "bob": ReceivedUpdate(tensors(20 + number), None),
        },
        training=LocalTraining("sgd", 0.1, epochs=2, batch_size=32),
        aggregated=tensors(number + 1),
        metrics={"accuracy": 0.5, "loss": float("nan")},
    )


def written(folder: Path, rounds: int = 2) -> Path:
    writer = Writer.begin(folder, HEADER)
    for number in range(rounds):
        writer.add(seen(number))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def same(one: Any, other: Any) -> None:
    assert list(one) == list(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        np.testing.assert_array_equal(array, other[name])


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def retensor(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    """Other tensors in the first round, with the size and checksum that belong to them."""
    path = folder / "round-0000.safetensors"
    arrays = load_file(path)
    change(arrays)
    data = save(arrays)
    path.write_bytes(data)
    proof = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit(folder / "round-0000.json", lambda entry: entry.update(proof))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    there = Transcript.open(written(tmp_path / "t"))
    assert there.header == HEADER
    assert len(there.rounds) == 2
    for number, read in enumerate(there.rounds):
        expected = seen(number)
        same(read.sent, expected.sent)
        assert read.aggregated is not None
        assert expected.aggregated is not None
        same(read.aggregated, expected.aggregated)
        assert list(read.received) == ["ann", "bob"]
        for client, update in expected.received.items():
            same(read.received[client].tensors, update.tensors)
            assert read.received[client].records == update.records
            assert read.received[client].guarantee == update.guarantee
        assert read.training == expected.training
        assert read.metrics["accuracy"] == 0.5
        assert np.isnan(read.metrics["loss"])


def test_a_round_goes_to_another_process_without_the_open_file(tmp_path: Path) -> None:
    read = Transcript.open(written(tmp_path / "t")).rounds[1]
    sent = pickle.dumps(read)
    shutil.rmtree(tmp_path / "t")
    there = pickle.loads(sent)  # noqa: S301 (what this test has just packed)
    expected = seen(1)
    same(there.sent, expected.sent)
    same(there.received["ann"].tensors, expected.received["ann"].tensors)
    assert there.clients == expected.clients


def test_transposed_and_empty_arrays_are_written_as_they_are(tmp_path: Path) -> None:
    header = Header("t", "update", {"w": (3, 2), "none": (0, 2)})
    arrays = {"w": np.arange(6.0).reshape(2, 3).T, "none": np.empty((0, 2), np.float16)}
    Writer.begin(tmp_path / "t", header).add(Round(0, "update", arrays, {}))
    same(Transcript.open(tmp_path / "t").rounds[0].sent, arrays)


def test_tensors_are_written_as_safetensors_writes_them(tmp_path: Path) -> None:
    kinds = [np.float16, np.uint8, np.int64, np.bool_, np.float64, np.int8, np.int16, np.int32]
    arrays: dict[str, np.ndarray] = {
        f"t{k}": np.arange(k).astype(kind) for k, kind in enumerate(kinds)
    }
    arrays |= {"b": np.zeros((2, 0)), "a": np.array(3.0), "w": np.ones((2, 3), np.float32)}
    header = Header("t", "update", {name: array.shape for name, array in arrays.items()})
    Writer.begin(tmp_path / "t", header).add(Round(0, "update", arrays, {}))
    expected = save({f"sent/{name}": array for name, array in arrays.items()})
    assert (tmp_path / "t" / "round-0000.safetensors").read_bytes() == expected


def test_the_same_rounds_are_the_same_bytes(tmp_path: Path) -> None:
    one, other = written(tmp_path / "one"), written(tmp_path / "other")
    assert contents(one) == contents(other)


def test_a_round_under_secure_aggregation_shows_the_sum_and_whose_it_is(tmp_path: Path) -> None:
    masked = MaskedSum(("ann", "bob"), tensors(7), 300)
    round_ = replace(seen(0), received={}, masked=masked)
    Writer.begin(tmp_path / "t", HEADER).add(round_)
    there = Transcript.open(tmp_path / "t")
    read = there.rounds[0]
    assert read.clients == ("ann", "bob")
    assert not read.received
    assert read.masked is not None
    assert read.masked.records == 300
    same(read.masked.tensors, masked.tensors)
    assert there.view("ann").offers == Need.NONE
    with pytest.raises(NotApplicable, match="only a sum with others"):
        read.change("ann")


def test_a_view_has_the_rounds_of_its_victim(tmp_path: Path) -> None:
    writer = Writer.begin(tmp_path / "t", HEADER)
    for number in range(4):
        full = seen(number)
        kept = {c: u for c, u in full.received.items() if c == "bob" or number % 2}
        writer.add(replace(full, received=kept))
    there = Transcript.open(tmp_path / "t")
    view = there.view("ann")
    assert [r.number for r in view.rounds] == [1, 3]
    assert view.rounds[-1].number == 3
    assert view.offers == Need.UPDATES
    assert len(there.view("bob").rounds) == 4
    with pytest.raises(SpecError, match="did you mean 'bob'"):
        there.view("bobb")


@pytest.mark.parametrize("kind", ["weights", "update", "gradient"])
def test_the_change_is_the_same_whatever_is_sent(kind: Any) -> None:
    sent, step = tensors(0), tensors(1)
    back = {
        "weights": {n: sent[n] + step[n] for n in sent},
        "update": step,
        "gradient": {n: -2 * step[n] for n in sent},
    }[kind]
    round_ = Round(0, kind, sent, {"a": ReceivedUpdate(back, 1)}, training=LocalTraining(lr=0.5))
    for name, array in round_.change("a").items():
        np.testing.assert_allclose(array, step[name], rtol=1e-6)
    with pytest.raises(NotApplicable, match="nothing"):
        round_.change("b")


def test_a_gradient_without_a_learning_rate_is_no_change() -> None:
    round_ = Round(0, "gradient", tensors(0), {"a": ReceivedUpdate(tensors(1), 1)})
    with pytest.raises(NotApplicable, match="learning rate"):
        round_.change("a")


def test_a_killed_run_leaves_what_was_finished(tmp_path: Path) -> None:
    folder = written(tmp_path / "t", 3)
    (folder / "round-0002.json").unlink()  # killed between the two files of a round
    (folder / ".writing-xyz").write_bytes(b"half")
    assert len(Transcript.open(folder).rounds) == 2
    Writer.resume(folder, HEADER).add(seen(2))
    whole = written(tmp_path / "whole", 3)
    assert contents(folder) == contents(whole)


def test_another_run_is_not_continued(tmp_path: Path) -> None:
    folder = written(tmp_path / "t")
    with pytest.raises(StoreError, match="different ones"):
        Writer.resume(folder, replace(HEADER, settings={"alpha": 0.6}))
    with pytest.raises(StoreError, match="--resume"):
        Writer.begin(folder, HEADER)


def _cut(folder: Path) -> None:
    path = folder / "round-0000.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def _enlarge(folder: Path) -> None:
    with (folder / "round-0000.safetensors").open("ab") as file:
        file.write(b"\0" * 100)


def _flip(folder: Path) -> None:
    path = folder / "round-0000.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _cut_honestly(folder: Path) -> None:
    data = (folder / "round-0000.safetensors").read_bytes()[:-5]
    (folder / "round-0000.safetensors").write_bytes(data)
    proof = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit(folder / "round-0000.json", lambda entry: entry.update(proof))


def _rename(folder: Path, name: str) -> None:
    edit(folder / "round-0000.json", lambda entry: entry["received"][0].update(client=name))


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (_cut, "bytes in .*cut off"),
    "too long": (_enlarge, "bytes in .*cut off or replaced"),
    "a flipped bit": (_flip, "SHA-256"),
    "cut off with a matching checksum": (_cut_honestly, "safetensors format"),
    "no tensors file": (lambda f: (f / "round-0000.safetensors").unlink(), "expected a file"),
    "a path as a client": (lambda f: _rename(f, "../../etc/passwd"), "received.0.client"),
    "a client twice": (lambda f: _rename(f, "bob"), "twice"),
    "an unknown client": (lambda f: _rename(f, "eve"), "missing|not announced"),
    "another number": (
        lambda f: edit(f / "round-0000.json", lambda e: e.update(number=1)),
        "expected round 0",
    ),
    "a record count that is no number": (
        lambda f: edit(f / "round-0000.json", lambda e: e["received"][0].update(records="many")),
        "received.0.records",
    ),
    "an impossible guarantee": (
        lambda f: edit(
            f / "round-0000.json", lambda e: e["received"][0]["guarantee"].update(delta=2)
        ),
        "delta",
    ),
    "no JSON": (lambda f: (f / "round-0000.json").write_text("{"), "docs/reference/transcript.md"),
    "JSON in another encoding": (
        lambda f: (f / "round-0000.json").write_bytes(b"\xff\xfe"),
        "docs/reference/transcript.md",
    ),
    "deep JSON": (
        lambda f: (f / "round-0000.json").write_text("[" * 100_000),
        "docs/reference/transcript.md",
    ),
    "another shape": (
        lambda f: retensor(f, lambda a: a.update({"received/ann/fc.bias": np.zeros(5)})),
        r"shape \[4\] for 'received/ann/fc.bias'",
    ),
    "a missing tensor": (
        lambda f: retensor(f, lambda a: a.pop("received/bob/steps")),
        "'received/bob/steps' is missing",
    ),
    "an extra tensor": (
        lambda f: retensor(f, lambda a: a.update({"received/bob/more": np.zeros(1)})),
        "'received/bob/more' was not announced",
    ),
    "half of the aggregate": (
        lambda f: retensor(f, lambda a: a.pop("aggregated/steps")),
        "'aggregated/steps' is missing",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_round_is_refused_and_the_others_are_not(name: str, tmp_path: Path) -> None:
    harm, message = HOSTILE[name]
    folder = written(tmp_path / "t")
    harm(folder)
    there = Transcript.open(folder)
    with pytest.raises(StoreError, match=message):
        there.rounds[0]
    same(there.rounds[1].sent, seen(1).sent)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    folder = written(tmp_path / "t")
    (folder / "round-0000.safetensors").unlink()
    os.mkfifo(folder / "round-0000.safetensors")
    with pytest.raises(StoreError, match="expected a file"):
        Transcript.open(folder).rounds[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 1 .* got 2"),
        ({"schema": None}, "got None"),
        ({"kind": "nonsense"}, "kind"),
        ({"shapes": {"w": [-1]}}, "shapes"),
        ({"shapes": {"with space": [1]}}, "shapes"),
    ],
)
def test_a_header_of_another_kind_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = written(tmp_path / "t")
    edit(folder / "transcript.json", lambda header: header.update(change))
    with pytest.raises(StoreError, match=message):
        Transcript.open(folder)


def test_an_endless_header_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "t")
    monkeypatch.setattr("divulge.federation.transcript.reader.LARGEST_JSON", 1000)
    (folder / "transcript.json").write_bytes(b" " * 1001)
    with pytest.raises(StoreError, match="at most 1,000 bytes"):
        Transcript.open(folder)


def test_a_missing_round_is_noticed(tmp_path: Path) -> None:
    folder = written(tmp_path / "t", 3)
    (folder / "round-0001.json").unlink()
    with pytest.raises(StoreError, match="round 1 is missing"):
        Transcript.open(folder)


def test_no_transcript_is_no_transcript(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is none"):
        Transcript.open(tmp_path)


@pytest.mark.parametrize("client", ["", "../x", "a/b", "a" * 65, ".hidden", "a\nb"])
def test_no_such_client_can_be_written(client: str, tmp_path: Path) -> None:
    writer = Writer.begin(tmp_path / "t", HEADER)
    with pytest.raises(DataError, match="client"):
        writer.add(replace(seen(0), received={client: ReceivedUpdate(tensors(1), 1)}))
    assert len(Transcript.open(tmp_path / "t").rounds) == 0


def test_objects_cannot_be_written(tmp_path: Path) -> None:
    writer = Writer.begin(tmp_path / "t", HEADER)
    odd = tensors(0) | {"fc.bias": np.array(["a", "b", "c", "d"])}
    with pytest.raises(DataError, match=r"expected numbers in sent/fc\.bias"):
        writer.add(replace(seen(0), sent=odd))


def test_what_a_client_sent_is_written_even_if_it_does_not_fit(tmp_path: Path) -> None:
    odd = tensors(3) | {"fc.bias": np.zeros(9)}
    Writer.begin(tmp_path / "t", HEADER).add(
        replace(seen(0), received={"eve": ReceivedUpdate(odd, -5)})
    )
    with pytest.raises(StoreError, match=r"received/eve/fc\.bias"):
        Transcript.open(tmp_path / "t").rounds[0]
