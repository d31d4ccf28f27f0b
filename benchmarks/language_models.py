"""What attacks on tokens find in fine-tunes of a small language model, and what they cost."""

import copy
import json
import lzma
import resource
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import divulge
from benchmarks import data, tiny_gpt
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.checks.blind_baseline import separate
from divulge.core import ModelView, Records
from divulge.core.tokens import Tokens
from divulge.data.text_features import RowEncoding, describe_texts
from divulge.metrics import membership
from divulge.metrics.intervals import student_mean
from divulge.secrets import wrapped
from divulge.targets.token_target import TokenTableTarget

SUMMARY = "attacks on tokens: a small GPT on Bible verses, fine-tuned whole and by LoRA; and speed"

EPOCHS, FINE_TUNES = (1, 3, 10), 3
_FIRST, _POOL, _KNOWN = 6_000, 1_000, 100
_RATES = {"full": 1e-3, "LoRA": 1e-2}
_PAIR = "reference-ratio"
"""What the others are compared with."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print AUC and TPR of each attack on each way to fine-tune, and the CPU time of an audit.

    Raises:
        MissingData: there are no verses.
    """
    import torch

    torch.set_num_threads(1)
    texts = _verses()[: 2_000 + _POOL if quick else None]
    first = 2_000 if quick else _FIRST
    before, pool = texts[:first], texts[first : first + _POOL]
    (base,) = tiny_gpt.train(tiny_gpt.GPT(), before, 3e-3, 0, (1 if quick else 3,))
    splits = [stream(k, "split").permutation(_POOL) < _POOL // 2 for k in range(FINE_TUNES)]
    encoding = RowEncoding(describe_texts(pool))
    for k, member in enumerate(splits):
        print(f"split {k}: blind baseline p = {_blind(encoding, member, k):.2g}", flush=True)
    for kind in ("full",) if quick else ("full", "LoRA"):
        _compare(kind, base, pool, splits[: 1 if quick else None], (3,) if quick else EPOCHS)
    measure_speed(2_000 if quick else 10_000, 64 if quick else 256)


def _verses() -> list[str]:
    """Verses of printable ASCII, cut to what the model reads, in random order."""
    path = data.file("texts/verses.jsonl.xz")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        cut = {json.loads(line)["text"][: tiny_gpt.LONGEST - 1] for line in file}
    found = sorted(text for text in cut if text.isascii() and text.isprintable())
    return [found[k] for k in stream(0, "verses").permutation(len(found))]


def _blind(encoding: RowEncoding, member: np.ndarray, seed: int) -> float:
    rows = Records(np.arange(_POOL)[:, None], np.zeros(_POOL, np.int64), encoding=encoding)
    found = separate(rows.take(member), rows.take(~member), np.random.default_rng(seed))
    return 1.0 if found is None else found.p_value


def _compare(
    kind: str,
    base: tiny_gpt.GPT,
    pool: Sequence[str],
    splits: Sequence[np.ndarray],
    epochs: Sequence[int],
) -> None:
    """Print the table of one way to fine-tune."""
    size = np.array([len(zlib.compress(text.encode())) for text in pool])
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for k, member in enumerate(splits):
        inside = [text for text, used in zip(pool, member, strict=True) if used]
        begun = tiny_gpt.adapted(base) if kind == "LoRA" else copy.deepcopy(base)
        tuned = tiny_gpt.train(begun, inside, _RATES[kind], k, epochs)
        for epoch, model in zip(epochs, tuned, strict=True):
            tokens = tiny_gpt.read(model, base, pool, size)
            for label, score, truth in _attack(tokens, member):
                tpr = membership.tpr_at_fpr(score, truth, 0.01).value
                found.setdefault((epoch, label), []).append(
                    (membership.auc(score, truth).value, tpr)
                )
    for epoch in epochs:
        print(f"\n{kind}, {epoch} epochs, {len(splits)} fine-tunes: AUC, less {_PAIR}, TPR at 1 %")
        paired = np.array(found[epoch, _PAIR])[:, 0]
        for (at, label), figures in found.items():
            if at == epoch:
                auc, tpr = np.array(figures).T
                print(f"{label:36} {_show(auc)}  {_show(auc - paired)}  {_show(tpr)}", flush=True)


def _attack(tokens: Tokens, member: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Label and scores of each attack, and who of the candidates is a member."""
    rows = Records(np.arange(len(tokens))[:, None], np.zeros(len(tokens), np.int64))
    inside, outside = np.flatnonzero(member), np.flatnonzero(~member)
    scored = np.sort(np.concatenate([inside[_KNOWN:], outside[_KNOWN:]]))
    view = ModelView(
        TokenTableTarget(tokens),
        rows.take(scored),
        rows.take(outside[:_KNOWN]),
        known_members=rows.take(inside[:_KNOWN]),
    )
    for attack in catalog.default_attacks(tokens=True, known_members=True):
        if attack.name != "token-lira":
            score = attack(view, np.random.default_rng(0)).score
            yield wrapped.attack_label(attack), score, member[scored]


def _show(values: np.ndarray) -> str:
    if len(values) == 1:
        return f"{values[0]:6.3f}"
    low, high = student_mean(values.tolist())
    return f"{values.mean():6.3f} ({low:.3f} to {high:.3f})"


def measure_speed(texts: int, tokens: int) -> None:
    """Print CPU time and peak memory of an audit of a Parquet table, with texts and a reference."""
    import pyarrow as pa
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.parquet"
        numbers = -rng.exponential(size=(5, texts * tokens))
        numbers[3] = -numbers[3]
        ends = pa.array(np.arange(0, texts * tokens + 1, tokens, dtype=np.int32))
        names = ("logprobs", "reference_logprobs", "mean", "sd")
        lists = {
            name: pa.ListArray.from_arrays(ends, pa.array(row))
            for name, row in zip(names, numbers, strict=False)
        }
        top = pa.ListArray.from_arrays(ends, pa.array((numbers[0] > np.log(0.5)).astype(np.int8)))
        words = np.array([f"word{k}" for k in range(2_000)])
        said = [" ".join(rng.choice(words, tokens * 3 // 4)) for _ in range(texts)]
        table = {"member": np.arange(texts) % 2, "text": said, **lists, "top1": top}
        pa.parquet.write_table(pa.table(table), path)
        del numbers, lists, said, table
        begun = time.process_time()
        divulge.audit_predictions(path, texts=divulge.Texts())
        spent = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\naudit of {texts:,} texts x {tokens} tokens: {spent:.1f} CPU s, peak {peak:.0f} MB")
