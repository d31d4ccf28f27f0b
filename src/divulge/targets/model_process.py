"""Query a model file in a process of its own, within limits of time and memory.

A stranger's file can hold an endless loop, or ask for all memory there is, in compiled code that
nothing in the same process can interrupt. Records go to the process as Python objects. What comes
back is taken for hostile: a header of JSON and plain numbers, never an object.
"""

import contextlib
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn, final, get_args

import numpy as np
import pydantic
from jaxtyping import Bool, Float

from divulge import errors
from divulge._util import untrusted
from divulge._util.json import JSON, parse_json
from divulge._util.showable import make_all_showable, make_showable
from divulge.core import Need
from divulge.errors import DivulgeError, TargetError
from divulge.targets.batching import count_rows
from divulge.targets.model_parts import ModelKind
from divulge.targets.outputs import Output, access_of, to_answers

TimeLimit = Annotated[float, pydantic.Field(gt=0, le=10**6)]

TIME_LIMIT = 600.0
"""Seconds that loading a file may take, and answering a batch of records."""

LENGTH = struct.Struct("<Q")
"""How the length of a message stands before it."""

LABEL = (str, int, float, bool)
"""Types of labels that are sent as they are."""

_LARGEST_HEADER = 2**24
_LONGEST_TEXT = 2000
_ACCESS = {access_of(output).value: access_of(output) for output in get_args(Output)}
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from divulge.targets.model_worker import main; main(int(sys.argv[2]))"
)


