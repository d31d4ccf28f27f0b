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
from typing import Annotated, Literal, Protocol, get_args, runtime_checkable

import pydantic

from divulge._util.toml import Section
from divulge.audits.changes import ComparableAudit, FigureChange, compare_figures
from divulge.audits.kinds import load_run
from divulge.audits.secrets.registry import gated_metrics, lead_metric
from divulge.errors import SpecError, did_you_mean
from divulge.report.schema import ClaimRow, Conclusion, Limits
from divulge.report.sentences import next_step
from divulge.report.terms import Terms
from divulge.report.units import PERSON, RECORD, Unit

_LEVELS: Mapping[str, tuple[str, ...]] = {
    "leak": ("leak",),
    "leak-or-shift": ("leak or shift",),
    "confounded": ("confounded",),
    "control-failed": ("instrument failed",),
    "undecided": ("undecided", "nothing measured"),
    "contradicted": ("contradicted",),
    "undecidable": ("undecidable",),
}
_INCOMPARABLE = ("instrument failed", "confounded", "leak or shift", "nothing measured")
"""Levels of a verdict beside which no figure is about the model alone."""
_DECIDED = {"leak": "no leak found", "contradicted": "consistent"}
"""By word that fails: the level that passes it. Every other level is undecided."""
_UNTESTED = "control-untested"
"""The one word of ``fail_on`` that is about attacks, and not about the verdict."""

Judge = Literal["low", "value"]

FailOn = Literal[
    "leak", "leak-or-shift", "confounded", "control-failed", "control-untested", "undecided"
]
"""Verdicts of audits that fail, and `_UNTESTED`."""

CanaryFailOn = Literal["contradicted", "undecidable"]
"""Verdicts of audits by canaries that fail."""

Ceiling = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]

Ceilings = Mapping[str, float] | Sequence[tuple[str, float]]
"""Metrics with the highest admissible value; pairs where a metric has several, which all hold."""

_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", re.ASCII)
_PERCENT = re.compile(r"(.*@)([0-9]+\.?[0-9]*)%?(.*)", re.ASCII)


class GateSpec(Section):
    """``[gate]``: when a continuous-integration job should fail."""

    fail_on: list[FailOn] = pydantic.Field(default=[])
    """Verdicts that fail, or ``"control-untested"``: an attack whose
    [controls](checks-and-controls.md#controls) could not be run; with ``"leak"``, every verdict but
    "no leak found" is at least undecided."""
    fail_above: dict[str, Ceiling] = pydantic.Field(default={})
    """Per metric, the highest admissible value: ``{ "auc" = 0.6 }``."""
    judge: Judge = "low"
    """What is compared: the lower limit of the strongest attack, or the highest value."""
    claim: bool = False
    """Also fail where the claimed ``epsilon`` is contradicted; a claim that is missing, or that
    could not be tested, is undecided."""
    not_worse_than: str | None = None
    """Also fail where an attack finds more than in the run folder of an earlier audit named here,
    as with [``--not-worse-than``](ci.md#the-gate)."""


def words_of(about: str) -> tuple[str, ...]:
    """The words that a gate about a secret may fail on."""
    return get_args(CanaryFailOn if about == "canaries" else FailOn)


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
    not_worse_than: "Mapping[str, JudgedAudit]" = field(default_factory=dict)
    """By name, earlier audits, than none of which this one may show more."""

    def __post_init__(self) -> None:
        for word in self.fail_on:
            if word not in words_of(self.about):
                of = " of an audit by canaries" if self.about == "canaries" else ""
                hint = did_you_mean(word, words_of(self.about))
                raise SpecError(f"expected a verdict{of} to fail on, got {word!r}: {hint}")
        if self.judge not in get_args(Judge):
            raise SpecError(f"expected judge 'low' or 'value', got {self.judge!r}")
        for name, ceiling in self.ceilings:
            _check(name, ceiling, gated_metrics(self.about))
        for earlier in self.not_worse_than.values():
            if earlier.about != self.about:
                raise SpecError(
                    f"expected an earlier audit of {self.about} to compare with, got one of "
                    f"{earlier.about}: name a run about the same secret"
                )

    @property
    def words(self) -> tuple[str, ...]:
        """The verdicts that fail, each once."""
        return tuple(word for word in words_of(self.about) if word in self.fail_on)

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
    def level(self) -> str:
        """In a word."""
        ...

    @property
    def headline(self) -> str:
        """In a sentence."""
        ...

    @property
    def sentences(self) -> Sequence[str]:
        """What was measured, and what that means."""
        ...

    @property
    def next_step(self) -> str:
        """What to do next; where nothing was decided, how many records would do."""
        ...

    @property
    def attack(self) -> str | None:
        """Label of the deciding attack."""
        ...


