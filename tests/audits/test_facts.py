"""What a page says that the attacker had: which shadow models, and what is known of records."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from divulge.audits.challenges import facts
from divulge.audits.subject import AuditInputs
from divulge.core import Claim, Guarantee, ModelView, Need
from divulge.targets.recorded import TableTarget
from divulge.testing import forests
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import EstimatorTrainer

TRAINER = EstimatorTrainer(DecisionTreeClassifier())
PLAN = ShadowPlan(TRAINER, 4)
RECORDS = forests.draw(30, 0)


def test_shadows_are_online_without_a_pool_of_their_own() -> None:
    assert facts._shadow_kind(None) == "none"
    assert facts._shadow_kind(PLAN) == "online"
    assert facts._shadow_kind(replace(PLAN, pool=RECORDS)) == "offline"


def test_features_are_known_where_the_model_takes_them() -> None:
    table = ModelView(TableTarget(np.full((30, 3), 1 / 3), Need.PROBABILITIES), RECORDS)
    assert not facts.knows_features(table)
    assert facts.knows_features(forests.leaky().view)


class Promising(EstimatorTrainer):
    """Promises an ε a hundredth of which is the number of records."""

    def guarantee(self, n_records: int, rounds: int = 1) -> Guarantee | None:
        assert rounds == 1
        return Guarantee(n_records / 100, 1e-5) if n_records > 10 else None


PROMISING = ShadowPlan(Promising(DecisionTreeClassifier()), 4)


@pytest.mark.parametrize(
    ("plan", "given", "claim"),
    [
        (None, None, None),
        (PLAN, None, None),  # a forest promises nothing
        (None, Guarantee(2.0, 1e-6), Claim(Guarantee(2.0, 1e-6))),
        (PROMISING, None, Claim(Guarantee(0.3, 1e-5), derived=True)),
        (PROMISING, Guarantee(2.0, 1e-6), Claim(Guarantee(2.0, 1e-6))),
    ],
)
def test_a_claim_is_what_is_said_or_what_the_trainer_promises(
    plan: ShadowPlan | None, given: Guarantee | None, claim: Claim | None
) -> None:
    subject = Mock(spec=AuditInputs, shadows=plan, members=RECORDS, guarantee=given)
    found, checks = facts.claim_of(subject, None)
    assert (found, checks) == (claim, ())
    assert facts.promised_claim(PROMISING, RECORDS, 10) is None
