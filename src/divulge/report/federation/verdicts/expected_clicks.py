"""What is expected of guesses of clicks whose truth nobody gave, by simulated clients."""

from scipy import special

from divulge.core import Estimate
from divulge.metrics import interactions
from divulge.metrics.uninformed.draws import ERROR
from divulge.metrics.uninformed.interactions import FEWEST, SimulatedClicks
from divulge.report import words
from divulge.report.brief import round_share
from divulge.report.federation.verdicts.case import PROTECT_UPDATES, Count, Judgement

_NEITHER = "This audit neither shows a leak nor rules one out."


def judge_clicks(clicks: SimulatedClicks, attack: str) -> Judgement:
    """The verdict that simulated twins of the clients allow.

    Args:
        clicks: how the attack does on them.
        attack: its label.
    """
    unlike = _unlike_p(clicks)
    auc = interactions.mean_over_users(clicks.auc.tolist())
    if unlike <= ERROR:
        return _conclude_unlike(unlike, attack)
    described = _describe(auc, unlike, len(clicks.auc))
    if auc.low <= 0.5 or len(clicks.auc) < FEWEST:
        return Judgement(
            "undecided",
            "The server is not shown to read what clients clicked",
            (*described, _NEITHER),
            f"Record {FEWEST} clients or more, or try other attacks (divulge list attacks); or "
            "give the truth (truth in [interactions]). Then run the audit again.",
            None,
            attack,
        )
    return Judgement(
        "expected leak",
        "The server is expected to read which items each client clicked",
        described,
        f"{PROTECT_UPDATES} Then run the audit again, and compare. Optional: give the truth "
        "(truth in [interactions]) to check the estimate.",
        None,
        attack,
    )


def count_clicks(clicks: SimulatedClicks) -> Count:
    """What is expected of the clients, in counts of 100 pairs of items.

    Args:
        clicks: how the attack does on their simulated twins.
    """
    auc = interactions.mean_over_users(clicks.auc.tolist())
    what = "pairs are expected to be told apart"
    number, limits, dots = round_share(auc, auc.high or auc.value, what, known="expected")
    return Count(
        f"expected {number} of 100 pairs",
        (
            "Shown 100 pairs, each of a clicked item and another one, the server is expected to "
            f"pick the clicked one in {number}{limits}.",
            "Guessing would be right in 50.",
        ),
        dots,
    )


def _unlike_p(clicks: SimulatedClicks) -> float:
    """P-value that real updates are as often longer than simulated ones as shorter; two-sided."""
    longer, shorter = int((clicks.longer > 0).sum()), int((clicks.longer < 0).sum())
    clients = longer + shorter
    # the sign test: twice the smaller tail of fair coins
    return min(1.0, 2 * float(special.bdtr(min(longer, shorter), clients, 0.5))) if clients else 1.0


def _describe(auc: Estimate, unlike: float, clients: int) -> tuple[str, ...]:
    return (
        "The attack picks the clicked one of two items, of which one was clicked, "
        f"{words.interval_words(auc)} of the time (guessing: 50 %).",
        "Nobody gave the truth: this is the mean over "
        f"{words.format_count(clients, 'simulated client')}, who were shown the same items and "
        "clicked as many at random.",
        "This supposes that clients train as the learner says. Real updates are as long as "
        f"simulated ones ({words.p_words(unlike)}).",
    )


def _conclude_unlike(unlike: float, attack: str) -> Judgement:
    return Judgement(
        "undecided",
        "These updates do not look like those of simulated clients",
        (
            f"They differ in length ({words.p_words(unlike)}), so how good guesses about "
            "simulated clients are says nothing about these.",
            _NEITHER,
        ),
        "Check that the learner trains as clients do (learning rate, epochs, batch size, a "
        "defence). Then run the audit again.",
        None,
        attack,
    )
