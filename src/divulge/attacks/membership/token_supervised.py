"""Learn from texts of which the attacker knows whether the model was trained on them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

FEWEST = 50
"""Known members, and known non-members, below which there is nothing to learn from."""


@check_arguments
@dataclass(frozen=True, slots=True)
class TokenSupervised:
    """A logistic regression on all signals of a text, fitted to texts that the attacker knows.

    The signals are those of ``token-threshold``, but for the gradient, ``reference-ratio``, ``wbc``
    and ``ez-mia``, as far as the table has what they need. None of the texts that it learns from is
    scored.

    Args:
        penalty: the inverse strength of its ridge penalty on standardised signals.

    References:
        Nasr, Shokri and Houmansadr (2019), Comprehensive privacy analysis of deep learning, whose
        supervised attacker knows some members; Maini et al. (2024), LLM dataset inference, stage 2,
        who combine such signals linearly. Signals and regression are divulge's.
    """

    penalty: float = 0.1

    name: ClassVar[str] = "token-supervised"
    paper: ClassVar[str] = "Nasr, Shokri and Houmansadr 2019"
    needs: ClassVar[Need] = Need.TOKENS | Need.REFERENCE | Need.KNOWN_MEMBERS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of each text's being a member, were half of all texts members.

        Raises:
            NotApplicable: fewer than 50 texts of a kind are known.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from threadpoolctl import threadpool_limits

        del rng
        assert view.reference is not None
        assert view.known_members is not None
        if min(len(view.reference), len(view.known_members)) < FEWEST:
            raise NotApplicable(
                f"expected {FEWEST} or more known members, and as many known non-members, got "
                f"{len(view.known_members)} and {len(view.reference)}"
            )
        lessons, candidates = (
            token_signals.all_signals(token_signals.read_tokens(view, records))
            for records in (view.known_members.joined(view.reference), view.records)
        )
        member = np.arange(len(lessons)) < len(view.known_members)
        ridge = LogisticRegression(C=self.penalty, max_iter=300, class_weight="balanced")
        with threadpool_limits(1):
            fitted = make_pipeline(StandardScaler(), ridge).fit(lessons, member)
            return Scores(fitted.decision_function(candidates))
