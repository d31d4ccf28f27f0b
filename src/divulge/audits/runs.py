"""What every finished run is: a head, a verdict, findings, files that show them, and a gate."""

import html
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.extras import name_missing_extra
from divulge._util.folders import LOCK, create_folder
from divulge._util.json import JSON
from divulge.audits.changes import ScoredCandidates
from divulge.audits.gate import (
    Ceilings,
    Gate,
    GateSpec,
    JudgedVerdict,
    Ruling,
    hold_against_earlier,
    hold_against_gate,
    hold_claim_against_gate,
    join_gate,
)
from divulge.audits.heads import refuse_linked_folders
from divulge.audits.run_folder import hold_run, take_run_folder
from divulge.core import Check, Estimate, Finding, Head
from divulge.errors import SpecError, StoreError
from divulge.report.schema import ClaimRow, Limits

if TYPE_CHECKING:
    import pandas as pd

PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict of a kind of run that has levels of its own; see `gate.JudgedVerdict`."""

    level: str
    headline: str
    sentences: tuple[str, ...]
    next_step: str
    attack: str | None = None
    """Label of the deciding attack."""


def refuse_images() -> NoReturn:
    """Of runs that are not about images.

    Raises:
        SpecError: always.
    """
    raise SpecError(
        "expected [interactions] with images where records are to be shown, got another "
        "audit: do without --show-records"
    )


class FinishedRun:
    """What a command made, or what its folder holds, whatever its kind. Shows itself in a notebook.

    A kind has its name in `audits.kinds.KINDS`, and says what it is called in messages, how its
    folder is read, what its report is, and which audits in it have a verdict of their own.
    """

    __slots__ = ()
    noun: ClassVar[str]
    """What it is, for messages: ``a comparison``."""
    about: ClassVar[str] = "membership"
    """The secret that it is about."""
    page: ClassVar[str] = PAGE
    """The report's file in the run folder."""

    if TYPE_CHECKING:  # fields of some kinds, and a field takes a property of its base as default

        @property
        def head(self) -> Head[Any]:
            """What was asked for, and what it is about."""

        @property
        def path(self) -> Path | None:
            """The run folder, if it has one."""

    @classmethod
    def load(cls, path: Path) -> "FinishedRun":
        """What is in a run folder of this kind.

        Raises:
            StoreError: it is none, or not finished, or damaged.
        """
        raise NotImplementedError

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        raise NotImplementedError

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What each attack found."""
        raise NotImplementedError

    @property
    def parts(self) -> Mapping[str, "GatedAudit"]:
        """The audits in it that have a verdict of their own, by name; one that is all has none."""
        return {}

    @property
    def verdicts(self) -> Mapping[str, JudgedVerdict]:
        """By name as in `parts`, what is to be told of each."""
        return {name: one.verdict for name, one in self.parts.items()}

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
        return tuple(check for one in self.parts.values() for check in one.checks)

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
    ) -> Ruling:
        """Hold the run against a gate, as ``divulge audit --fail-on`` does.

        Args:
            fail_on: verdicts that fail: leak, leak-or-shift, confounded, control-failed, undecided;
                and control-untested, which fails if a control of some attack could not be run. Of
                an audit by canaries: contradicted, undecidable.
            fail_above: by metric, the highest admissible value; as pairs where a metric has
                several, which all hold.
            judge: compare the ``low`` limit with it, or the ``value``.
            claim: also require that the claimed epsilon is consistent with the measurement.
            not_worse_than: run folder of an earlier audit, than which no attack may show more.

        Raises:
            SpecError: a word or a metric is unknown, a ceiling is out of the metric's range, a
                claim is asked about where not one model was audited, the earlier audit is about
                something else, or the run has no verdict of its own.
            StoreError: the earlier run cannot be read.
        """
        audit, asked = self.judged(), GateSpec(claim=claim)
        return audit.rule(join_gate(asked, audit.about, fail_on, fail_above, judge, not_worse_than))

    def measure(self) -> "FinishedRun":
        """Compute all metrics again from the stored guesses; a run folder is brought up to date.

        Raises:
            StoreError: no guesses are stored, or the run folder cannot be written.
        """
        raise StoreError(
            f"expected a run with stored guesses, got {self.noun} in {self.path}, which keeps "
            "figures alone: they are in its summary.json"
        )

    def table(self) -> str:
        """What was found in Markdown, every text of others made inert."""
        raise NotImplementedError

    def files(self, *, show_records: bool = False) -> dict[str, bytes]:
        """Every file of the report, by path.

        Args:
            show_records: the page also shows images that clients were shown, if the audit was
                carried out with the same word.

        Raises:
            SpecError: there are no images to show.
        """
        if show_records:
            refuse_images()
        return self.render()

    def render(self) -> dict[str, bytes]:
        """Every file of the report, by path, without any record."""
        raise NotImplementedError

    @check_arguments
    def report(self, path: FilePath | None = None, *, show_records: bool = False) -> Path:
        """Write the page, one self-contained file, and return its path.

        Args:
            path: default: the whole report in the run folder, if there is one, again; else
                ``report.html``.
            show_records: the page also shows images that clients were shown, if the audit was
                carried out with the same word.

        Raises:
            SpecError: there are no images to show.
            StoreError: it cannot be written.
        """
        files = self.files(show_records=show_records)
        if path is None and self.path is not None:
            refuse_linked_folders(self.path)
            with hold_run(self.path):
                for name, content in files.items():
                    atomic.write_within(self.path, name, content)
            return self.path / self.page
        place = Path(path or self.page)
        return atomic.write_within(place.parent, place.name, files[self.page])

    @check_arguments
    def save(self, path: FilePath) -> Path:
        """Write a run folder with everything that was found and the report, and return its path.

        Raises:
            StoreError: the folder exists, or cannot be written.
        """
        place = Path(path)
        with take_run_folder(place):
            create_folder(place)
            self.store(place)
            replace(self, path=place).report()  # type: ignore[type-var]
        return place

    def store(self, folder: Path) -> None:
        """Write into an empty folder what `load` reads.

        Raises:
            StoreError: it cannot be written.
        """
        assert self.path is not None
        with atomic.translate_os_errors(folder):
            shutil.copytree(
                self.path,
                folder,
                symlinks=True,
                ignore=shutil.ignore_patterns(LOCK, f"{atomic.UNFINISHED}*"),
                dirs_exist_ok=True,
            )

    def to_frame(self) -> "pd.DataFrame":
        """One row per attack and metric: attack, status, metric, value, low, high.

        Raises:
            MissingExtra: pandas is not installed.
        """
        rows: list[tuple[str, str, str | None, float | None, float | None, float | None]] = []
        for finding in self.findings:
            start = (finding.label, finding.status.value)
            rows += [
                (*start, name, estimate.value, estimate.low, estimate.high)
                for name, estimate in finding.metrics.items()
            ] or [(*start, None, None, None, None)]
        return as_frame(rows, ["attack", "status", "metric", "value", "low", "high"])

    def _repr_html_(self) -> str:
        page = html.escape(self.files()[self.page].decode(), quote=True)
        if not self.page.endswith(".html"):
            return f"<pre>{page}</pre>"
        # a frame of its own: the page's styles cannot reach the notebook, nor the notebook's it
        return (
            f'<iframe srcdoc="{page}" sandbox="" title="divulge report" '
            'style="width:100%;height:48em;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<divulge.{type(self).__name__}: {self.headline}>\n{self.table()}"


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

    def figures(self, best_of: int = 1) -> Mapping[str, Mapping[str, Estimate]]:
        """By label of each attack that passed its controls, its metrics.

        Args:
            best_of: the number of figures for which intervals hold at once, at 95 % (Bonferroni).
        """
        raise NotImplementedError

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
        ruling = hold_against_gate(gate, self.verdict, self.limits, self.untested)
        for one in self.claims if gate.claim else ():
            ruling += hold_claim_against_gate(one)
        for name, earlier in gate.not_worse_than.items():
            change = hold_against_earlier(self, earlier)
            several = len(gate.not_worse_than) > 1
            ruling += change.prefix(f"against {name}: ") if several else change
        return ruling


def as_frame(data: Any, columns: list[str] | None = None) -> "pd.DataFrame":
    """A table of pandas.

    Raises:
        MissingExtra: pandas is not installed.
    """
    with name_missing_extra():
        import pandas as pd
    return pd.DataFrame(data, columns=columns)
