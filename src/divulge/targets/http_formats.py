"""What is sent to a model behind a URL, and how its answers are read: one format a protocol.

Everything that comes from the server is taken for hostile: its shape and types are checked before
anything is computed from it, and what does not fit is a `TargetError`.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from divulge._util.json import JSON
from divulge.errors import SpecError, TargetError, did_you_mean
from divulge.targets.outputs import MOST_CLASSES, Output

ProtocolName = Literal[
    "json",
    "kserve-v2",
    "tensorflow-serving",
    "mlflow",
    "hugging-face",
    "openai-completions",
    "openai-chat",
]


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How records become a request, and a response becomes answers."""

    protocol: ProtocolName
    output: Output
    records: str | None = None
    answers: str | None = None
    labels: tuple[str, ...] = ()
    prompt: str | None = None
    datatype: str | None = None
    parameters: Mapping[str, JSON] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        preset = PRESETS[self.protocol]
        if len(set(self.labels)) != len(self.labels) or len(self.labels) == 1:
            raise SpecError(
                f"expected two or more labels, each once, got {', '.join(self.labels)}: name all "
                "classes, in the order in which your records number them"
            )
        if preset.needs_labels and not self.labels:
            raise SpecError(
                f"expected labels beside protocol = {self.protocol!r}, got none: name all classes "
                "as the endpoint does, in the order in which your records number them"
            )
        if self.prompt is not None and not preset.takes_prompt:
            raise SpecError(
                f"expected no prompt beside protocol = {self.protocol!r}, got one: only the "
                "openai protocols take a prompt"
            )
        if preset.takes_prompt and self.output != "probabilities":
            raise SpecError(
                f'expected output = "probabilities" beside protocol = {self.protocol!r}, got '
                f"{self.output!r}: they are formed from log-probabilities of tokens"
            )

    @property
    def most(self) -> int | None:
        """The highest number of records that a request can carry; None is any."""
        return PRESETS[self.protocol].most

    def encode(self, x: Any) -> JSON:
        """The body of a request about some records."""
        body = PRESETS[self.protocol].encode(self, x)
        return _merge(body, self.parameters or {}) if isinstance(body, dict) else body

    def decode(self, body: JSON, count: int) -> Any:
        """What the response says, in the order asked: an array that `to_probabilities` takes.

        Raises:
            TargetError: the response does not fit.
        """
        return PRESETS[self.protocol].decode(self, body, count)


def _merge(body: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Both, the further ones winning; where both hold an object, the keys of both."""
    merged = {**body, **further}
    for key in body.keys() & further.keys():
        if isinstance(body[key], dict) and isinstance(further[key], Mapping):
            merged[key] = {**body[key], **further[key]}
    return merged


class Rows(NamedTuple):
    """Records as JSON holds them: a value each, or a list of cells where columns have names."""

    columns: tuple[str, ...]
    values: list[Any]

    @property
    def plain(self) -> list[Any]:
        """A value or an object a record."""
        if not self.columns:
            return self.values
        return [dict(zip(self.columns, cells, strict=True)) for cells in self.values]


def to_rows(x: Any) -> Rows:
    """Records of any container as JSON holds them; what is missing becomes null.

    Args:
        x: an array, a sparse matrix, a list of texts, a pandas or polars frame, or arrays by name.

    Raises:
        TargetError: a value cannot be written as JSON.

    Examples:
        >>> to_rows(np.array([[1.5, np.nan]])).plain
        [[1.5, None]]
        >>> to_rows({"age": np.array([31]), "job": ["cook"]}).plain
        [{'age': 31, 'job': 'cook'}]
    """
    if isinstance(x, Mapping):
        cells = zip(*(_values(column) for column in x.values()), strict=True)
        return Rows(tuple(map(str, x)), list(map(list, cells)))
    if hasattr(x, "columns"):
        rows = x.itertuples(index=False, name=None) if hasattr(x, "itertuples") else x.iter_rows()
        return Rows(tuple(map(str, x.columns)), [list(map(_cell, row)) for row in rows])
    return Rows((), _values(x.toarray() if hasattr(x, "toarray") else x))


def _values(x: Any) -> list[Any]:
    if isinstance(x, np.ndarray) and x.dtype.kind in "iub":
        return list(x.tolist())
    if isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x).all():
        return list(x.tolist())
    return [_cell(value) for value in x]


def _cell(value: Any) -> Any:
    """A single value, or an array of them, as JSON holds it."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, np.ndarray | list | tuple):
        return [_cell(inner) for inner in value]
    if _is_missing(value):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str | bool | int):
        return plain
    try:
        number = float(plain)
    except (TypeError, ValueError):
        number = math.inf
    if not math.isfinite(number):
        raise TargetError(
            "expected numbers, texts and dates in the records, got a value of type "
            f"{type(value).__name__} that JSON cannot hold: leave it out, or convert it"
        )
    return number


