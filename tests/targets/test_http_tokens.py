"""A language model behind a URL: what is read of an echoed text, and what is refused."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import divulge
from divulge.audits.result import Audit
from divulge.cli.main import main
from divulge.core import Need, Status
from divulge.data.records import as_texts
from divulge.errors import BudgetSpent, SpecError, StoreError, TargetError
from divulge.targets import HTTPTarget, http_client
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.encoded import EncodedTarget
from divulge.targets.model_facts import describe_model, kind_of_model
from divulge.targets.token_packing import pack_tokens, unpack_tokens

pytest.importorskip("httpx")

from ..endpoints import Endpoint, echo, serve
from ..token_tables import draw

WORDS = ["bale", "cora", "dimo", "füße", "gelu", "hapi", "iren", "jots"]
RNG = np.random.default_rng(2)
TEXTS = [" ".join(RNG.choice(WORDS, size)) for size in RNG.integers(3, 12, 40).tolist()]


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with serve(lambda x: x) as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def _anew(server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.01)
    url = server.url
    server.__init__(lambda x: x)  # type: ignore[misc]
    server.url = url


def ask(server: Endpoint, **settings: Any) -> HTTPTarget:
    given: dict[str, Any] = {"protocol": "openai-tokens", "records_per_request": 4}
    return HTTPTarget(server.url + "/v1/completions", "1", **given | settings)


def numbers(text: str, model: str = "tuned") -> list[float]:
    found: list[float] = echo(text, model)["logprobs"]["token_logprobs"][1:]
    return found


@pytest.mark.parametrize("added", [0, 2])
def test_tokens_are_those_that_the_server_echoes(server: Endpoint, added: int) -> None:
    parameters = {"max_tokens": added} if added else None
    target = ask(server, parameters=parameters)
    tokens = target.tokens(TEXTS)
    np.testing.assert_allclose(tokens.logprob, np.concatenate([numbers(t) for t in TEXTS]))
    assert tokens.count.tolist() == [len(text.split()) - 1 for text in TEXTS]
    assert tokens.top is not None
    np.testing.assert_array_equal(tokens.top, tokens.logprob >= -1.0)
    assert tokens.ids is not None
    words = [f" {word}" for text in TEXTS for word in text.split()[1:]]
    same = np.array(words)[:, None] == np.array(words)
    np.testing.assert_array_equal(tokens.ids[:, None] == tokens.ids, same)
    np.testing.assert_allclose(target.predict(TEXTS)[:, 0], tokens.average(tokens.logprob))
    assert server.bodies[0] == {
        "prompt": TEXTS[:4], "max_tokens": added, "temperature": 0, "echo": True, "logprobs": 1,
    }  # fmt: skip
    assert describe_model(target) == "language model behind a URL"
    assert kind_of_model(target) == "language model"


def test_references_are_asked_by_their_names(server: Endpoint) -> None:
    target = ask(server, references=("base", "old"), parameters={"model": "tuned"})
    tokens = target.tokens(TEXTS[:8])
    for row, name in enumerate(("base", "old")):
        wanted = np.concatenate([numbers(text, name) for text in TEXTS[:8]])
        np.testing.assert_allclose(tokens.reference[row], wanted)
    assert target.spent.requests == 6
    assert target.identity != ask(server, parameters={"model": "tuned"}).identity

    def other(body: Any) -> Any:
        if server.bodies[-1]["model"] == "base":
            for choice in body["choices"]:
                choice["logprobs"]["tokens"][-1] += "s"
        return body

    server.change = other
    with pytest.raises(TargetError, match="references with the same tokenizer"):
        target.tokens(TEXTS[:4])


def test_behind_other_texts_only_the_own_tokens_are_read(server: Endpoint) -> None:
    before = ["one two", "three"]
    tokens = ask(server).tokens(TEXTS[:5], before)
    for row, text in enumerate(TEXTS[:5]):
        whole = numbers(f"one two three {text}")[-len(text.split()) :]
        np.testing.assert_allclose(tokens.split(tokens.logprob)[row], whole)


def test_a_mark_before_the_text_is_no_token_of_it(server: Endpoint) -> None:
    """vLLM puts <s> before a text, counts its signs, and gives it no number."""
    plain = ask(server).tokens(TEXTS[:3])

    def begin(body: Any) -> Any:
        for choice in body["choices"]:
            said = choice["logprobs"]
            first = [None, -3.0]
            said["token_logprobs"][:1] = first
            said["tokens"].insert(0, "<|begin|>")
            said["top_logprobs"].insert(1, {"x": -3.0})
            said["text_offset"] = [0, *(9 + start for start in said["text_offset"])]
        return body

    server.change = begin
    tokens = ask(server, parameters={"max_tokens": 1}).tokens(TEXTS[:3])
    np.testing.assert_array_equal(tokens.count, plain.count + 1)
    assert tokens.logprob[0] == -3.0
    for mine, other in zip(tokens.split(tokens.logprob), plain.split(plain.logprob), strict=True):
        np.testing.assert_allclose(mine[1:], other)


def changed(place: str, value: Any) -> Callable[[Any], Any]:
    def change(body: Any) -> Any:
        for choice in body["choices"]:
            if place in choice:
                choice[place] = value(choice[place])
            else:
                choice["logprobs"][place] = value(choice["logprobs"][place])
        return body

    return change


def second(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda numbers: [numbers[0], value, *numbers[2:]]


ODD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no logprobs": (changed("logprobs", lambda _: None), "got null: the server has to answer echo"),
    "no list": (changed("token_logprobs", lambda _: None), "list of token_logprobs"),
    "no tokens": (changed("tokens", lambda _: []), "for each of 0 tokens"),
    "one too few": (changed("token_logprobs", lambda own: own[1:]), "for each of"),
    "tokens that are numbers": (changed("tokens", lambda own: list(range(len(own)))), "no texts"),
    "null": (changed("token_logprobs", second(None)), "got null"),
    "true": (changed("token_logprobs", second(True)), "each token, got true or false"),
    "a text": (changed("token_logprobs", second("-1")), "log-probability of each token, got text"),
    "NaN": (changed("token_logprobs", second(float("nan"))), "got NaN or infinity"),
    "minus infinity": (changed("token_logprobs", second(-np.inf)), "got NaN or infinity"),
    "a number without end": (changed("token_logprobs", second(10**400)), "got NaN or infinity"),
    "probabilities": (changed("token_logprobs", second(0.5)), "0 at most, got 0.5"),
    "no rank": (changed("token_logprobs", second(-9999.0)), "below -1000"),
    "another text": (changed("text", str.upper), "the text back as it was sent"),
    "no text": (changed("text", lambda _: ""), "the text back as it was sent"),
    "offsets": (changed("text_offset", lambda own: own[::-1]), "rising whole numbers"),
    "one choice": (lambda body: {"choices": body["choices"][:1]}, "4 choices, one a prompt, got 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_says_nothing_of_the_tokens_is_refused_after_one_request(
    server: Endpoint, name: str
) -> None:
    server.change, message = ODD[name]
    with pytest.raises(TargetError, match=message) as caught:
        ask(server).predict(TEXTS)
    assert server.requests == 1
    assert not any(word in str(caught.value) for text in TEXTS for word in text.split())


def test_a_server_that_ranks_nothing_beside_says_of_no_token_that_it_is_the_first(
    server: Endpoint,
) -> None:
    server.change = changed("top_logprobs", lambda _: None)
    assert ask(server).tokens(TEXTS[:3]).top is None


def test_a_server_that_refuses_to_add_nothing_is_told_what_to_do(server: Endpoint) -> None:
    server.faults.append("status:400")
    with pytest.raises(TargetError, match=r"refuses max_tokens = 0, set parameters = \{ max_token"):
        ask(server).predict(TEXTS)


@pytest.mark.parametrize("text", ["alone", ""])
def test_a_text_of_one_token_is_refused(server: Endpoint, text: str) -> None:
    with pytest.raises(TargetError, match="two tokens or more"):
        ask(server).predict([text])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": ("a", "b")}, "no labels"),
        ({"output": "logits"}, "output = "),
        ({"prompt": "{record}"}, "no prompt"),
        ({"protocol": "json", "references": ("base",)}, "no references"),
        ({"references": ("q7Jx2VbK9wZt4RmD8sPa",)}, "references"),
    ],
)
def test_settings_of_classifiers_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        HTTPTarget("https://x.example/", "1", **{"protocol": "openai-tokens"} | settings)
    with pytest.raises(TargetError, match='protocol = "openai-tokens"'):
        HTTPTarget("https://x.example/", "1").tokens(["a b"])


def test_half_an_audit_is_continued_without_asking_twice(server: Endpoint, tmp_path: Path) -> None:
    records = as_texts(TEXTS, "texts")
    assert records.encoding is not None
    target = EncodedTarget(ask(server, concurrency=1), records.encoding)
    limited = CachedTarget(CountingTarget(target, 24), tmp_path / "a.sqlite", "x", batch_size=12)
    limited.predict(records.x[:24])
    before = records.x[30:32]
    with pytest.raises(BudgetSpent):
        limited.tokens(records.x)
    again = CachedTarget(CountingTarget(target, 100), tmp_path / "a.sqlite", "x", batch_size=12)
    tokens = again.tokens(records.x)
    again.tokens(records.x[:4], before)
    assert set(server.answered.values()) == {1}
    assert server.requests == 11
    last = CachedTarget(CountingTarget(target, 0), tmp_path / "a.sqlite", "x")
    stored = last.tokens(records.x)
    last.tokens(records.x[:4], before)
    for name in ("start", "logprob", "reference", "top", "size", "ids"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(tokens, name))
    assert (stored.mean, stored.sd) == (None, None)
    (tmp_path / "a.sqlite").chmod(0o600)
    content = (tmp_path / "a.sqlite").read_bytes()
    assert not any(word.encode() in content for word in WORDS)
    with pytest.raises(StoreError, match="another model"):
        CachedTarget(target, tmp_path / "a.sqlite", "y")


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [0, 0],
        [0, 0, 9],
        [0, 4, 9, -1],
        [1, 0, 9, -1],
        [0, 64, 9, -1],
        [0, 32, 9, -1],
        [np.nan, 0, 9, -1],
    ],
)  # a head that is too short, no tokens, a list too few, another list, no norm, no number
def test_answers_that_are_damaged_are_refused(numbers: list[float]) -> None:
    content = np.array(numbers, np.float64)
    with pytest.raises(StoreError, match="log-probabilities of the tokens"):
        unpack_tokens([content.tobytes()])


def test_what_is_known_of_a_text_is_packed_with_its_tokens() -> None:
    every, _ = draw(9, 1.0, np.random.default_rng(3))
    for lacking in ([], ["lowercase"], ["gradient_norm", "size"], ["lowercase", "mean", "ids"]):
        without: dict[str, Any] = dict.fromkeys(lacking)
        tokens = replace(every, **without)
        again = unpack_tokens(pack_tokens(tokens))
        for name in ("start", "logprob", "reference", "mean", "sd", "top", "size", "ids",
                     "lowercase", "gradient_norm"):  # fmt: skip
            np.testing.assert_array_equal(getattr(again, name), getattr(tokens, name), name)


def test_another_target_around_it_is_asked_no_more_by_default(server: Endpoint) -> None:
    class Wrapper:
        """Someone's own, which hands on what it is asked."""

        def __init__(self, inner: HTTPTarget) -> None:
            self.inner, self.offers = inner, inner.offers
            self.predict, self.tokens = inner.predict, inner.tokens

    given: dict[str, Any] = {
        "members": TEXTS[:15], "nonmembers": TEXTS[15:30], "reference": TEXTS[30:],
    }  # fmt: skip
    labels = [
        [finding.label for finding in divulge.audit(target, **given).findings]
        for target in (ask(server), Wrapper(ask(server)))
    ]
    assert labels[0] == labels[1]
    assert "dc-pdd" in labels[0]
    assert "recall" not in labels[0]


