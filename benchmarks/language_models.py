"""What attacks on tokens find in fine-tunes of a small language model."""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks import fine_tunes
from benchmarks.token_pools import FULL, JOINED, QUICK, WINDOW, Pool, fine_tune, split_texts
from divulge.attacks import catalog
from divulge.checks.blind_baseline import separate
from divulge.core import ModelView, Records
from divulge.data.text_features import RowEncoding, describe_texts
from divulge.metrics import membership
from divulge.metrics.intervals import student_mean
from divulge.secrets import wrapped
from divulge.targets.cache import CachedTarget
from divulge.targets.token_target import TokenTableTarget

SUMMARY = "attacks on tokens: a small GPT on Bible verses, fine-tuned whole and by LoRA"

_KNOWN = 50
"""Members, and non-members, that an attacker knows; they are not scored."""

WHITE_BOX = "token-threshold(signal=gradient-norm)"

BUDGETS = {
    WHITE_BOX: "weights",
    **dict.fromkeys(catalog.TOKEN_REFERENCE_ATTACKS, "reference"),
    **dict.fromkeys((*catalog.TOKEN_CORPUS_ATTACKS, "recall"), "other texts"),
    **dict.fromkeys(("token-supervised", "con-recall"), "known members"),
    **dict.fromkeys(catalog.TOKEN_SHADOW_ATTACKS, "shadow models"),
}
"""What an attack needs besides the model; ``none`` where it stands not here."""

COMPARED = {
    "none": "token-threshold(signal=loss)",
    "weights": "token-threshold(signal=loss)",
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


class Measured(NamedTuple):
    """One attack on the fine-tunes of a pool, by their scores together."""

    auc: float
    tpr: float
    """At a false-positive rate of 1 %."""
    lowest: float
    """At one of 0.1 %."""


Found = dict[str, list[Measured]]
"""By attack, a figure a pool."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print what attacks find, as CSV, then which is first, and p-values of blind baselines.

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
    first: list[str] = []
    for kind in size.kinds:
        pools = [fine_tune(kind, bases[kind], pool, k, size) for k, pool in enumerate(texts)]
        for epochs in size.epochs_of(kind):
            found = attack_pools(kind, epochs, pools)
            out.writerows(compare(kind, epochs, found))
            sys.stdout.flush()
            first += name_first(kind, epochs, found)
    print("", *first, "", sep="\n")
    for k, (pool, tuned) in enumerate(zip(texts, pools, strict=True)):
        p_values = [_blind(pool, member, k) for member in tuned.member]
        print(f"pool {k}: p of blind baselines from {min(p_values):.2g} to {max(p_values):.2g}")


def _blind(texts: Sequence[str], member: np.ndarray, seed: int) -> float:
    """The p-value of a classifier that sees the texts alone."""
    rows, y = np.arange(len(texts))[:, None], np.zeros(len(texts), np.int64)
    records = Records(rows, y, encoding=RowEncoding(describe_texts(texts)))
    found = separate(records.take(member), records.take(~member), np.random.default_rng(seed))
    return 1.0 if found is None else found.p_value


def attack_pools(kind: str, epochs: int, pools: Sequence[Pool]) -> Found:
    """Every attack on one way to fine-tune."""
    found: Found = {}
    for pool in pools:
        for attack, measured in _attack_pool(kind, pool, epochs).items():
            found.setdefault(attack, []).append(measured)
    return found


def compare(kind: str, epochs: int, found: Found) -> Iterator[tuple[str, ...]]:
    """A row an attack; intervals are Student's over pools."""
    for attack, figures in found.items():
        budget = BUDGETS.get(attack, "none")
        other = COMPARED[budget]
        auc, *rates = (np.array(column) for column in zip(*figures, strict=True))
        less = auc - np.array([one.auc for one in found[other]])
        yield (
            *(kind, str(epochs), budget, attack, str(len(figures)), *_interval(auc)),
            *((other, *_interval(less, -1.0)) if attack != other else ("", "", "", "")),
            *(figure for rate in rates for figure in _interval(rate)),
        )


def name_first(kind: str, epochs: int, found: Found) -> Iterator[str]:
    """A sentence a budget: the attack with the highest mean AUC, and by how much it leads."""
    for budget in COMPARED:
        aucs = {
            attack: np.array([one.auc for one in figures])
            for attack, figures in found.items()
            if BUDGETS.get(attack, "none") == budget
        }
        ranked = sorted(aucs, key=lambda attack: -aucs[attack].mean())
        lead = ""
        if len(ranked) > 1:
            mean, low, high = _interval(aucs[ranked[0]] - aucs[ranked[1]], -1.0)
            lead = f", ahead of {ranked[1]} by {mean} ({low} to {high})"
        if ranked:
            yield f"{kind}, {epochs} epochs, {budget}: {ranked[0]} is first{lead}"


def _attack_pool(kind: str, pool: Pool, epochs: int) -> dict[str, Measured]:
    """Each fine-tune of a pool as the target, with the others as shadow models."""
    window, known = kind == WINDOW, {"known_members": True, "reference": True}
    usual = catalog.default_attacks(tokens=True, shadows=not window, prefix=window, **known)
    attacks = {wrapped.attack_label(attack): attack for attack in usual}
    if window:
        del attacks[WHITE_BOX]
    scores: dict[str, list[np.ndarray]] = {}
    members = []
    for k, member in enumerate(pool.member[: len(pool.readers[epochs])]):
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
        for label, attack in attacks.items():
            scores.setdefault(label, []).append(attack(view, np.random.default_rng(0)).score)
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