def _is_missing(value: Any) -> bool:
    try:
        return bool(value != value)  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA answers neither yes nor no
        return True


def follow_path(found: Any, path: str) -> Any:
    """What stands at a place of a response: ``a.0.b``; ``*`` is each entry of a list.

    Raises:
        TargetError: there is no such place.

    Examples:
        >>> follow_path({"rows": [{"p": 0.5}, {"p": 0.25}]}, "rows.*.p")
        [0.5, 0.25]
    """
    step, _, rest = path.partition(".")
    if not step:
        return found
    if step == "*" and isinstance(found, list):
        return [follow_path(inner, rest) for inner in found]
    if isinstance(found, dict) and step in found:
        return follow_path(found[step], rest)
    if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
        return follow_path(found[int(step)], rest)
    there = ", ".join(map(repr, list(found)[:5])) if isinstance(found, dict) else _kind(found)
    raise TargetError(f"expected {step!r} in the response, got {there}: correct the key answers")


def read_rows(rows: Any, wire: WireFormat, count: int) -> Any:
    """One answer a record: numbers, a label, numbers by label, or a list of labels with scores.

    Raises:
        TargetError: it is something else, or there are more or fewer.
    """
    if not isinstance(rows, list) or len(rows) != count:
        got = f"{len(rows)} answers" if isinstance(rows, list) else _kind(rows)
        raise TargetError(f"expected {count} answers, one a record, got {got}")
    read = [_read_row(row, wire) for row in rows]
    if any(bool in set(map(type, row if isinstance(row, list) else (row,))) for row in read):
        raise TargetError("expected numbers, got true or false: let the endpoint return numbers")
    try:
        answers = np.asarray(read)
    except ValueError:
        answers = np.asarray(None)
    if answers.dtype.kind not in "iuf":
        raise TargetError("expected equally many numbers for each record, got something else")
    if wire.output == "labels" and (np.abs(answers) < MOST_CLASSES).all():
        whole = answers.astype(np.int64)  # some servers write class 1 as 1.0
        return whole if (whole == answers).all() else answers
    return answers


def _read_row(row: Any, wire: WireFormat) -> Any:
    if isinstance(row, str):
        return _number_of(row, wire.labels)
    if isinstance(row, dict):
        return _in_order(row, wire.labels)
    if isinstance(row, list) and row and isinstance(row[0], dict):
        scores = _unique(map(_scored_label, row), "label")
        return _in_order(scores, wire.labels)
    if isinstance(row, list) and wire.output == "labels" and len(row) == 1:
        return _read_row(row[0], wire)  # a column of labels
    return row


def _number_of(label: str, labels: tuple[str, ...]) -> int:
    if label not in labels:
        raise TargetError(f"expected one of the labels, got {label!r}: {_advise(label, labels)}")
    return labels.index(label)


def _in_order(found: Mapping[str, Any], labels: tuple[str, ...]) -> list[Any]:
    """The values by label in the order of the classes.

    A label that is too many is refused, too: a class that has no number could not be left out.
    """
    for label in [*labels, *found]:
        if label not in found:
            raise TargetError(
                f"expected a score for each label, got none for {label!r}: let the endpoint return "
                "the scores of all classes, such as by top_k, and check labels"
            )
        if label not in labels:
            raise TargetError(f"expected known labels, got {label!r}: {_advise(label, labels)}")
    return [found[label] for label in labels]


