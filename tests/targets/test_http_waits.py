"""How long is waited before a request is sent again: twice as long each time, up to a minute."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from divulge.errors import TargetError
from divulge.targets import http_client
from divulge.targets.http_pace import Patience


def wait(attempt: int, asked: float | None, jitter: float = 1.0) -> tuple[list[float], list[float]]:
    """What the session slept, and what all requests rest for.

    Args:
        attempt: how often the request was sent before, less 1.
        asked: seconds that the server asks for.
        jitter: what is drawn.
    """
    slept: list[float] = []
    rested: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    session: Any = SimpleNamespace(
        patience=Patience(10.0, 5, max_wait=90.0),
        memory=SimpleNamespace(pace=SimpleNamespace(rest=rested.append)),
        settings=SimpleNamespace(place="http://here", clean=str),
        _sleep=sleep,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_client, "_JITTER", SimpleNamespace(uniform=lambda low, high: (
            low + (high - low) * jitter
        )))  # fmt: skip
        asyncio.run(http_client.Session._rest(session, attempt, asked, "status 503"))
    return slept, rested


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 0.5), (1, 1.0), (2, 2.0), (6, 32.0), (7, 60.0), (20, 60.0)]
)
def test_each_wait_is_twice_the_last_up_to_a_minute_less_up_to_a_half(
    attempt: int, seconds: float
) -> None:
    assert wait(attempt, None) == ([seconds], [])
    assert wait(attempt, None, jitter=0.0) == ([seconds / 2], [])


def test_what_the_server_asks_for_is_waited_by_all_requests() -> None:
    assert wait(0, 30.0) == ([30.0], [30.0])
    assert wait(7, 30.0) == ([60.0], [30.0])
    assert wait(0, 90.0) == ([90.0], [90.0])
    with pytest.raises(TargetError, match=r"expected to wait 90 s at most .* asks for 91 s"):
        wait(0, 91.0)
