"""What training models, a search, or simulated rounds will cost, in figures and in words."""

from collections.abc import Mapping
from dataclasses import dataclass

from divulge._util.progress import format_span
from divulge.report import words


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """About what it takes to train shadows and ask them; attacks come on top."""

    models: int
    """The number of models to be trained."""
    trained: int
    """The number of models that the trial trained."""
    share: float
    """The largest share of its records on which the trial trained a model."""
    trial: float
    """Seconds that the trial took, the start of workers included."""
    seconds: float
    """Seconds for all models, with as many workers as now."""
    at_least: bool
    """Whether it may be much longer: a model on few records took too long for a second look."""
    memory: int | None
    """Bytes held by this process and those it started, at their peaks in the trial; None if the
    system does not say."""
    disk: int
    """Bytes in the run folder for what the models say."""
    queries: int
    """Records that each model is asked about; in an ordinary audit the target is, too."""

    def __str__(self) -> str:
        models, trained = (
            words.format_count(number, "model") for number in (self.models, self.trained)
        )
        about, part = ("About", "all") if self.share == 1 else ("At least", f"{self.share:.0%}")
        return (
            f"{'At least' if self.at_least else 'About'} {format_span(self.seconds)} to train "
            f"{models} and to ask each about {words.format_count(self.queries, 'record')}.\n"
            f"{about} {_space(self.memory, self.disk)}\n"
            f"From a trial of {format_span(self.trial)}: {trained} on up to {part} of the records, "
            "the start of workers included. Attacks, and an audited model's own answers, come on "
            "top."
        )


@dataclass(frozen=True, slots=True)
class SimulationCost:
    """About what it takes to simulate a federation; an audit of its transcript comes on top."""

    rounds: int
    """The number of rounds to be simulated."""
    simulated: int
    """The number of them that the trial simulated: two, or the only one."""
    trial: float
    """Seconds that the trial took."""
    seconds: float
    """Seconds for all rounds; those after the trial take as long as its last one."""
    memory: int | None
    """Bytes held by this process and those it started, at their peaks; None if the system does
    not say."""
    disk: int
    """Bytes of the transcript."""

    def __str__(self) -> str:
        rounds, simulated = (
            words.format_count(number, "round") for number in (self.rounds, self.simulated)
        )
        return (
            f"About {format_span(self.seconds)} to simulate {rounds}.\n"
            f"About {_space(self.memory, self.disk)}\n"
            f"From a trial: {simulated} in {format_span(self.trial)}. An audit of the transcript "
            "comes on top."
        )


@dataclass(frozen=True, slots=True)
class SearchCost:
    """About what a search for a model under a ceiling will cost; attacks come on top."""

    one: CostEstimate
    """Of one setting without a defence, from the trial."""
    trainings: int
    """The most networks that are trained: the budget."""
    firsts: Mapping[str, int]
    """By each setting that is tried first, how many of them it takes."""
    final: int
    """How many of them are those of the final model and its shadow models."""
    processors: int
    """How many models are trained at a time."""
    seconds: float
    """Seconds for all trainings, as if each took as long as an undefended one."""
    disk: int
    """Bytes in the run folder for what the models of the search say."""

    def __str__(self) -> str:
        about = "At least" if self.one.at_least else "About"
        work = self.seconds * self.processors
        return (
            f"{about} {format_span(self.seconds)} to train {self.trainings} models, at most "
            f"{format_span(work)} of processor time ({self.processors} at a time), if each takes "
            "as long as an undefended one. Defences take 1 to 5 times as long, settings that are "
            "given up early half.\n"
            f"About {_space(self.one.memory, self.disk)}\n"
            f"{self._reached}\n"
            f"From a trial of {format_span(self.one.trial)}: "
            f"{words.format_count(self.one.trained, 'model')}, the start of workers included. "
            "Attacks come on top."
        )

    @property
    def _reached(self) -> str:
        """Which settings the budget reaches, of those that are tried first."""
        needed, left = sum(self.firsts.values()), self.trainings - self.final
        said = (
            f"Each defence once takes {needed} trainings, the final model and its audit "
            f"{self.final}: "
        )
        if needed <= left:
            return f"{said}{left - needed} of {self.trainings} are left for the search."
        return (
            f"{said}a budget of {self.trainings} is too small to try each once; from "
            f"{needed + self.final} on it is not."
        )


def _space(memory_bytes: int | None, disk: int) -> str:
    memory = "memory unknown on this system" if memory_bytes is None else _bytes(memory_bytes)
    return f"{memory} of memory, and {_bytes(disk)} on disk."


def _bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 0.1):.1f} MB"
