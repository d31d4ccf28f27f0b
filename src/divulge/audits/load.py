"""What any run folder holds."""

from pathlib import Path

from divulge._util.arguments import FilePath, check_arguments
from divulge.audits.compare.result import Comparison, load_comparison
from divulge.audits.harden.federated_result import (
    HardenedFederation,
    load_hardened_federation,
)
from divulge.audits.harden.result import HardenedModel, load_hardened
from divulge.audits.heads import read_raw_head
from divulge.audits.leave_one_out.result import LeaveOneOut, load_leave_one_out
from divulge.audits.result import SecretAudit, load_audit
from divulge.errors import StoreError


@check_arguments
def load(
    run: FilePath,
) -> SecretAudit | LeaveOneOut | Comparison | HardenedModel | HardenedFederation:
    """What is in a run folder of any kind; needs neither the model nor the data.

    Raises:
        StoreError: it is no run folder, damaged, not finished, or made by a newer divulge.
    """
    path = Path(run)
    kind = read_raw_head(path)["kind"]
    if kind == "audit":
        return load_audit(path)
    if kind == "leave-one-out":
        return load_leave_one_out(path)
    if kind == "comparison":
        return load_comparison(path)
    if kind == "hardening":
        return load_hardened(path)
    if kind == "canaries":
        raise StoreError(
            f"expected a run of audits in {path}, got an audit by canaries: `divulge report` "
            "renders it, and its summary.json has all figures"
        )
    if kind == "hardened-federation":
        return load_hardened_federation(path)
    raise StoreError(
        f"expected a run of kind audit, leave-one-out, comparison, hardening or "
        f"hardened-federation in {path}, got {kind!r}: it is damaged, or was made by another "
        "divulge"
    )


def load_audited(path: Path) -> SecretAudit | LeaveOneOut | Comparison:
    """What is in a run folder of audits; a search has its final audit within.

    Raises:
        StoreError: see `load`; or it is a search.
    """
    found = load(path)
    if isinstance(found, HardenedModel):
        raise StoreError(
            f"expected a run of audits, got a search for a model in {path}: name its final audit, "
            f"{found.audit.path}"
        )
    if isinstance(found, HardenedFederation):
        raise StoreError(
            f"expected a run of audits, got a search for a federation in {path}: record the chosen "
            "one with `divulge federate`, and audit its transcript"
        )
    return found
