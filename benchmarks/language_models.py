"""What attacks on tokens find in fine-tunes of a small language model, and what they cost."""

import copy
import csv
import itertools
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import divulge
from benchmarks import fine_tunes, tiny_gpt
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.checks.blind_baseline import separate
from divulge.core import ModelView, Need, Records
from divulge.core.tokens import Tokens
from divulge.data.text_features import RowEncoding, describe_texts
from divulge.metrics import membership
from divulge.metrics.intervals import student_mean
from divulge.secrets import wrapped
from divulge.targets.cache import CachedTarget
from divulge.targets.token_target import TokenTableTarget

SUMMARY = "attacks on tokens: a small GPT on Bible verses, fine-tuned whole and by LoRA; and speed"

_KNOWN = 50
"""Members, and non-members, that an attacker knows; they are not scored."""

BUDGETS = {
    **dict.fromkeys(catalog.TOKEN_REFERENCE_ATTACKS, "reference"),
    **dict.fromkeys((*catalog.TOKEN_CORPUS_ATTACKS, "recall"), "other texts"),
    **dict.fromkeys(("token-supervised", "con-recall"), "known members"),
    **dict.fromkeys(catalog.TOKEN_SHADOW_ATTACKS, "shadow models"),
}
"""What an attack needs besides the model; ``none`` where it stands not here."""

COMPARED = {
    "none": "token-threshold(signal=loss)",
    "reference": "reference-ratio",
    "other texts": "token-threshold(signal=loss)",
    "known members": "reference-ratio",
    "shadow models": "token-rmia",
}
"""By budget, the attack that the others are compared with, chosen beforehand."""

COLUMNS = (
    *("kind", "epochs", "budget", "attack", "pools", "auc", "auc_low", "auc_high"),
    *("compared_with", "auc_less", "auc_less_low", "auc_less_high"),
    *(f"tpr_{rate}{end}" for rate in ("1", "0.1") for end in ("", "_low", "_high")),
)


class Size(NamedTuple):
    """How much is trained."""

    before: int
    """Verses that the model reads before it is fine-tuned, and how often."""
    passes: int
    pools: int
    """Sets of further verses; each has fine-tunes of its own, and is one draw of the intervals."""
    texts: int
    """Verses of a pool."""
    models: int
    """Fine-tunes of a pool, each on its own random half; each is the target once, the others are
    its shadow models."""
    epochs: tuple[int, ...]
    kinds: tuple[str, ...]


JOINED = 3
"""Verses that the model of `WINDOW` reads at a time, before it is fine-tuned on single ones."""

WINDOW = "full, 3 verses at a time"
"""A model that can read other verses before one; there are no shadow models."""

FULL = Size(6_000, 3, 4, 400, 8, (1, 3, 10), ("full", "LoRA", WINDOW))
QUICK = Size(2_000, 1, 2, 240, 5, (3,), ("full", WINDOW))


class Pool(NamedTuple):
    """The fine-tunes on halves of one set of texts."""

    member: np.ndarray
    """Which text each was trained on, shape (models, texts)."""
    tokens: Mapping[int, Sequence[Tokens]]
    """By epoch, what each says of all texts."""
    readers: Mapping[int, Sequence["Reader"]]
    """By epoch, the models themselves."""


