"""Runs made in memory: scores drawn from known distributions, findings measured as ever."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge.core import (
    BlindRun,
    Candidates,
    Check,
    Claim,
    Contents,
    Control,
    ControlOutcome,
    Entry,
    Estimate,
    Finding,
    Guarantee,
    Head,
    Membership,
    MembershipFacts,
    Scores,
    Status,
    Verdict,
)
from divulge.metrics.measure import measure
from divulge.report.files import render_files
from divulge.report.schema import ShadowKind, Summary
from divulge.report.summary import summarise

SHUFFLED = BlindRun(Estimate(0.5, 0.47, 0.53), 0.8, ControlOutcome.PASSED)
SOUND = Control(Estimate(0.93, 0.91, 0.95), covered=38, shuffles=40, calm=True, blind=SHUFFLED)
UNTESTED = replace(SOUND, blind=BlindRun(None, None, ControlOutcome.NOT_TESTED, "9 are too few"))
BLIND = replace(SOUND, planted=Estimate(0.51, 0.47, 0.55))
BROKEN = replace(SOUND, blind=BlindRun(None, None, ControlOutcome.FAILED, "It broke."))
NERVOUS = replace(SOUND, covered=12, calm=False)

CHECKS = (
    Check(
        "blind baseline",
        Verdict.PASS,
        "A classifier that never saw the model cannot tell members from non-members.",
        {"auc": Estimate(0.503, 0.485, 0.521)},
    ),
    Check("duplicates", Verdict.PASS, "0 of 1000 non-members are exact copies of members."),
    Check(
        "model accuracy",
        Verdict.PASS,
        "The model's accuracy on training records beside that on records it never saw.",
        {"members": Estimate(0.97, 0.96, 0.98), "non-members": Estimate(0.81, 0.79, 0.83)},
    ),
    Check("size", Verdict.PASS, "1000 members and 1000 non-members."),
)


def warned(name: str, text: str = "Something is odd.", **estimates: Estimate) -> tuple[Check, ...]:
    """The checks, with one that warns."""
    others = tuple(check for check in CHECKS if check.name != name)
    return (Check(name, Verdict.WARNING, text, estimates), *others)


@dataclass(frozen=True)
class Bench:
    """Candidates to score, and how to make a run of scores."""

    member: np.ndarray
    label: np.ndarray
    rng: np.random.Generator

    def shifted(self, by: float, share: float = 1.0) -> np.ndarray:
        """Normal scores; this share of the members stands higher by so many deviations."""
        score = self.rng.normal(size=len(self.member))
        lifted = self.member & (self.rng.random(len(self.member)) < share)
        return score + by * lifted

    def done(
        self, name: str, score: np.ndarray, control: Control | None = SOUND, **settings: Any
    ) -> Entry:
        """A finished attack."""
        metrics, unmeasured = measure(Scores(score), Membership(self.member))
        finding = Finding(
            name,
            name.partition("(")[0],
            "Author et al. 2024",
            settings,
            Status.DONE,
            metrics,
            unmeasured,
            queries=len(score),
            seconds=1.234,
        )
        return Entry(finding, control, {"score": score})

    def contents(
        self,
        entries: Sequence[Entry],
        *,
        checks: Sequence[Check] = CHECKS,
        class_names: Sequence[str] = (),
        missing: Sequence[str] = (),
        name: str = "bench",
        settings: Mapping[str, Any] | None = None,
        shadows: ShadowKind = "none",
        claim: Claim | None = None,
        ids: np.ndarray | None = None,
        ease: np.ndarray | None = None,
        randomised: bool = False,
    ) -> Contents:
        """The whole run."""
        inside = int(self.member.sum())
        index = np.where(self.member, np.cumsum(self.member), np.cumsum(~self.member)) - 1
        head = Head(
            kind="audit",
            name=name,
            created="2025-01-02T03:04:05Z",
            challenge="0f" * 32,
            seed=7,
            attacks=(*(entry.finding.label for entry in entries), *missing),
            findings=tuple(f"finding-{k}" for k in range(len(entries) + len(missing))),
            settings=dict(settings or {"seed": 7}),
            environment={"python": "3.11.9", "numpy": "2.2.0"},
            facts=MembershipFacts(
                delta=0.0,
                members=inside,
                nonmembers=len(self.member) - inside,
                reference=0,
                classes=int(self.label.max()) + 1,
                class_names=tuple(class_names),
                checks=tuple(checks),
                shadows=shadows,
                claim=claim,
                randomised=randomised,
            ),
            divulge="0.1.0",
        )
        candidates = Candidates(self.member, self.label, index, ids, ease)
        return Contents(head, candidates, tuple(entries), tuple(missing))


def bench(members: int = 1000, nonmembers: int = 1000, classes: int = 10, seed: int = 0) -> Bench:
    """Shuffled candidates."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(members + nonmembers) < members)
    return Bench(member, rng.integers(classes, size=len(member)), rng)


def lost(name: str, status: Status, reason: str) -> Entry:
    """An attack that came to nothing."""
    return Entry(Finding(name, name, "Author 2024", {}, status, reason=reason))


def leaky() -> Contents:
    """Half of the members stand out; two attacks came to nothing and one is missing."""
    made = bench()
    return made.contents(
        [
            made.done("threshold(signal=loss)", made.shifted(3, share=0.5), signal="loss"),
            made.done("gap", (made.shifted(0.6) > 0).astype(float)),
            made.done("threshold(signal=margin)", made.shifted(0.2), signal="margin"),
            lost("external", Status.NOT_APPLICABLE, "needs reference, which this audit lacks"),
            lost("quantile", Status.FAILED, "ValueError: matrix is singular"),
        ],
        missing=["late"],
        class_names=[f"kind {number}" for number in range(10)],
    )


