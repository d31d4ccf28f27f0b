"""What a language model says where it forbids tokens."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from divulge.targets import causal_passes

torch = pytest.importorskip("torch")

LOGITS = [[0.0, 1.0, -torch.inf], [2.0, -torch.inf, -torch.inf], [0.5, 0.0, 0.2]]
"""Of the token that follows each of three."""


class Forbidding(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Says these of every text."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor([LOGITS]), requires_grad=False)

    def forward(self, **asked: Any) -> SimpleNamespace:
        del asked
        return SimpleNamespace(logits=self.logits)


def test_a_forbidden_token_adds_nothing_to_mean_and_deviation() -> None:
    text = causal_passes.Text(np.array([0, 1, 0]), np.array([False, True, True]), begun=0, size=9)
    logprob, mean, deviation, first = causal_passes.run(Forbidding(), [text])
    for place, (row, token) in enumerate(zip(LOGITS[:2], [1, 0], strict=True)):
        total = sum(np.exp(value) for value in row)
        allowed = [(np.exp(value) / total, value - np.log(total)) for value in row if np.exp(value)]
        expected = sum(p * log_p for p, log_p in allowed)
        spread = sum(p * (log_p - expected) ** 2 for p, log_p in allowed) ** 0.5
        assert mean[0, place] == pytest.approx(expected, abs=1e-6)
        assert deviation[0, place] == pytest.approx(spread, abs=1e-6)
        assert logprob[0, place] == pytest.approx(row[token] - np.log(total), abs=1e-6)
    assert first.tolist() == [[1.0, 1.0]]