def _scored_label(entry: Any) -> tuple[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("label"), str):
        raise TargetError("expected a label and a score in each entry, got something else")
    return entry["label"], entry.get("score")


def _unique(pairs: Iterable[tuple[Any, Any]], what: str) -> dict[Any, Any]:
    """The values by name; of two with one name nobody knows which one is meant.

    Raises:
        TargetError: a name stands there twice.
    """
    found: dict[Any, Any] = {}
    for name, value in pairs:
        if name in found:
            raise TargetError(f"expected each {what} once in an answer, got {name!r} twice")
        found[name] = value
    return found


def _advise(label: str, labels: tuple[str, ...]) -> str:
    if not labels:
        return "name all classes in the key labels, in the order of your records"
    return did_you_mean(label, labels)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", type(None): "null"}
    return names.get(type(value), "a number")


# --- the presets ---


def _encode_json(wire: WireFormat, x: Any) -> JSON:
    rows = to_rows(x).plain
    key = "instances" if wire.records is None else wire.records
    return {key: rows} if key else rows


def _decode_json(wire: WireFormat, body: JSON, count: int) -> Any:
    path = "predictions" if wire.answers is None else wire.answers
    return read_rows(follow_path(body, path), wire, count)


def _encode_mlflow(wire: WireFormat, x: Any) -> JSON:
    rows = to_rows(x)
    if rows.columns and wire.records in (None, "dataframe_split"):
        return {"dataframe_split": {"columns": list(rows.columns), "data": rows.values}}
    return {wire.records or "inputs": rows.plain}


_DATATYPES = {"bool": "BOOL"} | {
    f"{name}{bits}": f"{short}{bits}"
    for name, short in (("uint", "UINT"), ("int", "INT"), ("float", "FP"))
    for bits in (8, 16, 32, 64)
}
"""Names of tensor types in the Open Inference Protocol, by those in NumPy."""


def _encode_kserve(wire: WireFormat, x: Any) -> JSON:
    if isinstance(x, np.ndarray):
        tensors = [(wire.records or "input-0", x)]
    else:
        columns, values = to_rows(x)
        table = list(zip(*values, strict=True)) if columns else [values]
        tensors = [
            (name, np.asarray(column).reshape(len(column), -1) if columns else np.asarray(column))
            for name, column in zip(columns or (wire.records or "input-0",), table, strict=True)
        ]
    return {"inputs": [_tensor(name, values, wire.datatype) for name, values in tensors]}


def _tensor(name: str, values: np.ndarray, datatype: str | None) -> JSON:
    kind = _DATATYPES.get(values.dtype.name, "BYTES")
    if datatype and kind != "BYTES":
        kind = datatype
    data = _values(values.reshape(-1))
    return {"name": name, "shape": list(values.shape), "datatype": kind, "data": data}


def _decode_kserve(wire: WireFormat, body: JSON, count: int) -> Any:
    outputs = follow_path(body, "outputs")
    named = _unique(
        (
            (one["name"], one)
            for one in (outputs if isinstance(outputs, list) else ())
            if isinstance(one, dict) and isinstance(one.get("name"), str)
        ),
        "output",
    )
    name = wire.answers or (next(iter(named)) if len(named) == 1 else None)
    if name not in named:
        there = ", ".join(map(repr, list(named)[:5])) or "none"
        wanted = "one output" if name is None else f"the output {name!r}"
        raise TargetError(f"expected {wanted}, got {there}: name it in the key answers")
    return read_rows(_rows_of_tensor(named[name], count), wire, count)


