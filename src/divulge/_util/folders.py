"""Run folders are chosen, numbered, created, and taken by one process at a time here."""

import contextlib
import math
import re
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from filelock import LeaseSettingsMismatch, SoftFileLease, Timeout

from divulge._util import atomic
from divulge.errors import StoreError

LOCK = ".lock"
"""The file that says which process works in a run folder: its number, its host, its start."""

LEASE = 90.0
"""Seconds without a sign of life after which a process on another host counts as gone."""

HEARTBEAT = 15.0
"""Seconds between two signs of life."""

_GLANCE = 1.0

_UNSAFE = re.compile(r"[^\w.-]*[^\w .-][^\w.-]*")
"""Characters that a folder's name does not get, with spaces around them."""

_LONGEST = 60
"""Characters of a folder's name: at most 240 bytes."""


@contextlib.contextmanager
def hold_folder(path: Path) -> Iterator[None]:
    """Keep every other process, and every other thread of this one, out of a folder.

    The lock of a process of this host that has ended, however it ended, is taken over; that of a
    process on another host where it has shown no sign of life for `LEASE` seconds.

    Args:
        path: the folder, which has to be there. Its holder may hold it again.

    Raises:
        StoreError: another process or thread holds it, or took it over while this process was
            stopped; or it cannot be written to.
    """
    place = path.resolve() / LOCK
    lock = SoftFileLease(
        place,
        timeout=0,
        mode=0o600,
        is_singleton=True,
        lease_duration=LEASE,
        heartbeat_interval=HEARTBEAT,
    )
    with atomic.translate_os_errors(path):
        try:
            _acquire(lock, place)
        except (Timeout, LeaseSettingsMismatch):
            raise StoreError(_describe_holder(path, place)) from None
    try:
        if lock.lock_counter == 1:
            _remove_unfinished(path)
        yield
        if lock.compromise is not None and lock.compromise.reason == "owner-changed":
            raise StoreError(
                f"expected {path} for this process alone, another one took it over while this one "
                f"was stopped for more than {LEASE:g} s: work in a new folder"
            )
    finally:
        lock.release()


def _acquire(lock: SoftFileLease, place: Path) -> None:
    """Take a lock, also of a process on another host that is gone.

    Raises:
        Timeout: its holder lives, or nobody can know.
        LeaseSettingsMismatch: its holder is another version.
    """
    with contextlib.suppress(Timeout):
        lock.acquire()
        return
    before = _read_sign(place)
    glances = math.ceil(LEASE / _GLANCE) + 2 if _expires(place) else 0
    for _ in range(glances):
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=_GLANCE)
            return
        if _read_sign(place) != before:
            break
    raise Timeout(str(place))


def _read_sign(place: Path) -> float:
    """The time of the last sign of life, by the clock of the file system."""
    try:
        return place.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _expires(place: Path) -> bool:
    """Whether a lock is of another host, or container, and its holder shows signs of life."""
    holder = _read_holder(place)
    if holder.get("mode") != "lease":
        return False
    with tempfile.TemporaryDirectory() as folder:  # how this host is called in a lock
        own = Path(folder) / LOCK
        with SoftFileLease(own, lease_duration=LEASE):
            return holder.get("host") != _read_holder(own).get("host")


def _read_holder(place: Path) -> dict[str, str]:
    """What a lock says of its holder; of earlier versions number and host alone."""
    try:
        with place.open(encoding="utf-8", errors="replace") as file:
            lines = file.read(1024).splitlines()
    except OSError:
        return {}
    if len(lines) in (2, 3):
        return {"pid": lines[0], "host": lines[1]}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _remove_unfinished(path: Path) -> None:
    """Remove what a process was writing when it was killed: nobody else writes into the folder."""
    with atomic.translate_os_errors(path):
        for file in path.rglob(f"{atomic.UNFINISHED}*"):
            if file.is_file() and not file.is_symlink():
                file.unlink(missing_ok=True)


