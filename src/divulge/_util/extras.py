"""Packages that are loaded late: what brings those that are not installed with divulge itself."""

import contextlib
import importlib
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import lazy_loader

from divulge.errors import MissingExtra

if TYPE_CHECKING:
    from scipy import stats as stats

EXTRAS = {
    "torch": "torch",
    "safetensors": "torch",
    "divulge_papers": "papers",
    "divulge_fast": "fast",
    "numba": "fast",
    "optuna": "dp",
    "onnxruntime": "files",
    "skops": "files",
    "pyarrow": "files",
    "pandas": "files",
    "opacus": "dp",
    "dp_accounting": "dp",
    "xgboost": "boosters",
    "ray": "ray>=2.40",
    "cryptography": "federated",
    "minisign": "report",
    "flwr": "federated",
    "nvflare": "nvflare>=2.9,<2.10",
    "torchvision": "images",
    "PIL": "images",
    "httpx": "urls",
    "keras": "keras>=3.5",
    "transformers": "text",
    "accelerate": "text",
    "mlflow": "report",
    "wandb": "report",
    "huggingface_hub": "report",
}
"""By the name that is imported. ``papers`` and ``fast`` are distributions of their own; a
requirement such as ``ray>=2.40`` is of a library that no extra brings."""


@contextlib.contextmanager
def name_missing_extra() -> Iterator[None]:
    """Say which extra would bring a package that is not there, instead of an import error.

    Raises:
        MissingExtra: a package of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(package, EXTRAS[package]) from error


def require(package: str) -> None:
    """Say at once that a package is not there, and load nothing.

    Raises:
        MissingExtra: it is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(package, EXTRAS[package])


def import_optional(name: str) -> ModuleType | None:
    """A module that needs an extra and is done without; None where that does not work here.

    A package may be installed and refuse the version of another one.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        logging.getLogger("divulge").info("%s is done without: %s", name, error)
        return None


class _HidingFinder:
    """Finder that lets one thread do without a package which it would import."""

    def __init__(self, package: str) -> None:
        self._package, self._thread = package, threading.get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse the package, and leave all else to other finders."""
        del path, target
        if name == self._package and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def load_sklearn() -> None:
    """Load scikit-learn without pandas, unless one is loaded: 32 MiB less.

    It imports pandas where that is installed, and never uses what it imported: it looks anew at
    each frame that it is given.
    """
    if "pandas" in sys.modules or "sklearn.utils" in sys.modules:
        return
    hidden = _HidingFinder("pandas")
    sys.meta_path.insert(0, hidden)
    try:
        importlib.import_module("sklearn.utils")
    finally:
        sys.meta_path.remove(hidden)


class _Stats:
    """`scipy.stats`, loaded by its first use: half a second and 40 MiB, which many never use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("scipy.stats"), name)


if not TYPE_CHECKING:
    stats = _Stats()


def attach_stub(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Let a package offer the names in its stub, each loaded when it is first asked for.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``.
    """
    get, names, public = lazy_loader.attach_stub(package, file)

    def get_attribute(name: str) -> object:
        with name_missing_extra():
            return get(name)

    return get_attribute, names, public
