"""Keys that settings, the environment and servers hold come out of no command and no file.

Keys are planted in each place that can name one, and a number in records. Every command and
exporter runs, and all files and streams are searched, also within what is packed, compressed or
encoded. `tests/test_contents.py` does so for records by other ways to audit.
"""

import base64
import gzip
import html
import io
import json
import logging
import os
import sqlite3
import threading
import traceback
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import numpy as np
import pytest
from click.testing import CliRunner

import divulge
from divulge.audits import config, inputs
from divulge.cli.main import main
from divulge.errors import TargetError
from tests.endpoints import echo
from tests.slow import thin
from tests.taint import find, number_forms, text_forms

pytest.importorskip("httpx")

KEYS = {
    "DIVULGE_TEST_QUERY": "q7Jx/2+VbK9wZt4RmD8s",
    "DIVULGE_TEST_SIGNED": "sv=2026&sig=Hn3p%2BLz8QkWv5TyGr0",
    "DIVULGE_TEST_PATH": "bot84620:AAHdqTcvCH1vGWJxfSeof",
    "DIVULGE_TEST_USER": "svc-audit-reader",
    "DIVULGE_TEST_PASSWORD": "correct horse: battery/staple",
    "DIVULGE_TEST_BEARER": "eyJhbGciOiJSUzI1NiJ9." + "zK8fQ2mX" * 110,
    "DIVULGE_TEST_BASIC": base64.b64encode(b"alice:wonder-Land.42").decode(),
    "DIVULGE_TEST_BODY": "pk_l1ve\"4eC39'HqLyjW",
    "DIVULGE_MINISIGN_PASSWORD": "Tr0ub4dor&3-of-mine",
    "MLFLOW_TRACKING_PASSWORD": "mlf-7Hq2Lw9Zx4Vb",
    "WANDB_API_KEY": "0f3a9c7e1b5d8264" * 2 + "a1b2c3d4",
}
"""By the variable that holds it; signs that are escaped in URLs, JSON and HTML are among them."""

TOKENS = """protocol = "openai-tokens"
references = ["base"]
"""

URL = (
    "http://env:DIVULGE_TEST_USER:env:DIVULGE_TEST_PASSWORD@127.0.0.1:PORT/env:DIVULGE_TEST_PATH"
    "/predict?version=2&key=env:DIVULGE_TEST_QUERY&env:DIVULGE_TEST_SIGNED"
)
AUDIT = """
seed = SEED
attacks = [{name = "threshold"}]
[target]
url = "URL"
fingerprint = "1"
[target.http]
retries = 0
headers = { X-Bearer = "Bearer env:DIVULGE_TEST_BEARER", X-Api-Key = "env:DIVULGE_TEST_BASIC", X-Mine = "plain-but-mine-222" }
parameters = { model = "small", options = { keys = ["env:DIVULGE_TEST_BODY"] } }
[data]
members = "members.npz"
nonmembers = "nonmembers.npz"
"""  # noqa: E501
LITERAL = "plain-but-mine-222"
"""A header's value without a key's looks: it is sent, and neither stored nor shown."""


NEEDLES = {name: text_forms(key) for name, key in {**KEYS, "LITERAL": LITERAL}.items()}
NEEDLES["DIVULGE_TEST_BASIC"] |= text_forms("alice:wonder-Land.42")
PLANTED = 7319314.159265
"""A feature of a record; it may stand where records are, and nowhere else."""

RECORDS = {"RECORD": number_forms(PLANTED)}


def find_keys(content: bytes) -> set[str]:
    """The keys in a content, and in what is packed, compressed or encoded within it."""
    return find(content, NEEDLES)


def test_the_search_finds_a_key_wherever_it_is() -> None:
    key = KEYS["DIVULGE_TEST_QUERY"].encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as into:
        into.writestr("inner.gz", gzip.compress(b"so: " + key))
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (x)")
    database.execute("INSERT INTO t VALUES (?)", ["a" * 9000 + key.decode()])
    database.commit()
    page = b"<img src='data:image/png;base64," + base64.b64encode(packed.getvalue()) + b"'>"
    contents = [key, key[:10], base64.b64encode(b"me:" + key), packed.getvalue(), page]
    contents += [quote(key, safe="").encode(), database.serialize()]
    database.close()
    for content in contents:
        assert find_keys(content) == {"DIVULGE_TEST_QUERY"}
    for text in (repr(PLANTED), f"{np.float32(PLANTED)!r}", f"{PLANTED:.9g}", f"{PLANTED:,.2f}"):
        assert find(text.encode(), RECORDS)
    for dtype in (np.float32, np.float64):
        assert find(b"x" + np.array([1, PLANTED], dtype).tobytes(), RECORDS)
    assert not find_keys(b"nothing")