class Measured(NamedTuple):
    """One attack on the fine-tunes of a pool, by their scores together."""

    auc: float
    tpr: float
    """At a false-positive rate of 1 %."""
    lowest: float
    """At one of 0.1 %."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print what attacks find, as CSV, and then p-values of blind baselines and the cost.

    Args:
        quick: fewer texts and fine-tunes, one way to train.

    Raises:
        MissingData: there are no verses.
    """
    import torch

    torch.set_num_threads(1)
    size = QUICK if quick else FULL
    texts = split_texts(fine_tunes.verses(), size)
    bases = {kind: fine_tunes.base_model(size.before, size.passes) for kind in size.kinds}
    bases[WINDOW] = fine_tunes.base_model(size.before, size.passes, JOINED)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for kind in size.kinds:
        pools = [fine_tune(kind, bases[kind], pool, k, size) for k, pool in enumerate(texts)]
        for epochs in size.epochs:
            out.writerows(compare(kind, epochs, pools))
            sys.stdout.flush()
    for k, (pool, found) in enumerate(zip(texts, pools, strict=True)):
        p_values = [_blind(pool, member, k) for member in found.member]
        print(f"pool {k}: p of blind baselines from {min(p_values):.2g} to {max(p_values):.2g}")
    measure_speed(2_000 if quick else 10_000, 64 if quick else 256)


def split_texts(texts: Sequence[str], size: Size) -> list[Sequence[str]]:
    """The pools: what stands behind what the base model reads."""
    ends = [size.before + k * size.texts for k in range(size.pools + 1)]
    return [texts[a:b] for a, b in itertools.pairwise(ends)]


def fine_tune(kind: str, base: tiny_gpt.GPT, pool: Sequence[str], seed: int, size: Size) -> Pool:
    """Fine-tune on halves of a pool, whole or by adapters."""
    packed = np.array([len(zlib.compress(text.encode())) for text in pool])
    halves = stream(seed, "halves").random((size.models, size.texts)) < 0.5
    tokens: dict[int, list[Tokens]] = {epoch: [] for epoch in size.epochs}
    readers: dict[int, list[Reader]] = {epoch: [] for epoch in size.epochs}
    for k, member in enumerate(halves):
        inside = [text for text, used in zip(pool, member, strict=True) if used]
        begun = tiny_gpt.adapted(base) if kind == "LoRA" else copy.deepcopy(base)
        tuned = tiny_gpt.train(
            begun, inside, fine_tunes.RATES[kind == "LoRA"], 100 * seed + k, size.epochs
        )
        for epoch, model in zip(size.epochs, tuned, strict=True):
            readers[epoch].append(Reader(model, base, pool, packed))
            tokens[epoch].append(readers[epoch][-1].tokens(np.arange(size.texts)[:, None]))
    return Pool(halves, tokens, readers)


class Reader(NamedTuple):
    """A fine-tuned model that is asked about texts by their positions, also behind others."""

    model: tiny_gpt.GPT
    base: tiny_gpt.GPT
    texts: Sequence[str]
    packed: np.ndarray
    """Bytes of each text, packed by zlib."""
    offers: Need = Need.TOKENS | Need.SCORES | Need.FEATURES | Need.PREFIX

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean log-probability of each text."""
        tokens = self.tokens(x)
        return tokens.average(tokens.logprob)[:, None]

    def tokens(self, x: np.ndarray, after: np.ndarray | None = None) -> Tokens:
        """What the model says of each sign, behind as many of the last texts as it can read."""
        rows = x[:, 0].tolist()
        before = "" if after is None else self._fit([self.texts[k] for k in after[:, 0].tolist()])
        texts = [before + self.texts[row] for row in rows]
        tokens = tiny_gpt.read(self.model, self.base, texts, self.packed[rows])
        own = np.concatenate([
            np.arange(end - len(self.texts[row]), end)
            for row, end in zip(rows, tokens.start[1:].tolist(), strict=True)
        ])  # fmt: skip
        signs = replace(tokens, start=np.arange(tokens.start[-1] + 1), size=None).take(own)
        ends = np.concatenate([[0], np.cumsum([len(self.texts[row]) for row in rows])])
        return replace(signs, start=ends, size=tokens.size)

    def _fit(self, before: Sequence[str]) -> str:
        longest = max(map(len, self.texts))
        joined = ("".join(f"{text} " for text in before[k:]) for k in range(len(before) + 1))
        return next(text for text in joined if len(text) + longest < self.model.longest)


def _blind(texts: Sequence[str], member: np.ndarray, seed: int) -> float:
    """The p-value of a classifier that sees the texts alone."""
    rows, y = np.arange(len(texts))[:, None], np.zeros(len(texts), np.int64)
    records = Records(rows, y, encoding=RowEncoding(describe_texts(texts)))
    found = separate(records.take(member), records.take(~member), np.random.default_rng(seed))
    return 1.0 if found is None else found.p_value


def compare(kind: str, epochs: int, pools: Sequence[Pool]) -> Iterator[tuple[str, ...]]:
    """A row an attack on one way to fine-tune; intervals are Student's over pools."""
    found: dict[str, list[Measured]] = {}
    for pool in pools:
        for attack, measured in _attack_pool(kind, pool, epochs).items():
            found.setdefault(attack, []).append(measured)
    for attack, figures in found.items():
        budget = BUDGETS.get(attack, "none")
        other = COMPARED[budget]
        auc, *rates = (np.array(column) for column in zip(*figures, strict=True))
        less = auc - np.array([one.auc for one in found[other]])
        yield (
            *(kind, str(epochs), budget, attack, str(len(pools)), *_interval(auc)),
            *((other, *_interval(less, -1.0)) if attack != other else ("", "", "", "")),
            *(figure for rate in rates for figure in _interval(rate)),
        )


