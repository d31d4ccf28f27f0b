"""leakscope measures what a trained model gives away about its training data.

``leakscope.audit(model, members=(x, y), nonmembers=(x2, y2))`` returns what it found; its
``.report()`` writes the page.
"""

import importlib
from typing import TYPE_CHECKING, Any

from leakscope.core import (
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
from leakscope.errors import (
    BudgetSpent,
    DataError,
    LeakscopeError,
    MissingExtra,
    NotApplicable,
    SpecError,
    StoreError,
    TargetError,
)

if TYPE_CHECKING:
    from leakscope.across import LeaveOneOut
    from leakscope.api import audit, audit_file, audit_predictions
    from leakscope.catalog import attack
    from leakscope.comparing.perform import compare
    from leakscope.comparing.result import Comparison
    from leakscope.cost import estimate
    from leakscope.data.masks import Known
    from leakscope.in_turn.perform import leave_one_out
    from leakscope.result import Audit, load

__all__ = [
    "Audit",
    "BudgetSpent",
    "Challenge",
    "Check",
    "Comparison",
    "Control",
    "DataError",
    "Estimate",
    "Finding",
    "Guarantee",
    "Known",
    "LeakscopeError",
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
]

_LATER = {
    "Audit": "leakscope.result",
    "Comparison": "leakscope.comparing.result",
    "Known": "leakscope.data.masks",
    "LeaveOneOut": "leakscope.across",
    "attack": "leakscope.catalog",
    "audit": "leakscope.api",
    "audit_file": "leakscope.api",
    "audit_predictions": "leakscope.api",
    "compare": "leakscope.comparing.perform",
    "estimate": "leakscope.cost",
    "leave_one_out": "leakscope.in_turn.perform",
    "load": "leakscope.result",
}


def __getattr__(name: str) -> Any:
    """Load what is heavier than the nouns when it is first asked for."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'leakscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