def answer_well(asked: Any) -> Any:
    if "prompt" in asked:
        choices = [echo(prompt, asked["model"]) for prompt in asked["prompt"]]
        return {"choices": [{"index": k, **choice} for k, choice in enumerate(choices)]}
    p = [1 / (1 + np.exp(-row[0])) for row in asked["instances"]]
    return {"predictions": [[1 - v, v] for v in p]}


class Server(ThreadingHTTPServer):
    """Answers well, or repeats all that it was sent, as ``fault`` says."""

    fault: Callable[[str], tuple[int, dict[str, str], str]] | None = None
    requests = 0

    def handle_error(self, *_: Any) -> None:
        """Be silent when a client does not read to the end."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_POST(self) -> None:
        """Answer it."""
        content = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.requests += 1
        headers: dict[str, str] = {}
        if self.server.fault is None:
            status, body = 200, json.dumps(answer_well(json.loads(content)))
        else:
            sent = "\n".join([self.path, *map(str, self.headers.values()), content])
            status, headers, body = self.server.fault(sent)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Be silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as it:
        thread = threading.Thread(target=it.serve_forever)
        thread.start()
        yield it
        it.shutdown()
        thread.join()


@pytest.fixture
def place(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, two settings files, a signing key, and keys in the environment."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    proxy = f"http://me:{quote(KEYS['DIVULGE_TEST_QUERY'], safe='')}@127.0.0.1:9"
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(240, 3))
    y = (x[:, 0] > 0).astype(int)
    x[::30, 2] = PLANTED
    np.savez(tmp_path / "members.npz", x=x[:120], y=y[:120])
    np.savez(tmp_path / "nonmembers.npz", x=x[120:], y=y[120:])
    # not 1, with which the blind control draws predictions that one audit in 200 fails by chance
    for number, seed in (("1", "2"), ("2", "3")):
        text = AUDIT.replace("URL", URL).replace("PORT", str(server.server_port))
        (tmp_path / f"audit-{number}.toml").write_text(text.replace("SEED", seed))
        text = text.replace('fingerprint = "1"\n', 'fingerprint = "1"\nbudget = 200\n')
        text = text.replace("[target.http]\n", "[target.http]\n" + TOKENS)
        text = text.replace('[{name = "threshold"}]', '[{name = "reference-ratio"}]')
        (tmp_path / "texts.toml").write_text(text.replace("SEED", "4").replace(".npz", ".jsonl"))
    for kind in ("members", "nonmembers"):
        first = 40 * (kind == "members")
        lines = [json.dumps({"text": f"item {first + k} owes {PLANTED!r}"}) for k in range(40)]
        (tmp_path / f"{kind}.jsonl").write_text("\n".join(lines))
    pair = pytest.importorskip("minisign").KeyPair.generate()
    pair.secret_key.encrypt(KEYS["DIVULGE_MINISIGN_PASSWORD"])
    (tmp_path / "mine.key").write_bytes(bytes(pair.secret_key))
    (tmp_path / "mine.pub").write_bytes(bytes(pair.public_key))
    return tmp_path


COMMANDS: dict[str, list[str]] = {
    "audit": [
        "audit-1.toml --run r1 --format json",
        "audit-2.toml --run r2 --fail-on leak --ceiling auc=0.9",
        "audit-1.toml --run r1 --resume",
        "audit-1.toml --run r2 --resume",
        "audit-1.toml --estimate",
        "texts.toml --run r3 --format json",
        "texts.toml --run r3 --resume",
    ],
    "report": ["r1", "r2"],
    "measure": ["r1", "r1 --format json"],
    "questions": ["r1"],
    "plan": ["r1", "audit-1.toml"],
    "history": ["r1 r2", "r1 r2 --format json", "r1 r2 --page history.html"],
    "diff": ["r1 r2", "r1 r2 --format json"],
    "evidence": [
        "r1 --pack unsigned.zip",
        "r1 --pack signed.zip --key mine.key",
        "signed.zip --verify --public-key mine.pub",
    ],
    "export": [
        "r1 --junit junit.xml --sarif divulge.sarif --job-summary summary.md "
        "--model-card README.md --model-index small --archive run.zip --settings audit-1.toml",
        "r1 --mlflow sqlite:///mlflow.db",
        "r1 --mlflow http://me:{DIVULGE_TEST_BASIC}@127.0.0.1:9/x?key={DIVULGE_TEST_PATH}",
        "r1 --wandb .",
    ],
    # what these need is no endpoint: they read the settings or the run, and refuse it
    "compare": ["audit-1.toml"],
    "federate": ["audit-1.toml", "audit-1.toml --estimate"],
    "harden": ["audit-1.toml"],
    "reproduce": ["r1"],
    "transcript inspect": ["r1"],
    "data convert": ["adult r1"],
    "canary score": ["r1 r2 audit-1.toml"],
    "canary audit": ["r1 audit-1.toml"],
    # and these read neither
    "canary plan": ["--epsilon 1 --delta 1e-5"],
    "canary make": ["members.npz canaries --count 10"],
    "canary run": ["none.py members.npz --epsilon 1 --delta 1e-5"],
    "canary clients": ["clients --count 10"],
    "bench": ["none.py:Attack"],
    "check": ["gap"],
    "demo": [],  # trains for a while, and reads nothing
    "init": ["mine"],
    "list": ["attacks", "targets"],
}
"""By command, with which words it runs here, in this order."""


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    """All commands that do something, by their words."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_every_command_and_every_file_of_export_is_tried() -> None:
    assert set(leaves(main)) == COMMANDS.keys()
    options = [
        option for option in main.commands["export"].params if option.param_type_name == "option"
    ]
    words = " ".join(COMMANDS["export"])
    gate = {"--fail-on", "--ceiling", "--fail-above", "--judge", "--not-worse-than"}
    for option in options:
        assert set(option.opts) & gate or any(name in words for name in option.opts), option.opts