def _describe_holder(path: Path, place: Path) -> str:
    """The message for who comes second."""
    holder = _read_holder(place)
    holder_name = "another process"
    if holder.get("pid", "").isdecimal():
        host = holder.get("host", "").partition("?")[0]
        holder_name = f"process {holder['pid'][:10]} on {ascii(host[:200])[1:-1]}"
    return (
        f"expected {path} for this process alone, {holder_name} works in it: wait until that has "
        f"ended, or choose another folder; only if it has ended for certain, such as on a machine "
        f"or in a container that is gone, delete {place}"
    )


@contextlib.contextmanager
def take_folder(path: Path, preparations: tuple[str, ...] = ()) -> Iterator[None]:
    """Make a folder unless it is there, and hold it; what fails early leaves nothing behind.

    Args:
        path: the folder, for its owner alone.
        preparations: patterns of the names of files that are written before anything is computed.
            A folder that was new or empty and has only such files when an error ends the work goes
            again.

    Raises:
        StoreError: another process or thread holds it, or it cannot be made.
    """
    with atomic.translate_os_errors(path):
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        if made:
            path.chmod(0o700)
        new = not has_content(path)
    try:
        with hold_folder(path):
            try:
                yield
            except BaseException:
                if new:
                    _remove_preparations(path, preparations)
                raise
    finally:
        with contextlib.suppress(OSError):  # what holds something stays
            for folder in made:
                folder.rmdir()


def _remove_preparations(path: Path, names: tuple[str, ...]) -> None:
    """Empty a folder in which nothing was computed yet."""
    below = sorted(path.rglob("*"), reverse=True)  # what is in a folder comes before the folder
    files = [entry for entry in below if not entry.is_dir() and entry != path / LOCK]
    if not all(any(fnmatch(file.name, name) for name in names) for file in files):
        return
    with contextlib.suppress(OSError):
        for file in files:
            file.unlink()
        for folder in below:
            if folder.is_dir():
                folder.rmdir()


def has_content(path: Path) -> bool:
    """Whether there is anything in a folder, apart from the lock of who holds it."""
    return any(entry.name != LOCK for entry in path.iterdir())


def create_folder(path: Path, *, resumes: bool = False) -> None:
    """Make a folder for the owner alone.

    Args:
        path: the folder.
        resumes: whether its command can continue what is in it.

    Raises:
        StoreError: it exists with something in it, or cannot be made.
    """
    with atomic.translate_os_errors(path):
        if path.exists() and (not path.is_dir() or has_content(path)):
            also = ", or continue it with --resume" if resumes else ""
            raise StoreError(f"expected a new folder, {path} exists: choose another one{also}")
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)


def choose_run_folder(run: str | Path | None, settings: Path, name: str, *, resume: bool) -> Path:
    """The run folder to use.

    Args:
        run: the folder that the user named; None chooses a numbered one beside the settings.
        settings: the file of settings.
        name: the audit's name.
        resume: whether to choose the latest numbered folder, to continue it, or the next one.
    """
    base = settings.parent / "runs" / make_folder_name(name)
    default = numbered_folder(base, latest=resume)
    return default if run is None else Path(run)


def make_folder_name(name: str) -> str:
    """What of a run's name is safe as the name of a folder, on every system.

    Examples:
        >>> make_folder_name("health insurance, LightGBM"), make_folder_name("../a:b")
        ('health-insurance-LightGBM', 'a-b')
    """
    safe = _UNSAFE.sub("-", name).replace(" ", "-")[:_LONGEST].strip("-.")
    return safe or "run"


def numbered_folder(base: Path, *, latest: bool = False) -> Path:
    """The first free path of ``base-001``, ``base-002``, ...; with ``latest`` the one before it."""
    number = 1
    while Path(f"{base}-{number:03d}").exists():
        number += 1
    return Path(f"{base}-{max(1, number - latest):03d}")
