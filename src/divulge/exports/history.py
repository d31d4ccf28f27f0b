"""One model over its versions, by their run folders: what was found, and what changed."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.json import JSON
from divulge._util.showable import make_showable
from divulge.core import Estimate
from divulge.errors import SpecError
from divulge.exports.outputs import refuse_run_file
from divulge.finished_runs.changes import FigureChange, compare_figures, have_same_candidates
from divulge.finished_runs.finished_run import GatedAudit, load
from divulge.secrets.registry import lead_metric

SHOWN = {"membership": ("auc", "tpr@0.01", "tpr@0.1")}
"""Metrics of a history by secret, besides the one whose change is tested."""


@dataclass(frozen=True, slots=True)
class RunVersion:
    """One run of a history."""

    run: str
    """Path of its folder, as it was named."""
    name: str
    created: str
    """UTC, ISO 8601; empty if the folder does not say."""
    level: str
    headline: str


@dataclass(frozen=True, slots=True)
class History:
    """Figures of the same attacks over versions of a model, and the changes between them."""

    about: str
    versions: tuple[RunVersion, ...]
    """In the order in which runs were named."""
    figures: Mapping[str, Mapping[str, tuple[Estimate | None, ...]]]
    """By metric and attack, one estimate a version with its own 95 % interval; None where the
    attack does not count."""
    changes: tuple[tuple[FigureChange, ...], ...]
    """Of each version but the first, changes since the one before. The intervals of all
    differences of the history hold at once, at 95 % (Bonferroni)."""

    @property
    def headline(self) -> str:
        """Whether some version leaks more than the one before."""
        worse = [
            version.run
            for version, changes in zip(self.versions[1:], self.changes, strict=True)
            if any(change.is_worse for change in changes)
        ]
        if worse:
            return f"More leaks than in the version before: {', '.join(worse)}"
        if not any(self.changes):
            return "No two versions in a row have an attack in common: nothing is compared"
        return "No version was shown to leak more than the one before"

    def as_json(self) -> dict[str, JSON]:
        """The whole history as plain data."""
        changes = [[_change_as_json(change) for change in changes] for changes in self.changes]
        return {**asdict(self), "headline": self.headline, "changes": changes}

    @check_arguments
    def report(self, path: FilePath) -> Path:
        """Write a page with a chart a metric, one self-contained HTML file; returns its path.

        Raises:
            StoreError: it cannot be written, or a run is read from the file that is there.
        """
        from divulge.exports import history_page  # draws, so it loads the chart library

        place = Path(path)
        refuse_run_file(place.absolute(), "--page")
        story = history_page.HistoryStory(
            self.headline,
            tuple(
                (version.run, version.name, version.created, version.level)
                for version in self.versions
            ),
            self.figures,
            tuple(tuple(describe_change(change) for change in changes) for changes in self.changes),
        )
        atomic.write(place, history_page.render(story).encode())
        return place


@dataclass(frozen=True, slots=True)
class RunDifference:
    """What changed from one run to another."""

    before: RunVersion
    after: RunVersion
    settings: Mapping[str, tuple[JSON, JSON]]
    """By dotted key, the values before and after; None where there is none."""
    data: Mapping[str, tuple[JSON, JSON]]
    """Digests and sizes that differ. ``challenge`` is the digest of model, records and truth."""
    same_candidates: bool | None
    """Whether both have the same candidates, as far as run folders show; None if not one model was
    audited for membership."""
    figures: tuple[FigureChange, ...]
    lost: tuple[str, ...]
    """Attacks that count before and not after."""
    gained: tuple[str, ...]
    """Attacks that count after and not before."""

    def as_json(self) -> dict[str, JSON]:
        """The whole difference as plain data."""
        return {**asdict(self), "figures": [_change_as_json(figure) for figure in self.figures]}


@check_arguments
def history(runs: Iterable[FilePath]) -> History:
    """Put the figures of several versions of one model beside each other.

    One metric of each attack (``auc`` for membership) is tested for "more than last time", from
    each version to the next: an increase counts if the interval of the difference lies above 0,
    where the intervals of all differences in the history hold at once.

    Args:
        runs: run folders of audits of the same secret, two or more, the earliest first.

    Raises:
        SpecError: fewer than two, a run without a verdict of its own, or audits of different
            secrets.
        StoreError: one of them cannot be read.
    """
    paths = list(runs)
    if len(paths) < 2:
        raise SpecError(f"expected two run folders or more, got {len(paths)}: name the others too")
    audits = [load(path).judged() for path in paths]
    for path, audit in zip(paths, audits, strict=True):
        if audit.about != audits[0].about:
            raise SpecError(
                f"expected audits of {audits[0].about} as in {paths[0]}, got one of {audit.about} "
                f"in {path}: name runs about one secret"
            )
    pairs = list(itertools.pairwise(audits))
    total = sum(len(compare_figures(*pair)) for pair in pairs)
    changes = tuple(compare_figures(*pair, comparisons=total) for pair in pairs)
    return History(audits[0].about, tuple(map(_version, paths, audits)), _series(audits), changes)


@check_arguments
def diff(before: FilePath, after: FilePath) -> RunDifference:
    """Say what changed from one run to another: settings, data, and figures with intervals.

    Where both runs have the same candidates, as two models audited on the same records have, the
    differences of AUCs allow for their correlation and are sharper.

    Args:
        before: run folder of the earlier audit.
        after: run folder of the later audit, about the same secret.

    Raises:
        SpecError: a run without a verdict of its own, or audits of different secrets.
        StoreError: one of them cannot be read.
    """
    earlier, later = load(before).judged(), load(after).judged()
    if earlier.about != later.about:
        raise SpecError(
            f"expected audits of one secret, got {earlier.about} and {later.about}: name two runs "
            "about the same"
        )
    scored = earlier.scored, later.scored
    same = None if None in scored else have_same_candidates(*scored)  # type: ignore[arg-type]
    counts = earlier.figures().keys(), later.figures().keys()
    return RunDifference(
        before=_version(before, earlier),
        after=_version(after, later),
        settings=_differing(_settings(earlier), _settings(later)),
        data=_differing(_data(earlier), _data(later)),
        same_candidates=same,
        figures=compare_figures(earlier, later),
        lost=tuple(label for label in counts[0] if label not in counts[1]),
        gained=tuple(label for label in counts[1] if label not in counts[0]),
    )


def describe_change(change: FigureChange) -> str:
    """A change on one line: what it is about, both values, the difference and what it shows.

    Examples:
        >>> one, other = Estimate(0.6, 0.55, 0.65), Estimate(0.75, 0.7, 0.8)
        >>> less = Estimate(0.15, 0.08, 0.22)
        >>> describe_change(FigureChange("gap", "auc", one, other, less, False))
        'gap: auc 0.600 to 0.750, difference +0.150 (+0.080 to +0.220): more than before'
    """
    less = change.difference
    direction = "no difference shown"
    if change.is_worse or change.is_better:
        direction = "more than before" if change.is_worse else "less than before"
    return (
        f"{make_showable(change.attack)}: {change.metric} {change.before.value:.3f} to "
        f"{change.after.value:.3f}, difference {less.value:+.3f} ({less.low:+.3f} to "
        f"{less.high:+.3f}): {direction}"
    )


def _change_as_json(change: FigureChange) -> dict[str, JSON]:
    return {**asdict(change), "is_worse": change.is_worse, "is_better": change.is_better}


def _version(path: str | Path, audit: GatedAudit) -> RunVersion:
    head = audit.head
    return RunVersion(
        run=make_showable(str(path)),
        name=make_showable(head.name),
        created=make_showable(head.created),
        level=audit.verdict.level,
        headline=make_showable(audit.verdict.headline),
    )


def _series(
    audits: list[GatedAudit],
) -> Mapping[str, Mapping[str, tuple[Estimate | None, ...]]]:
    about = audits[0].about
    each = [audit.figures() for audit in audits]
    labels = list(dict.fromkeys(label for figures in each for label in figures))
    series: dict[str, dict[str, tuple[Estimate | None, ...]]] = {}
    for metric in SHOWN.get(about, (lead_metric(about),)):
        for label in labels:
            row = tuple(figures.get(label, {}).get(metric) for figures in each)
            if any(row):
                series.setdefault(metric, {})[make_showable(label)] = row
    return series


def _settings(audit: GatedAudit) -> dict[str, JSON]:
    head = audit.head
    settings = {"seed": head.seed, "divulge": head.divulge, **head.settings}
    return dict(_flatten(settings, "")) | {"attacks": list(map(make_showable, head.attacks))}


def _data(audit: GatedAudit) -> dict[str, JSON]:
    return {"challenge": audit.head.challenge, **audit.sizes}


def _flatten(settings: Mapping[str, JSON], prefix: str) -> Iterator[tuple[str, JSON]]:
    for key, value in settings.items():
        name = make_showable(f"{prefix}{key}")
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _differing(
    before: Mapping[str, JSON], after: Mapping[str, JSON]
) -> dict[str, tuple[JSON, JSON]]:
    keys = dict.fromkeys([*before, *after])
    return {
        key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)
    }
