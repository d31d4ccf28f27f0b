"""Folders for processes to read from, which go whatever becomes of this one."""

import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import Any


class Scratch:
    """A new folder, which goes with its owner, or with this process, were it killed.

    A process that joblib keeps beside this one, and that outlives it by a moment, removes what is
    left; nothing does if that one is killed as well.
    """

    def __init__(self, owner: Any) -> None:
        from joblib.externals.loky.backend import resource_tracker

        self.path = Path(mkdtemp(prefix="divulge-"))
        resource_tracker.register(str(self.path), "folder")
        self.remove = weakref.finalize(owner, _removed, self.path)


def _removed(path: Path) -> None:
    from joblib.externals.loky.backend import resource_tracker

    shutil.rmtree(path, ignore_errors=True)
    resource_tracker.unregister(str(path), "folder")
