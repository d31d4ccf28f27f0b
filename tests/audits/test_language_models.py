"""A language model is audited by its tokens, from a table to the verdict, the gate and the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import stats

import divulge
from divulge.audits.result import Audit
from divulge.audits.texts import infer_collection
from divulge.checks.blind_baseline import separate
from divulge.cli.main import main
from divulge.core import ControlOutcome, Records, Status
from divulge.data.text_features import RowEncoding, describe_texts
from divulge.errors import SpecError

from ..token_tables import draw, write

SIZE = 240
WORDS = np.array([f"{a}{b}{c}" for a in "bdgkmt" for b in "aeiou" for c in ("l", "n", "rs", "x")])


def call(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def tell(rng: np.random.Generator, texts: int, words: Sequence[str] | np.ndarray) -> list[str]:
    return [" ".join(rng.choice(words, rng.integers(8, 20))) for _ in range(texts)]


def table(path: Path, leak: float, seed: int = 0, *, size: int = SIZE, **columns: Any) -> Path:
    rng = np.random.default_rng([seed, 3])
    tokens, member = draw(size, leak, rng)
    columns.setdefault("text", tell(rng, size, WORDS))
    return write(path, tokens, member, **columns)


def test_a_leak_is_found_said_and_gated(tmp_path: Path) -> None:
    names = [f"doc-{k}" for k in range(SIZE)]
    path = table(tmp_path / "t.jsonl", 1.5, id=names)
    settings = tmp_path / "audit.toml"
    settings.write_text(
        f'[predictions]\nfile = "{path.name}"\nlogprobs = "logprobs"\nid = "id"\n'
        "known_members = 0.45\nprefix = 3\nsuffix = 4\n"
    )
    said = call("audit", settings, "--run", tmp_path / "run", "--fail-on", "leak", code=3)
    assert "leaks its fine-tuning records" in " ".join(said.output.split())
    found = divulge.load(tmp_path / "run")
    assert isinstance(found, Audit)
    assert found.verdict.level == "leak"
    assert "Of 100 fine-tuning records" in found.summary.brief.meaning[0]
    done = {f.label for f in found.findings if f.status is Status.DONE}
    assert {"wbc", "ez-mia", "reference-ratio", "token-supervised"} <= done
    for entry in found.contents.entries:
        if entry.finding.status is Status.DONE:
            assert entry.control is not None
            assert entry.control.outcome is ControlOutcome.PASSED, entry.finding.label
    assert found.findings[0].queries == SIZE - 2 * 54
    assert "doc-" in (tmp_path / "run" / "exposed.csv").read_text()
    texts = found.summary.texts
    assert texts is not None
    assert texts.completions[0].tries is None
    assert texts.completions[-1].excess.value > 0
    assert texts.collection is not None
    assert texts.collection.p_value < 1e-3
    assert texts.collection.blind is not None
    assert texts.collection.blind > 1e-3
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'id="completions"' in page
    call("audit", settings, "--run", tmp_path / "run", "--resume", "--fail-on", "leak", code=3)


def test_nothing_of_a_text_is_stored(tmp_path: Path) -> None:
    own = "My card number is 4929 1111 and my name is Xenia Quuxfield."
    texts = [own, *tell(np.random.default_rng(1), SIZE - 1, WORDS)]
    path = table(tmp_path / "t.jsonl", 1.0, text=texts, group=[f"q{k // 3}" for k in range(SIZE)])
    run = tmp_path / "run"
    divulge.audit_predictions(path, texts=divulge.Texts(), group=None, run=run)
    divulge.evidence(run, tmp_path / "pack.zip")
    for file in [*run.rglob("*"), tmp_path / "pack.zip"]:
        if file.is_file():
            assert b"Quuxfield" not in file.read_bytes(), file.name
            assert texts[5].encode() not in file.read_bytes(), file.name


def test_nothing_is_found_where_nothing_leaks(tmp_path: Path) -> None:
    level = [
        divulge.audit_predictions(
            table(tmp_path / f"{seed}.jsonl", 0.0, seed), texts=divulge.Texts()
        ).verdict.level
        for seed in range(3)
    ]
    assert level.count("no leak found") >= 2  # one in twenty may be called a leak


def shifted(path: Path, texts: Sequence[str] | None, *, easier: float, reference: bool) -> Path:
    """Members of an earlier year, which are easier for any model; this one remembers none."""
    rng = np.random.default_rng(9)
    tokens, member = draw(2 * SIZE, 0.0, rng)
    said = np.repeat(np.where(member, 1 - easier, 1.0), tokens.count)
    with path.open("w") as file:
        parts = [tokens.split(tokens.logprob * said), tokens.split(tokens.reference[0] * said)]
        for row, inside in enumerate(member.tolist()):
            own = {"member": int(inside), "logprobs": parts[0][row].tolist()}
            if reference:
                own["reference_logprobs"] = parts[1][row].tolist()
            if texts is not None:
                own["text"] = texts[row]
            file.write(json.dumps(own) + "\n")
    return path


def years(seed: int = 9) -> list[str]:
    """Texts of two years: of the words of the later one, a tenth were not there before."""
    rng = np.random.default_rng(seed)
    _, member = draw(2 * SIZE, 0.0, np.random.default_rng(9))
    later, earlier = WORDS[12:], WORDS[:-12]
    return [tell(rng, 1, earlier if inside else later)[0] for inside in member.tolist()]


def test_a_temporal_split_is_confounded_and_no_leak(tmp_path: Path) -> None:
    path = shifted(tmp_path / "t.jsonl", years(), easier=0.3, reference=False)
    found = divulge.audit_predictions(path, texts=divulge.Texts())
    assert found.verdict.level == "confounded"
    assert not found.gate(fail_on=["confounded"]).passes
    blind = next(check for check in found.checks if check.name == "blind baseline")
    assert blind.verdict == "warning"
    texts = found.summary.texts
    assert texts is not None
    assert texts.collection is not None
    assert texts.collection.blind is not None
    assert texts.collection.blind < 1e-3


def test_what_a_reference_finds_easier_is_no_leak(tmp_path: Path) -> None:
    path = shifted(tmp_path / "t.jsonl", None, easier=0.3, reference=True)
    found = divulge.audit_predictions(path, texts=divulge.Texts())
    shift = next(check for check in found.checks if check.name == "difficulty baseline")
    assert shift.verdict == "warning"
    assert "'reference_logprobs'" in shift.text
    assert found.verdict.level in ("confounded", "no leak found")
    assert not found.gate(fail_on=["confounded", "leak"]).passes


def test_without_texts_or_a_reference_a_leak_may_be_a_shift(tmp_path: Path) -> None:
    path = shifted(tmp_path / "t.jsonl", None, easier=0.3, reference=False)
    found = divulge.audit_predictions(path, texts=divulge.Texts())
    assert found.verdict.level == "leak or shift"


@pytest.mark.slow
def test_a_random_split_is_told_apart_as_rarely_as_promised() -> None:
    rng = np.random.default_rng(6)
    rows = np.arange(160)[:, None]
    encoding = RowEncoding(describe_texts(tell(rng, 160, WORDS)))
    records = Records(rows, np.zeros(160, np.int64), encoding=encoding)
    p_values = []
    for seed in range(20):
        member = rng.permutation(160) < 80
        found = separate(records.take(member), records.take(~member), np.random.default_rng(seed))
        assert found is not None
        p_values.append(found.p_value)
    # of 20 p-values at most a tenth is below 0.1 on average: above this in 1 of 1,000 such tests
    assert np.sum(np.array(p_values) <= 0.1) <= stats.binom.ppf(0.999, 20, 0.1)


def test_data_set_inference_errs_as_rarely_as_promised_and_sees_a_small_leak() -> None:
    rng = np.random.default_rng(8)
    low = powerful = 0
    for seed in range(400):
        signals, member = rng.normal(size=(200, 6)), rng.permutation(200) < 100
        found = infer_collection(signals, member, None, seed)
        assert found is not None
        low += found.p_value <= 0.05
        if seed < 40:
            signals[member, 2] += 0.7
            found = infer_collection(signals, member, None, seed)
            assert found is not None
            powerful += found.p_value <= 0.05
    assert low <= stats.binom.ppf(0.999, 400, 0.05)
    assert powerful >= 30


def test_texts_of_one_person_are_compared_by_person() -> None:
    rng = np.random.default_rng(8)
    low = 0
    for seed in range(200):
        inside = rng.permutation(80) < 40
        person = np.repeat(np.arange(80), 5)
        signals = np.repeat(rng.normal(size=(80, 3)), 5, axis=0) + rng.normal(size=(400, 3)) / 3
        found = infer_collection(signals, inside[person], person, seed)
        assert found is not None
        assert found.learned + found.tested == 400
        low += found.p_value <= 0.05
    assert low <= stats.binom.ppf(0.999, 200, 0.05)


def test_people_are_audited_where_texts_are_grouped(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    person = np.arange(3 * SIZE) // 3
    inside = rng.permutation(SIZE) < SIZE // 2
    tokens, member = draw(3 * SIZE, 1.0, rng, inside[person])
    names = [f"p{k}" for k in person]
    path = write(tmp_path / "t.jsonl", tokens, member, who=names)
    found = divulge.audit_predictions(path, texts=divulge.Texts(), group="who")
    assert found.verdict.level in ("leak", "leak or shift")
    assert found.summary.sizes.members == SIZE // 2
    assert "people" in found.summary.brief.meaning[0]


def test_copies_of_a_text_in_both_sets_are_set_aside(tmp_path: Path) -> None:
    texts = tell(np.random.default_rng(1), SIZE, WORDS)
    path = tmp_path / "t.jsonl"
    tokens, member = draw(SIZE, 0.0, np.random.default_rng(2))
    texts[int(np.flatnonzero(~member)[0])] = texts[int(np.flatnonzero(member)[0])]
    found = divulge.audit_predictions(
        write(path, tokens, member, text=texts), texts=divulge.Texts()
    )
    copies = next(check for check in found.checks if check.name == "duplicates")
    assert "1 members and 1 non-members are exact copies" in copies.text


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "t.jsonl", 0.0, size=40)
    with pytest.raises(SpecError, match="no loss beside logprobs"):
        divulge.audit_predictions(path, texts=divulge.Texts(), loss="loss")
    with pytest.raises(SpecError, match="no label beside logprobs"):
        divulge.audit_predictions(path, texts=divulge.Texts(), label="l")
    settings = tmp_path / "audit.toml"
    settings.write_text('[predictions]\nfile = "t.jsonl"\nknown_members = 0.5\n')
    said = call("audit", settings, code=2)
    assert "known_members without logprobs" in " ".join(said.output.split())
