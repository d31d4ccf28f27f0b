"""Audits of one kind, by functions that return every kind."""

from pathlib import Path
from typing import Any

import divulge
from divulge import Audit, FederationAudit, LeaveOneOut


def audit_model(path: str | Path, *args: Any, **settings: Any) -> Audit:
    """What `divulge.audit_file` finds about a model."""
    found = divulge.audit_file(path, *args, **settings)
    assert isinstance(found, Audit)
    return found


def audit_in_turn(path: str | Path, *args: Any, **settings: Any) -> LeaveOneOut:
    """What `divulge.audit_file` finds about models in turn."""
    found = divulge.audit_file(path, *args, **settings)
    assert isinstance(found, LeaveOneOut)
    return found


def audit_federation(path: str | Path, *args: Any, **settings: Any) -> FederationAudit:
    """What `divulge.audit_file` finds about a federation."""
    found = divulge.audit_file(path, *args, **settings)
    assert isinstance(found, FederationAudit)
    return found


def load_model(path: str | Path) -> Audit:
    """The audit of a model in a run folder."""
    found = divulge.load(path)
    assert isinstance(found, Audit)
    return found


def load_federation(path: str | Path) -> FederationAudit:
    """The audit of a federation in a run folder."""
    found = divulge.load(path)
    assert isinstance(found, FederationAudit)
    return found
