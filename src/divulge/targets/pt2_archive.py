"""Read a .pt2 archive without giving it a chance to run code of its own.

``torch.export.load`` trusts the file. In torch 2.13 (torch/export/pt2_archive/_package.py,
torch/_export/serde/serialize.py, torch/export/_unlift.py) code comes in through:

* pickles: weights and constants marked ``use_pickle``, ``opaque_obj_*`` and ``custom_obj_*``,
  the sample inputs (read with ``weights_only=True``, and if that fails with
  ``weights_only=False``), and everything in archives of before torch 2.8;
* machine code: libraries under ``data/aotinductor``, loaded beside the program;
* the program: sizes are evaluated as Python (``sympy.sympify``), guards and the names of inputs
  are pasted into source that is executed, tree specifications name modules to import, and some
  operators write files.

So the archive that torch gets to see is written here anew: raw tensors, and a program in which
every string is known to be harmless. What a classifier can do without is left out, the rest is
refused. That keeps code out; it does not make the operators themselves proof against odd arguments.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from divulge._util.json import parse_json
from divulge.errors import TargetError
from divulge.targets.batching import translate_model_errors

_MODEL = "models/model.json"
_CONFIGS = (
    ("data/weights/", "model_weights_config.json", r"weight_\d+"),
    ("data/constants/", "model_constants_config.json", r"tensor_\d+"),
)
_STAMPS = ("archive_format", "archive_version", "byteorder", ".data/version")

_WORD = r"\w*"
# Operators alone: two of them reach the disk, and no attribute with two underscores is one.
_OPERATOR = (
    r"torch\.ops\.aten\.(?!(from_file|save)\.)_?[a-z]\w*\.[a-zA-Z]\w*|torch\.sym_[a-z]+|"
    r"_operator\.(add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|lt|le|gt|ge|and_|or_|getitem)"
)
_ALLOWED_TREE = r"builtins\.(tuple|list|dict)|null|\[\]"
_ALLOWED_STRINGS = {
    "target": _OPERATOR,
    "as_operator": _OPERATOR,
    "parameter_name": r"[\w.]*",
    "buffer_name": r"[\w.]*",
    "tensor_constant_name": r"[\w.]*",
    "fqn": r"[\w.]*",
    "as_string": r"[\w ,>.-]*",
    "torch_version": r"[\w.+]*",
}
_SIZE_CHARACTERS = r"[\w\s(),=+*/<>'-]*"
_SIZE_WORDS = (
    r"[su]\d+|\d+|Symbol|Integer|Add|Mul|Pow|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv|Max|Min|"
    r"positive|nonnegative|integer|True|False"
)


def sanitise_archive(path: Path) -> tuple[dict[str, Any], io.BytesIO]:
    """The program of an archive, and an archive of it that is safe to load.

    Raises:
        TargetError: the file is damaged, or holds anything that could run code.
    """
    remedy = "save it again with torch.export.save of torch 2.8 or newer"
    with (
        translate_model_errors(f"{path} to be a .pt2 archive", remedy),
        zipfile.ZipFile(path) as archive,
    ):
        root = archive.namelist()[0].split("/")[0] + "/"
        if any(name.startswith(root + "data/aotinductor/") for name in archive.namelist()):
            raise _refusal("compiled machine code")
        program = parse_json(_read_record(archive, root + _MODEL))
        _strip_metadata(program)
        for place, text in _iterate_strings(program):
            _check_string(place, text)
        return program, _write_safe_copy(archive, root, program)


def _read_record(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        # torch never compresses; a small file that unpacks to terabytes is somebody else's.
        raise _refusal("compressed records")
    return archive.read(name)


def _strip_metadata(program: dict[str, Any]) -> None:
    """Remove what only tracing and debugging read."""
    program["guards_code"] = []
    module = program["graph_module"]
    module["metadata"] = {}
    module["treespec_namedtuple_fields"] = {}
    for node in module["graph"]["nodes"]:
        node["metadata"] = {}


def _iterate_strings(node: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every string of a JSON document with the key it stands under; keys are strings too."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield "", name
            yield from _iterate_strings(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _iterate_strings(value, place)
    elif isinstance(node, str):
        yield place, node


def _check_string(place: str, text: str) -> None:
    if place in ("in_spec", "out_spec"):
        values = [value for key, value in _iterate_strings(parse_json(text)) if key]
        known = all(re.fullmatch(_ALLOWED_TREE, value) for value in values)
    elif place == "expr_str":
        words = re.findall(r"\w+", text)
        known = bool(re.fullmatch(_SIZE_CHARACTERS, text, re.ASCII)) and all(
            re.fullmatch(_SIZE_WORDS, word, re.ASCII) for word in words
        )
    else:
        known = bool(re.fullmatch(_ALLOWED_STRINGS.get(place, _WORD), text, re.ASCII))
    if not known:
        raise _refusal(f"{place or 'name'} {text[:80]!r}")


def _write_safe_copy(archive: zipfile.ZipFile, root: str, program: dict[str, Any]) -> io.BytesIO:
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as safe:
        safe.writestr(f"model/{_MODEL}", json.dumps(program))
        # Sample inputs are a pickle; torch takes an empty one for none.
        safe.writestr("model/data/sample_inputs/model.pt", b"")
        for stamp in _STAMPS:
            safe.writestr(f"model/{stamp}", _read_record(archive, root + stamp))
        for folder, name, payload in _CONFIGS:
            config = parse_json(_read_record(archive, root + folder + name))
            safe.writestr(f"model/{folder}{name}", json.dumps(config))
            for file in sorted(_payload_files(config, payload)):
                safe.writestr(f"model/{folder}{file}", _read_record(archive, root + folder + file))
    copy.seek(0)
    return copy


def _payload_files(config: dict[str, Any], pattern: str) -> set[str]:
    """The files of raw numbers that a configuration names."""
    files = set()
    for name, meta in config["config"].items():
        if meta["use_pickle"] is not False or not re.fullmatch(pattern, meta["path_name"]):
            raise _refusal(f"the pickled tensor {name[:80]!r}")
        for place, text in _iterate_strings(meta["tensor_meta"]):
            _check_string(place, text)
        _check_string("fqn", name)
        files.add(meta["path_name"])
    return files


def _refusal(contents: str) -> TargetError:
    return TargetError(
        f"expected a program of tensors and ATen operators alone, got {contents}, which could run "
        "code: export it to ONNX, or if you trust the file, load it yourself and pass its "
        ".module() in a function"
    )
