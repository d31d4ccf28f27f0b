"""Measure stacking on 13 members and 103 others, with a p-value of the whole pipeline."""

import dataclasses
from functools import partial

import numpy as np

from divulge._util.random import stream
from divulge.attacks.assignment.stacking.attack import Stacking
from divulge.core import FederationView
from divulge.metrics import membership
from divulge.metrics.permutation import permutation_p_value
from divulge_papers.papers.nist import games

SUMMARY = "stacking on the colluding client: AUC, and its p by permuting membership"


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print AUC and p of the published protocol on each pack trained with privacy."""
    times = 4 if quick else 19
    print(f"| training | pack | AUC, published | p of {times} permutations |\n|---|---|---:|---:|")
    for tier, wanted in games.TIERS.items():
        packs = wanted.packs("synthetic") if wanted.epsilon is not None else ()
        for name in packs[:1] if quick else packs:
            view = games.load_pack(name, wanted.code).challenge.view
            member = _labels(view)
            p = permutation_p_value(
                partial(_auc, view),
                member,
                _sets(view),
                stream(0, "permutations", name),
                times,
            )
            print(f"| {tier} | {name} | {_auc(view, member):.3f} | {p:.2f} |", flush=True)


def _labels(view: FederationView) -> np.ndarray:
    """Membership of the colluding client's relevant records, and of the candidates."""
    return np.concatenate([view.collusion.relevant, view.collusion.records])


def _sets(view: FederationView) -> np.ndarray:
    """Set of each record, within which labels are permuted, as sets differ in their members."""
    return np.repeat([0, 1], [len(view.collusion.relevant), len(view.collusion.records)])


def _auc(view: FederationView, member: np.ndarray) -> float:
    """AUC of the whole pipeline if the colluding client had these members."""
    relevant, records = np.split(member, [len(view.collusion.relevant)])
    collusion = dataclasses.replace(view.collusion, relevant=relevant, records=records)
    supposed = dataclasses.replace(view, collusion=collusion)
    judged = Stacking("published").on_colluder(supposed, stream(0, "colluder"))
    return membership.auc(judged.score, judged.member).value
