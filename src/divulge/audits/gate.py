"""The gate of a continuous-integration job: may this model pass?

A gate asks for what must not be (``fail_on``) and for metrics that must stay below a ceiling
(``fail_above``). Each ends in one sentence: it failed, it passed, or it could not be decided, which
never passes. Figures are compared by limits that hold for all attacks at once.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, get_args, runtime_checkable

from divulge._util.arguments import FilePath, check_arguments
from divulge.audits.changes import LEAD, FigureChange, ScoredCandidates, compare_figures
from divulge.audits.config import FailOn, GateSpec, Judge
from divulge.audits.kinds import load_kind
from divulge.core import Estimate
from divulge.errors import SpecError, did_you_mean
from divulge.metrics import assignment, composition, interactions, measure
from divulge.report.schema import ClaimRow, Conclusion, Level, Limits
from divulge.report.sentences import next_step

_LEVELS: Mapping[str, tuple[Level, ...]] = {
    "leak": ("leak",),
    "leak-or-shift": ("leak or shift",),
    "confounded": ("confounded",),
    "control-failed": ("instrument failed",),
    "undecided": ("undecided", "nothing measured"),
}
_INCOMPARABLE = ("instrument failed", "confounded", "leak or shift", "nothing measured")
"""Levels of a verdict beside which no figure is about the model alone."""
_UNTESTED = "control-untested"
"""The one word of ``fail_on`` that is about attacks, and not about the verdict."""

METRICS: Mapping[str, Collection[str]] = {
    "membership": measure.METRICS,
    "composition": [name for name in composition.METRICS if name.startswith("null")],
    "interactions": interactions.METRICS,
    "assignment": [name for name in assignment.METRICS if name != "specificity"],
}
"""By secret: metrics that rise with a leak."""

Ceilings = Mapping[str, float] | Sequence[tuple[str, float]]
"""Metrics with the highest admissible value; pairs where a metric has several, which all hold."""

_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", re.ASCII)
_PERCENT = re.compile(r"(.*@)([0-9]+\.?[0-9]*)%?(.*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Gate:
    """What a model must not do. All conditions hold, in whatever order they were given.

    Raises:
        SpecError: a metric or a word is unknown, or a ceiling lies outside the metric's range.
    """

    fail_on: tuple[str, ...] = ()
    """Verdicts that fail; with ``control-untested``, an attack that no control tested fails too."""
    fail_above: Ceilings = ()
    """Metrics with the highest admissible value."""
    judge: str = "low"
    """``low`` compares the lower limit, so that the job fails when the leak is proven; ``value``
    compares the value, which also fails by chance."""
    about: str = "membership"
    """The secret that the audit is about."""
    claim: bool = False
    """Whether the claimed epsilon has to be consistent with the measurement."""
    not_worse_than: "Mapping[str, GatedAudit]" = field(default_factory=dict)
    """By name, earlier audits, than none of which this one may show more."""

    def __post_init__(self) -> None:
        for word in self.fail_on:
            if word not in get_args(FailOn):
                hint = did_you_mean(word, get_args(FailOn))
                raise SpecError(f"expected a verdict to fail on, got {word!r}: {hint}")
        if self.judge not in get_args(Judge):
            raise SpecError(f"expected judge 'low' or 'value', got {self.judge!r}")
        for name, ceiling in self.ceilings:
            _check(name, ceiling, METRICS[self.about])
        for earlier in self.not_worse_than.values():
            if earlier.about != self.about:
                raise SpecError(
                    f"expected an earlier audit of {self.about} to compare with, got one of "
                    f"{earlier.about}: name a run about the same secret"
                )

    @property
    def words(self) -> tuple[str, ...]:
        """The verdicts that fail, each once."""
        return tuple(word for word in get_args(FailOn) if word in self.fail_on)

    @property
    def ceilings(self) -> tuple[tuple[str, float], ...]:
        """Each metric with each of its ceilings, once."""
        return tuple(sorted(set(_pair(self.fail_above))))

    @property
    def parts(self) -> Mapping[str, "Gate"]:
        """Gates that ask for one thing each, by what that is: ``fail-on leak``."""
        nothing = Gate(judge=self.judge, about=self.about)
        parts = {f"fail-on {one}": replace(nothing, fail_on=(one,)) for one in self.words}
        times = Counter(name for name, _ in self.ceilings)
        for name, ceiling in self.ceilings:
            # a test case keeps its name where the ceiling changes
            which = name if times[name] == 1 else f"{name}={ceiling}"
            parts[f"fail-above {which}"] = replace(nothing, fail_above=((name, ceiling),))
        if self.claim:
            parts["claim"] = replace(nothing, claim=True)
        for name, earlier in self.not_worse_than.items():
            which = "" if len(self.not_worse_than) == 1 else f" {name}"
            parts[f"not-worse-than{which}"] = replace(nothing, not_worse_than={name: earlier})
        return parts


class GatedAudit:
    """Audits that can be held against a gate."""

    __slots__ = ()
    about = "membership"

    @property
    def verdict(self) -> "JudgedVerdict":
        """Whether there is a leak."""
        raise NotImplementedError

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

    @check_arguments
    def gate(
        self,
        *,
        fail_on: Iterable[str] = (),
        fail_above: Ceilings | None = None,
        judge: str = "low",
        claim: bool = False,
        not_worse_than: FilePath | None = None,
    ) -> "Ruling":
        """Hold the audit against a gate, as ``divulge audit --fail-on`` does.

        Args:
            fail_on: verdicts that fail: leak, leak-or-shift, confounded, control-failed, undecided;
                and control-untested, which fails if a control of some attack could not be run.
            fail_above: by metric, the highest admissible value; as pairs where a metric has
                several, which all hold.
            judge: compare the ``low`` limit with it, or the ``value``.
            claim: also require that the claimed epsilon is consistent with the measurement.
            not_worse_than: run folder of an earlier audit, than which no attack may show more.

        Raises:
            SpecError: a word or a metric is unknown, a ceiling is out of the metric's range, a
                claim is asked about where not one model was audited, or the earlier audit is about
                something else.
            StoreError: the earlier run cannot be read.
        """
        asked = GateSpec(claim=claim)
        gate = join_gate(asked, self.about, fail_on, fail_above, judge, not_worse_than)
        return self.rule(gate)

    def rule(self, gate: Gate) -> "Ruling":
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


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a gate says: one sentence for each thing that was asked."""

    failed: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Nothing failed, and nothing was left undecided."""
        return not self.failed and not self.undecided

    def prefix(self, text: str) -> "Ruling":
        """The same ruling, with a text before each of its sentences."""
        each = (self.failed, self.undecided, self.passed)
        return Ruling(*(tuple(f"{text}{sentence}" for sentence in one) for one in each))

    def __add__(self, other: "Ruling") -> "Ruling":
        return Ruling(
            self.failed + other.failed,
            self.undecided + other.undecided,
            self.passed + other.passed,
        )


@runtime_checkable
class JudgedVerdict(Protocol):
    """What a gate looks at: the verdict of an audit of any kind."""

    @property
    def level(self) -> Level:
        """In a word."""
        ...

    @property
    def headline(self) -> str:
        """In a sentence."""
        ...

    @property
    def next_step(self) -> str:
        """What to do next; where nothing was decided, how many records would do."""
        ...


def join_gate(
    settings: GateSpec,
    about: str,
    fail_on: Iterable[str] = (),
    fail_above: Ceilings | None = None,
    judge: str | None = None,
    not_worse_than: str | Path | None = None,
    folder: Path = Path(),
) -> Gate:
    """The gate of the settings with what is asked besides: all of it holds.

    Nothing takes the place of anything else, so that a further condition never lets more pass.

    Args:
        settings: the section ``[gate]``.
        about: the secret that the audit is about.
        fail_on: further verdicts that fail.
        fail_above: further ceilings.
        judge: what is compared with all ceilings; ``value``, which is stricter, if it or the
            settings say so.
        not_worse_than: run folder of a further earlier audit.
        folder: where a relative path in the settings starts.

    Raises:
        SpecError: see `Gate`.
        StoreError: the earlier run cannot be read.
    """
    ceilings = (*settings.fail_above.items(), *_pair(fail_above or ()))
    words = (*settings.fail_on, *fail_on)
    judge = settings.judge if judge is None or settings.judge == "value" else judge
    named = None if settings.not_worse_than is None else folder / settings.not_worse_than
    runs = {Path(run).resolve(): run for run in (named, not_worse_than) if run is not None}
    earlier = {str(run): load_earlier(run) for run in runs.values()}
    return Gate(words, ceilings, judge, about, settings.claim, earlier)


def _pair(ceilings: Ceilings) -> Iterable[tuple[str, float]]:
    return ceilings.items() if isinstance(ceilings, Mapping) else ceilings


def load_earlier(run: str | Path) -> GatedAudit:
    """The earlier audit that a gate compares with.

    Raises:
        SpecError: it is a comparison, which has no figures of its own.
        StoreError: it cannot be read.
    """
    found = load_kind(Path(run))
    if not isinstance(found, GatedAudit):
        raise SpecError(
            f"expected an audit in {run}, got a comparison: name the folder of one of its defences"
        )
    return found


def hold_against_gate(
    gate: Gate,
    verdict: JudgedVerdict,
    limits: Mapping[str, Limits],
    untested: Mapping[str, str] = MappingProxyType({}),
) -> Ruling:
    """Hold an audit against a gate.

    Args:
        gate: what was asked.
        verdict: of the audit.
        limits: of each metric, over all attacks.
        untested: by label of an attack, why its controls could not be run.

    Returns:
        Where the inputs are doubtful nothing passes, whatever was asked: no figure counts then.
    """
    ruling = Ruling()
    if verdict.level == "inputs doubtful" and (gate.words or gate.ceilings):
        ruling += Ruling(undecided=(f"{verdict.headline}. {verdict.next_step}",))
        return ruling + _on_untested(untested) if untested and _UNTESTED in gate.words else ruling
    if words := [word for word in gate.words if word != _UNTESTED]:
        ruling += _on_verdict(words, verdict, untested)
    if _UNTESTED in gate.words:
        ruling += _on_untested(untested)
    for name, ceiling in gate.ceilings:
        ruling += _on_ceiling(name, ceiling, gate.judge, verdict, limits.get(name))
    return ruling


def hold_claim_against_gate(claim: ClaimRow | None) -> Ruling:
    """What becomes of a claimed guarantee: only one that was held against figures can pass.

    Args:
        claim: what became of it, as in a summary; None if nothing was claimed.
    """
    if claim is None:
        return Ruling(undecided=("no ε is claimed, so no claim can hold: state epsilon and delta",))
    if claim.outcome == "contradicted":
        return Ruling(failed=(claim.sentence,))
    if claim.outcome == "consistent":
        return Ruling(passed=(claim.sentence,))
    return Ruling(undecided=(claim.sentence,))


def hold_against_earlier(found: GatedAudit, earlier: GatedAudit) -> Ruling:
    """Whether more leaks than in an earlier audit: no passing where that cannot be decided.

    Args:
        found: the later audit.
        earlier: the one it is compared with, about the same secret.
    """
    changes = compare_figures(earlier, found)
    if worse := [change for change in changes if change.is_worse]:
        return Ruling(failed=tuple(_describe_change(change, "more than") for change in worse))
    said = "nothing shows that no more leaks than before"
    for name, audit in (("earlier", earlier), ("later", found)):
        level = audit.verdict.level
        if level not in ("leak", "no leak found"):
            why = f"the verdict of the {name} audit is {level!r}"
            return Ruling(undecided=(f"{said}: {why}. {audit.verdict.next_step}",))
    metric = LEAD[found.about]
    compared = {change.attack for change in changes}
    lost = [
        label
        for label, figures in earlier.figures().items()
        if metric in figures and label not in compared
    ]
    if lost or not changes:
        why = f"not measured again: {', '.join(lost)}" if lost else "no attack stands in both"
        return Ruling(undecided=(f"{said}: {why}",))
    most = max(changes, key=lambda change: change.difference.high or 0.0)
    return Ruling(passed=(_describe_change(most, "not shown to be more than"),))


def _describe_change(change: FigureChange, how: str) -> str:
    less = change.difference
    assert less.high is not None
    return (
        f"{change.metric} of {change.attack} is {change.after.value:.4g}, {how} "
        f"{change.before.value:.4g} before: difference {less.value:+.3f} (95 % interval for all "
        f"compared attacks {less.low:+.3f} to {less.high:+.3f})"
    )


def read_ceiling(pair: str) -> tuple[str, float]:
    """``METRIC=CEILING`` in two.

    Raises:
        SpecError: it is something else.

    Examples:
        >>> read_ceiling("tpr@0.01=0.05")
        ('tpr@0.01', 0.05)
    """
    name, _, ceiling = pair.rpartition("=")
    if not name or not _NUMBER.fullmatch(ceiling):
        raise SpecError(
            f"expected METRIC=CEILING such as auc=0.6, got {pair!r}: write the ceiling as a "
            "number, 0.6 for 60 %"
        )
    return name, float(ceiling)


def _check(name: str, ceiling: float, known: Collection[str]) -> None:
    if name not in known:
        meant = next((one for one in _respell(name) if one in known), None)
        hint = did_you_mean(name, known) if meant is None else f"did you mean {meant!r}?"
        if rates := sorted(one for one in known if one.startswith(f"{name}@")):
            hint = f"at which rate: {', '.join(rates)}?"
        raise SpecError(f"expected the name of a metric, got {name!r}: {hint}")
    most = math.inf if name == "epsilon" else 1.0
    if not (math.isfinite(ceiling) and 0 <= ceiling <= most):
        span = "of 0 or more" if name == "epsilon" else "from 0 to 1"
        raise SpecError(f"expected a ceiling of {name} {span}, got {ceiling:g}: correct it")


def _respell(name: str) -> Iterable[str]:
    """How a metric may be meant: tpr@0.010 as tpr@0.01, and tpr@1% or tpr@1 too."""
    if rate := _PERCENT.fullmatch(name):
        for divisor in (1, 100):
            yield f"{rate[1]}{float(rate[2]) / divisor:g}{rate[3]}"


def _on_verdict(
    fail_on: Collection[str], verdict: JudgedVerdict, untested: Collection[str]
) -> Ruling:
    level, said = verdict.level, f"the verdict is {verdict.level!r}: {verdict.headline}"
    if any(level in _LEVELS[word] for word in fail_on):
        return Ruling(failed=(said,))
    if "leak" in fail_on and level != "no leak found":
        return Ruling(undecided=(f"{said}. {verdict.next_step}",))
    unknown = f"; controls not tested of {', '.join(untested)}" if untested else ""
    return Ruling(passed=(f"{said} (asked for: {', '.join(fail_on)}{unknown})",))


def _on_untested(untested: Mapping[str, str]) -> Ruling:
    if not untested:
        return Ruling(passed=(f"every attack that is done was tested (asked for: {_UNTESTED})",))
    return Ruling(
        failed=tuple(
            f"the controls of {label} could not be run, so nothing shows that its figures are "
            f"sound: {why}"
            for label, why in untested.items()
        )
    )


def _on_ceiling(
    name: str, ceiling: float, judge: str, verdict: JudgedVerdict, limits: Limits | None
) -> Ruling:
    if limits is None:
        said = f"{name} was measured by no attack, so nothing shows that it is at most {ceiling:g}"
        return Ruling(undecided=(said,))
    differ = isinstance(verdict, Conclusion) and verdict.confounding
    if differ or verdict.level in _INCOMPARABLE:
        since = "the two sets differ" if differ else f"the verdict is {verdict.level!r}"
        said = f"{name} cannot be compared with {ceiling:g}, since {since}"
        # beside a leak, the next step of the verdict is about the leak
        advice = next_step("confounded") if differ else verdict.next_step
        return Ruling(undecided=(f"{said}. {advice}",))
    low = judge == "low"
    compared, what = (limits.estimate.low, "lower limit") if low else (limits.most, "value")
    if compared > ceiling:
        said = f"{name} of {limits.attack}: {what} {compared:.4g} exceeds {ceiling:g}"
        return Ruling(failed=(said,))
    below = limits.highest is not None and limits.highest <= ceiling
    why = limits.undecided or (verdict.next_step if verdict.level == "undecided" else "")
    if why and not below:
        said = f"{name} cannot be compared with {ceiling:g}: {why}"
        return Ruling(undecided=(said,))
    upper = "" if limits.highest is None else f"; upper limit {limits.highest:.4g}"
    said = f"{name}: {what} {compared:.4g} does not exceed {ceiling:g} (value {limits.most:.4g}"
    return Ruling(passed=(f"{said}{upper})",))
