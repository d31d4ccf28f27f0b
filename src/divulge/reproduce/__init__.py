"""Published tables, measured again: what divulge-papers brings, by its addresses here.

``divulge.reproduce.table`` is ``divulge_papers.table``, and so on: one module with two addresses.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

from divulge._util.extras import name_missing_extra

PAPERS = "divulge_papers"


class PapersFinder(MetaPathFinder, Loader):
    """Finds modules of divulge-papers by the addresses that they have here."""

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for what is below this package; None for all else."""
        # of a namespace package the path is not a sequence but a class of its own
        del path, target
        return spec_from_loader(fullname, self) if fullname.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of divulge-papers.

        Raises:
            MissingExtra: divulge-papers is not installed.
        """
        with name_missing_extra():
            importlib.import_module(PAPERS)
        module = importlib.import_module(spec.name.replace(__name__, PAPERS, 1))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which Python has overwritten; it ran before."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, PapersFinder())