def _attack_pool(kind: str, pool: Pool, epochs: int) -> dict[str, Measured]:
    """Each fine-tune of a pool as the target, with the others as shadow models."""
    window, known = kind == WINDOW, {"known_members": True, "reference": True}
    attacks = catalog.default_attacks(tokens=True, shadows=not window, prefix=window, **known)
    scores: dict[str, list[np.ndarray]] = {}
    members = []
    for k, member in enumerate(pool.member):
        inside, outside = np.flatnonzero(member), np.flatnonzero(~member)
        scored = np.sort(np.concatenate([inside[_KNOWN:], outside[_KNOWN:]]))
        members.append(member[scored])
        rows = Records(np.arange(len(member))[:, None], np.zeros(len(member), np.int64))
        view = ModelView(
            CachedTarget(pool.readers[epochs][k]) if window else _table_of(pool, epochs, k),
            rows.take(scored),
            rows.take(outside[:_KNOWN]),
            known_members=rows.take(inside[:_KNOWN]),
        )
        for attack in attacks:
            score = attack(view, np.random.default_rng(0)).score
            scores.setdefault(wrapped.attack_label(attack), []).append(score)
    truth = np.concatenate(members)
    return {name: _measure(np.concatenate(each), truth) for name, each in scores.items()}


def _table_of(pool: Pool, epochs: int, k: int) -> TokenTableTarget:
    """What fine-tune k says of the texts of its pool, and what all others do."""
    every, others = pool.tokens[epochs], [j for j in range(len(pool.member)) if j != k]
    said = np.stack([every[j].logprob for j in others])
    means = np.stack([every[j].average(every[j].logprob) for j in others])
    known = replace(every[k], shadow=means, inside=pool.member[others], shadow_logprob=said)
    return TokenTableTarget(known)


def _measure(score: np.ndarray, member: np.ndarray) -> Measured:
    """AUC and TPRs; NaN where there are too few non-members for so low a rate."""
    most = float(np.sum(~member))
    rates = (
        membership.tpr_at_fpr(score, member, rate).value if rate * most >= 1 else float("nan")
        for rate in (0.01, 0.001)
    )
    return Measured(membership.auc(score, member).value, *rates)


def _interval(values: np.ndarray, lowest: float = 0.0) -> tuple[str, str, str]:
    """Mean and Student's interval, of rates, or from -1 of their differences."""
    if np.isnan(values).any():
        return "", "", ""
    mean, (low, high) = values.mean(), student_mean(values.tolist())
    return f"{mean:.3f}", f"{max(low, lowest):.3f}", f"{min(high, 1.0):.3f}"


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
