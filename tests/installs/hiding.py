"""Packages as if they were not installed."""

from collections.abc import Collection
from pathlib import Path


def hide(packages: Collection[str], folder: Path) -> None:
    """Write a module for each package that cannot be imported, as if it were not there.

    A Python that has the folder first among its paths finds these, and so do those that it starts:
    a module on a path reaches processes that a hook of this one would not.
    """
    for package in packages:
        raises = f"raise ModuleNotFoundError(\"No module named '{package}'\", name={package!r})\n"
        (folder / f"{package}.py").write_text(raises, encoding="utf-8")