def _rows_of_tensor(tensor: Mapping[str, Any], count: int) -> list[Any]:
    shape, data = tensor.get("shape"), tensor.get("data")
    if not isinstance(shape, list) or not isinstance(data, list) or len(shape) not in (1, 2):
        raise TargetError("expected an output with data, and a shape of one or two numbers")
    if shape[0] != count or not all(type(size) is int and size > 0 for size in shape):
        raise TargetError(f"expected {count} answers, got an output of another shape")
    flat, width = list(_flatten(data)), math.prod(shape[1:])
    if len(flat) != count * width:
        raise TargetError(f"expected data of the shape {shape}, got {len(flat)} values")
    return flat if len(shape) == 1 else [flat[k : k + width] for k in range(0, len(flat), width)]


def _flatten(data: Iterable[Any]) -> Iterator[Any]:
    for value in data:
        if isinstance(value, list):
            yield from value  # as a matrix; deeper ones are no numbers and are refused as such
        else:
            yield value


def _encode_hugging_face(wire: WireFormat, x: Any) -> JSON:
    return {
        wire.records or "inputs": [_one_text(value) for value in to_rows(x).plain],
        "parameters": {"top_k": len(wire.labels)},
    }


def _one_text(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:  # a table of one column
        (value,) = value.values()
    if not isinstance(value, str):
        raise TargetError(
            f"expected texts for this protocol, got {_kind(value)}: pass a list of texts, or a "
            "table with one column of them"
        )
    return value


def _decode_hugging_face(wire: WireFormat, body: JSON, count: int) -> Any:
    rows = follow_path(body, wire.answers or "")
    # Of a single text some servers send the scores alone, without a list of one around them.
    if count == 1 and isinstance(rows, list) and rows and isinstance(rows[0], dict):
        rows = [rows]
    return read_rows(rows, wire, count)


_PLACE = re.compile(r"\{([^{}]+)\}")


def _prompts(wire: WireFormat, x: Any) -> list[str]:
    """The prompt of each record: ``{record}`` is a text, or the cells; ``{name}`` is a column."""
    columns, values = to_rows(x)
    prompts = []
    for value in values:
        cells = dict(zip(columns, value, strict=True)) if columns else {}
        whole = ", ".join(map(_said, value)) if isinstance(value, list) else _said(value)
        prompts.append(_fill(wire.prompt or "{record}", {"record": whole} | cells))
    return prompts


def _said(value: Any) -> str:
    return "" if value is None else str(value)


def _fill(prompt: str, cells: Mapping[str, Any]) -> str:
    # In one pass: braces within a record stay what they are.
    def put(found: re.Match[str]) -> str:
        if found[1] not in cells:
            raise TargetError(
                f"expected a column of the records in the prompt, got {found[0]}: "
                f"{did_you_mean(found[1], cells)}"
            )
        return _said(cells[found[1]])

    return _PLACE.sub(put, prompt)


def _encode_completions(wire: WireFormat, x: Any) -> JSON:
    return {"prompt": _prompts(wire, x), "max_tokens": 1, "temperature": 0, "logprobs": 5}


def _decode_completions(wire: WireFormat, body: JSON, count: int) -> Any:
    choices = follow_path(body, "choices")
    listed = choices if isinstance(choices, list) else []
    indexed = [
        (choice.get("index", place) if isinstance(choice, dict) else None, choice)
        for place, choice in enumerate(listed)
    ]
    by_index = _unique((pair for pair in indexed if type(pair[0]) is int), "index")
    if by_index.keys() != set(range(count)):
        raise TargetError(f"expected {count} choices, one a prompt, got {len(by_index)}")
    rows = []
    for number in range(count):
        tokens = follow_path(by_index[number], "logprobs.top_logprobs.0")
        rows.append(label_probabilities(tokens, wire.labels))
    return np.asarray(rows)


def _encode_chat(wire: WireFormat, x: Any) -> JSON:
    (prompt,) = _prompts(wire, x)
    given = wire.parameters or {}
    length = {} if "max_completion_tokens" in given else {"max_tokens": 1}
    messages = [{"role": "user", "content": prompt}]
    return {"messages": messages, "temperature": 0, "logprobs": True, "top_logprobs": 20, **length}


def _decode_chat(wire: WireFormat, body: JSON, count: int) -> Any:
    del count  # a conversation is about one record
    entries = follow_path(body, "choices.0.logprobs.content.0.top_logprobs")
    tokens = [
        (entry["token"], entry.get("logprob"))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("token"), str)
    ]
    # others may share a text: parts of one character do
    _unique((pair for pair in tokens if _label_of(pair[0], wire.labels) is not None), "token")
    return np.asarray([label_probabilities(dict(tokens), wire.labels)])


