"""A model behind a URL, asked by divulge and by a bare loop; and whether faults lose an answer."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.timing import Contender, Outcome, environment, interleaved, table
from divulge import Access
from divulge.targets import HTTPTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.model_facts import choose_batch_size

SUMMARY = "answers a second of a model behind a URL, beside a bare httpx loop; faults lose none"

RECORDS, FEATURES, CLASSES = 16384, 20, 10
BATCH, CONCURRENCY = 32, 8
LATENCY = 0.02  # seconds
FAULTS = ("429", "500", "cut", "half", "malformed", "slow")
EVERY = 8
"""One of so many requests goes wrong."""

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Server:
    """An ASGI application: a softmax of the first features, after a wait."""

    def __init__(self, *, faulty: bool) -> None:
        self.faulty = faulty
        self.requests = 0
        self.answered: Counter[str] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        """Answer a request, or say on ``/count`` how often each record was answered."""
        content = b""
        while (message := await receive())["type"] == "http.request":
            content += message["body"]
            if not message["more_body"]:
                break
        if scope["path"] == "/count":
            counts = [len(self.answered), max(self.answered.values(), default=0), self.requests]
            await _respond(send, 200, json.dumps(counts).encode())
            return
        self.requests += 1
        number = self.requests
        rows = json.loads(content)["instances"]
        await asyncio.sleep(LATENCY)
        weights = np.exp(np.asarray(rows)[:, :CLASSES])
        answers = weights / weights.sum(axis=1, keepdims=True)
        whole = json.dumps({"predictions": answers.tolist()}).encode()
        if self.faulty and number % EVERY == 0:
            await _fail(FAULTS[number // EVERY % len(FAULTS)], whole, send)
            return
        await _respond(send, 200, whole)
        self.answered.update(map(str, rows))


async def _fail(fault: str, whole: bytes, send: Send) -> None:
    if fault == "cut":
        length = [(b"content-length", str(len(whole)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": whole[:100], "more_body": True})
        raise ConnectionError(fault)
    if fault == "slow":
        await asyncio.sleep(60)
    bodies = {"half": whole[: len(whole) // 2], "malformed": b"<html>"}
    status = int(fault) if fault.isdecimal() else 200
    await _respond(send, status, bodies.get(fault, b"{}"))


async def _respond(send: Send, status: int, body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": length})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(*, faulty: bool) -> Iterator[str]:
    """A server in a process of its own; its address."""
    import httpx

    words = [sys.executable, "-m", "benchmarks.http", *(["--faulty"] if faulty else [])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        try:
            while True:
                try:
                    httpx.get(f"{url}/count")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            yield url
        finally:
            process.terminate()


def ask_bare(url: str, x: np.ndarray) -> np.ndarray:
    """All answers by a loop that anybody would write: no retries, no limits, nothing kept."""
    import httpx

    async def ask_all() -> list[np.ndarray]:
        slots = asyncio.Semaphore(CONCURRENCY)
        async with httpx.AsyncClient() as client:

            async def ask(part: np.ndarray) -> np.ndarray:
                async with slots:
                    response = await client.post(url, json={"instances": part.tolist()})
                return np.asarray(response.raise_for_status().json()["predictions"])

            parts = [x[start : start + BATCH] for start in range(0, len(x), BATCH)]
            return await asyncio.gather(*map(ask, parts))

    return np.concatenate(asyncio.run(ask_all()))


def ask_cached(url: str, x: np.ndarray, path: Path, **settings: Any) -> np.ndarray:
    """All answers by divulge, each on disk before the next question of its slot."""
    settings |= {"records_per_request": BATCH, "concurrency": CONCURRENCY}
    target = HTTPTarget(url, "1", **settings)
    size = choose_batch_size(target, Access().batch_size)  # as an audit does
    return np.asarray(CachedTarget(target, path, target.identity, size).predict(x))


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Time both, then ask a server that misbehaves, and count what was lost or asked twice."""
    import httpx

    records = RECORDS // (8 if quick else 1)
    x = np.random.default_rng(0).normal(size=(records, FEATURES))
    print(f"{records} records, {BATCH} a request, {CONCURRENCY} at a time, {LATENCY * 1e3:g} ms")
    print(environment(["httpx", "uvicorn", "numpy"]))
    with TemporaryDirectory() as folder:
        paths = (Path(folder) / f"{number}.sqlite" for number in range(1000))
        with serving(faulty=False) as url:
            place = f"{url}/predict"
            same = np.abs(ask_bare(place, x[:64]) - ask_cached(place, x[:64], next(paths))).max()
            contenders = [
                Contender(
                    "divulge, each answer on disk", lambda: ask_cached(place, x, next(paths))
                ),
                Contender("a bare httpx loop, nothing kept", lambda: ask_bare(place, x)),
            ]
            timings = interleaved(contenders, 2 if quick else 5)
        print(table(timings, timings[1]))
        for timing in timings:
            print(f"{timing.name}: {records / timing.best:.0f} answers a second at best")
        print(f"largest difference between their answers: {same:.1g}")
        with serving(faulty=True) as url:
            ask_cached(f"{url}/predict", x, next(paths), timeout=1.0)
            answered, most, requests = httpx.get(f"{url}/count").json()
        print(
            f"one request of {EVERY} failed ({', '.join(FAULTS)}): {requests} requests for "
            f"{records // BATCH} answers, {records - answered} records lost, "
            f"{'none' if most == 1 else 'some'} answered twice"
        )
    return Outcome(timings[0], timings[1])


def _serve() -> None:
    import socket

    import uvicorn

    parser = argparse.ArgumentParser()
    parser.add_argument("--faulty", action="store_true")
    server = Server(faulty=parser.parse_args().faulty)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        os.write(1, f"{listening.getsockname()[1]}\n".encode())
        settings = uvicorn.Config(server, log_level="critical", lifespan="off", ws="none")
        uvicorn.Server(settings).run([listening])


if __name__ == "__main__":
    _serve()
