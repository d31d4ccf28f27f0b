"""Without divulge-fast training goes on in other ways, and says what is missing if asked for it."""

from collections.abc import Iterator

import pytest

from divulge.errors import MissingExtra
from divulge.training.engine import choose, native
from divulge.training.engine.client_training import ClientWorkers
from divulge.training.fleet import Fleet

from .twin import brief, linear, pool_for, subsets, trained


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(native, "entry_points", lambda **_: ())
    native.find_native.cache_clear()
    yield
    native.find_native.cache_clear()


def test_another_way_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_MIN_WORK_SECONDS", 0.0)
    monkeypatch.setattr(choose, "_TRIAL_SECONDS", 0.001)
    fleet = Fleet(brief(linear), workers=1).settled(pool_for(linear), subsets())
    assert fleet.way in ("one-by-one", "stacked")


@pytest.mark.parametrize("settings", [{"way": "compiled"}, {"precision": "bfloat16"}])
def test_whoever_asks_for_it_is_told_what_to_install(settings: dict[str, str]) -> None:
    fleet = Fleet(brief(linear), **settings)  # type: ignore[arg-type]
    with pytest.raises(MissingExtra, match=r"'divulge_fast'.*pip install \. \./fast"):
        trained(fleet, pool_for(linear))


def test_clients_are_trained_by_pytorch() -> None:
    assert ClientWorkers(brief(linear), pool_for(linear), workers=1)._native is None
