"""Answers that lie on the disk are those that were put there, and audits do not tell the two."""

import gc
import tempfile
from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.core import stream_answers
from divulge.errors import TargetError
from divulge.finished_runs import finding_files
from divulge.targets import answer_file
from divulge.targets.answer_file import AnswerFile
from divulge.targets.predictions import read_predictions

ROWS = np.random.default_rng(0).dirichlet(np.ones(3), 1000)


@pytest.fixture
def by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred rows at a time, and nothing is held."""
    monkeypatch.setattr(answer_file, "PART", 300)
    monkeypatch.setattr(answer_file, "HELD", 1)
    monkeypatch.setattr(finding_files, "HELD", 1)


@pytest.mark.usefixtures("by_parts")
def test_rows_are_read_as_they_were_put() -> None:
    rows = AnswerFile.of([ROWS[:300], ROWS[:0], ROWS[300:]], 3)
    np.testing.assert_array_equal(rows[:], ROWS)
    np.testing.assert_array_equal(rows[50:350], ROWS[50:350])
    np.testing.assert_array_equal(rows[::7], ROWS[::7])
    chosen = np.random.default_rng(1).integers(0, 1000, 500)
    np.testing.assert_array_equal(rows[chosen], ROWS[chosen])
    np.testing.assert_array_equal(np.concatenate([*rows.parts()]), ROWS)
    rows.put(0, ROWS[::-1])
    np.testing.assert_array_equal(rows[:], ROWS[::-1])
    assert rows.shape == (1000, 3)


def test_a_full_disk_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = AnswerFile(3)

    def refuse(content: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rows._file, "write", refuse)
    with pytest.raises(TargetError, match="No space left on device: free some space"):
        rows.put(0, ROWS)


@pytest.mark.usefixtures("by_parts")
def test_no_folder_for_temporary_files_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/no/such/folder"])
    with pytest.raises(TargetError, match="No usable temporary directory"):
        AnswerFile.of([ROWS], 3)


@pytest.mark.usefixtures("by_parts")
@pytest.mark.parametrize("row", [0, 7, 340, 341, 342, 400, 682, 999])
def test_a_disk_that_fills_at_any_row_is_an_error_of_writing(row: int) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (row * 24 + 8, before[1]))
    try:
        with pytest.raises(TargetError, match="expected room for answers"):
            AnswerFile.of(np.split(ROWS[: row + 1], row + 1), 3)
        gc.collect()  # what is left of the file ends without an error (pytest would report it)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write(path: Path, answers: np.ndarray, member: np.ndarray) -> Path:
    lines = ["p_0,p_1,p_2,label,member"]
    lines += [
        ",".join([*map(repr, row), str(k % 3), str(int(inside))])
        for k, (row, inside) in enumerate(zip(answers.tolist(), member, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def leaky(records: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    member = rng.random(records) < 0.5
    logits = rng.normal(size=(records, 3))
    logits[np.arange(records), np.arange(records) % 3] += 1 + 60 * (member & (logits[:, 0] > 0))
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True), member


def test_a_table_on_the_disk_has_the_figures_of_one_in_memory(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = write(tmp_path / "answers.csv", *leaky())
    held = divulge.audit_predictions(path, run=tmp_path / "held")
    request.getfixturevalue("by_parts")
    read = divulge.audit_predictions(path, run=tmp_path / "read")
    assert [finding.metrics for finding in held.findings] == [f.metrics for f in read.findings]
    for one, other in zip(held.contents.entries, read.contents.entries, strict=True):
        assert one.control == other.control
        assert [*one.arrays] == [*other.arrays]
        for name in one.arrays:
            np.testing.assert_array_equal(one.arrays[name], other.arrays[name])
    csv = "exposed.csv"
    assert (tmp_path / "held" / csv).read_bytes() == (tmp_path / "read" / csv).read_bytes()
    assert held.verdict == read.verdict


@pytest.mark.usefixtures("by_parts")
def test_a_table_streams_what_it_answers(tmp_path: Path) -> None:
    answers, member = leaky()
    target = read_predictions(write(tmp_path / "answers.csv", answers, member)).target
    asked = np.random.default_rng(3).permutation(1000)[:700, None]
    streamed = np.full((700, 3), np.nan)
    for part, rows in stream_answers(target, asked):
        streamed[part] = rows
    np.testing.assert_array_equal(streamed, target.predict(asked))


@pytest.mark.usefixtures("by_parts")
def test_a_part_that_looks_like_another_form_is_judged_with_the_others(tmp_path: Path) -> None:
    p = np.sort(np.random.default_rng(4).random(900))
    p[600:] = 1.0  # more than a part: alone these look like classes
    lines = [f"{share!r},{k % 2},{k // 2 % 2}" for k, share in enumerate(p.tolist())]
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(["p_1,label,member", *lines]) + "\n")
    np.testing.assert_array_equal(read_predictions(path).answers[:, 1], p)


@pytest.mark.usefixtures("by_parts")
def test_numbers_that_turn_out_to_have_commas_are_read_again(tmp_path: Path) -> None:
    rows = [f"{k % 2};{1 - k % 2};{k % 2};{k // 2 % 2}" for k in range(20_000)]
    rows[-1] = "0,5;0,5;1;0"
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(["p_0;p_1;label;member", *rows]) + "\n")
    answers = read_predictions(path).answers
    assert answers.shape == (20_000, 2)
    np.testing.assert_array_equal(answers[[0, -1]], [[0.0, 1.0], [0.5, 0.5]])