def tight() -> Contents:
    """Nothing stands out."""
    made = bench(seed=1)
    return made.contents([made.done(f"attack{number}", made.shifted(0)) for number in range(3)])


def confounded() -> Contents:
    """The blind baseline succeeds."""
    made = bench(seed=2)
    checks = warned("blind baseline", auc=Estimate(0.81, 0.79, 0.83))
    return made.contents([made.done("threshold", made.shifted(2))], checks=checks)


def failed() -> Contents:
    """The only attack does not see a planted leak."""
    made = bench(seed=3)
    return made.contents([made.done("threshold", made.shifted(0), control=BLIND)])


def empty() -> Contents:
    """No attack came to an end."""
    return bench(seed=4).contents(
        [lost("gap", Status.FAILED, "TargetError: the model stopped answering")],
        missing=["threshold(signal=loss)"],
    )


def label_only() -> Contents:
    """The model gives labels: one attack with two scores, others not applicable."""
    made = bench(seed=5)
    right = np.where(made.member, 0.98, 0.8) > made.rng.random(len(made.member))
    return made.contents(
        [
            made.done("gap", right.astype(float)),
            lost("threshold(signal=loss)", Status.NOT_APPLICABLE, "needs probabilities"),
        ]
    )


def tiny() -> Contents:
    """Three members and three non-members."""
    made = bench(members=3, nonmembers=3, classes=2, seed=6)
    return made.contents([made.done("threshold", made.shifted(1))])


def small() -> Contents:
    """Perfectly separated, but too few non-members for a lower limit at 1 % FPR."""
    made = bench(members=200, nonmembers=200, seed=12)
    return made.contents([made.done("threshold", made.shifted(20))])


def constant() -> Contents:
    """An attack that gives every candidate the same score."""
    made = bench(seed=7)
    return made.contents([made.done("threshold", np.zeros(len(made.member)))])


def many_classes() -> Contents:
    """A thousand classes, few of them large enough."""
    made = bench(members=6000, nonmembers=6000, classes=1000, seed=8)
    return made.contents([made.done("threshold", made.shifted(1))])


def claimed() -> Contents:
    """A claim that the figures do not contradict."""
    made = bench(seed=10)
    claim = Claim(Guarantee(8.0, 1e-5, "DP-SGD, 500 steps"), derived=True)
    return made.contents([made.done("threshold", made.shifted(0.5))], claim=claim)


def refuted() -> Contents:
    """A claim that the figures contradict."""
    made = bench(seed=11)
    claim = Claim(Guarantee(0.1, 1e-5))
    return made.contents([made.done("threshold", made.shifted(4))], claim=claim)


HOSTILE = (
    "<script>alert(1)</script>",
    "${x}`; {{ 7*7 }} {% raw %} {#",
    "\"quoted\" 'names' & <b onmouseover=alert(1)>",
    "x" * 300,
    "\u05e9\u05dc\u05d5\u05dd \u202egnp.exe",
    "]]> --> </svg></style><style>*{display:none}",
    "| pipe | [link](https://evil.example) ![i](https://evil.example/i.png) @all",
    "nul \x00 and \ud800 and\nline",
)


def hostile() -> Contents:
    """Every text that a user can set is an attempt to become markup."""
    made = bench(classes=len(HOSTILE), seed=9)
    entries = [made.done(f"{text}", made.shifted(1), note=text) for text in HOSTILE]
    entries += [lost(f"lost {text}", Status.FAILED, text) for text in HOSTILE]
    return made.contents(
        entries,
        checks=(*CHECKS, Check(HOSTILE[0], Verdict.WARNING, HOSTILE[2])),
        class_names=HOSTILE,
        missing=[f"late {text}" for text in HOSTILE],
        name=HOSTILE[0],
        claim=Claim(Guarantee(0.5, 0.0, HOSTILE[0])),
        settings={HOSTILE[0]: [HOSTILE[1], {"deep": HOSTILE[2]}]},
    )


def shadowed() -> Contents:
    """Compared with shadow models that were trained on the candidates."""
    made = bench(seed=3)
    return made.contents([made.done("lira", made.shifted(1.5))], shadows="online")


def exchanged() -> Contents:
    """Members stand where non-members should, and the other way round."""
    made = bench(seed=4)
    return made.contents(
        [
            made.done("threshold", -made.shifted(2)),
            made.done("gap", (made.shifted(-0.6) > 0).astype(float)),
        ]
    )


CASES: dict[str, Callable[[], Contents]] = {
    maker.__name__: maker
    for maker in (
        leaky,
        tight,
        confounded,
        failed,
        empty,
        label_only,
        tiny,
        small,
        constant,
        many_classes,
        claimed,
        refuted,
        hostile,
        shadowed,
        exchanged,
    )
}


@functools.cache
def contents(case: str) -> Contents:
    """The run of a case, made once: nothing changes it."""
    return CASES[case]()


@functools.cache
def files(case: str) -> Mapping[str, bytes]:
    """The report of a case, written once."""
    return render_files(contents(case))


@functools.cache
def summary(case: str) -> Summary:
    """The summary of a case."""
    return summarise(contents(case))
