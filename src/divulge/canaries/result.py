"""An audit by canaries: its verdict, its figures, and its run folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pydantic
from scipy import special

from divulge._util.folders import create_folder
from divulge._util.json import JSON
from divulge.canaries.facts import BoxResult, CanaryFacts
from divulge.core import Estimate, Finding, Head, Status
from divulge.errors import StoreError
from divulge.finished_runs.finished_run import GatedAudit, RunVerdict
from divulge.finished_runs.judged import Sample
from divulge.finished_runs.run_json import has_head, load_head, new_head, store_head
from divulge.finished_runs.stored import PAGE
from divulge.metrics.intervals import CONFIDENCE, normal_quantile
from divulge.report.markdown import make_inert
from divulge.report.schema import ClaimRow, Limits
from divulge.secrets.registry import CANARIES

KIND, SUMMARY = "canaries", "summary.json"
PAPER = "Steinke et al. 2023"
_EDGE = 1e-6
"""No AUC is taken to be nearer than this to 0 or 1 where its interval is widened."""


@dataclass(frozen=True, repr=False)
class CanaryAudit(GatedAudit):
    """Whether a stated ε is kept, by the canaries of one training."""

    head: Head[CanaryFacts]
    path: Path | None = None
    """The run folder, if it has one."""
    noun = "an audit by canaries"
    about = KIND

    @classmethod
    def load(cls, path: Path) -> "CanaryAudit":
        """What is in the run folder of an audit by canaries.

        Raises:
            StoreError: it is none, or damaged.
        """
        return cls(load_head(path, KIND, CanaryFacts), path)

    @property
    def facts(self) -> CanaryFacts:
        """What was stated, and what the canaries show."""
        return self.head.facts

    @property
    def bound(self) -> float:
        """The ε that the training has at least, with 95 % confidence."""
        return self.facts.bound

    @property
    def results(self) -> tuple[BoxResult, ...]:
        """What each file of scores shows."""
        return self.facts.results

    @property
    def verdict(self) -> RunVerdict:
        """Contradicted, inputs doubtful, consistent or undecidable; see `CanaryFacts.level`."""
        facts = self.facts
        return RunVerdict(facts.level, facts.headline, (facts.sentence,), facts.next_step)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One a file of scores: how well they tell canaries apart, and the bound on ε."""
        return tuple(
            Finding(
                label=f"{result.box} box",
                attack="canaries",
                paper=PAPER,
                settings={"noise": self.facts.noise},
                status=Status.DONE,
                metrics={
                    "auc": result.auc,
                    "epsilon": Estimate(result.highest, result.highest, None),
                },
            )
            for result in self.results
        )

    @property
    def sizes(self) -> Mapping[str, JSON]:
        """The number of canaries, and of those that were inserted."""
        return {"canaries": self.facts.canaries, "inserted": self.facts.inserted}

    @property
    def sample(self) -> Sample:
        """The number of canaries."""
        return Sample(self.facts.canaries, "canaries")

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, what a gate compares."""
        figures = self.figures(len(self.results))
        rows = {
            name: [(label, metrics[name]) for label, metrics in figures.items()]
            for name in CANARIES
        }
        return {name: _limits(each) for name, each in rows.items()}

    @property
    def untested(self) -> Mapping[str, str]:
        """Empty: the canaries that were not inserted are the control."""
        return {}

    def figures(self, best_of: int = 1) -> Mapping[str, Mapping[str, Estimate]]:
        """By box, its metrics; scores are not kept, so wider intervals come from those of 95 %.

        On the logit scale, on which that of an AUC is nearly normal, it is as much wider as the
        quantile of the normal distribution is. Bounds on ε hold at once already.

        Args:
            best_of: the number of figures for which intervals hold at once, at 95 % (Bonferroni).
        """
        return {
            finding.label: {**finding.metrics, "auc": _widen(finding.metrics["auc"], best_of)}
            for finding in self.findings
        }

    @property
    def claims(self) -> tuple[ClaimRow, ...]:
        """What became of the ε that was stated."""
        facts, bound = self.facts, self.facts.bound
        return (
            ClaimRow(
                epsilon=facts.epsilon,
                delta=facts.delta,
                mechanism="",
                derived=False,
                outcome="not measured" if facts.level == "inputs doubtful" else facts.level,
                bound=Estimate(bound, bound, None),
                attack=None,
                largest=facts.reach,
                needed=facts.needed,
                sentence=facts.headline,
            ),
        )

    @property
    def reach(self) -> float:
        """The bound on ε of a training that gives away every canary."""
        return self.facts.reach

    def table(self) -> str:
        """The verdict and what each box shows, as a list."""
        lines = (self.headline, *self.facts.lines())
        return "\n".join(f"- {make_inert(line.strip())}" for line in lines)

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.facts.lines()])

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        return self.facts.as_json()

    def render(self) -> dict[str, bytes]:
        """The summary and the page."""
        from divulge.canaries import page as canary_page  # only pages need templates

        summary = pydantic.TypeAdapter(dict).dump_json(self.as_json(), indent=1)
        page = canary_page.render(self.facts, self.head.created)
        return {SUMMARY: summary + b"\n", PAGE: page.encode()}

    def store(self, folder: Path) -> None:
        """Write the head, which has all figures.

        Raises:
            StoreError: it cannot be written.
        """
        store_head(folder, self.head)


def audit_of(facts: CanaryFacts, libraries: Mapping[str, str]) -> CanaryAudit:
    """The audit that these facts make now.

    Args:
        facts: what was found.
        libraries: by name, the versions of those that the training came from.
    """
    settings: dict[str, JSON] = {
        "epsilon": facts.epsilon, "delta": facts.delta, "noise": facts.noise
    }  # fmt: skip
    head = new_head(
        KIND, KIND, 0, settings, challenge=facts.commitment, facts=facts, libraries=libraries
    )
    return CanaryAudit(head)


def begin_run(
    folder: Path, judge: Callable[[], CanaryFacts], libraries: Mapping[str, str]
) -> CanaryAudit:
    """Judge into a new run folder, or finish one whose page a kill prevented.

    Args:
        folder: a folder that this process holds.
        judge: opens the coins.
        libraries: as of `audit_of`.

    Raises:
        StoreError: there is something else in the folder, such as another audit.
    """
    if not has_head(folder) or (folder / PAGE).exists():
        create_folder(folder)
        audit = replace(audit_of(judge(), libraries), path=folder)
        audit.store(folder)
    else:
        audit = CanaryAudit.load(folder)
        if audit.facts != judge():
            raise StoreError(
                f"expected the audit that {folder} was begun with, got another one: name a new "
                "folder"
            )
    audit.report()
    return audit


def _limits(rows: Sequence[tuple[str, Estimate]]) -> Limits:
    """Of one metric the row that shows most, and how much any may hide."""
    label, most = max(rows, key=lambda row: row[1].low)
    highs = [estimate.high for _, estimate in rows if estimate.high is not None]
    return Limits(
        label,
        most,
        max(estimate.value for _, estimate in rows),
        max(highs, default=None),
        undecided="",
    )


def _widen(auc: Estimate, best_of: int) -> Estimate:
    """The interval that holds for so many figures at once, from that for one.

    Examples:
        >>> one = Estimate(0.8, 0.7, 0.87)
        >>> _widen(one, 1) == one, _widen(one, 5).low < 0.7
        (True, True)
    """
    if best_of == 1 or auc.high is None:
        return auc
    wider = normal_quantile(1 - (1 - CONFIDENCE) / best_of) / normal_quantile(CONFIDENCE)
    middle, low, high = special.logit(np.clip([auc.value, auc.low, auc.high], _EDGE, 1 - _EDGE))
    ends = special.expit([middle - wider * (middle - low), middle + wider * (high - middle)])
    return Estimate(auc.value, *map(float, ends))
