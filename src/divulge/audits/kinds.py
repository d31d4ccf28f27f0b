"""The kinds of run folder: each is loaded by a function that is found here by its name."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from divulge.audits.run_folder import read_raw_head
from divulge.errors import StoreError

LOADERS: Mapping[str, str] = {
    "audit": "divulge.audits.result:load_audit",
    "leave-one-out": "divulge.studies.leave_one_out.result:load_leave_one_out",
    "comparison": "divulge.studies.compare.result:load_comparison",
    "hardening": "divulge.studies.harden.result:load_hardened",
    "hardened-federation": "divulge.studies.harden.federated_result:load_hardened_federation",
}
"""``module:function`` by the kind that the head of a run folder names."""


def load_kind(path: Path) -> Any:
    """What is in a run folder of any kind; only what its kind needs is imported.

    Raises:
        StoreError: it is no run folder, damaged, not finished, or made by a newer divulge.
    """
    kind = read_raw_head(path)["kind"]
    if kind == "canaries":
        raise StoreError(
            f"expected a run of audits in {path}, got an audit by canaries: `divulge report` "
            "renders it, and its summary.json has all figures"
        )
    if not isinstance(kind, str) or kind not in LOADERS:
        *names, last = LOADERS
        raise StoreError(
            f"expected a run of kind {', '.join(names)} or {last} in {path}, got {kind!r}: it is "
            "damaged, or was made by another divulge"
        )
    module, _, function = LOADERS[kind].partition(":")
    return getattr(importlib.import_module(module), function)(path)