@runtime_checkable
class JudgedAudit(ComparableAudit, Protocol):
    """An audit of any kind with its verdict."""

    @property
    def verdict(self) -> JudgedVerdict:
        """Whether there is a leak."""
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


def load_earlier(run: str | Path) -> JudgedAudit:
    """The earlier audit that a gate compares with.

    Raises:
        SpecError: it has no figures of its own; says what it is.
        StoreError: it cannot be read.
    """
    found: JudgedAudit = load_run(Path(run)).judged()
    return found


def hold_against_gate(
    gate: Gate,
    verdict: JudgedVerdict,
    limits: Mapping[str, Limits],
    untested: Mapping[str, str] = MappingProxyType({}),
    unit: Unit = RECORD,
) -> Ruling:
    """Hold an audit against a gate.

    Args:
        gate: what was asked.
        verdict: of the audit.
        limits: of each metric, over all attacks.
        untested: by label of an attack, why its controls could not be run.
        unit: what was drawn and counted.

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
        ruling += _on_ceiling(name, ceiling, gate.judge, verdict, limits.get(name), unit)
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


def hold_against_earlier(found: JudgedAudit, earlier: JudgedAudit) -> Ruling:
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
        if level not in (*_DECIDED, *_DECIDED.values()):
            why = f"the verdict of the {name} audit is {level!r}"
            return Ruling(undecided=(f"{said}: {why}. {audit.verdict.next_step}",))
    metric = lead_metric(found.about)
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
    if any(word in fail_on and level != passing for word, passing in _DECIDED.items()):
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
    name: str,
    ceiling: float,
    judge: str,
    verdict: JudgedVerdict,
    limits: Limits | None,
    unit: Unit,
) -> Ruling:
    if limits is None:
        said = f"{name} was measured by no attack, so nothing shows that it is at most {ceiling:g}"
        return Ruling(undecided=(said,))
    differ = isinstance(verdict, Conclusion) and verdict.confounding
    if differ or verdict.level in _INCOMPARABLE:
        since = "the two sets differ" if differ else f"the verdict is {verdict.level!r}"
        said = f"{name} cannot be compared with {ceiling:g}, since {since}"
        # beside a leak, the next step of the verdict is about the leak
        advice = next_step("confounded", terms=Terms(unit=unit)) if differ else verdict.next_step
        return Ruling(undecided=(f"{said}. {advice}",))
    low = judge == "low"
    compared, what = (limits.estimate.low, "lower limit") if low else (limits.most, "value")
    if compared > ceiling:
        said = f"{name} of {limits.attack}: {what} {compared:.4g} exceeds {ceiling:g}"
        return Ruling(failed=(said,))
    below = limits.highest is not None and limits.highest <= ceiling
    why = verdict.next_step if verdict.level == "undecided" else ""
    if limits.undecided:
        why = limits.undecided + (", each a person" if unit is PERSON else "")
    if why and not below:
        said = f"{name} cannot be compared with {ceiling:g}: {why}"
        return Ruling(undecided=(said,))
    upper = "" if limits.highest is None else f"; upper limit {limits.highest:.4g}"
    said = f"{name}: {what} {compared:.4g} does not exceed {ceiling:g} (value {limits.most:.4g}"
    return Ruling(passed=(f"{said}{upper})",))
