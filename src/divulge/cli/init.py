"""What ``divulge init`` writes: settings with every key explained, and a subject to replace."""

from importlib.resources import files
from pathlib import Path

from divulge.errors import StoreError

NAMES = ("audit.toml", "subject.py")


def write(folder: Path) -> list[Path]:
    """Write both files into a folder, which is made if need be; returns their paths.

    Raises:
        StoreError: one of them is there already, or the folder cannot be written.
    """
    paths = [folder / name for name in NAMES]
    for path in paths:
        if path.exists():
            raise StoreError(
                f"expected no {path.name} in {folder}, there is one: "
                "choose another folder, or move it away"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            source = files("divulge.cli").joinpath("templates", f"{path.name}.txt")
            path.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"expected to write into {folder}, got {error.strerror}: check its permissions"
        ) from error
    return paths
