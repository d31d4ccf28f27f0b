"""Community inference against a slow and obvious version, and what it refuses."""

import dataclasses

import numpy as np
import pytest

from divulge.attacks import CommunityInference
from divulge.attacks.interactions import community
from divulge.core import UpdateView
from divulge.errors import NotApplicable, SpecError
from divulge.federation.recommender.model import ITEMS, NeuralCF
from divulge.testing.items import pointwise, recommended

SMALL = NeuralCF(width=4, hidden=(6, 3))


def views_of(users: int = 5, seed: int = 0) -> list[UpdateView]:
    return [game.view for game in recommended(0.0, users, SMALL, seed)]


def answer_by_hand(view: UpdateView, item: np.ndarray, user: np.ndarray) -> float:
    """What a client's model answers to a user about an item, layer by layer."""
    change = view.rounds[0].change(view.victim)
    sent = view.rounds[0].sent
    for mine, moved in zip(sent[ITEMS], change[ITEMS], strict=True):
        if np.array_equal(mine, item):
            item = item + moved
            break
    seen = np.concatenate([user, item])
    for layer in range(3):
        weight, bias = (sent[f"{layer}.{n}"] + change[f"{layer}.{n}"] for n in ("weight", "bias"))
        seen = weight @ (seen if layer == 0 else np.maximum(seen, 0)) + bias
    return float(seen[0])


@pytest.mark.parametrize("users", [1, 3])
def test_a_score_is_the_share_of_other_clients_whose_model_answers_less(users: int) -> None:
    views = views_of()
    found = CommunityInference("logit", users, size=2).many(views, np.random.default_rng(3))
    invented = np.random.default_rng(3).normal(size=(users, SMALL.width))
    for v, view in enumerate(views):
        assert view.inputs is not None
        for k, item in enumerate(view.inputs):
            means = [np.mean([answer_by_hand(w, item, u) for u in invented]) for w in views]
            below = sum(one < means[v] for one in means)
            assert found[v].score[k] == pytest.approx(below / (len(views) - 1))
            assert found[v].decided[k] == (sum(one > means[v] for one in means) < 2)


def test_the_gain_of_an_item_is_that_of_its_place_in_a_sorted_list() -> None:
    rng = np.random.default_rng(0)
    answers = rng.normal(size=(2, 40))
    answers[:, 7] = answers[:, 8]  # equal answers: the other one comes first
    others = [rng.permutation(39)[:30] for _ in range(40)]
    found = community.gain(answers, others)
    for u, said in enumerate(answers):
        for k, listed in enumerate(others):
            shown = [one if one < k else one + 1 for one in listed.tolist()]
            assert k not in shown
            ranked = np.array([*shown, k])[np.argsort(-said[[*shown, k]], kind="stable")]
            place = ranked.tolist().index(k)
            expected = np.log(2) / np.log(place + 2) if place < community.CUT else 0
            assert found[u, k] == pytest.approx(expected)


def test_equal_relevance_counts_half() -> None:
    """Clients who sent nothing but what they got have the same model: all tie."""
    still = []
    for view in views_of():
        (seen,) = view.rounds
        got = seen.received[view.victim]
        none = {name: np.zeros_like(array) for name, array in got.tensors.items()}
        received = {view.victim: dataclasses.replace(got, tensors=none)}
        still.append(
            dataclasses.replace(view, rounds=(dataclasses.replace(seen, received=received),))
        )
    for guess in CommunityInference().many(still, np.random.default_rng(0)):
        assert (guess.score == 0.5).all()


def test_clients_are_compared_with_those_of_their_own_round() -> None:
    views = views_of(6)
    later = [
        dataclasses.replace(v, rounds=(dataclasses.replace(v.rounds[0], number=1),))
        for v in views[3:]
    ]
    found = CommunityInference("logit").many([*views[:3], *later], np.random.default_rng(0))
    for guess in found:
        assert set(guess.score) <= {0.0, 0.5, 1.0}
        assert guess.how == "models of 2 other clients"


def test_item_embeddings_alone_are_enough() -> None:
    views = []
    for view in views_of():
        (seen,) = view.rounds
        got = seen.received[view.victim]
        received = {view.victim: dataclasses.replace(got, tensors={ITEMS: got.tensors[ITEMS]})}
        views.append(
            dataclasses.replace(view, rounds=(dataclasses.replace(seen, received=received),))
        )
    found = CommunityInference("logit").many(views, np.random.default_rng(0))
    assert len({score for guess in found for score in guess.score}) > 2


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(SpecError, match="from 1, got 0 and 5"):
        CommunityInference(users=0)
    rng, views = np.random.default_rng(0), views_of()
    with pytest.raises(NotApplicable, match="two clients or more in round 0, got one"):
        CommunityInference()(views[0], rng)
    games = [pointwise(8, 10, 0, k).view for k in range(2)]
    with pytest.raises(NotApplicable, match="NeuralCF as the learner of client '0', got Pointwise"):
        CommunityInference().many(games, rng)
    unknown = [dataclasses.replace(view, learner=None) for view in views]
    with pytest.raises(NotApplicable, match="got none"):
        CommunityInference().many(unknown, rng)
    (seen,) = views[0].rounds
    got = seen.received["0"]
    tensors = {name: array for name, array in got.tensors.items() if name != ITEMS}
    received = {"0": dataclasses.replace(got, tensors=tensors)}
    views[0] = dataclasses.replace(views[0], rounds=(dataclasses.replace(seen, received=received),))
    with pytest.raises(NotApplicable, match="item embeddings in the update of client '0'"):
        CommunityInference().many(views, rng)
