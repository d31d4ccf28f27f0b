"""Real data with several records a person, audited by record and by person side by side.

Whole people are drawn at random for members, non-members and strangers. A forest is trained on the
members' records, or on those of strangers, from which nothing about the candidates can leak.
"""

import lzma
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import divulge
from benchmarks import data
from divulge._util.random import stream
from divulge.core import Estimate, Records, Verdict

SUMMARY = "verdicts and AUC by record and by person on real data"

DRAWS = 5
"""Times that people are drawn."""

PEOPLE = 300
"""Members, as many non-members and as many strangers."""

MOST_RATINGS = 20
"""Ratings of a user at most, drawn at random."""

ATTACKS = (divulge.attack("threshold"), divulge.attack("threshold", signal="entropy"))


class AuditOutcome(NamedTuple):
    """What one audit says."""

    level: str
    doubted: bool
    """Whether a classifier that never saw the model tells members from non-members."""
    by_record: Estimate
    by_person: Estimate | None
    """None in an audit by record."""


def ham_10000() -> Records:
    """Photographs of skin lesions that have two or more, 7 x 7 pixels in colour; 7 diagnoses."""
    from PIL import Image

    with Image.open(data.file("ham10000/x28_strip.png")) as strip:
        images = np.asarray(strip).reshape(-1, 7, 4, 7, 4, 3).mean((2, 4)) / 255
    with np.load(data.file("ham10000/meta.npz"), allow_pickle=False) as arrays:
        y, lesion = arrays["y"].astype(np.int64), arrays["lesion"].astype(np.int64)
    several = np.bincount(lesion)[lesion] > 1
    return Records(images.reshape(len(images), -1)[several], y[several], group=lesion[several])


def movielens() -> Records:
    """Is a rating 4 or 5? By the film's genres and year, the user's age, sex and occupation."""
    users = _lines("u.user", "|")
    jobs = sorted({user[3] for user in users})
    about = {
        user[0]: [int(user[1]), user[2] == "F", *(user[3] == job for job in jobs)] for user in users
    }
    films = {
        film[0]: [int(film[2][-4:] or 1995), *map(int, film[5:])] for film in _lines("u.item", "|")
    }
    rows = _lines("u.data", "\t")
    stream(0, "people", "ratings").shuffle(rows)
    taken: Counter[str] = Counter()
    ratings = []
    for row in rows:
        taken[row[0]] += 1
        if taken[row[0]] <= MOST_RATINGS:
            ratings.append(row)
    return Records(
        np.array([about[user] + films[film] for user, film, *_ in ratings], np.float64),
        np.array([int(stars) >= 4 for _, _, stars, _ in ratings], np.int64),
        group=np.array([int(user) for user, *_ in ratings], np.int64),
    )


def _lines(name: str, separator: str) -> list[list[str]]:
    with lzma.open(data.file(f"ml-100k/{name}.xz"), "rt", encoding="latin-1") as lines:
        return [line.rstrip("\n").split(separator) for line in lines]


TASKS: dict[str, tuple[str, Callable[[], Records]]] = {
    "ham10000": ("HAM10000 by lesion", ham_10000),
    "movielens": ("MovieLens by user", movielens),
}


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print a row for each unit and each model."""
    title, load = TASKS[name]
    records, draws = load(), 1 if quick else DRAWS
    assert records.group is not None
    sizes = np.unique(records.group, return_counts=True)[1]
    print(
        f"{title}: {len(sizes):,} with {sizes.mean():.1f} records each (at most {sizes.max()}), "
        f"{PEOPLE} a set, {draws} draws; AUCs of the first\n"
    )
    print("| trained on members | audited by | verdicts | baseline warns | by record | by person |")
    print("|---|---|---|---:|---|---|")
    for leaks in (True, False):
        for grouped in (False, True):
            audits = [audit(records, draw, leaks=leaks, grouped=grouped) for draw in range(draws)]
            levels = Counter(each.level for each in audits).most_common()
            print(
                f"| {'yes' if leaks else 'no'} | {'person' if grouped else 'record'} | "
                f"{', '.join(f'{level} {count}' for level, count in levels)} | "
                f"{sum(each.doubted for each in audits)} of {draws} "
                f"| {_format_estimate(audits[0].by_record)} "
                f"| {_format_estimate(audits[0].by_person)} |",
                flush=True,
            )


def audit(records: Records, draw: int, *, leaks: bool, grouped: bool) -> AuditOutcome:
    """One audit of a forest."""
    assert records.group is not None
    names, person = np.unique(records.group, return_inverse=True)
    order = stream(0, "people", "draw", draw).permutation(len(names))
    members, nonmembers, strangers = (
        records.take(np.isin(person, order[part * PEOPLE : (part + 1) * PEOPLE]))
        for part in range(3)
    )
    taught = members if leaks else strangers
    model = RandomForestClassifier(50, min_samples_leaf=5, random_state=draw)
    model.fit(taught.x, taught.y)
    result = divulge.audit(
        model,
        members=(members.x, members.y),
        nonmembers=(nonmembers.x, nonmembers.y),
        groups=(members.group, nonmembers.group) if grouped else None,
        attacks=ATTACKS,
        options=divulge.Options(seed=draw, person_scores=("mean",)),
    )
    metrics = result.findings[0].metrics
    blind = next(check for check in result.checks if check.name == "blind baseline")
    return AuditOutcome(
        result.verdict.level,
        blind.verdict is Verdict.WARNING,
        metrics["record_auc" if grouped else "auc"],
        metrics["auc"] if grouped else None,
    )


def _format_estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
