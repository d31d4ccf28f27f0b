"""Run the requests of a target in an event loop of its own, and end them with it."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from divulge.errors import SpecError
from divulge.targets import http_client, http_keys
from divulge.targets.http_client import Memory, Session
from divulge.targets.http_keys import FilledSettings
from divulge.targets.http_pace import Patience


async def _close_client(client: Any) -> None:
    """Cancel what is on its way, and close all connections."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await client.aclose()
    # answers that were left half read, as one that was too large
    await asyncio.get_running_loop().shutdown_asyncgens()


@contextmanager
def background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own: a notebook has one in ours already.

    No thread runs any more while Python ends: what is closed only then must not wait for one.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=http_keys.THREAD, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        if not sys.is_finalizing():
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


@contextmanager
def open_session(
    loop: asyncio.AbstractEventLoop,
    settings: FilledSettings,
    patience: Patience,
    memory: Memory,
    concurrency: int,
) -> Iterator[Session]:
    """Open connections, closed at the end; requests on their way are cancelled then.

    Args:
        loop: in which requests are sent.
        settings: with the values of environment variables.
        patience: how long is waited, and how often asked again.
        memory: what lasts from one batch to the next.
        concurrency: the highest number of connections.

    Raises:
        SpecError: httpx cannot use a proxy that an environment variable names.
    """
    client = _open_client(patience.timeout, concurrency)
    try:
        yield Session(client, settings, patience, memory)
    finally:
        if not sys.is_finalizing():
            asyncio.run_coroutine_threadsafe(_close_client(client), loop).result()


def _open_client(timeout: float, concurrency: int) -> Any:
    """A client of httpx with so many connections at most.

    Raises:
        SpecError: httpx cannot use a proxy that an environment variable names.
    """
    import httpx

    http_keys.silence_libraries()
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    try:
        client = httpx.AsyncClient(
            verify=http_client.tls_settings(),
            timeout=timeout,
            limits=limits,
            follow_redirects=False,
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
        )
    except (ValueError, httpx.InvalidURL, ImportError):
        client = None  # its message may hold the password of a proxy
    if client is None:
        raise SpecError(
            "expected proxies that httpx can use in HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, got "
            "another: correct these variables, or name this endpoint in NO_PROXY"
        )
    return client
