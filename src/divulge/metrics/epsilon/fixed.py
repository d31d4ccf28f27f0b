"""Fixed numbers of members and non-members are treated as coins that fell evenly.

Let Q be the law of memberships of N = 2h records with a probability proportional to e^(-η d), where
d is by how much the number of members differs from h. Without η it is that of fair coins. If one
coin falls the other way, d changes by 1 at most, so that the odds of each coin, given all others,
are between e^-η and e^η. The bounds for fair coins hold for Q with e^η more (see `one_run`):

    P_Q(guess is right, W ≥ j)  ≤  1 - f( e^η P_Q(guess is wrong, W ≥ j - 1) )

A draw of h members, all draws alike, is Q given that d = 0. The training is private whatever the
coins show, so for every event P(event | d = 0) ≤ P_Q(event) / Q(d = 0): the permitted error is
multiplied by Q(d = 0). For fair coins that is about 1 / sqrt(π h), 1/125 for 10,000 records; a
small η makes it about η / 2, for any number of records. ε need not be halved for the exchange of
two records.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special


@lru_cache(maxsize=4096)
def balance_probability(records: int, slack: float) -> float:
    """Q(d = 0), for η = slack.

    Examples:
        >>> round(1 / balance_probability(10_000, 0.0)), round(1 / balance_probability(10_000, 0.1))
        (125, 19)
    """
    half = records // 2
    # beyond ten standard deviations there is nothing
    away = np.arange(1, min(half, math.ceil(5 * math.sqrt(records))) + 1)
    # log of the binomial coefficients over the middle one: the coefficients themselves overflow
    relative = (
        2 * special.gammaln(half + 1)
        - special.gammaln(half + 1 + away)
        - special.gammaln(half + 1 - away)
    )
    return float(1 / (1 + 2 * np.exp(relative - slack * away).sum()))
