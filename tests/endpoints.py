"""A real server on this machine that speaks every protocol, and misbehaves as it is told."""

import asyncio
import hashlib
import json
import re
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = Callable[[Any], Any]

LABELS = ("poor", "fair", "good")


class Endpoint:
    """Answers questions about rows of numbers, or texts that hold them.

    Args:
        model: from an array of records to probabilities.
    """

    def __init__(self, model: Callable[[np.ndarray], np.ndarray]) -> None:
        self.model = model
        self.faults: deque[str] = deque()
        """What goes wrong with the next requests; ``""`` is nothing."""
        self.latency = 0.0  # seconds
        self.requests = 0
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.answered: Counter[str] = Counter()
        """By record: how often an answer about it left in full."""
        self.hold_after: int | None = None
        """After so many answered requests no further one is answered, until this changes."""
        self.answered_requests = 0
        self.together = 0
        """How many requests have to be there before any but the first is answered."""
        self.held = threading.Semaphore(0)
        self.url = ""
        self.change: Callable[[Any], Any] | None = None
        """What becomes of each answer before it is sent."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        """One request, as ASGI has it."""
        content = b""
        while True:
            message = await receive()
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.requests += 1
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        body = json.loads(content)
        self.bodies.append(body)
        if self.hold_after is not None and self.answered_requests >= self.hold_after:
            self.held.release()
            await receive()  # until the client is gone
            return
        while self.answered_requests and self.requests < self.together:
            await asyncio.sleep(0.005)
        await asyncio.sleep(self.latency)
        fault = self.faults.popleft() if self.faults else ""
        if fault:
            await self._fail(fault, body, scope["path"], send)
            return
        records, answer = self.answer(scope["path"], body)
        await respond(send, 200, json.dumps(answer).encode())
        self.answered.update(records)
        self.answered_requests += 1

    def answer(self, path: str, body: Any) -> tuple[list[str], Any]:
        """The records as keys, and the response."""
        rows, write = READERS[path](body)
        numbers = [] if isinstance(body, dict) and body.get("echo") else rows
        x = np.asarray(numbers, np.float64)
        found = write(self.model(x) if numbers else x)
        return [json.dumps(row) for row in rows], found if self.change is None else self.change(
            found
        )

    async def _fail(self, fault: str, body: Any, path: str, send: Send) -> None:
        kind, _, told = fault.partition(":")
        if kind == "echo":  # as validators answer
            problem = {"loc": ["body", "instances", 0, 1], "msg": told, "input": body}
            await respond(send, 422, json.dumps({"detail": [problem]}).encode())
            return
        whole = json.dumps(self.answer(path, body)[1]).encode()
        if kind == "status":
            status, _, after = told.partition(" ")
            headers = {"retry-after": after} if after else {}
            echo = self.headers[-1].get("authorization", "").encode()
            await respond(send, int(status), b"sorry \x1b[31m " + echo, headers)
        elif kind == "cut":
            start = {"type": "http.response.start", "status": 200}
            await send(start | {"headers": [(b"content-length", str(len(whole)).encode())]})
            await send({"type": "http.response.body", "body": whole[:5], "more_body": True})
            raise ConnectionError(kind)
        elif kind == "slow":
            await asyncio.sleep(float(told))
        elif kind == "trickle":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
                await asyncio.sleep(0.01)
        elif kind == "large":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(int(told)):
                await send({"type": "http.response.body", "body": b" " * 2**20, "more_body": True})
            await send({"type": "http.response.body", "body": whole})
        elif kind == "redirect":
            await respond(send, 307, b"", {"location": told})
        elif kind == "gzip":
            await respond(send, 200, whole, {"content-encoding": "gzip"})
        else:
            await respond(send, 200, {"half": whole[: len(whole) // 2]}.get(kind, told.encode()))


async def respond(
    send: Send, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    found = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": found})
    await send({"type": "http.response.body", "body": body})


def rows_of_texts(texts: list[str]) -> list[list[float]]:
    return [[float(word) for word in text.split()] for text in texts]


def _kserve(body: Any) -> tuple[Any, Answer]:
    (tensor,) = body["inputs"]
    rows = np.asarray(tensor["data"]).reshape(tensor["shape"]).tolist()

    def write(p: np.ndarray) -> Any:
        data = {"name": "probabilities", "datatype": "FP64", "data": p.ravel().tolist()}
        return {"model_name": "tiny", "outputs": [data | {"shape": list(p.shape)}]}

    return rows, write


def _mlflow(body: Any) -> tuple[Any, Answer]:
    rows = body["inputs"] if "inputs" in body else body["dataframe_split"]["data"]
    return rows, lambda p: {"predictions": p.tolist()}


def _hugging_face(body: Any) -> tuple[Any, Answer]:
    def write(p: np.ndarray) -> Any:  # the likeliest first, as pipelines do
        return [
            [{"label": LABELS[k], "score": float(row[k])} for k in np.argsort(-row)] for row in p
        ]

    return rows_of_texts(body["inputs"]), write


def _tokens(row: np.ndarray) -> dict[str, float]:
    """Log-probabilities of tokens, of which a tenth goes to one that is no label."""
    named = {f" {label}": float(np.log(0.9 * p)) for label, p in zip(LABELS, row, strict=True)}
    return named | {"The": float(np.log(0.1))}


def _completions(body: Any) -> tuple[Any, Answer]:
    if body.get("echo"):  # no model of numbers is asked
        model, added = body.get("model", "tuned"), body["max_tokens"]
        choices = [
            {"index": k, **echo(prompt, model, added)} for k, prompt in enumerate(body["prompt"])
        ]
        return [[text] for text in body["prompt"]], lambda _: {"choices": choices[::-1]}

    def write(p: np.ndarray) -> Any:
        found = [
            {"index": k, "text": "", "logprobs": {"top_logprobs": [_tokens(row)]}}
            for k, row in enumerate(p)
        ]
        return {"choices": found[::-1]}

    prompts = [prompt.partition(": ")[2] for prompt in body["prompt"]]
    return rows_of_texts(prompts), write


def echo(prompt: str, model: str = "tuned", generated: int = 0) -> dict[str, Any]:
    """A choice about a text that is echoed: its words are tokens, each with the space before it.

    The log-probability of a token follows from the model and all words up to it.
    """
    tokens = re.findall(r" ?[^ ]+| ", prompt)
    own: list[float | None] = []
    best: list[dict[str, float] | None] = []
    for at in range(len(tokens)):
        state = hashlib.blake2b(f"{model} {' '.join(tokens[: at + 1])}".encode(), digest_size=4)
        own.append(-int.from_bytes(state.digest()) / 2**30 if at else None)
        best.append({"x": max(own[-1], -1.0)} if own[-1] is not None else None)
    added = [f" more{k}" for k in range(generated)]
    starts = np.concatenate([[0], np.cumsum([len(token) for token in [*tokens, *added]])])[:-1]
    return {
        "text": prompt + "".join(added),
        "logprobs": {
            "tokens": [*tokens, *added],
            "token_logprobs": [*own, *([-0.25] * generated)],
            "top_logprobs": [*best, *([{"x": -0.25}] * generated)],
            "text_offset": starts.tolist(),
        },
    }


def _chat(body: Any) -> tuple[Any, Answer]:
    def write(p: np.ndarray) -> Any:
        top = [{"token": token, "logprob": value} for token, value in _tokens(p[0]).items()]
        return {"choices": [{"logprobs": {"content": [{"token": "x", "top_logprobs": top}]}}]}

    (message,) = body["messages"]
    return rows_of_texts([message["content"].partition(": ")[2]]), write


READERS: dict[str, Callable[[Any], tuple[Any, Answer]]] = {
    "/predict": lambda body: (body["instances"], lambda p: {"predictions": p.tolist()}),
    "/mine": lambda body: (
        [list(row.values()) for row in body["rows"]],
        lambda p: {"results": [{"scores": dict(zip(LABELS, row, strict=True))} for row in p]},
    ),
    "/named": lambda body: (
        body["instances"],
        lambda p: {"predictions": [LABELS[k] for k in p.argmax(1)]},
    ),
    "/v2/models/tiny/infer": _kserve,
    "/v1/models/tiny:predict": lambda body: (
        body["instances"],
        lambda p: {"predictions": p.tolist()},
    ),
    "/invocations": _mlflow,
    "/classify": _hugging_face,
    "/v1/completions": _completions,
    "/v1/chat/completions": _chat,
}


@contextmanager
def serve(
    model: Callable[[np.ndarray], np.ndarray], certificate: Path | None = None
) -> Iterator[Endpoint]:
    """A server in a thread, on a port of its own; with TLS if a file holds key and certificate."""
    endpoint = Endpoint(model)
    settings = uvicorn.Config(
        endpoint,
        port=0,
        log_level="critical",
        lifespan="off",
        ws="none",
        loop="asyncio",
        ssl_certfile=certificate,
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    endpoint.url = f"http{'s' if certificate else ''}://127.0.0.1:{port}"
    try:
        yield endpoint
    finally:
        endpoint.hold_after = None
        server.should_exit = server.force_exit = True
        thread.join()
