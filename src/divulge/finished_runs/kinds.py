"""All kinds of run, each found by the name that heads carry, and loaded when asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from divulge._util.registry import find_class
from divulge.errors import StoreError
from divulge.finished_runs.run_json import read_raw_head

KINDS: Mapping[str, str] = {
    "audit": "divulge.audits.result:SecretAudit",
    "leave-one-out": "divulge.studies.leave_one_out.result:LeaveOneOut",
    "comparison": "divulge.studies.compare.result:Comparison",
    "hardening": "divulge.studies.harden.result:HardenedModel",
    "hardened-federation": "divulge.studies.harden.federated_result:HardenedFederation",
    "canaries": "divulge.canaries.result:CanaryAudit",
}
"""By kind, the module and the class of what its folders hold: a `FinishedRun`."""


def load_run(path: Path) -> Any:
    """The `finished_runs.finished_run.FinishedRun` in a folder of any kind.

    Raises:
        StoreError: it is no run folder, damaged, not finished, or made by a newer divulge.
    """
    kind = read_raw_head(path)["kind"]
    if kind not in KINDS:
        raise StoreError(
            f"expected a run of kind {', '.join(KINDS)} in {path}, got {kind!r}: it is damaged, or "
            "was made by another divulge"
        )
    return find_class(KINDS, "a kind of run", str(kind)).load(path)
