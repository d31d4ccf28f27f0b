"""The nouns: records, targets, views, guesses, truths, findings.

One security game with three roles that never mix: the attacker gets a *view* and returns a
*guess*; only the auditor holds the *truth*. An attack's signature cannot receive the truth, so it
cannot cheat by accident.

Conventions, fixed once: a HIGHER score means MORE LIKELY A MEMBER; probabilities leave a target;
arrays are NumPy; rates lie in [0, 1]; randomness comes in as a generator and from nowhere else.
"""

from divulge.core.answering import AnswerDefence
from divulge.core.federation_view import Collusion, FederationView
from divulge.core.findings import (
    BlindRun,
    Check,
    Control,
    Estimate,
    Finding,
    Measured,
    Status,
    Verdict,
)
from divulge.core.game import (
    NOBODY,
    Assignment,
    AssignmentAttack,
    Attack,
    Challenge,
    CompositionAttack,
    Drawn,
    InteractionAttack,
    Interactions,
    Joint,
    Membership,
    MembershipAttack,
    Proportions,
    Reconstruction,
    Scores,
)
from divulge.core.learner import Affine, Learner, LinearisedLearner
from divulge.core.model_view import ModelView, PoolAnswers, ShadowModel, Shadows
from divulge.core.records import LastLayer, Need, Records, Target, WhiteBox, opened
from divulge.core.rounds import (
    LocalTraining,
    MaskedSum,
    Received,
    Round,
    Rounds,
    Tensors,
    UpdateKind,
    UpdateView,
)
from divulge.core.trainer import Claim, Guarantee, Noise, Private, Trainer
from divulge.core.wire import (
    ClientContext,
    ClientUpdates,
    Message,
    RoundContext,
    ServerView,
    Update,
    UpdateDefence,
    UpdateSum,
)

__all__ = [
    "NOBODY",
    "Affine",
    "AnswerDefence",
    "Assignment",
    "AssignmentAttack",
    "Attack",
    "BlindRun",
    "Challenge",
    "Check",
    "Claim",
    "ClientContext",
    "ClientUpdates",
    "Collusion",
    "CompositionAttack",
    "Control",
    "Drawn",
    "Estimate",
    "FederationView",
    "Finding",
    "Guarantee",
    "InteractionAttack",
    "Interactions",
    "Joint",
    "LastLayer",
    "Learner",
    "LinearisedLearner",
    "LocalTraining",
    "MaskedSum",
    "Measured",
    "Membership",
    "MembershipAttack",
    "Message",
    "ModelView",
    "Need",
    "Noise",
    "PoolAnswers",
    "Private",
    "Proportions",
    "Received",
    "Reconstruction",
    "Records",
    "Round",
    "RoundContext",
    "Rounds",
    "Scores",
    "ServerView",
    "ShadowModel",
    "Shadows",
    "Status",
    "Target",
    "Tensors",
    "Trainer",
    "Update",
    "UpdateDefence",
    "UpdateKind",
    "UpdateSum",
    "UpdateView",
    "Verdict",
    "WhiteBox",
    "opened",
]
