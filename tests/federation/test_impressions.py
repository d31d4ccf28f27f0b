"""What a transcript says a client was shown: the first round that says it, and what is refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.core import ReceivedUpdate, Round
from divulge.errors import SpecError, StoreError
from divulge.federation.transcript import impressions, writer
from divulge.federation.transcript.reader import Transcript

ITEMS = 6


class Learning:
    """A local training, of items that it was made for."""

    private = 0

    def __init__(self, arrays: Any) -> None:
        self.arrays = dict(arrays)

    def update(self, sent: Any, items: Any, interactions: Any, private: Any = None) -> Any:
        raise NotImplementedError


def stored(path: Path, rounds: list[dict[str, Any]], items: str | None = None) -> Transcript:
    """A transcript of rounds in which clients ``0`` and ``1`` take part unless it is said."""
    played = []
    for number, one in enumerate(rounds):
        table = np.arange(2.0 * ITEMS).reshape(ITEMS, 2) + 100 * number
        got = {
            c: ReceivedUpdate({"items": table + int(c) + 1}, 1) for c in one.get("clients", "01")
        }
        played.append(Round(number, "weights", {"items": table}, got, handed=one["handed"]))
    writer.write(path, "t", played, items=items)
    return Transcript.open(path)


def images(value: int, count: int = 3, **odd: Any) -> dict[str, np.ndarray]:
    shape = odd.get("shape", (count, 1, 2, 2))
    original = np.full(shape, value, odd.get("dtype", np.uint8))
    shown = np.full(odd.get("shown", shape), value + 1, odd.get("other", original.dtype))
    return {"original": original, "image": shown}


def test_images_are_those_of_the_first_round_with_the_client_that_shows_some(
    tmp_path: Path,
) -> None:
    rounds = [
        {"handed": {"1": images(50)}},
        {"handed": {"0": images(10), "1": images(60)}},
        {"handed": {"0": images(20)}},
    ]
    found = impressions.image_pairs(stored(tmp_path / "t", rounds), ["0", "1"], 2)
    assert [set(one.original.ravel().tolist()) for one in found] == [{10}, {50}]
    assert [set(one.shown.ravel().tolist()) for one in found] == [{11}, {51}]
    assert [one.original.shape for one in found] == [(2, 1, 2, 2)] * 2


@pytest.mark.parametrize(
    "odd",
    [
        {"shown": (2, 1, 2, 2)},
        {"shape": (3, 4)},
        {"shape": (3, 1, 2, 2, 1)},
        {"dtype": np.float32},
        {"other": np.int16},
    ],
)
def test_what_is_no_pair_of_images_is_refused(odd: dict[str, Any], tmp_path: Path) -> None:
    transcript = stored(tmp_path / "t", [{"handed": {"0": images(1, **odd)}}])
    with pytest.raises(StoreError, match="images of 8 bits with their originals for client '0'"):
        impressions.image_pairs(transcript, ["0"], 2)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("image",), "the transcript has no original:"),
        (("original",), "the transcript has no image:"),
        ((), "the transcript has no original and no image:"),
    ],
)
def test_what_is_missing_of_a_pair_is_named(
    names: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    handed = {"0": {name: images(1)[name] for name in names}, "1": {"item": np.arange(3)}}
    with pytest.raises(SpecError, match=said):
        impressions.image_pairs(stored(tmp_path / "t", [{"handed": handed}]), ["0"], 2)


def test_each_client_is_seen_in_the_first_round_in_which_it_was_shown_items(
    tmp_path: Path,
) -> None:
    rounds: list[dict[str, Any]] = [
        {"handed": {}},
        {"handed": {"1": {"item": np.array([4, 0])}}},
        {"handed": {"0": {"item": np.array([2, 5, 3])}, "1": {"item": np.array([1])}}},
    ]
    transcript = stored(tmp_path / "t", rounds, "items")
    seen = impressions.client_views(transcript, ["1", "0"], Learning)
    assert [one.view.victim for one in seen] == ["1", "0"]
    assert [one.view.rounds[0].number for one in seen] == [1, 2]
    assert [one.item.tolist() for one in seen] == [[4, 0], [2, 5, 3]]
    for one, number, client in zip(seen, (1, 2), "10", strict=True):
        rows = np.arange(12.0).reshape(6, 2)[one.item] + 100 * number
        (played,) = one.view.rounds
        np.testing.assert_array_equal(one.view.inputs, rows)
        np.testing.assert_array_equal(played.sent["items"], rows)
        assert list(played.received) == [client]  # and nothing of other clients
        np.testing.assert_array_equal(
            played.change(client)["items"], np.full_like(rows, int(client) + 1)
        )
        assert not played.handed
        assert played.aggregated is None
        assert isinstance(one.view.learner, Learning)
        np.testing.assert_array_equal(one.view.learner.arrays["item"], one.item)


def test_items_shown_to_a_client_that_took_no_part_do_not_count(tmp_path: Path) -> None:
    played = Round(
        0, "weights", {"items": np.zeros((ITEMS, 2))},
        {"1": ReceivedUpdate({"items": np.ones((ITEMS, 2))}, 1)},
        handed={"1": {"item": np.array([1])}},
    )  # fmt: skip
    writer.write(tmp_path / "t", "t", [played], items="items")
    with pytest.raises(SpecError, match="items that client '0' was handed"):
        impressions.client_views(Transcript.open(tmp_path / "t"), ["1", "0"])


def test_without_a_tensor_of_items_their_features_are_shown(tmp_path: Path) -> None:
    features = np.arange(12.0).reshape(3, 4)
    handed = {"0": {"features": features, "query": np.array([0, 0, 1])}}
    transcript = stored(tmp_path / "t", [{"handed": handed}])
    (one,) = impressions.client_views(transcript, ["0"], Learning)
    np.testing.assert_array_equal(one.view.inputs, features)
    assert one.item.tolist() == [0, 1, 2]
    assert one.view.rounds[0].sent["items"].shape == (ITEMS, 2)
    (plain,) = impressions.client_views(transcript, ["0"])
    assert plain.view.learner is None


@pytest.mark.parametrize(
    ("handed", "said"),
    [
        ({"query": np.arange(3)}, "expected features of items in what client '0' was handed"),
        ({"features": np.arange(3.0)}, "expected features of items"),
        ({"features": np.zeros((0, 2))}, "expected features of items"),
        ({"features": np.zeros((3, 2)), "query": np.arange(2)}, "an entry an item"),
    ],
)
def test_features_that_are_no_table_of_items_are_refused(
    handed: dict[str, np.ndarray], said: str, tmp_path: Path
) -> None:
    transcript = stored(tmp_path / "t", [{"handed": {"0": handed}}])
    with pytest.raises(StoreError, match=re.escape(said)):
        impressions.client_views(transcript, ["0"])


def test_images_beside_features_are_none_of_the_items_arrays(tmp_path: Path) -> None:
    handed = {"0": {"features": np.zeros((4, 2))} | images(1)}
    (one,) = impressions.client_views(stored(tmp_path / "t", [{"handed": handed}]), ["0"], Learning)
    assert isinstance(one.view.learner, Learning)
    assert list(one.view.learner.arrays) == ["features"]


def test_what_makes_no_learner_is_named(tmp_path: Path) -> None:
    handed = {"0": {"features": np.zeros((4, 2))}}
    transcript = stored(tmp_path / "t", [{"handed": handed}])
    broken: Any = dict
    with pytest.raises(SpecError, match="expected a learner, got dict"):
        impressions.client_views(transcript, ["0"], broken)