def run(words: list[str]) -> tuple[int, bytes]:
    """The exit code of a command, and all that it prints."""
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done.exit_code, done.output.encode()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_no_command_prints_or_writes_a_key_or_what_a_record_holds(
    place: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    codes = {}
    for command, calls in COMMANDS.items():
        for words in calls:
            code, output = run([*command.split(), *words.format(**KEYS).split()])
            assert not find(output, NEEDLES | RECORDS), (command, words, output)
            codes[f"{command} {words}"] = code
    # the runs are real, and so is what was exported
    assert codes["audit audit-1.toml --run r1 --format json"] == 0
    assert server.requests > 8
    assert codes["audit texts.toml --run r3 --format json"] == 0
    stored = json.loads((place / "r1" / "run.json").read_bytes())["settings"]["target"]
    assert stored["url"].endswith(f":{server.server_port}/env:DIVULGE_TEST_PATH/predict")
    assert stored["http"]["headers"] == {
        "X-Bearer": "Bearer env:DIVULGE_TEST_BEARER",
        "X-Api-Key": "env:DIVULGE_TEST_BASIC",
        "X-Mine": "***",
    }
    for command in ("report r1", "measure r1", "questions r1", "plan r1", "history r1 r2"):
        assert codes[command] == 0, command
    assert all(codes[f"evidence {words}"] == 0 for words in COMMANDS["evidence"])
    mlflow, wandb = (0 if find_spec(name) else 2 for name in ("mlflow", "wandb"))
    assert [codes[f"export {words}"] for words in COMMANDS["export"]] == [0, mlflow, 2, wandb]
    files = [path for path in place.rglob("*") if path.is_file()]
    assert len(files) > 40
    allowed = {f"audit-{seed}.toml": "LITERAL" for seed in "12"}  # which is no key
    allowed["texts.toml"] = "LITERAL"
    kinds = ("members.npz", "nonmembers.npz", "members.jsonl", "nonmembers.jsonl")
    allowed |= dict.fromkeys(kinds, "RECORD")
    allowed |= {f"canaries/for-trainer/{name}.npz": "RECORD" for name in ("candidates", "train")}
    for path in files:
        held = find(path.read_bytes() + str(path).encode(), NEEDLES | RECORDS)
        assert held <= {allowed.get(str(path.relative_to(place)), "")}, (path, held)
    assert not find(caplog.text.encode(), NEEDLES | RECORDS)


ECHOES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": json.dumps,
    "JSON with all letters escaped": lambda sent: "".join(f"\\u{ord(c):04X}" for c in sent),
    "a URL": lambda sent: quote(sent, safe=""),
    "a URL in a URL": lambda sent: quote(quote(sent)),
    "HTML": lambda sent: html.escape(sent).replace("/", "&#x2F;"),
    "base64": lambda sent: base64.b64encode(sent.encode()).decode(),
    "base64 for URLs": lambda sent: base64.urlsafe_b64encode(b"ab" + sent.encode()).decode(),
    "base64 of each line": lambda sent: " ".join(
        base64.b64encode(f"me:{line}".encode()).decode().rstrip("=") for line in sent.split("\n")
    ),
    "hexadecimal": lambda sent: sent.encode().hex(" "),
    "pieces": lambda sent: "|".join(sent[k : k + 9] for k in range(0, len(sent), 9)),
    "the second half of each line": lambda sent: " ".join(
        line[len(line) // 2 :] for line in sent.split("\n")
    ),
    "before much else": lambda sent: sent + "x" * 100_000,
    "after a little": lambda sent: "y" * 150 + sent,
    "Python": lambda sent: repr(sent.encode()),
}


def as_header(text: str) -> str:
    return " ".join(text.encode("ascii", "replace").decode().split())[:3000]


FAULTS: dict[str, Callable[[str], tuple[int, dict[str, str], str]]] = {
    **{f"status {code}": lambda echo, code=code: (code, {}, echo)  # type: ignore[misc]
       for code in (400, 401, 403, 404, 407, 413, 422, 429, 500, 503)},
    "no JSON": lambda echo: (200, {}, echo),
    "an object": lambda echo: (200, {}, json.dumps({echo: 1})),
    "a label": lambda echo: (200, {}, json.dumps({"predictions": [echo] * 240})),
    "labels by name": lambda echo: (200, {}, json.dumps({"predictions": [{echo: 1.0}] * 32})),
    "a redirection": lambda echo: (307, {"location": "https://x.example/" + as_header(echo)}, ""),
    "a coding": lambda echo: (200, {"content-encoding": as_header(echo)}, "{}"),
    "a pause": lambda echo: (429, {"retry-after": as_header(echo)}, echo),
}  # fmt: skip


@pytest.mark.parametrize("fault", thin(3, FAULTS))
def test_what_a_server_repeats_is_not_shown(
    place: Path, server: Server, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    spec = config.read_config(place / "audit-1.toml")
    assert isinstance(spec, config.ModelAuditSpec)
    target, _ = inputs._load_target(spec.target, place)
    assert not find_keys(repr((spec, target)).encode())
    for form, write in ECHOES.items():
        # all that was sent, or what begins with one line of it: what comes first is shown
        for line in range(-1, 9) if form in ("plain", "base64") else (-1,):

            def answer(sent: str, write: Any = write, line: int = line) -> Any:
                sent = sent if line < 0 else "\n".join(sent.split("\n")[line:])
                return FAULTS[fault](write(sent))

            server.fault = answer
            with pytest.raises(TargetError) as caught:
                target.predict(np.ones((32, 3)))
            shown = "".join(traceback.format_exception(caught.value))
            behind = [caught.value, caught.value.__cause__, caught.value.__context__]
            assert not find_keys(f"{shown} {behind!r}".encode()), (form, line)
            if fault.split()[-1] in ("401", "403", "407"):
                assert str(caught.value).partition("got ")[2].startswith(f"{fault}: check")
    code, output = run(["audit", "audit-1.toml", "--run", "r1"])
    assert code == 2
    assert not find_keys(output + caplog.text.encode())
    for path in place.rglob("*"):
        assert not path.is_file() or path.suffix == ".toml" or not find_keys(path.read_bytes())


WRITTEN = "q7Jx2VbK9wZt4RmD8sPa"
PLACES = {
    "key in the query": ("URL", f"https://models.example/x?key={WRITTEN}"),
    "key-like name": ("URL", "https://models.example/x?code=hunter2-of-mine"),
    "unsuspicious name": ("URL", f"https://models.example/x?tenant={WRITTEN}"),
    "piece of the query": ("URL", f"https://models.example/x?{WRITTEN}"),
    "path": ("URL", f"https://models.example/{WRITTEN}/predict"),
    "fragment": ("URL", f"https://models.example/x#access_token={WRITTEN}"),
    "password": ("URL", "https://me:hunter2-of-mine@models.example/x"),
    "token as user": ("URL", "https://hunter2-of-mine@models.example/x"),
    "password beside a variable": ("URL", "https://env:ME:hunter2-of-mine@models.example/x"),
    "header": ("HEADERS", {"X-Api-Key": "hunter2-of-mine"}),
    "scheme": ("HEADERS", {"X-Mine": "Basic hunter2-of-mine"}),
    "cookie": ("HEADERS", {"X-Mine": "theme=dark; session=hunter2-of-mine"}),
    "header without a telling name": ("HEADERS", {"X-Mine": WRITTEN}),
    "name of a header": ("HEADERS", {WRITTEN: "1"}),
    "parameter": ("PARAMETERS", {"api_key": "hunter2-of-mine"}),
    "parameter within": ("PARAMETERS", {"a": [{"b": {"password": "hunter2-of-mine"}}]}),
    "table under a name": ("PARAMETERS", {"auth": {"kind": "x", "what": "hunter2-of-mine"}}),
    "number": ("PARAMETERS", {"pin": 1, "token": 8462018374650}),
    "parameter without a telling name": ("PARAMETERS", {"user": WRITTEN}),
    "JSON in a parameter": ("PARAMETERS", {"extra": '{"api_key": "hunter2-of-mine"}'}),
    "URL in a parameter": ("PARAMETERS", {"hook": "https://me:hunter2-of-mine@x.example/"}),
    "wrong kind of headers": ("HEADERS", "hunter2-of-mine"),
    "wrong kind of parameters": ("PARAMETERS", ["hunter2-of-mine"]),
    "wrong kind of URL": ("URL", ["hunter2-of-mine"]),
    "model": ("MODEL", "https://models.example/x?key=hunter2-of-mine"),
}


@pytest.mark.parametrize("where", PLACES)
def test_a_key_that_is_written_out_is_refused_and_not_shown(place: Path, where: str) -> None:
    kind, value = PLACES[where]
    values = {"URL": "https://models.example/x", "HEADERS": {}, "PARAMETERS": {}, kind: value}
    target: dict[str, Any] = {"url": values["URL"], "fingerprint": "1"}
    if "MODEL" in values:
        target = {"model": values["MODEL"]}
    else:
        target["http"] = {"headers": values["HEADERS"], "parameters": values["PARAMETERS"]}
    data = {"members": "members.npz", "nonmembers": "nonmembers.npz"}
    settings = place / "written.toml"
    lines = [f"target = {as_toml(target)}", f"data = {as_toml(data)}"]
    settings.write_text("\n".join(lines))
    for words in (["audit"], ["plan"], ["audit", "--estimate"], ["harden"], ["compare"]):
        code, output = run([*words, str(settings)])
        assert code == 2, output
        for secret in (WRITTEN, "hunter2", "8462018374650"):
            assert secret not in output.decode(), output
        if words == ["audit"] and "wrong kind" not in where and where != "model":
            assert "env:MODEL_KEY" in output.decode(), output
    assert not (place / "runs").exists()


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {as_toml(inner)}' for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


def test_an_error_of_a_function_of_the_users_shows_no_key(place: Path) -> None:
    """httpx names the whole URL in its errors, and so do others."""
    (place / "subject.py").write_text(
        "import os\n"
        "def model(rows):\n"
        "    key = os.environ['DIVULGE_TEST_TOKEN']\n"
        "    raise RuntimeError(f'401 for https://me:{key}@x.example/a?key={key} ({key})')\n"
    )
    os.environ["DIVULGE_TEST_TOKEN"] = WRITTEN
    try:
        data = '[data]\nmembers = "members.npz"\nnonmembers = "nonmembers.npz"\n'
        (place / "own.toml").write_text(f'[target]\nmodel = "subject.py:model"\n{data}')
        code, output = run(["audit", "own.toml", "--run", "own"])
    finally:
        del os.environ["DIVULGE_TEST_TOKEN"]
    assert code == 2
    assert b"401 for https://x.example/a (***)" in output
    assert WRITTEN.encode() not in output
    with pytest.raises(divulge.DivulgeError):
        divulge.load("own")
