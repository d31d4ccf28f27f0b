"""How likely a language model finds texts that stand behind texts which the attacker knows."""

import numpy as np

from divulge.attacks.shared.token_signals import Signal
from divulge.core import ModelView, Records
from divulge.core.tokens import Tokens, as_token_target


def mean_behind(
    view: ModelView, known: Records, shots: int, own: Tokens, rng: np.random.Generator
) -> Signal:
    """The mean log-probability of each candidate behind some known texts, in nats a token.

    Args:
        view: the attacker's.
        known: texts that the attacker knows, none of them a candidate.
        shots: how many of them stand before each candidate; all where there are fewer.
        own: what the model says of the candidates by themselves: the same tokens are averaged, the
            last ones of each text.
        rng: draws them.

    Raises:
        NotApplicable: the model cannot be asked so, or cannot read as much.
    """
    drawn = known.x[rng.permutation(len(known))[:shots]]
    behind = as_token_target(view.target).tokens(view.records.x, drawn)
    parts = zip(behind.split(behind.logprob), own.count.tolist(), strict=True)
    return np.array([part[-count:].mean() for part, count in parts])
