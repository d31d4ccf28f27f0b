"""Decision rules turn a score for each record and client into one client a record, or none."""

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.core import NOBODY, Assignment, FederationView
from divulge.errors import NotApplicable

ScoreTable = Float64[np.ndarray, "records clients"]


def clients_under_attack(view: FederationView) -> Int[np.ndarray, " clients_under_attack"]:
    """The clients other than the colluding one, if there is one.

    Raises:
        NotApplicable: there are none.
    """
    everybody = np.arange(len(view.targets))
    clients: Int[np.ndarray, " clients_under_attack"] = everybody[
        everybody != view.collusion.client
    ]
    if not len(clients):
        raise NotApplicable("expected clients beside the colluding one, got none to attack")
    return clients


def expected_shares(view: FederationView) -> Float64[np.ndarray, " clients"]:
    """The share of all candidates that each client is expected to have trained on.

    For each relevant record of its own, the colluding client knows how many candidates are its
    own; others are taken to have as many for each of theirs, and all together at most half. Without
    a colluding client that rate is a half.
    """
    known = view.collusion
    # Jeffreys' half: a colluder without a candidate of its own says rare, and not never
    rate = (known.records.sum() + 0.5) / (len(known.relevant) + 1)
    shares = np.array([rate * len(own) for own in view.relevant]) / max(1, len(view.records))
    # a share of more than half for members would call nearly every record someone's
    capped: Float64[np.ndarray, " clients"] = shares * min(1.0, 0.5 / shares.sum())
    return capped


def decide_by_posterior(
    view: FederationView, log_ratio: ScoreTable, order: ScoreTable
) -> Assignment:
    """Assign each record to the likeliest of all clients and nobody.

    A record is one client's at most.

    Args:
        view: the federation.
        log_ratio: log likelihood ratios; the colluding client's column is not looked at.
        order: what is added to these for the scores alone, and not for the decision.
    """
    clients = clients_under_attack(view)
    belief = _posterior(view, log_ratio[:, clients])
    taken = 1 - belief.sum(axis=1) < belief.max(axis=1)
    guess = np.where(taken, clients[belief.argmax(axis=1)], NOBODY)
    score = np.zeros(log_ratio.shape)
    score[:, clients] = _posterior(view, (log_ratio + order)[:, clients])
    score[view.collusion.records] = 0
    return assign_known_records(view, guess, score)


def _posterior(view: FederationView, log_ratio: ScoreTable) -> ScoreTable:
    """The chance of each client under attack, given ratios for these and their expected shares."""
    share = expected_shares(view)[clients_under_attack(view)]
    joint = share * np.exp(log_ratio)
    # nobody has the likelihood ratio 1 and the share that clients leave
    belief: ScoreTable = joint / (1 - share.sum() + joint.sum(axis=1, keepdims=True))
    return belief


def decide_two_sided(
    view: FederationView, score: ScoreTable, percentile: float = 55.0, dominance: float = 1.5
) -> Assignment:
    """Assign records by the published rule: above a client's noise floor, and above other clients.

    Args:
        view: the federation.
        score: scores from 0; the colluding client's column is not looked at.
        percentile: the percentile of a client's scores that a score must exceed.
        dominance: λ: a score must exceed so many times the mean over clients.

    References:
        nist-stacking (arXiv 2604.12737), section 3, its rule for assigning clients. In the
        published code the mean is taken over the clients under attack, not over all of them.
    """
    return assign_known_records(
        view,
        two_sided_rule(
            score, clients_under_attack(view), percentile=percentile, dominance=dominance
        ),
        score,
    )


def two_sided_rule(
    score: ScoreTable,
    clients: Int[np.ndarray, " clients_under_attack"],
    *,
    percentile: float = 55.0,
    dominance: float = 1.5,
) -> Int[np.ndarray, " records"]:
    """The client of each record by the rule of `decide_two_sided`, or `NOBODY`."""
    under_attack = score[:, clients]
    # column condition: above a percentile of the client's own scores
    floor = np.percentile(under_attack, percentile, axis=0)
    mean = under_attack.mean(axis=1, keepdims=True)
    # row condition: λ times the mean over the clients under attack, as the published code has it
    passing = (under_attack > floor) & (under_attack > dominance * mean)
    best = np.where(passing, under_attack, -np.inf).argmax(axis=1)
    return np.where(passing.any(axis=1), clients[best], NOBODY)


def assign_known_records(
    view: FederationView, client: Int[np.ndarray, " records"], score: ScoreTable
) -> Assignment:
    """Complete a guess: the colluding client's own records, which it knows, are assigned to it."""
    own: Bool[np.ndarray, " records"] = view.collusion.records
    known = score.copy()
    if view.collusion.client is None:
        return Assignment(client, known)
    known[:, view.collusion.client] = own
    return Assignment(np.where(own, view.collusion.client, client), known)
