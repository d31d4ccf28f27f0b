"""Audits of one kind, by functions that return every kind."""

import dataclasses
from pathlib import Path
from typing import Any

import divulge
from divulge import Access, Audit, FederationAudit, LeaveOneOut, Options, Rotation, ShadowModels


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


def grouped(**flat: Any) -> dict[str, Any]:
    """Arguments of `divulge.audit` and the like, with those that stand in groups put there.

    With ``models`` the models are audited in turn.
    """
    shadows = Rotation if "models" in flat else ShadowModels
    groups: dict[str, Any] = {"access": Access, "options": Options}
    groups["rotation" if shadows is Rotation else "shadows"] = shadows
    if isinstance(flat.get("shadows"), int) and shadows is ShadowModels:
        flat["models"] = flat.pop("shadows")
    found: dict[str, Any] = {}
    for name, group in groups.items():
        names = {field.name for field in dataclasses.fields(group)} & flat.keys()
        if names:
            found[name] = group(**{key: flat.pop(key) for key in names})
    return found | flat
