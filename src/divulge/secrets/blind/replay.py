"""What clients would have sent if they had acted on other items, and what is no secret of those."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.random import stream
from divulge.core import Interactions, Round, Tensors, UpdateView
from divulge.errors import NotApplicable

COMPONENTS = 32
"""Principal components that stand for the features of items, where these have more."""

ROWS = 2000
"""Items, drawn from all, by which the components are found."""


def replay_updates(
    views: Sequence[UpdateView], truths: Sequence[Interactions], seed: int
) -> tuple[UpdateView, ...]:
    """The views as if each client had acted on as many items, drawn at random from those it had.

    With a learner, the client's training is carried out anew, with clicks shuffled among the
    items and a private embedding that is standard normal. Without one, or where the update is
    nothing but rows for the items, these are shuffled among them, which keeps the noise of a
    defence and takes no training; then it has nothing else.

    Args:
        views: one a client.
        truths: what each acted on.
        seed: of the audit.

    Raises:
        NotApplicable: the server got no update of a client alone, or neither is there.
    """
    return tuple(
        _replay_client(view, truth.acted, stream(seed, "shuffled interactions", view.victim))
        for view, truth in zip(views, truths, strict=True)
    )


def train_with(
    view: UpdateView, acted: Bool[np.ndarray, " items"], rng: np.random.Generator
) -> UpdateView:
    """The view of a client that acted on these items, and trained as its learner says.

    Args:
        view: of the client, with a learner.
        acted: of each item, whether it acted on it.
        rng: draws its private embedding, and the order of its steps.
    """
    first_round = view.rounds[0]
    return _replace_update(
        view, _as_received(first_round.change(view.victim), _train_again(view, acted, rng))
    )


def public_features(
    views: Sequence[UpdateView], truths: Sequence[Interactions], seed: int
) -> tuple[Float[np.ndarray, "_ covariates"], ...]:
    """By client, what may say which items are acted on, without a secret of that client.

    The place in what it was shown, the norm of an item's features and these, or their principal
    components, and how often the others who were handed the same item acted on it.

    Args:
        views: one a client.
        truths: what each acted on.
        seed: of the audit.
    """
    x = []
    for view in views:
        assert view.inputs is not None
        x.append(view.inputs.reshape(len(view.inputs), -1).astype(np.float64))
    components = _components(np.concatenate(x), stream(seed, "components"))
    rates = _rates(x, [truth.acted for truth in truths])
    return tuple(
        np.column_stack([
            np.arange(len(values)), np.linalg.norm(values, axis=1), values @ components, rate
        ])
        for values, rate in zip(x, rates, strict=True)
    )  # fmt: skip


def _replay_client(
    view: UpdateView, acted: Bool[np.ndarray, " items"], rng: np.random.Generator
) -> UpdateView:
    assert view.inputs is not None
    first_round = view.rounds[0]
    change = first_round.change(view.victim)
    rows = [name for name, value in change.items() if value.shape == view.inputs.shape]
    if rows and (view.learner is None or len(rows) == len(change)):
        order = rng.permutation(len(acted))
        replayed = {name: change[name][order] for name in rows}
    elif view.learner is not None:
        replayed = _as_received(change, _train_again(view, rng.permutation(acted), rng))
    else:
        raise NotApplicable(
            "expected a learner, or an update with a row for each item, got neither: say how "
            "clients train"
        )
    return _replace_update(view, replayed)


def _as_received(change: Tensors, simulated: Tensors) -> dict[str, np.ndarray]:
    """What a simulated update has of the tensors that really arrived, in their types."""
    return {name: simulated[name].astype(value.dtype) for name, value in change.items()}


def _replace_update(view: UpdateView, change: Tensors) -> UpdateView:
    """The view as if this had arrived, and nothing else."""
    first_round = view.rounds[0]
    got = replace(first_round.received[view.victim], tensors=_as_sent(first_round, change))
    only = replace(first_round, received={view.victim: got}, aggregated=None)
    return replace(view, rounds=(only,))


def _train_again(
    view: UpdateView, acted: Bool[np.ndarray, " items"], rng: np.random.Generator
) -> Mapping[str, np.ndarray]:
    """What training with these interactions changes."""
    import torch

    assert view.learner is not None
    sent = {name: torch.from_numpy(np.array(w)) for name, w in view.rounds[0].sent.items()}
    items = torch.from_numpy(np.array(view.inputs))
    own = view.learner.private
    private = items.new_tensor(rng.normal(size=own)) if own else None
    change = view.learner.update(sent, items, items.new_tensor(acted), private)
    return {name: value.detach().numpy() for name, value in change.items()}


def _as_sent(played: Round, change: Tensors) -> Tensors:
    """The change as a client sends it; `Round.change` the other way round."""
    if played.kind == "weights":
        return {name: played.sent[name] + value for name, value in change.items()}
    if played.kind == "gradient":
        assert played.training.lr is not None  # `Round.change` has refused the round without
        return {name: value / -played.training.lr for name, value in change.items()}
    return change


def _components(
    x: Float[np.ndarray, "items features"], rng: np.random.Generator
) -> Float[np.ndarray, "features components"]:
    """Principal directions of features that are scaled to deviation 1; few are left alone."""
    if x.shape[1] <= COMPONENTS:
        return np.eye(x.shape[1])
    x = x[rng.permutation(len(x))[:ROWS]]
    spread = x.std(axis=0)
    scale = 1 / np.where(spread > 0, spread, np.inf)
    directions = np.linalg.svd((x - x.mean(axis=0)) * scale, full_matrices=False)[2]
    components: Float[np.ndarray, "features components"]
    components = scale[:, None] * directions[:COMPONENTS].T
    return components


def _rates(
    x: Sequence[Float[np.ndarray, "_ features"]], acted: Sequence[Bool[np.ndarray, "_"]]
) -> list[Float[np.ndarray, "_"]]:
    """Of each item, the share of other clients who acted on it, as if one more were average."""
    keys = [[hash(row.tobytes()) for row in rows] for rows in x]  # rows themselves are too large
    handed: dict[int, int] = defaultdict(int)
    clicked: dict[int, int] = defaultdict(int)
    for own, mask in zip(keys, acted, strict=True):
        for key, click in zip(own, mask.tolist(), strict=True):
            handed[key] += 1
            clicked[key] += click
    mean = sum(clicked.values()) / sum(handed.values())
    return [
        (np.array([clicked[key] for key in own]) - mask + mean)
        / np.array([handed[key] for key in own])
        for own, mask in zip(keys, acted, strict=True)
    ]
