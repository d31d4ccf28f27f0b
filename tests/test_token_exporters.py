"""The exporters in docs/language-models-export.md write tables that divulge reads."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from divulge.targets.token_table import read_tokens

PAGE = Path(__file__).parents[1] / "docs" / "language-models-export.md"
MOST = 30
"""Lines of an exporter."""

ROWS = [{"text": f"text {k} of {k * k}", "member": k % 2, "id": f"t{k}"} for k in range(20)]


def exporter(heading: str) -> Callable[..., None]:
    """The function in the block below a heading of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    found = re.search(r"```python\n(.*?)```", text, re.S)
    assert found is not None
    source = found[1]
    assert len(source.splitlines()) <= MOST
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - a page of ours
    (write,) = (thing for name, thing in names.items() if name.startswith("export_"))
    return cast("Callable[..., None]", write)


def say(text: str) -> tuple[list[str], list[float], list[float]]:
    """The characters of a text, their log-probabilities, and those of the likeliest ones."""
    rng = np.random.default_rng(list(text.encode()))
    own = -rng.exponential(size=len(text)) - 0.01
    best = np.where(own > np.log(0.5), own, np.log(0.5))
    return list(text), own.tolist(), best.tolist()


def legacy(text: str) -> dict[str, Any]:
    """What servers answer with echo and logprobs; one token more was generated."""
    tokens, own, best = say(text)
    return {
        "text_offset": [*range(len(text)), len(text)],
        "token_logprobs": [None, *own[1:], -0.3],
        "top_logprobs": [None, *({"x": b} for b in best[1:]), {"x": -0.3}],
        "tokens": [*tokens, "!"],
    }


def check(path: Path, *, top: bool = True, reference: bool = False) -> None:
    table = read_tokens(path)
    assert table.texts == tuple(row["text"] for row in ROWS)
    assert table.member.tolist() == [bool(row["member"]) for row in ROWS]
    assert table.tokens.count.tolist() == [len(str(row["text"])) - 1 for row in ROWS]
    assert (table.tokens.top is not None) == top
    assert len(table.tokens.reference) == reference
    assert json.loads(path.read_text().splitlines()[3])["id"] == "t3"


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v1/completions"
            assert self.headers["Authorization"] == "Bearer sesame"
            assert asked["echo"]
            said = {"logprobs": legacy(asked["prompt"])}
            usage = {"prompt_tokens": len(asked["prompt"])}  # a token a sign
            body = json.dumps({"choices": [said], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def expect_own(path: Path) -> None:
    tokens = read_tokens(path).tokens
    for row, part in zip(ROWS, tokens.split(tokens.logprob), strict=True):
        np.testing.assert_allclose(part, say(str(row["text"]))[1][1:])


def test_openai_compatible_server(server: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    exporter("An OpenAI-compatible server")(server, "tiny", ROWS, path, "sesame")
    check(path)
    expect_own(path)


def test_llama_cpp(tmp_path: Path) -> None:
    llama = SimpleNamespace(
        tokenize=list,
        create_completion=lambda text, **_: {"choices": [{"logprobs": legacy(text)}]},
    )
    exporter("llama.cpp")(llama, ROWS, tmp_path / "t.jsonl")
    check(tmp_path / "t.jsonl")
    expect_own(tmp_path / "t.jsonl")


def test_vllm(tmp_path: Path) -> None:
    def answer(text: str) -> SimpleNamespace:
        _, own, best = say(text)
        places: list[Any] = [None]
        for at in range(1, len(text)):
            rank = 1 if own[at] >= best[at] else 7
            said = {ord(text[at]): SimpleNamespace(logprob=own[at], rank=rank)}
            said.setdefault(0, SimpleNamespace(logprob=best[at], rank=1))
            places.append(said)
        return SimpleNamespace(prompt_token_ids=list(map(ord, text)), prompt_logprobs=places)

    llm = SimpleNamespace(generate=lambda texts, _: list(map(answer, texts)))
    exporter("vLLM")(llm, None, ROWS, tmp_path / "t.jsonl")
    check(tmp_path / "t.jsonl")
    expect_own(tmp_path / "t.jsonl")


def test_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    config = transformers.GPT2Config(
        vocab_size=128, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model, base = (transformers.GPT2LMHeadModel(config).eval() for _ in range(2))

    def tokenize(text: str, **_: object) -> SimpleNamespace:
        return SimpleNamespace(input_ids=torch.tensor([list(text.encode())]))

    path = tmp_path / "t.jsonl"
    exporter("Hugging Face")(model, base, tokenize, ROWS, path)
    check(path, reference=True)
    tokens = read_tokens(path).tokens
    ids = torch.tensor([list(str(ROWS[7]["text"]).encode())])
    with torch.no_grad():
        loss = float(model(ids, labels=ids).loss)  # transformers' own
    assert -tokens.split(tokens.logprob)[7].mean() == pytest.approx(loss, rel=1e-5)
    assert tokens.mean is not None
    assert tokens.sd is not None
    assert -np.log(128) <= tokens.mean.min() <= tokens.mean.max() < 0
    assert tokens.sd.min() > 0