@final
class IsolatedTarget:
    """A model file that a process of its own loads and queries, as long as this object lives.

    Args:
        path: the file.
        settings: how the model is asked, as of `divulge.targets.files.open_target`.
        batch_size: how many records the model is asked about at a time.
        time_limit: seconds that loading may take, and each batch.

    Raises:
        TargetError: the file cannot be loaded as a model, or a limit is met.
        MissingExtra: the package that reads this format is not installed.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, JSON], batch_size: int, time_limit: float
    ) -> None:
        self._path, self._batch_size, self._time_limit = path, batch_size, time_limit
        self.declared = path.suffix != ".skops" and settings.get("output") == "probabilities"
        """Whether the user says that the answers are probabilities; the file of a network does not,
        and scikit-learn does."""
        self._lock, self._ended = threading.Lock(), ""
        self._process = _start_process()
        self._finalizer = weakref.finalize(self, _end_process, self._process)
        sent = {"path": str(path.absolute()), **settings, "batch_size": batch_size}
        try:
            header, _ = self._request(sent, time_limit, "be loaded")
            self.offers = _ACCESS[header["offers"]]
            """What its answers allow."""
            self.takes_frames = bool(header["takes_frames"])
            self.text = make_showable(str(header["text"])[:_LONGEST_TEXT])
            self.feature_names = _read_names(header["features"])
            self.class_labels = _read_names(header["classes"])
            self.kind: ModelKind = _read_kind(header["kind"])
            self.packages = tuple(map(str, _read_names(header["packages"])))
            """Names of the packages that the model comes from."""
        except (KeyError, TypeError, ValueError) as error:
            self._finalizer()
            self._refuse_reply(error)
        except DivulgeError:
            self._finalizer()
            raise

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """Probabilities or values in float64.

        Args:
            x: the records in whatever the model takes.

        Raises:
            TargetError: the model failed, did not answer in time, or its answers are not what they
                should be.
        """
        count = count_rows(x)
        limit = self._time_limit * max(1, -(-count // self._batch_size))
        header, body = self._request(x, limit, f"answer about {count} records")
        try:
            answers = np.frombuffer(body, "<f8").reshape(header["shape"])
        except (KeyError, TypeError, ValueError) as error:
            self._refuse_reply(error)
        values = Need.VALUES in self.offers
        if answers.ndim != 2 or (not values and answers.shape[1] < 2):
            self._refuse_reply(ValueError(f"answers of shape {answers.shape}"))
        to_answers(answers, "values" if values else "probabilities", count)
        return answers

    def look_into(self, x: Any, member: Bool[np.ndarray, " records"]) -> Mapping[str, Any]:
        """What the process counted of these records in the model; see `ModelContents`.

        Args:
            x: the records in whatever the model takes.
            member: who of them was trained on.

        Raises:
            TargetError: the process did not answer in time, or not at all.
        """
        limit = self._time_limit * max(1, -(-len(member) // self._batch_size))
        header, _ = self._request({"records": x, "member": member}, limit, "be looked into")
        contents: Mapping[str, Any] = header
        return contents

    def _request(self, content: Any, limit: float, what: str) -> tuple[Any, bytearray]:
        """What the process replies: a header, and the bytes after it.

        Raises:
            DivulgeError: what the process says, or a limit is met.
        """
        with self._lock:
            if self._ended:
                raise TargetError(self._ended)
            late = threading.Event()
            timer = threading.Timer(limit, _end_late, [self._process, late])
            timer.daemon = True
            timer.start()
            try:
                _send(self._process.stdin, content)
                header, body = self._receive()
            except (OSError, EOFError, ValueError) as error:
                self._finalizer()
                self._ended = self._describe_end(error, limit if late.is_set() else None, what)
                raise TargetError(self._ended) from error
            except BaseException:
                self._finalizer()  # a reply may be under way, which would be taken for another's
                self._ended = f"expected {self._path} to be loaded, its process was ended before"
                raise
            finally:
                timer.cancel()
        if "error" in header:
            raise _as_error(header)
        return header, body

    def _receive(self) -> tuple[Any, bytearray]:
        header = parse_json(bytes(_read_message(self._process.stdout, _LARGEST_HEADER)))
        if not isinstance(header, dict):
            raise ValueError("no header")  # noqa: TRY004 (of a process that may be hostile)
        limit = untrusted.byte_limit(untrusted.MAX_DATA_BYTES)
        return header, _read_message(self._process.stdout, limit)

    def _describe_end(self, error: Exception, limit: float | None, what: str) -> str:
        """The message about a process that gave no reply."""
        if limit is not None:
            return (
                f"expected {self._path} to {what} within {limit:g} s, it did not, and its process "
                "was ended: if you trust the file, raise time_limit in [target], or in "
                f"divulge.Access; it is {self._time_limit:g} s for loading and for each batch"
            )
        status = self._process.returncode
        names = {int(number): number.name for number in signal.Signals}
        how = f"status {status}" if status is None or status >= 0 else names.get(-status, "signal")
        if isinstance(error, ValueError):
            how = "a reply that is none"
        size = untrusted.byte_limit(untrusted.MAX_DATA_BYTES)
        return (
            f"expected {self._path} to {what}, its process ended instead ({how}): the file is "
            f"damaged, or the model takes more memory than there is, or than {size:,} bytes; if "
            f"you trust the file, raise that by {untrusted.VARIABLE}"
        )

    def _refuse_reply(self, error: Exception) -> NoReturn:
        raise TargetError(
            f"expected answers of the model in {self._path}, its process sent something else: save "
            "the model again"
        ) from error


def _start_process() -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-I",
        "-c",
        _CODE,
        json.dumps(list(map(str, sys.path))),
        str(os.getpid()),
    ]
    return subprocess.Popen(  # noqa: S603 (this Python, and code of this file)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _end_late(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # what was not sent goes nowhere
            pipe.close()
    process.wait()


def _send(pipe: IO[bytes] | None, content: Any) -> None:
    assert pipe is not None
    packed = pickle.dumps(content, protocol=5)
    pipe.write(LENGTH.pack(len(packed)))
    pipe.write(packed)
    pipe.flush()


def _read_message(pipe: IO[bytes] | None, largest: int) -> bytearray:
    """A message of at most so many bytes.

    Raises:
        EOFError: the process has ended.
        ValueError: it would be longer.
    """
    assert pipe is not None
    (length,) = LENGTH.unpack(_read_exactly(pipe, LENGTH.size))
    if length > largest:
        raise ValueError(f"a message of {length} bytes")
    return _read_exactly(pipe, length)


def _read_exactly(pipe: IO[bytes], length: int) -> bytearray:
    content = bytearray()
    while len(content) < length:
        part = pipe.read(min(2**24, length - len(content)))
        if not part:
            raise EOFError
        content += part
    return content


def _read_names(names: Any) -> tuple[Any, ...]:
    """Texts and numbers of a list, fit to be shown.

    Raises:
        TypeError: there is something else.
    """
    if not isinstance(names, list) or not all(isinstance(name, LABEL) for name in names):
        raise TypeError("names that are neither texts nor numbers")
    return tuple(make_all_showable(names))


def _read_kind(kind: Any) -> ModelKind:
    """A kind of model.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in get_args(ModelKind):
        raise ValueError("no kind of model")
    checked: ModelKind = kind
    return checked


def _as_error(header: Mapping[str, Any]) -> DivulgeError:
    """The error that the process says, of one of divulge's classes."""
    kind = getattr(errors, str(header["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, DivulgeError)):
        kind = TargetError
    error = kind.__new__(kind)  # some make their message themselves
    error.args = (make_showable(str(header.get("text"))[:_LONGEST_TEXT]),)
    return error