def label_probabilities(tokens: Any, labels: tuple[str, ...]) -> list[float]:
    """Probabilities of labels from the log-probabilities of the likeliest first tokens.

    A token counts for a label if it is, white space aside, the label or the beginning of this label
    alone: of ``positive`` and ``negative``, ``" pos"`` is the first. Probabilities of a label's
    tokens are added up. The endpoint names its likeliest tokens only: a label without one of them
    gets the highest probability that it can have, which is the lowest one named, or what is left
    of 1 where that is less. The labels' probabilities are then divided by their sum, since the
    other tokens are no answer.

    Args:
        tokens: log-probabilities by token.
        labels: the labels.

    Raises:
        TargetError: these are no log-probabilities, or none is of a label.

    Examples:
        >>> tokens = {" yes": math.log(0.6), "no": math.log(0.2), "Well": math.log(0.1)}
        >>> [round(p, 9) for p in label_probabilities(tokens, ("yes", "no"))]
        [0.75, 0.25]
    """
    if not isinstance(tokens, dict) or not all(map(_is_log_probability, tokens.values())):
        raise TargetError("expected log-probabilities by token, got something else")
    named = {token: math.exp(min(value, 0.0)) for token, value in tokens.items()}
    found = dict.fromkeys(labels, 0.0)
    for token, probability in named.items():
        if (label := _label_of(token, labels)) is not None:
            found[label] += probability
    if not any(found.values()):
        seen = ", ".join(map(repr, list(named)[:5])) or "none"
        raise TargetError(
            f"expected a label among the likeliest tokens, got {seen}: ask for one of the labels "
            "in the prompt, and check labels"
        )
    most = min(min(named.values()), max(0.0, 1 - math.fsum(named.values())))
    raised = [probability or most for probability in found.values()]
    return [probability / math.fsum(raised) for probability in raised]


def _is_log_probability(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and bool(value < 1e-3)  # never of NaN; what rounding leaves above zero


def _label_of(token: str, labels: tuple[str, ...]) -> str | None:
    word = token.strip(" \n\t\u2581\u0120")  # tokenisers also write a space as U+2581 or U+0120
    if word in labels:
        return word
    begun = [label for label in labels if word and label.startswith(word)]
    return begun[0] if len(begun) == 1 else None


class Preset(NamedTuple):
    """A protocol: how it is written and read."""

    text: str
    """What speaks it, in a few words."""
    encode: Callable[[WireFormat, Any], JSON]
    decode: Callable[[WireFormat, JSON, int], Any]
    needs_labels: bool = False
    takes_prompt: bool = False
    most: int | None = None
    """The highest number of records of a request; None is any."""


PRESETS: Mapping[ProtocolName, Preset] = {
    "json": Preset("rows in, rows out, under names of yours", _encode_json, _decode_json),
    "kserve-v2": Preset(
        "the Open Inference Protocol: KServe, Triton, MLServer", _encode_kserve, _decode_kserve
    ),
    "tensorflow-serving": Preset("TensorFlow Serving's predict", _encode_json, _decode_json),
    "mlflow": Preset("MLflow's scoring server", _encode_mlflow, _decode_json),
    "hugging-face": Preset(
        "text classification as Hugging Face serves it",
        _encode_hugging_face,
        _decode_hugging_face,
        needs_labels=True,
    ),
    "openai-completions": Preset(
        "log-probabilities of a completion's first token",
        _encode_completions,
        _decode_completions,
        needs_labels=True,
        takes_prompt=True,
    ),
    "openai-chat": Preset(
        "log-probabilities of a chat answer's first token",
        _encode_chat,
        _decode_chat,
        needs_labels=True,
        takes_prompt=True,
        most=1,
    ),
}
"""By name; a new one is two functions above, and an entry here."""
