"""What training models, a search, or simulated rounds will cost, in figures and in words."""

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
    """The work of all, in trainings of an undefended model: the budget."""
    final: int
    """How many models are trained for the final audit."""
    processors: int
    """How many models are trained at a time."""
    seconds: float
    """Seconds for the whole budget, as if each training took as long as an undefended one."""
    disk: int
    """Bytes in the run folder for what the models of the search say, as long as it goes on."""

    def __str__(self) -> str:
        about = "At least" if self.one.at_least else "About"
        work = self.seconds * self.processors
        return (
            f"{about} {format_span(self.seconds)} for the work of {self.trainings} undefended "
            f"trainings, at most {format_span(work)} of processor time ({self.processors} at a "
            "time). Steps of defences take 1 to 5 times as long; a search that needs less of its "
            "budget for the final audit spends it on further settings.\n"
            f"{self.final} models are trained for the final audit.\n"
            f"About {_space(self.one.memory, self.disk)}\n"
            f"From a trial of {format_span(self.one.trial)}: "
            f"{words.format_count(self.one.trained, 'model')}, the start of workers included. "
            "Attacks come on top."
        )


def _space(memory_bytes: int | None, disk: int) -> str:
    memory = "memory unknown on this system" if memory_bytes is None else _bytes(memory_bytes)
    return f"{memory} of memory, and {_bytes(disk)} on disk."


def _bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 0.1):.1f} MB"
