"""What every finished run is besides what it stores: audits with verdicts, which a gate holds."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from divulge._util.arguments import FilePath, check_arguments
from divulge._util.json import JSON
from divulge.core import Check, Estimate
from divulge.errors import SpecError, StoreError
from divulge.finished_runs.changes import ScoredCandidates
from divulge.finished_runs.gate import Ceilings, Gate, GateSpec, join_gate
from divulge.finished_runs.judged import Attempts, JudgedVerdict, Ruling, Sample
from divulge.finished_runs.kinds import load_run
from divulge.finished_runs.stored import StoredRun
from divulge.report.schema import ClaimRow, Limits
from divulge.report.units import RECORD, Unit


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict of a kind of run that has levels of its own; see `gate.JudgedVerdict`."""

    level: str
    headline: str
    sentences: tuple[str, ...]
    next_step: str
    attack: str | None = None
    """Label of the deciding attack."""


class FinishedRun(StoredRun):
    """What a command made, or what its folder holds, whatever its kind. Shows itself in a notebook.

    A kind has its name in `finished_runs.kinds.KINDS`, and says what it is called in messages, how
    its folder is read, what its report is, and which audits in it have a verdict of their own.
    """

    __slots__ = ()
    about: ClassVar[str] = "membership"
    """The secret that it is about."""

    @classmethod
    def load(cls, path: Path) -> "FinishedRun":
        """What is in a run folder of this kind.

        Raises:
            StoreError: it is none, or not finished, or damaged.
        """
        raise NotImplementedError

    def measure(self) -> "FinishedRun":
        """Compute all metrics again from the stored guesses; a run folder is brought up to date.

        Raises:
            StoreError: no guesses are stored, or the run folder cannot be written.
        """
        raise StoreError(
            f"expected a run with stored guesses, got {self.noun} in {self.path}, which keeps "
            "figures alone: they are in its summary.json"
        )

    @property
    def parts(self) -> Mapping[str, "GatedAudit"]:
        """The audits in it that have a verdict of their own, by name; one that is all has none."""
        return {}

    @property
    def verdicts(self) -> Mapping[str, JudgedVerdict]:
        """By name as in `parts`, what is to be told of each."""
        return {name: audit.verdict for name, audit in self.parts.items()}

    @property
    def instead(self) -> str:
        """What to do where one audit is wanted, and this is several or none."""
        raise NotImplementedError

    @property
    def missing(self) -> tuple[str, ...]:
        """Attacks asked for that have no finding yet, because the run was interrupted."""
        return ()

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the audits themselves."""
        return tuple(check for audit in self.parts.values() for check in audit.checks)

    @property
    def sizes(self) -> Mapping[str, JSON]:
        """How many records, models and the like it is about, by name."""
        return {}

    def judged(self) -> "GatedAudit":
        """The one audit that a gate or a history is about.

        Raises:
            SpecError: there are several, or none: says what this is.
        """
        if "" in self.parts:
            return self.parts[""]
        where = "" if self.path is None else f" in {self.path}"
        raise SpecError(f"expected a run with one verdict{where}, got {self.noun}: {self.instead}")

    @check_arguments
    def gate(
        self,
        *,
        fail_on: Iterable[str] = (),
        fail_above: Ceilings | None = None,
        judge: str = "low",
        claim: bool = False,
        not_worse_than: FilePath | None = None,
        ceiling: Ceilings | None = None,
    ) -> Ruling:
        """Hold the run against a gate, as ``divulge audit --fail-on`` does.

        Args:
            fail_on: verdicts that fail: leak, leak-or-shift, confounded, control-failed, undecided;
                and control-untested, which fails if a control of some attack could not be run. Of
                an audit by canaries: contradicted, undecidable.
            fail_above: by metric, the value that is not to be proven exceeded; as pairs where a
                metric has several, which all hold.
            judge: compare the ``low`` limit with it, or the ``value``.
            claim: also require that the claimed epsilon is consistent with the measurement.
            not_worse_than: run folder of an earlier audit, than which no attack may show more.
            ceiling: by metric, the agreed ceiling; pairs as of ``fail_above``. It passes where
                every attack is shown to be at or below it (upper limit), fails where one is shown
                to be above (lower limit), and is undecided else.

        Raises:
            SpecError: a word or a metric is unknown, a metric has no upper limit to compare with an
                agreed ceiling, a ceiling is out of the metric's range, a
                claim is asked about where not one model was audited, the earlier audit is about
                something else, or the run has no verdict of its own.
            StoreError: the earlier run cannot be read.
        """
        audit, settings = self.judged(), GateSpec(claim=claim)
        return audit.rule(
            join_gate(
                settings,
                audit.about,
                fail_on,
                fail_above,
                judge,
                not_worse_than,
                ceiling=ceiling,
            )
        )


class GatedAudit(FinishedRun):
    """Audits with one verdict, which can be held against a gate."""

    __slots__ = ()
    noun = "an audit"

    @property
    def parts(self) -> Mapping[str, "GatedAudit"]:
        """This one."""
        return {"": self}

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return self.verdict.headline

    @property
    def verdict(self) -> JudgedVerdict:
        """Whether there is a leak."""
        raise NotImplementedError

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the audit itself."""
        return ()

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, intervals that hold for all attacks at once: what a gate compares."""
        raise NotImplementedError

    @property
    def untested(self) -> Mapping[str, str]:
        """By label of an attack that is done, why its controls could not be run."""
        raise NotImplementedError

    @property
    def unit(self) -> Unit:
        """What was drawn and counted."""
        return RECORD

    def figures(self, best_of: int = 1) -> Mapping[str, Mapping[str, Estimate]]:
        """By label of each attack that passed its controls, its metrics.

        Args:
            best_of: the number of figures for which intervals hold at once, at 95 % (Bonferroni).
        """
        raise NotImplementedError

    @property
    def sample(self) -> Sample | None:
        """What its intervals come from, in number; None where nobody knows."""
        return None

    @property
    def reach(self) -> float:
        """The bound on ε that an attack which knows every member would have; inf if unknown."""
        return math.inf

    @property
    def scored(self) -> ScoredCandidates | None:
        """The candidates with their scores, where one model was audited for membership."""
        return None

    @property
    def claims(self) -> tuple[ClaimRow | None, ...]:
        """What became of claimed guarantees, one entry for each audited model."""
        raise SpecError(
            "expected no claim in the gate of this audit, got one: a claim is about one model"
        )

    def rule(self, gate: Gate) -> Ruling:
        """Hold the audit against a gate that is about its secret.

        Raises:
            SpecError: a claim is asked about where not one model was audited.
        """
        from divulge.finished_runs import rulings  # a run is read without a gate, too

        reach = self.reach if "epsilon" in dict(gate.ceilings) else math.inf
        attempts = Attempts(self.sample, self.findings, self.figures(), self.unit, reach)
        ruling = rulings.hold_against_gate(gate, self.verdict, self.limits, self.untested, attempts)
        for claim in self.claims if gate.claim else ():
            ruling += rulings.hold_claim_against_gate(claim)
        for name, earlier in gate.not_worse_than.items():
            change = rulings.hold_against_earlier(self, earlier)
            several = len(gate.not_worse_than) > 1
            ruling += change.prefix(f"against {name}: ") if several else change
        return ruling


@check_arguments
def load(run: FilePath) -> FinishedRun:
    """What is in a run folder of any kind; needs neither the model nor the data.

    Raises:
        StoreError: it is no run folder, damaged, not finished, or made by a newer divulge.
    """
    finished = load_run(Path(run))
    assert isinstance(finished, FinishedRun)
    return finished
