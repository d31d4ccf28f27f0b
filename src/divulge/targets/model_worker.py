"""The process that loads a model file and queries it; see `divulge.targets.model_process`."""

import importlib
import importlib.util
import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import psutil

from divulge._util import untrusted
from divulge._util.processes import end_with_parent
from divulge.core import Target
from divulge.errors import DivulgeError, TargetError
from divulge.targets import files, model_facts
from divulge.targets.batching import translate_model_errors
from divulge.targets.model_contents import ModelContents, look_into
from divulge.targets.model_parts import packages_of
from divulge.targets.model_process import LABEL, LENGTH


def main(parent: int) -> None:
    """Answer requests until the parent ends, or closes the pipe.

    Args:
        parent: its number.
    """
    requests, replies = _take_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    end_with_parent(parent)
    limit_memory(untrusted.byte_limit(untrusted.MAX_DATA_BYTES))
    target: Target | None = None
    while (request := _receive(requests)) is not None:
        header: dict[str, Any]
        body = b""
        try:
            with translate_model_errors("the model to answer", "save it again"):
                if target is None:
                    target = files.open_target(Path(request.pop("path")), **request)
                    header = _describe(target)
                elif isinstance(request, dict) and request.keys() == {"records", "member"}:
                    contents = look_into(target, request["records"], request["member"])
                    header = dict((contents or ModelContents())._asdict())
                else:
                    answers = np.ascontiguousarray(target.predict(request), "<f8")
                    header, body = {"shape": answers.shape}, answers.tobytes()
        except DivulgeError as error:
            header = {"error": type(error).__name__, "text": _explain(error)}
        for part in (json.dumps(header).encode(), body):
            replies.write(LENGTH.pack(len(part)))
            replies.write(part)
        replies.flush()


def limit_memory(size: int) -> None:
    """Let this process take so many bytes beyond what it has, and no more than the machine has.

    Only Linux counts what a process really asks for; elsewhere nothing is limited.

    Args:
        size: in bytes.
    """
    if sys.platform != "linux":
        return
    resource: Any = importlib.import_module("resource")
    used = psutil.Process().memory_info().data
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + min(size, psutil.virtual_memory().total)
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """What the parent writes and reads; nothing else that is printed reaches anybody."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    return requests, replies


def _receive(requests: BinaryIO) -> Any:
    """What the parent asks; None where it asks no more."""
    length = requests.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    content = requests.read(*LENGTH.unpack(length))
    return pickle.loads(content)  # noqa: S301 (what the parent has just packed)


def _describe(target: Target) -> dict[str, Any]:
    labels = model_facts.class_labels(target)
    return {
        "offers": target.offers.value,
        "takes_frames": bool(getattr(target, "takes_frames", False)),
        "text": model_facts.describe_model(target),
        "kind": model_facts.kind_of_model(target),
        "packages": sorted(packages_of(target)),
        "features": model_facts.feature_names(target),
        "classes": labels if all(isinstance(label, LABEL) for label in labels) else (),
    }


def _explain(error: DivulgeError) -> str:
    cause = error.__cause__
    if isinstance(cause, MemoryError) or (isinstance(error, TargetError) and "alloc" in str(cause)):
        return (
            f"{error}; it may take {untrusted.byte_limit(untrusted.MAX_DATA_BYTES):,} bytes of "
            f"memory: if you trust the file, raise that by {untrusted.VARIABLE}"
        )
    return str(error)
