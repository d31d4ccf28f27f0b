"""A reference ``file.py:name`` is loaded here; errors of the user's own code become one line."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from divulge._util.contents import quote_error
from divulge._util.untrusted import MAX_TEXT_BYTES, read_file
from divulge.errors import DivulgeError, SpecError, did_you_mean

T = TypeVar("T")

USER_MODULE_PREFIX = "divulge_subject_"
"""Prefix of the names of modules loaded from a user's file; nobody else imports these."""


def split_reference(text: str) -> tuple[str, str]:
    """Split ``file.py:name`` or ``module:name``; the name is empty for the path of a data file."""
    file, colon, name = text.rpartition(":")
    return (file, name) if colon and name.isidentifier() else (text, "")


def load_object(text: str, folder: Path) -> Any:
    """Load the object that ``file.py:name`` or ``package.module:name`` names.

    Args:
        text: the reference.
        folder: the folder that a relative path starts from.

    Raises:
        SpecError: there is no such file or name, or its code fails.
    """
    file, name = split_reference(text)
    module = _module(file, folder)
    if name not in vars(module):
        public = [key for key in vars(module) if not key.startswith("_")]
        hint = did_you_mean(name, public)
        raise SpecError(f"expected {name!r} in {file}, it is not there: {hint}")
    return vars(module)[name]


def _module(file: str, folder: Path) -> ModuleType:
    if not file.endswith(".py"):
        return call_user_code(lambda: importlib.import_module(file), file)
    content = read_file(folder / file, MAX_TEXT_BYTES, SpecError)
    path = (folder / file).resolve()
    # a file that was changed since is another module: a long-lived session loads it anew
    identity = str(path).encode() + b"\0" + content
    name = USER_MODULE_PREFIX + hashlib.blake2b(identity, digest_size=8).hexdigest()
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    loader = spec.loader
    assert loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        call_user_code(lambda: loader.exec_module(module), file)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def call_user_code(function: Callable[[], T], what: str) -> T:
    """Call the user's own code, and return its result.

    Args:
        function: runs the code.
        what: name of the code, for the message.

    Raises:
        SpecError: it raised something; says what, and in which line.
    """
    try:
        return function()
    except DivulgeError:
        raise
    except Exception as error:
        frame = inspect.getinnerframes(error.__traceback__)[-1] if error.__traceback__ else None
        place = f" ({Path(frame.filename).name}, line {frame.lineno})" if frame else ""
        raise SpecError(
            f"expected {what} to run, it raised {type(error).__name__}{place}: {quote_error(error)}"
        ) from error
