"""The gate of a continuous-integration job: may this model pass?

A gate asks for what must not be (``fail_on``), for metrics that must be shown to be under a ceiling
(``ceiling``), and for metrics that must not be proven to exceed one (``fail_above``); see
`divulge.finished_runs.rulings` for what becomes of each.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import pydantic

from divulge._util.toml import Section
from divulge.errors import SpecError, did_you_mean
from divulge.finished_runs.judged import JudgedAudit
from divulge.finished_runs.kinds import load_run
from divulge.metrics.measure import GUESSING
from divulge.secrets.registry import gated_metrics

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

BOUNDED_BELOW = ("epsilon",)
"""Metrics with a lower limit alone, which nothing shows to be under a ceiling."""

_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", re.ASCII)
_PERCENT = re.compile(r"(.*@)([0-9]+\.?[0-9]*)%?(.*)", re.ASCII)


class GateSpec(Section):
    """``[gate]``: when a continuous-integration job should fail."""

    fail_on: list[FailOn] = pydantic.Field(default=[])
    """Verdicts that fail, or ``"control-untested"``: an attack whose
    [controls](checks-and-controls.md#controls) could not be run; with ``"leak"``, every verdict but
    "no leak found" is at least undecided."""
    ceiling: dict[str, Ceiling] = pydantic.Field(default={})
    """Per metric, the [agreed ceiling](ci.md#a-ceiling): ``{ "auc" = 0.6 }``. It passes only if
    every attack is shown to be at or below it (upper limit), fails if one is shown to be above
    (lower limit), and is undecided else."""
    fail_above: dict[str, Ceiling] = pydantic.Field(default={})
    """Per metric, the value that is not to be proven exceeded: ``{ "auc" = 0.6 }``. Few records
    prove little, and pass."""
    judge: Judge = "low"
    """What ``fail_above`` compares: the lower limit of the strongest attack, or the highest value.
    """
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
    """Metrics with the value that is not to be proven exceeded."""
    judge: str = "low"
    """What ``fail_above`` compares: ``low`` is the lower limit, so that the job fails when the leak
    is proven; ``value`` is the value, which also fails by chance."""
    about: str = "membership"
    """The secret that the audit is about."""
    claim: bool = False
    """Whether the claimed epsilon has to be consistent with the measurement."""
    not_worse_than: Mapping[str, JudgedAudit] = field(default_factory=dict)
    """By name, earlier audits, than none of which this one may show more."""
    ceiling: Ceilings = ()
    """Metrics with the highest agreed value, which every attack must be shown not to exceed."""

    def __post_init__(self) -> None:
        for word in self.fail_on:
            if word not in words_of(self.about):
                of = " of an audit by canaries" if self.about == "canaries" else ""
                hint = did_you_mean(word, words_of(self.about))
                raise SpecError(f"expected a verdict{of} to fail on, got {word!r}: {hint}")
        if self.judge not in get_args(Judge):
            raise SpecError(f"expected judge 'low' or 'value', got {self.judge!r}")
        for name, ceiling in (*self.agreed, *self.ceilings):
            _check(name, ceiling, gated_metrics(self.about))
        for name, ceiling in self.agreed:
            if name in BOUNDED_BELOW:
                raise SpecError(
                    f"expected a metric with an upper limit for a ceiling, got {name!r}, which an "
                    f"audit bounds from below alone: use --fail-above {name}={ceiling:g} "
                    "(fail_above), or a ceiling of another metric, such as auc"
                )
            if name in GUESSING and ceiling <= GUESSING[name]:
                raise SpecError(
                    f"expected a ceiling on {name} above {GUESSING[name]:g}, which guessing "
                    f"reaches, got {ceiling:g}: nothing can be shown to stay under it"
                )
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
    def agreed(self) -> tuple[tuple[str, float], ...]:
        """Each metric with each of its agreed ceilings, once."""
        return tuple(sorted(set(_pair(self.ceiling))))

    @property
    def ceilings(self) -> tuple[tuple[str, float], ...]:
        """Each metric with each value that is not to be proven exceeded, once."""
        return tuple(sorted(set(_pair(self.fail_above))))

    @property
    def parts(self) -> Mapping[str, "Gate"]:
        """Gates that ask for one thing each, by what that is: ``fail-on leak``."""
        nothing = Gate(judge=self.judge, about=self.about)
        parts = {f"fail-on {word}": replace(nothing, fail_on=(word,)) for word in self.words}
        for which, pair in _name_pairs(self.agreed):
            parts[f"ceiling {which}"] = replace(nothing, ceiling=(pair,))
        for which, pair in _name_pairs(self.ceilings):
            parts[f"fail-above {which}"] = replace(nothing, fail_above=(pair,))
        if self.claim:
            parts["claim"] = replace(nothing, claim=True)
        for name, earlier in self.not_worse_than.items():
            which = "" if len(self.not_worse_than) == 1 else f" {name}"
            parts[f"not-worse-than{which}"] = replace(nothing, not_worse_than={name: earlier})
        return parts


def join_gate(
    settings: GateSpec,
    about: str,
    fail_on: Iterable[str] = (),
    fail_above: Ceilings | None = None,
    judge: str | None = None,
    not_worse_than: str | Path | None = None,
    folder: Path = Path(),
    ceiling: Ceilings | None = None,
) -> Gate:
    """The gate of the settings with what is asked besides: all of it holds.

    Nothing takes the place of anything else, so that a further condition never lets more pass.

    Args:
        settings: the section ``[gate]``.
        about: the secret that the audit is about.
        fail_on: further verdicts that fail.
        fail_above: further values that are not to be proven exceeded.
        judge: what is compared with all of these; ``value``, which is stricter, if it or the
            settings say so.
        not_worse_than: run folder of a further earlier audit.
        folder: where a relative path in the settings starts.
        ceiling: further agreed ceilings.

    Raises:
        SpecError: see `Gate`.
        StoreError: the earlier run cannot be read.
    """
    ceilings = (*settings.fail_above.items(), *_pair(fail_above or ()))
    agreed = (*settings.ceiling.items(), *_pair(ceiling or ()))
    words = (*settings.fail_on, *fail_on)
    judge = settings.judge if judge is None or settings.judge == "value" else judge
    named = None if settings.not_worse_than is None else folder / settings.not_worse_than
    runs = {Path(run).resolve(): run for run in (named, not_worse_than) if run is not None}
    earlier = {str(run): load_earlier(run) for run in runs.values()}
    return Gate(words, ceilings, judge, about, settings.claim, earlier, agreed)


def _name_pairs(
    pairs: Sequence[tuple[str, float]],
) -> Iterable[tuple[str, tuple[str, float]]]:
    """Each pair by its metric: a test case keeps its name where the ceiling changes."""
    times = Counter(name for name, _ in pairs)
    for name, ceiling in pairs:
        yield (name if times[name] == 1 else f"{name}={ceiling}"), (name, ceiling)


def _pair(ceilings: Ceilings) -> Iterable[tuple[str, float]]:
    return ceilings.items() if isinstance(ceilings, Mapping) else ceilings


def load_earlier(run: str | Path) -> JudgedAudit:
    """The earlier audit that a gate compares with.

    Raises:
        SpecError: it has no figures of its own; says what it is.
        StoreError: it cannot be read.
    """
    audit: JudgedAudit = load_run(Path(run)).judged()
    return audit


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
        meant = next((metric for metric in _respell(name) if metric in known), None)
        hint = did_you_mean(name, known) if meant is None else f"did you mean {meant!r}?"
        if rates := sorted(metric for metric in known if metric.startswith(f"{name}@")):
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
