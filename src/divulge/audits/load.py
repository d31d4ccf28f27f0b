"""What any run folder holds."""

from pathlib import Path

from divulge._util.arguments import FilePath, check_arguments
from divulge.audits.kinds import load_run
from divulge.audits.runs import FinishedRun


@check_arguments
def load(run: FilePath) -> FinishedRun:
    """What is in a run folder of any kind; needs neither the model nor the data.

    Raises:
        StoreError: it is no run folder, damaged, not finished, or made by a newer divulge.
    """
    found = load_run(Path(run))
    assert isinstance(found, FinishedRun)
    return found