SETTINGS = """
[target]
url = "URL"
fingerprint = "1"
budget = 100
[target.http]
protocol = "openai-tokens"
parameters = { model = "tuned" }
references = ["base"]
headers = { Authorization = "Bearer env:DIVULGE_TEST_LM" }
price_per_record = 0.1
[data]
members = "members.jsonl"
nonmembers = "others.jsonl"
prefix = 2
suffix = 3
"""


def test_an_audit_from_settings_to_the_page(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVULGE_TEST_LM", "sesame-of-mine")
    for name, texts in (("members", TEXTS[:20]), ("others", TEXTS[20:])):
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "audit.toml").write_text(SETTINGS.replace("URL", server.url + "/v1/completions"))
    words = ["audit", str(tmp_path / "audit.toml"), "--run", str(tmp_path / "run")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, (done.output, done.exception)
    asked = server.requests
    assert server.headers[0]["authorization"] == "Bearer sesame-of-mine"
    found = divulge.load(tmp_path / "run")
    assert isinstance(found, Audit)
    named = {finding.label: finding.status for finding in found.findings}
    assert named["reference-ratio"] is Status.DONE
    assert named["ez-mia"] is Status.DONE
    assert named["token-threshold(signal=min-k++)"] is Status.NOT_APPLICABLE
    assert "recall" not in named  # it asks more, and is paid for: by name alone
    measured = found.summary.texts
    assert measured is not None
    assert (measured.prefix, measured.suffix) == (2, 3)
    assert CliRunner().invoke(main, [*words, "--resume"]).exit_code == 0
    assert server.requests == asked
    for file in (tmp_path / "run").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert b"sesame" not in content, file.name
            assert TEXTS[0].encode() not in content, file.name


def test_attacks_that_put_texts_before_others_run_by_name(server: Endpoint) -> None:
    target = ask(server, price_per_record=0.5)
    assert Need.PREFIX in target.offers
    found = divulge.audit(
        target,
        members=TEXTS[:15],
        nonmembers=TEXTS[15:30],
        reference=TEXTS[30:],
        attacks=[divulge.attacks.ReCaLL(shots=2), divulge.attacks.DCPDD()],
    )
    assert [finding.status for finding in found.findings] == [Status.DONE] * 2
    assert target.spent.cost == 0.5 * (40 + 30 + 30)  # the second asking, and the prefix
