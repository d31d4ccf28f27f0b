"""What the report of a search for a model says: its outcome, and all trials."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from divulge._util.json import JSON, Settings
from divulge.core import Estimate
from divulge.report import words
from divulge.studies.harden.search_page import SearchPage

SCHEMA = 2
Outcome = Literal["under", "over", "undecided"]


@dataclass(frozen=True, slots=True)
class MeasuredCeiling:
    """One ceiling, with what was measured of the final model."""

    metric: str
    ceiling: float
    fresh: Estimate | None
    """On fresh records, with limits that hold for all attacks at once; None if not measured."""
    search: Estimate | None
    """What the search saw of the same setting."""
    attack: str
    """The strongest attack on fresh records."""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One setting that was tried."""

    number: int
    label: str
    accuracy: Estimate
    leaks: Mapping[str, Estimate]
    """By metric with a ceiling."""
    models: int
    """How many models were trained and audited."""
    trainings: float
    """The work that took, in trainings of an undefended model."""
    given_up: bool
    """Whether it was given up early, since it leaks more than allowed."""
    under: bool
    """Whether all upper limits are under their ceilings."""
    useful: bool
    """Whether it is more accurate than the constant answer of the most frequent class."""


@dataclass(frozen=True, slots=True)
class HardenStory:
    """All that the report says."""

    name: str
    created: str
    outcome: Outcome
    level: str
    """The verdict of the final audit."""
    ceilings: tuple[MeasuredCeiling, ...]
    accuracy: Estimate | None
    """Of the final model, on fresh records that it was not trained on."""
    trials: tuple[TrialRow, ...]
    """Each setting once, after the number of epochs at which it does best."""
    looks: tuple[TrialRow, ...]
    """Each setting after each number of epochs at which it was seen."""
    undefended: TrialRow
    """The undefended model after all epochs."""
    chosen: int
    """The number of the trial whose setting the final model has."""
    down: TrialRow | None
    """The most accurate setting that leaks less than the chosen one; None if none does."""
    file: str
    """The model's file in the run folder; empty where nothing can write one."""
    needed: int | None
    """The budget that pays for all settings that are tried first; None where this one did."""
    answers: str
    """The defence of answers that belongs to the setting; empty without one."""
    searched: int
    fresh: int
    spent: float
    """The work of the search, in trainings of an undefended model."""
    final: float | None
    """The work of the final model and its audit; None where it was not counted."""
    budget: int
    refused: Mapping[str, str]
    """By defence, or by setting, why no model could be trained."""
    settings: Settings
    environment: Mapping[str, str]
    undecided: tuple[str, ...] = ()
    """Of each ceiling that the final audit could not decide about, why, and what would."""
    ended: str = ""
    """Why the search ended, in a sentence; empty where nothing says it."""

    def trial(self, number: int) -> TrialRow:
        """The trial of this number."""
        return next(row for row in self.trials if row.number == number)

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        these = "every ceiling" if len(self.ceilings) > 1 else "the ceiling"
        if self.outcome == "under":
            return f"The final model stays under {these}"
        if self.outcome == "over":
            return f"No model under {these} was found; this is the nearest"
        return f"No model was shown to stay under {these}; this is the nearest"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was measured, what it costs, and how far the search was off."""
        return (
            *(_ceiling_sentence(ceiling, self.fresh) for ceiling in self.ceilings),
            *(f"Undecided: {sentence.rstrip('.')}." for sentence in self.undecided),
            self._accuracy_sentence(),
            self._optimism_sentence(),
            self._down_sentence(),
        )

    @property
    def next_step(self) -> str:
        """What to do after reading this."""
        if self.outcome == "under":
            behind = (
                f" Put {self.answers} before its answers: it is no part of the file, and the "
                "figures suppose it."
                if self.answers
                else ""
            )
            if not self.file:
                return f"Train your model with {self.trial(self.chosen).label}.{behind}"
            return f"Use {self.file}, the model that was audited.{behind}"
        if self.level not in ("leak", "no leak found", "undecided"):
            return f"Read audit/report.html: its verdict is {self.level!r}."
        if self.needed is not None and self.needed > self.budget:
            return (
                f"Raise the budget to {self.needed}: {self.budget} trainings did not pay for all "
                "defences."
            )
        if self.outcome == "undecided":
            return (
                "Give more records, so that the upper limits come down, or set the ceiling higher."
            )
        return "Raise the ceiling or the budget, or give more records, and run it again."

    def as_page(self) -> SearchPage:
        """What the report shows."""
        return SearchPage(
            kind="a model under a ceiling",
            name=self.name,
            created=self.created,
            outcome=self.outcome,
            headline=self.headline,
            sentences=self.sentences,
            next_step=self.next_step,
            numbers=tuple(self._numbers()),
            note="The final model was trained on all records of the search and on a random half of "
            "the fresh ones, and audited on the fresh ones."
            + "".join(
                f" Strongest attack by {words.metric_title(ceiling.metric)}: {ceiling.attack}."
                for ceiling in self.ceilings
                if ceiling.attack
            ),
            audit="audit/report.html",
            toml="",
            rows=(_headings(self), *(_cells(self, row) for row in self.trials)),
            basis=_basis(self),
            refused=self.refused,
            settings=self.settings,
            environment=self.environment,
        )

    def _numbers(self) -> Iterator[tuple[str, str]]:
        if self.accuracy:
            yield "Accuracy", words.format_rate(self.accuracy)
        for ceiling in self.ceilings:
            metric, fresh = ceiling.metric, ceiling.fresh
            shown = words.format_metric(metric, fresh) if fresh else "not measured"
            yield words.metric_title(metric), shown
            yield "Ceiling", f"{ceiling.ceiling:g}"

    def _accuracy_sentence(self) -> str:
        mine, plain = self.trial(self.chosen), self.undefended
        if self.accuracy is None:
            return "The accuracy of the final model was not measured."
        less = 100 * (mine.accuracy.value - plain.accuracy.value)
        leaks = ", ".join(
            f"{words.metric_title(name)} {leak.value:.3f}" for name, leak in plain.leaks.items()
        )
        cost = (
            "It is the undefended model."
            if mine.label == plain.label
            else f"In the search this setting was {abs(less):.1f} points "
            f"{'less' if less < 0 else 'more'} accurate than the undefended model"
            f"{' after all epochs' if 'epochs=' in plain.label else ''} ({leaks})."
        )
        return (
            f"Its accuracy on records that it was not trained on is "
            f"{words.format_rate(self.accuracy)}. {cost}"
        )

    def _optimism_sentence(self) -> str:
        mine = self.trial(self.chosen)
        comparisons = [
            f"{words.metric_title(ceiling.metric)} {ceiling.search.value:.3f} there, "
            f"{ceiling.fresh.value:.3f} on fresh records"
            for ceiling in self.ceilings
            if ceiling.fresh is not None and ceiling.search is not None
        ]
        if self.accuracy is not None:
            comparisons.append(
                f"accuracy {mine.accuracy.value:.3f} there, {self.accuracy.value:.3f} on fresh ones"
            )
        return (
            f"The search saw models trained on fewer records: {'; '.join(comparisons)}. The "
            "figures of fresh records count."
        )

    def _down_sentence(self) -> str:
        if self.down is None:
            return self._nothing_less()
        mine, less = self.trial(self.chosen), self.down
        leaks = ", ".join(
            f"{words.metric_title(name)} {less.leaks[name].value:.3f} for {leak.value:.3f}"
            for name, leak in mine.leaks.items()
        )
        points = 100 * (mine.accuracy.value - less.accuracy.value)
        return (
            f"The next step down is trial {less.number}, {less.label}: {leaks}, for "
            f"{abs(points):.1f} points {'less' if points >= 0 else 'more'} accuracy."
        )

    def _nothing_less(self) -> str:
        others = [row for row in self.trials if row.number != self.chosen]
        count = words.format_count(len(others), "other setting")
        useful = sum(row.useful for row in others)
        if not others:
            return "No other setting was tried, so nothing says whether one leaks less."
        if not useful:
            return f"Of {count} tried none beats a constant answer, so nothing useful was compared."
        return (
            f"Of {count} tried, {useful} answer{'s' * (useful == 1)} better than a constant, and "
            "none of these leaks clearly less."
        )


def _ceiling_sentence(ceiling: MeasuredCeiling, fresh: int) -> str:
    title = words.metric_title(ceiling.metric)
    if ceiling.fresh is None or ceiling.fresh.high is None:
        return f"{title} could not be measured on {fresh:,} fresh records."
    return (
        f"{title} of the strongest attack is {ceiling.fresh.value:.3f}, at least "
        f"{ceiling.fresh.low:.3f} and at most {ceiling.fresh.high:.3f} (95 %, for all attacks at "
        f"once); the ceiling is {ceiling.ceiling:g}."
    )


def _headings(story: HardenStory) -> tuple[str, ...]:
    leaks = [f"{words.metric_title(ceiling.metric)} (upper limit)" for ceiling in story.ceilings]
    return ("Trial", "Setting", "Accuracy", *leaks, "Models", "Trainings", "State")


def _cells(story: HardenStory, row: TrialRow) -> tuple[str, ...]:
    leaks = [f"{leak.value:.3f} ({leak.high:.3f})" for leak in row.leaks.values()]
    state = "under" if row.under else "given up early" if row.given_up else "over"
    if row.number == story.chosen:
        state = f"chosen, {state}"
    accuracy = f"{row.accuracy.value:.3f} ({row.accuracy.low:.3f}-{row.accuracy.high:.3f})"
    models, work = str(row.models), f"{row.trainings:.3g}"
    return (str(row.number), row.label, accuracy, *leaks, models, work, state)


def _basis(story: HardenStory) -> str:
    count = words.format_count(len(story.trials), "setting")
    were = "was" if len(story.trials) == 1 else "were"
    last = "" if story.final is None else f" and {story.final:.1f} for the final audit"
    return (
        f"{count} {were} tried on {story.searched:,} records; {story.fresh:,} further records were "
        f"left for the final audit. Work: {story.spent:.1f} trainings for the search{last}, of "
        f"{story.budget}; one is an undefended model{_epochs_note(story)} "
        "Accuracy: mean over models with its 95 % interval. Leaks: mean over models of the "
        "strongest attack, and the upper limit that three of four audits would stay under. A "
        f"setting counts as under the ceiling where this limit is. {story.ended}".rstrip()
    )


def _epochs_note(story: HardenStory) -> str:
    if not any("epochs=" in row.label for row in story.trials):
        return "."
    return (
        " for all its epochs, and a shorter training counts its share. Each setting is shown after "
        "the number of epochs at which it does best."
    )


def as_json(story: HardenStory) -> dict[str, JSON]:
    """What ``summary.json`` holds."""
    contents: dict[str, JSON] = {"schema": SCHEMA, "headline": story.headline, **asdict(story)}
    return contents
