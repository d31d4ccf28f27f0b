"""What any run folder holds."""

from pathlib import Path

from divulge._util.arguments import FilePath, check_arguments
from divulge.audits.kinds import load_kind
from divulge.audits.result import SecretAudit
from divulge.errors import StoreError
from divulge.studies.compare.result import Comparison
from divulge.studies.harden.federated_result import HardenedFederation
from divulge.studies.harden.result import HardenedModel
from divulge.studies.leave_one_out.result import LeaveOneOut


@check_arguments
def load(
    run: FilePath,
) -> SecretAudit | LeaveOneOut | Comparison | HardenedModel | HardenedFederation:
    """What is in a run folder of any kind; needs neither the model nor the data.

    Raises:
        StoreError: it is no run folder, damaged, not finished, or made by a newer divulge.
    """
    found: SecretAudit | LeaveOneOut | Comparison | HardenedModel | HardenedFederation
    found = load_kind(Path(run))
    return found


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
