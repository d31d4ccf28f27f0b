"""Answers of endpoints in which two values stand for one thing, or a truth for a number."""

from typing import Any

import numpy as np
import pytest

from divulge.errors import TargetError
from divulge.targets import json_answers
from divulge.targets.http_formats import ProtocolName, WireFormat
from divulge.targets.outputs import Output

LABELS = ("cat", "dog")

Case = tuple[ProtocolName, Output, Any]


def _chat(*tokens: tuple[str, float]) -> Any:
    top = [{"token": token, "logprob": value} for token, value in tokens]
    return {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}]}


def _choice(index: int) -> Any:
    return {"index": index, "logprobs": {"top_logprobs": [{"cat": -0.1, "dog": -3.0}]}}


def _scores(*pairs: tuple[str, Any]) -> Any:
    return [[{"label": label, "score": score} for label, score in pairs]]


BOOLS: list[Case] = [
    ("json", "probabilities", {"predictions": [[True, False]]}),
    ("json", "probabilities", {"predictions": [[True, 0.0]]}),
    ("json", "probabilities", {"predictions": [True]}),
    ("json", "logits", {"predictions": [[0.5, True]]}),
    ("json", "values", {"predictions": [True]}),
    ("json", "labels", {"predictions": [[True]]}),
    ("json", "probabilities", {"predictions": [{"cat": True, "dog": 0}]}),
    ("mlflow", "probabilities", {"predictions": [[False, 1]]}),
    ("hugging-face", "probabilities", _scores(("cat", True), ("dog", 0.0))),
    ("kserve-v2", "logits", {"outputs": [{"name": "p", "shape": [1, 2], "data": [True, 0]}]}),
]  # fmt: skip


@pytest.mark.parametrize("case", BOOLS)
def test_true_and_false_are_no_numbers(case: Case) -> None:
    protocol, output, body = case
    wire = WireFormat(protocol, output, labels=LABELS)
    with pytest.raises(TargetError, match="expected numbers, got true or false"):
        wire.decode(body, 1)


TWICE: list[tuple[ProtocolName, Any, str]] = [
    ("hugging-face", _scores(("cat", 0.9), ("dog", 0.1), ("cat", 0.2)), "label once .* 'cat'"),
    ("openai-completions", {"choices": [_choice(0), _choice(0)]}, "index once .* 0 twice"),
    ("openai-chat", _chat(("cat", -1.0), ("dog", -2.0), ("cat", -3.0)), "token once .* 'cat'"),
    ("openai-chat", _chat(("do", -1.0), ("cat", -2.0), ("do", -3.0)), "token once .* 'do'"),
    ("kserve-v2", {"outputs": [{"name": "p", "shape": [1, 2], "data": [0, 1]}] * 2}, "output once"),
]


@pytest.mark.parametrize(("protocol", "body", "message"), TWICE)
def test_what_stands_twice_is_refused(protocol: ProtocolName, body: Any, message: str) -> None:
    wire = WireFormat(protocol, "probabilities", labels=LABELS)
    with pytest.raises(TargetError, match=message):
        wire.decode(body, 1)


def test_other_tokens_may_share_a_text() -> None:
    """Endpoints write a part of a character as the same sign, whatever the part."""
    wire = WireFormat("openai-chat", "probabilities", labels=LABELS)
    body = _chat(("cat", -0.5), ("dog", -1.5), ("\ufffd", -6.0), ("\ufffd", -7.0))
    expected = np.exp([-0.5, -1.5]) / np.exp([-0.5, -1.5]).sum()
    np.testing.assert_allclose(wire.decode(body, 1), [expected])


def test_a_place_that_is_not_there_is_named_beside_the_first_five_that_are() -> None:
    body = dict.fromkeys("abcdefg", 0)
    with pytest.raises(
        TargetError, match="expected 'p' in the response, got 'a', 'b', 'c', 'd', 'e':"
    ):
        json_answers.follow_path(body, "p")
    with pytest.raises(TargetError, match="expected '2' in the response, got a list"):
        json_answers.follow_path({"rows": [{}, {}]}, "rows.2.p")
    assert json_answers.follow_path({"rows": [{"p": 1}, {"p": 2}]}, "rows.1.p") == 2
