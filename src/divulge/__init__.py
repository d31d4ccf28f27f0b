"""divulge audits the privacy of machine learning models and of federated learning.

``divulge.audit(model, members=(x, y), nonmembers=(x2, y2))`` returns what it found; its
``.report()`` writes the page.
"""

import importlib
from typing import TYPE_CHECKING, Any

from divulge.core import (
    Challenge,
    Check,
    Control,
    Estimate,
    Finding,
    Guarantee,
    Membership,
    ModelView,
    Need,
    Records,
    Scores,
    Status,
    Target,
    Verdict,
)
from divulge.errors import (
    BudgetSpent,
    DataError,
    DivulgeError,
    MissingExtra,
    NotApplicable,
    SpecError,
    StoreError,
    TargetError,
)

if TYPE_CHECKING:
    from divulge.across import LeaveOneOut
    from divulge.api import audit, audit_file, audit_predictions
    from divulge.catalog import attack
    from divulge.comparing.perform import compare
    from divulge.comparing.result import Comparison
    from divulge.cost import estimate
    from divulge.data.masks import Known
    from divulge.in_turn.perform import leave_one_out
    from divulge.planning import plan, plan_file
    from divulge.result import Audit, load

__all__ = [
    "Audit",
    "BudgetSpent",
    "Challenge",
    "Check",
    "Comparison",
    "Control",
    "DataError",
    "DivulgeError",
    "Estimate",
    "Finding",
    "Guarantee",
    "Known",
    "LeaveOneOut",
    "Membership",
    "MissingExtra",
    "ModelView",
    "Need",
    "NotApplicable",
    "Records",
    "Scores",
    "SpecError",
    "Status",
    "StoreError",
    "Target",
    "TargetError",
    "Verdict",
    "attack",
    "audit",
    "audit_file",
    "audit_predictions",
    "compare",
    "estimate",
    "leave_one_out",
    "load",
    "plan",
    "plan_file",
]

_LATER = {
    "Audit": "divulge.result",
    "Comparison": "divulge.comparing.result",
    "Known": "divulge.data.masks",
    "LeaveOneOut": "divulge.across",
    "attack": "divulge.catalog",
    "audit": "divulge.api",
    "audit_file": "divulge.api",
    "audit_predictions": "divulge.api",
    "compare": "divulge.comparing.perform",
    "estimate": "divulge.cost",
    "leave_one_out": "divulge.in_turn.perform",
    "load": "divulge.result",
    "plan": "divulge.planning",
    "plan_file": "divulge.planning",
}


def __getattr__(name: str) -> Any:
    """Load what is heavier than the nouns when it is first asked for."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'divulge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
