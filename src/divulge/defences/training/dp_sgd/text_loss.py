"""A causal language model as a network that DP-SGD, Opacus and canaries take."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge._util.arguments import Seed, check_arguments

_LEAST = 1e-6
"""Losses below this many nats a token count as this much: their gradient is next to nothing."""


@check_arguments
class TextLoss(nn.Module):
    """A causal language model as a network of two classes: the text, and any other.

    The cross-entropy of class 0 is the mean loss of the text's tokens, as language models are
    trained with. So ``DPSGD``, Opacus and ``CanaryRecorder`` take the model as they take a
    classifier, with numbers of tokens as features and 0 as every label. A text is one record, and
    ε is for one text more or less. Weights that need no gradient, such as those beneath adapters,
    stay as they are.

    Args:
        model: numbers of tokens, shape (texts, tokens), to logits, shape (texts, tokens,
            vocabulary), or to an object with ``logits``, as the models of transformers return.
        fill: the token that fills texts up on the right. It is never scored; texts have it nowhere
            else.

    Examples:
        >>> model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
        >>> texts = torch.tensor([[1, 2, 3, 4], [3, 2, 0, 0]])
        >>> two = TextLoss(model, fill=0)(texts)
        >>> usual = cross_entropy(model(texts[1:, :1]).flatten(0, 1), texts[1, 1:2])
        >>> torch.allclose(cross_entropy(two[1:], torch.tensor([0])), usual)
        True

    References:
        Li, Tramèr, Liang and Hashimoto (2022), Large language models can be strong differentially
        private learners: a text is a record.
    """

    def __init__(self, model: nn.Module, fill: Seed) -> None:
        super().__init__()
        self.model = model
        self.fill = fill

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of the two classes, shape (texts, 2); a text without tokens to score has loss 0.

        Args:
            ids: numbers of tokens, shape (texts, tokens).
        """
        answer: Any = self.model(ids)
        logits = getattr(answer, "logits", answer)[:, :-1]
        wanted = ids[:, 1:]
        losses = cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        scored = (wanted != self.fill).to(losses.dtype)
        mean = (losses.view_as(scored) * scored).sum(1) / scored.sum(1).clamp(min=1)
        own = -mean.clamp(min=_LEAST)
        # with p and 1 - p as the two probabilities, the cross-entropy of the first is -log p
        return torch.stack([own, torch.log(-torch.expm1(own))], dim=1)
