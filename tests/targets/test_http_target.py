"""A model behind a URL: what is asked and read, what may go wrong, and that nothing is lost."""

import datetime as dt
import ipaddress
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent import futures
from contextlib import closing
from dataclasses import fields
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.audits import config, inputs, model_sections
from divulge.core import Need
from divulge.defences import Rounding
from divulge.errors import BudgetSpent, SpecError, TargetError
from divulge.targets import HTTPTarget, http_client, http_keys, http_pace, http_parts
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.defended import DefendedTarget
from divulge.targets.http_formats import PRESETS
from divulge.targets.json_records import to_rows
from divulge.targets.label_tokens import label_probabilities

from ..patience import PATIENCE
from . import tiny_models as tiny

pytest.importorskip("httpx")

from ..endpoints import LABELS, Endpoint, serve

X = np.random.default_rng(1).normal(size=(60, 4))
Y = np.arange(60) % 3
TEXTS = [" ".join(map(repr, row)) for row in X.tolist()]


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with serve(tiny.probabilities) as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def _anew(server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.01)
    url = server.url
    server.__init__(tiny.probabilities)  # type: ignore[misc]
    server.url = url


def ask(server: Endpoint, path: str = "/predict", **settings: Any) -> HTTPTarget:
    return HTTPTarget(server.url + path, "1", **{"records_per_request": 5} | settings)


PROMPT = {"labels": LABELS, "prompt": "Rate: {record}"}
MINE = {"records": "rows", "answers": "results.*.scores", "labels": LABELS}
WAYS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "json": ("/predict", {}, X),
    "kserve-v2": ("/v2/models/tiny/infer", {"answers": "probabilities"}, X),
    "tensorflow-serving": ("/v1/models/tiny:predict", {}, X),
    "mlflow": ("/invocations", {}, X),
    "hugging-face": ("/classify", {"labels": LABELS}, TEXTS),
    "openai-completions": ("/v1/completions", PROMPT, TEXTS),
    "openai-chat": ("/v1/chat/completions", PROMPT | {"parameters": {"model": "m"}}, TEXTS),
}


def test_every_protocol_is_tried() -> None:
    assert WAYS.keys() | {"openai-tokens"} == PRESETS.keys()  # test_http_tokens.py has that one


