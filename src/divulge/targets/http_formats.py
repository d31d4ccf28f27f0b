"""What is sent to a model behind a URL, and how its answers are read: one format a protocol.

Everything that comes from the server is taken for hostile: its shape and types are checked before
anything is computed from it, and what does not fit is a `TargetError`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from divulge._util.json import JSON
from divulge.errors import SpecError, TargetError
from divulge.targets.json_answers import follow_path, name_kind, read_rows, unique_by_name
from divulge.targets.json_records import to_rows
from divulge.targets.label_tokens import label_of, label_probabilities
from divulge.targets.outputs import Output
from divulge.targets.prompts import write_prompts
from divulge.targets.tensors import read_tensor, write_tensors

ProtocolName = Literal[
    "json",
    "kserve-v2",
    "tensorflow-serving",
    "mlflow",
    "hugging-face",
    "openai-completions",
    "openai-chat",
    "openai-tokens",
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
        if (preset.takes_prompt or preset.of_tokens) and self.output != "probabilities":
            raise SpecError(
                f'expected output = "probabilities" beside protocol = {self.protocol!r}, got '
                f"{self.output!r}: they are formed from log-probabilities of tokens"
            )
        if preset.of_tokens and self.labels:
            raise SpecError(
                f"expected no labels beside protocol = {self.protocol!r}, got some: texts of a "
                "language model have no classes"
            )

    @property
    def of_tokens(self) -> bool:
        """Whether it is the tokens of texts that are asked about, and no classes."""
        return PRESETS[self.protocol].of_tokens

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


# --- the presets ---


def _encode_json(wire: WireFormat, x: Any) -> JSON:
    rows = to_rows(x).plain
    key = "instances" if wire.records is None else wire.records
    return {key: rows} if key else rows


def _decode_json(wire: WireFormat, body: JSON, count: int) -> Any:
    path = "predictions" if wire.answers is None else wire.answers
    return read_rows(follow_path(body, path), wire.labels, wire.output, count)


def _encode_mlflow(wire: WireFormat, x: Any) -> JSON:
    rows = to_rows(x)
    if rows.columns and wire.records in (None, "dataframe_split"):
        return {"dataframe_split": {"columns": list(rows.columns), "data": rows.values}}
    return {wire.records or "inputs": rows.plain}


def _encode_kserve(wire: WireFormat, x: Any) -> JSON:
    return write_tensors(x, wire.records or "input-0", wire.datatype)


def _decode_kserve(wire: WireFormat, body: JSON, count: int) -> Any:
    return read_rows(read_tensor(body, wire.answers, count), wire.labels, wire.output, count)


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
            f"expected texts for this protocol, got {name_kind(value)}: pass a list of texts, or a "
            "table with one column of them"
        )
    return value


def _decode_hugging_face(wire: WireFormat, body: JSON, count: int) -> Any:
    rows = follow_path(body, wire.answers or "")
    # Of a single text some servers send the scores alone, without a list of one around them.
    if count == 1 and isinstance(rows, list) and rows and isinstance(rows[0], dict):
        rows = [rows]
    return read_rows(rows, wire.labels, wire.output, count)


def _encode_completions(wire: WireFormat, x: Any) -> JSON:
    return {
        "prompt": write_prompts(wire.prompt, x),
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 5,
    }


def _choices(body: JSON, count: int) -> list[Any]:
    """The choices of a response in the order of the prompts, one each.

    Raises:
        TargetError: there are more, fewer or others.
    """
    choices = follow_path(body, "choices")
    listed = choices if isinstance(choices, list) else []
    indexed = [
        (choice.get("index", place) if isinstance(choice, dict) else None, choice)
        for place, choice in enumerate(listed)
    ]
    by_index = unique_by_name((pair for pair in indexed if type(pair[0]) is int), "index")
    if by_index.keys() != set(range(count)):
        raise TargetError(f"expected {count} choices, one a prompt, got {len(by_index)}")
    return [by_index[number] for number in range(count)]


def _decode_completions(wire: WireFormat, body: JSON, count: int) -> Any:
    rows = []
    for choice in _choices(body, count):
        tokens = follow_path(choice, "logprobs.top_logprobs.0")
        rows.append(label_probabilities(tokens, wire.labels))
    return np.asarray(rows)


def _encode_echo(wire: WireFormat, x: Any) -> JSON:
    del wire
    return {"prompt": list(x), "max_tokens": 0, "temperature": 0, "echo": True, "logprobs": 1}


def _decode_echo(wire: WireFormat, body: JSON, count: int) -> Any:
    del wire
    return _choices(body, count)


def _encode_chat(wire: WireFormat, x: Any) -> JSON:
    (prompt,) = write_prompts(wire.prompt, x)
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
    unique_by_name((pair for pair in tokens if label_of(pair[0], wire.labels) is not None), "token")
    return np.asarray([label_probabilities(dict(tokens), wire.labels)])


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
    of_tokens: bool = False
    """Whether it asks about the tokens of texts; its answers are then choices, one a prompt."""


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
    "openai-tokens": Preset(
        "log-probabilities of the tokens of texts, which a server of completions echoes",
        _encode_echo,
        _decode_echo,
        of_tokens=True,
    ),
}
"""By name; a new one is two functions above, and an entry here."""