@pytest.mark.parametrize("protocol", WAYS)
def test_answers_are_those_of_the_model(server: Endpoint, protocol: str) -> None:
    path, settings, x = WAYS[protocol]
    target = ask(server, path, protocol=protocol, **settings)
    np.testing.assert_allclose(target.predict(x), tiny.probabilities(X), atol=1e-12)
    most = 1 if protocol == "openai-chat" else 5
    assert target.spent == (60 // most, 60, 0.0)
    assert set(server.answered.values()) == {1}


def test_a_single_text_is_read_likewise(server: Endpoint) -> None:
    target = ask(server, "/classify", protocol="hugging-face", labels=LABELS)
    np.testing.assert_allclose(target.predict(TEXTS[:1]), tiny.probabilities(X[:1]), atol=1e-12)


def test_further_keys_of_a_request_stand_beside_those_of_the_protocol(server: Endpoint) -> None:
    parameters = {"parameters": {"function_to_apply": "none"}, "options": {"use_cache": False}}
    given: dict[str, Any] = {"labels": LABELS, "parameters": parameters}
    ask(server, "/classify", protocol="hugging-face", **given).predict(TEXTS[:2])
    assert server.bodies == [
        {"inputs": TEXTS[:2], **parameters}
        | {"parameters": {"top_k": 3, "function_to_apply": "none"}}
    ]
    target = ask(server, "/v2/models/tiny/infer", protocol="kserve-v2", datatype="FP32")
    target.predict(X[:2])
    tensor = {"name": "input-0", "shape": [2, 4], "datatype": "FP32"}
    assert server.bodies[1] == {"inputs": [tensor | {"data": X[:2].ravel().tolist()}]}


EXAMPLES = re.findall(
    r"^```toml\n(.*?)^```",
    (Path(__file__).parents[2] / "docs" / "endpoints.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


def test_the_page_has_an_example_for_each_protocol_that_can_be_used() -> None:
    shown = set()
    for text in EXAMPLES:
        settings = config.parse_config(
            tomllib.loads(text) | {"data": {"members": "a", "nonmembers": "b"}}, "the page"
        )
        assert isinstance(settings, config.ModelAuditSpec)
        target, name = inputs._load_target(settings.target, Path())
        assert isinstance(target, HTTPTarget)
        assert target.identity == name
        shown.add(target.protocol)
    assert shown == PRESETS.keys()


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrays by name"])
def test_tables_keep_the_names_of_their_columns(server: Endpoint, kind: str) -> None:
    columns = {name: X[:, k] for k, name in enumerate("abcd")}
    table: Any = columns
    if kind != "arrays by name":
        table = pytest.importorskip(kind).DataFrame(columns)
    for target in (ask(server, "/mine", **MINE), ask(server, "/invocations", protocol="mlflow")):
        np.testing.assert_allclose(target.predict(table), tiny.probabilities(X), atol=1e-12)
    assert server.bodies[0]["rows"][0].keys() == set("abcd")
    assert server.bodies[-1]["dataframe_split"]["columns"] == list("abcd")


def test_values_of_tables_as_json_holds_them() -> None:
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime(["2026-11-22", None])
    table = pandas.DataFrame(
        {"n": [1, 2], "x": [0.5, np.nan], "t": ["a", None], "d": days, "b": [True, False]}
    )
    want = [[1, 0.5, "a", "2026-11-22T00:00:00", True], [2, None, None, None, False]]
    assert to_rows(table) == (("n", "x", "t", "d", "b"), want)
    json.dumps(want)
    with pytest.raises(TargetError, match="JSON cannot hold"):
        to_rows(np.array([[np.inf]]))


def test_labels_by_name(server: Endpoint) -> None:
    target = ask(server, "/named", output="labels", labels=LABELS)
    assert target.offers == Need.HARD_LABELS | Need.FEATURES
    np.testing.assert_array_equal(target.predict(X).argmax(1), tiny.probabilities(X).argmax(1))
    with pytest.raises(TargetError, match="expected one of the labels"):
        ask(server, "/named", output="labels", labels=("a", "b")).predict(X)


def test_the_first_tokens_of_labels_are_told_apart() -> None:
    tokens = {" pos": -0.1, "neg": -3.0, "\u2581negative": -4.0, "n": -5.0, "The": -6.0}
    positive, negative = np.exp(-0.1), np.exp(-3) + np.exp(-4) + np.exp(-5)
    expected = np.array([positive, negative]) / (positive + negative)
    np.testing.assert_allclose(label_probabilities(tokens, ("positive", "negative")), expected)
    # "p" begins both: it is for neither, and a label that is not named has the least that is
    tokens = {"p": np.log(0.5), "plus": np.log(0.3), "x": np.log(0.1)}
    np.testing.assert_allclose(label_probabilities(tokens, ("plus", "pair")), [0.75, 0.25])
    wrong: list[Any] = [{}, {"x": -1.0}, {"plus": "x"}, {"plus": np.nan}, {"plus": 7.0}, []]
    for bad in wrong:
        with pytest.raises(TargetError, match="expected"):
            label_probabilities(bad, ("plus", "pair"))


FAULTS = ["status:429 0", "status:429", "status:500", "status:503 x", "cut", "half",
          "other:<html>", 'other:{"predictions": [[0.5, 0.5]]}', 'other:{"predictions": null}',
          'other:{"predictions": [[NaN, 1, 0]]}', "other:[[[[[", "other:"]  # fmt: skip


def test_what_may_pass_is_asked_again_and_nothing_else(server: Endpoint, tmp_path: Path) -> None:
    server.faults.extend(["", *(fault for one in FAULTS for fault in (one, ""))])
    target = ask(server, concurrency=1, retries=1, records_per_request=4)
    kept = CachedTarget(target, tmp_path / "answers.sqlite", "tiny")
    np.testing.assert_allclose(kept.predict(X), tiny.probabilities(X), atol=1e-12)
    assert set(server.answered.values()) == {1}
    assert target.spent.requests == 15 + len(FAULTS) == server.requests


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_was_answered_is_kept_when_a_request_fails_for_good(
    server: Endpoint, tmp_path: Path, concurrency: int
) -> None:
    """Of the same wave too; continuing asks about the others alone."""
    server.latency = 0.02
    server.faults.extend([""] * 6 + ["status:500"])
    path = tmp_path / "answers.sqlite"
    broken = CachedTarget(ask(server, concurrency=concurrency, retries=0), path, "tiny")
    with pytest.raises(TargetError, match="within 1 attempts, got at last status 500"):
        broken.predict(X)
    with closing(sqlite3.connect(path)) as db:
        (stored,) = db.execute("SELECT count(*) FROM answers").fetchone()
    assert stored == sum(server.answered.values()) >= 30
    again = CachedTarget(ask(server, concurrency=concurrency), path, "tiny")
    np.testing.assert_allclose(again.predict(X), tiny.probabilities(X), atol=1e-12)
    assert set(server.answered.values()) == {1}


def test_a_format_that_does_not_fit_is_paid_for_once(server: Endpoint) -> None:
    target = ask(server, answers="answers")
    with pytest.raises(TargetError, match="expected 'answers' in the response, got 'predictions'"):
        target.predict(X)
    assert server.requests == 1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("status:401", "status 401.*environment variables"),
        ("status:404", "status 404.*check url"),
        ("status:413", "records_per_request"),
        ("redirect:https://elsewhere.example/x?y", "redirection to https://elsewhere.example/x,"),
        ("gzip", "without compression"),
        ("large:17", "expected at most 16,777,216 bytes"),
        ('other:{"predictions": [[1, 0]], "predictions": [[0, 1]]}', "got one that stands twice"),
        ("status:429 3600", "asks for 3600 s"),
        ("status:503 " + formatdate(4e9, usegmt=True), "asks for"),
    ],
)
def test_what_will_not_pass_is_asked_once(server: Endpoint, fault: str, message: str) -> None:
    """At first, and when an endpoint has answered well before."""
    server.faults.extend([fault, "", fault])
    target = ask(server, concurrency=1)
    for requests in (1, 3):
        with pytest.raises(TargetError, match=message):
            target.predict(X)
        assert server.requests == requests


@pytest.mark.parametrize("fault", ["slow:30", "trickle"])
def test_an_answer_has_to_be_there_in_time(server: Endpoint, fault: str) -> None:
    server.faults.append(fault)
    target = ask(server, timeout=0.2, retries=1)
    np.testing.assert_allclose(target.predict(X[:3]), tiny.probabilities(X[:3]))
    assert target.spent.requests == 2


def test_nobody_listens() -> None:
    target = HTTPTarget("http://127.0.0.1:9/x", "1", retries=1)
    with pytest.raises(TargetError, match=r"within 2 attempts.*ConnectError"):
        target.predict(X)


def test_a_server_is_given_the_rest_that_it_asks_for(
    server: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(http_pace.Pace, "rest", lambda _, seconds: rests.append(seconds))
    server.faults.extend(["status:429 1", "status:503 Sun, 06 Nov 1994 08:49:37 GMT"])
    ask(server).predict(X[:3])
    assert rests == [1.0, 0.0]


def test_requests_a_second(server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of our own: a busy machine is no slower."""
    now, slept = [100.0], []

    async def sleep(_: http_client.Session, seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(http_pace, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(http_client.Session, "_sleep", sleep)
    ask(server, concurrency=1, requests_per_second=4.0).predict(X[:20])
    assert slept == [0, 0.25, 0.25, 0.25]


def test_nobody_rests_when_another_request_has_failed_for_good(server: Endpoint) -> None:
    """The server wants 80,000 seconds of one request, and refuses the other."""
    server.faults.extend(["", "status:429 80000", "status:401"])
    server.together = 3
    with pytest.raises(TargetError, match="status 401"):
        ask(server, concurrency=2, max_wait=86400.0).predict(X)
    assert server.requests == 3


def test_an_interruption_keeps_what_is_on_its_way(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user's Ctrl-C, which arrives while all slots wait for answers."""
    waits: list[Any] = []

    def interrupt(*given: Any, **how: Any) -> Any:
        waits.append(given)
        if len(waits) == 2:
            raise KeyboardInterrupt
        return futures.wait(*given, **how)

    monkeypatch.setattr(http_parts, "wait", interrupt)
    path = tmp_path / "answers.sqlite"
    with pytest.raises(KeyboardInterrupt):
        CachedTarget(ask(server, concurrency=3), path, "tiny").predict(X)
    with closing(sqlite3.connect(path)) as db:
        (stored,) = db.execute("SELECT count(*) FROM answers").fetchone()
    assert stored == sum(server.answered.values()) <= 20
    monkeypatch.undo()
    CachedTarget(ask(server), path, "tiny").predict(X)
    assert set(server.answered.values()) == {1}


@pytest.mark.parametrize("prices", [(0.5, 0.0), (0.0, 0.1), (0.25, 0.05)])
def test_no_request_exceeds_the_cost(
    server: Endpoint, tmp_path: Path, prices: tuple[float, float]
) -> None:
    """Each of these is half a unit a request of five; repeated ones count."""
    server.faults.extend(["", "status:500"])
    target = ask(server, price_per_request=prices[0], price_per_record=prices[1], max_cost=3.0)
    path = tmp_path / "answers.sqlite"
    with pytest.raises(BudgetSpent, match=r"spend 3 at most.*3 spent on 6 requests to 3.5"):
        CachedTarget(target, path, "tiny").predict(X)
    assert target.spent.requests == server.requests == 6
    assert target.spent.cost == pytest.approx(3.0)
    CachedTarget(ask(server), path, "tiny").predict(X)
    assert set(server.answered.values()) == {1}


def test_a_budget_and_a_defence_stand_before_it_as_before_any_model(server: Endpoint) -> None:
    target = DefendedTarget(CountingTarget(ask(server), budget=60), Rounding(digits=1))
    rounded = DefendedTarget(tiny.Recording(ask(server)), Rounding(digits=1)).predict(X)
    np.testing.assert_array_equal(CachedTarget(target).predict(X), rounded)
    with pytest.raises(BudgetSpent):
        target.predict(X[:1])


def test_an_answer_that_nobody_takes_stops_the_questions(server: Endpoint) -> None:
    def refuse(_: np.ndarray) -> None:
        raise divulge.DataError("no")

    with pytest.raises(divulge.DataError):
        CachedTarget(ask(server, concurrency=1), accept=refuse).predict(X)
    assert server.requests == 1


CHILD = """
import sys
import numpy as np
from divulge.targets import HTTPTarget
from divulge.targets.cache import CachedTarget
target = HTTPTarget(sys.argv[1], "1", records_per_request=3, concurrency=4)
CachedTarget(target, sys.argv[2], "tiny").predict(np.load(sys.argv[3]))
"""


@pytest.mark.slow
def test_a_kill_loses_no_answer(server: Endpoint, tmp_path: Path) -> None:
    """The server answers some, then holds back: all slots of the process wait when it is killed."""
    np.save(tmp_path / "x.npy", X)
    answers = tmp_path / "answers.sqlite"
    files = [str(answers), str(tmp_path / "x.npy")]
    words = [sys.executable, "-c", CHILD, f"{server.url}/predict", *files]
    server.hold_after = 5
    with subprocess.Popen(words) as child:
        for _ in range(4):
            assert server.held.acquire(timeout=PATIENCE)
        child.send_signal(signal.SIGKILL)
    before = sum(server.answered.values())
    with closing(sqlite3.connect(answers)) as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone() == (before,)
    assert 15 <= before < 60
    server.hold_after = None
    subprocess.run(words, check=True)
    assert len(server.answered) == 60
    assert set(server.answered.values()) == {1}


SECRET = "s3cret-of-mine"  # noqa: S105
AUDIT = """
[target]
url = "URL/predict"
fingerprint = "november"
[target.http]
headers = { Authorization = "Bearer env:DIVULGE_TEST_TOKEN" }
records_per_request = 10
retries = 0
[data]
members = "members.npz"
nonmembers = "nonmembers.npz"
[[attacks]]
name = "gap"
"""


def test_an_audit_of_a_url_is_continued_without_paying_twice(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVULGE_TEST_TOKEN", SECRET)
    for name, part in (("members", X[:30]), ("nonmembers", X[30:])):
        np.savez(tmp_path / f"{name}.npz", x=part, y=np.arange(30) % 3)
    settings, run = tmp_path / "audit.toml", tmp_path / "run"
    settings.write_text(AUDIT.replace("URL", server.url))
    server.faults.extend(["", "", "status:500", *["status:400"] * 5])
    with pytest.raises(TargetError, match=r"\*\*\*") as caught:
        divulge.audit_file(settings, run)
    assert SECRET not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    server.faults.clear()
    found = divulge.audit_file(settings, run, resume=True)
    assert found.findings[0].status == "done"
    # A few candidates are asked about a second time, on purpose: does the model repeat itself?
    twice = [record for record, count in server.answered.items() if count == 2]
    assert len(twice) == 32
    assert max(server.answered.values()) == 2
    assert all(sent["authorization"] == f"Bearer {SECRET}" for sent in server.headers)
    for file in run.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_in_python_answers_are_kept_under_the_name_of_a_version(
    server: Endpoint, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings: dict[str, Any] = {"members": (X[:30], Y[:30]), "nonmembers": (X[30:], Y[30:])}
    settings |= {"attacks": [divulge.attack("gap")], "run": run}
    divulge.audit(ask(server), **settings)
    server.answered.clear()
    kept = CachedTarget(ask(server), run / "answers.sqlite", ask(server).identity)
    np.testing.assert_allclose(kept.predict(X), tiny.probabilities(X))
    assert not server.answered
    other, resume = HTTPTarget(f"{server.url}/predict", "2"), divulge.Options(resume=True)
    with pytest.raises(divulge.StoreError, match="another model"):
        divulge.audit(other, **settings, options=resume)


NAMES = [LABELS[k] for k in Y]


@pytest.mark.parametrize("protocol", ["hugging-face", "openai-completions"])
def test_texts_are_audited_with_the_labels_of_the_endpoint(server: Endpoint, protocol: str) -> None:
    path, settings, _ = WAYS[protocol]
    target = ask(server, path, protocol=protocol, **settings)
    found = divulge.audit(
        target,
        members=(TEXTS[:30], NAMES[:30]),
        nonmembers=(TEXTS[30:], NAMES[30:]),
        attacks=[divulge.attack("gap")],
    )
    right = tiny.probabilities(X).argmax(1) == Y  # the labels' own order is another one
    assert found.facts.class_names == LABELS
    np.testing.assert_allclose(
        found.findings[0].metrics["auc"].value,
        0.5 + (right[:30].mean() - right[30:].mean()) / 2,
    )


def test_a_table_is_audited_with_its_columns(server: Endpoint) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcd"))
    target = ask(server, "/mine", **MINE)
    attacks = [divulge.attack("gap")]
    members, others = (table[:30], NAMES[:30]), (table[30:], NAMES[30:])
    divulge.audit(target, members=members, nonmembers=others, attacks=attacks)
    assert {tuple(row) for body in server.bodies for row in body["rows"]} == {tuple("abcd")}
    assert len(server.answered) == 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "models.example/x"}, "expected a URL"),
        ({"url": "ftp://models.example/x"}, "expected a URL"),
        ({"url": "https://models.example:99999/x"}, "expected a URL"),
        ({"url": "https://models.example/\n"}, "expected a URL"),
        ({"url": "https://me:pass@models.example/x"}, "the name and password in url"),
        ({"url": "http://models.example/x"}, "expected https://"),
        ({"fingerprint": ""}, "expected a fingerprint"),
        ({"headers": {"Authorization": "Bearer abc"}}, "name an environment variable"),
        ({"headers": {"X-Api-Key": "abc"}}, "name an environment variable"),
        ({"headers": {"a b": "c"}}, "name and value of a header"),
        ({"headers": {"a": "c\r\nd: e"}}, "name and value of a header"),
        ({"labels": ("a", "a")}, "each once"),
        ({"protocol": "hugging-face"}, "expected labels"),
        ({"prompt": "x"}, "expected no prompt"),
        ({"protocol": "openai-chat", "labels": ("a", "b"), "output": "logits"}, "probabilities"),
        ({"max_cost": 1.0}, "expected price_per_request"),
        ({"parameters": {"x": {1, 2}}}, "parameters that JSON can hold"),
        ({"protocol": "soap"}, "expected protocol"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        HTTPTarget(**{"url": "https://models.example/x", "fingerprint": "1"} | settings)
    assert "pass@" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_plain_http_is_for_this_machine_unless_it_is_allowed() -> None:
    for url in ("http://127.0.0.1:1/x", "http://localhost/x", "http://[::1]/x"):
        HTTPTarget(url, "1")
    HTTPTarget("http://models.example/x", "1", plain_http=True)


def test_a_variable_that_is_missing(server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ask(server, headers={"Authorization": "env:DIVULGE_TEST_TOKEN"})
    for value in ("", "two\nlines"):
        monkeypatch.setenv("DIVULGE_TEST_TOKEN", value)
        with pytest.raises(SpecError, match="DIVULGE_TEST_TOKEN") as caught:
            target.predict(X)
        assert "lines" not in str(caught.value)
    assert server.requests == 0


def test_keys_of_the_environment_in_every_setting(
    server: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "USER": "me@x",
        "PASS": "p:/?",
        "KEY": "a+b/c==&d",
        "SIGNED": "s=1&sig=a%2Bb",
        "P": "pr",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"DIVULGE_TEST_{name}", value)
    url = server.url.replace("//", "//env:DIVULGE_TEST_USER:env:DIVULGE_TEST_PASS@")
    target = HTTPTarget(
        f"{url}/env:DIVULGE_TEST_P?v=1&key=env:DIVULGE_TEST_KEY&env:DIVULGE_TEST_SIGNED",
        "1",
        headers={"X-Mine": "Bearer env:DIVULGE_TEST_KEY"},
        parameters={"deep": [{"token": "x-env:DIVULGE_TEST_KEY"}], "n": 1},
    )
    settings = http_keys.FilledSettings.read(
        target.url, target.headers or {}, target.parameters or {}, plain_http=False
    )
    there = server.url.replace("http://", "")
    assert settings.url == (
        f"http://me%40x:p%3A%2F%3F@{there}/pr?v=1&key=a%2Bb%2Fc%3D%3D%26d&s=1&sig=a%2Bb"
    )
    assert settings.headers == {"X-Mine": "Bearer a+b/c==&d"}
    assert settings.parameters == {"deep": [{"token": "x-a+b/c==&d"}], "n": 1}
    assert settings.place == f"{server.url}/env:DIVULGE_TEST_P"
    assert "a+b" not in repr((settings, target))
    monkeypatch.setenv("DIVULGE_TEST_URL", f"{server.url}/predict?key=abcdefgh")
    whole = HTTPTarget("env:DIVULGE_TEST_URL", "1", headers={"Authorization": "env:DIVULGE_TEST_P"})
    np.testing.assert_allclose(whole.predict(X[:2]), tiny.probabilities(X[:2]))
    assert server.headers[-1]["authorization"] == "pr"
    monkeypatch.setenv("DIVULGE_TEST_URL", "http://models.example/predict?key=abcdefgh")
    with pytest.raises(SpecError, match=r"expected https://.*got env:DIVULGE_TEST_URL"):
        whole.predict(X[:2])


def test_another_way_to_ask_is_another_model(server: Endpoint) -> None:
    same = {ask(server).identity, ask(server, concurrency=2, timeout=3.0).identity}
    assert len(same) == 1
    other = [
        HTTPTarget(f"{server.url}/predict", "2"),
        ask(server, "/x"),
        ask(server, labels=("a", "b")),
        ask(server, labels=("b", "a")),
        ask(server, output="logits"),
        ask(server, parameters={"model": "m"}),
    ]
    assert len({target.identity for target in other} | same) == 7


def test_the_settings_of_a_file_are_those_of_python() -> None:
    keys = {name: field.default for name, field in model_sections.HTTPSpec.model_fields.items()}
    own = {"url", "fingerprint", "output", "classes"}
    here = {f.name: f.default for f in fields(HTTPTarget) if f.init and f.name not in own}
    assert keys == here


def test_a_url_in_the_place_of_a_model_is_told_the_way() -> None:
    with pytest.raises(TargetError, match="HTTPTarget"):
        divulge.audit("https://models.example/x", members=(X, Y), nonmembers=(X, Y))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key, and a certificate that it has signed itself."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(*form, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(secret + signed.public_bytes(form[0]))
    return path


def test_a_certificate_that_nobody_vouches_for_is_refused(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http_client.tls_settings.cache_clear()
    with serve(tiny.probabilities, certificate) as endpoint:
        target = ask(endpoint)
        with pytest.raises(TargetError, match=r"expected a certificate.*SSL_CERT_FILE"):
            target.predict(X)
        assert target.spent.requests == 1
        assert endpoint.requests == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        http_client.tls_settings.cache_clear()
        np.testing.assert_allclose(target.predict(X), tiny.probabilities(X))
        # the same machine by a name that is not in the certificate: no authority helps
        elsewhere = HTTPTarget(endpoint.url.replace("127.0.0.1", "localhost") + "/predict", "1")
        with pytest.raises(TargetError, match=r"expected a certificate.*a host that it names"):
            elsewhere.predict(X)
    http_client.tls_settings.cache_clear()


@pytest.mark.filterwarnings("ignore::UserWarning")  # MLflow warns of its own type hints
def test_mlflows_own_server(tmp_path: Path) -> None:
    """MLflow answers the labels of a scikit-learn model, unless another function was named."""
    mlflow = pytest.importorskip("mlflow", reason="NOT TESTED: mlflow is not installed")
    place = tmp_path / "model"
    mlflow.sklearn.save_model(tiny.estimator(), place, pyfunc_predict_fn="predict_proba")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["models", "serve", "-m", str(place), "-p", str(port), "--env-manager", "local"]
    # it looks for uvicorn on the path, where an environment that is not activated has none
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        [sys.executable, "-m", "mlflow", *words],
        start_new_session=True,
        env=os.environ | {"PATH": path},
    ) as it:
        try:
            target = HTTPTarget(
                f"http://127.0.0.1:{port}/invocations", "1", protocol="mlflow", retries=12
            )
            np.testing.assert_allclose(target.predict(X), tiny.probabilities(X), atol=1e-9)
        finally:
            os.killpg(it.pid, signal.SIGTERM)
