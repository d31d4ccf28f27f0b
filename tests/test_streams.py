"""What becomes of the output changes neither the exit code nor what is written to files."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import divulge
from divulge.cli import inspection
from divulge.federation.transcript.inspect import Inspection
from tests import patience
from tests.slow import slow

pytestmark = pytest.mark.skipif(os.name != "posix", reason="asks a shell to close streams")
TRACES = (b"Traceback", b"Exception ignored", b"Errno", b"Logging error")


@dataclass(frozen=True)
class Fault:
    """What is wrong with the streams of a process."""

    words: str = ""
    """Redirections of a shell."""
    unread: tuple[str, ...] = ()
    """Streams that are pipes which nobody reads."""
    env: Mapping[str, str] = field(default_factory=dict)


PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FAULTS = {
    "Windows' alphabet": Fault(env={"PYTHONIOENCODING": "cp1252"}),
    "ASCII": Fault(env={"PYTHONIOENCODING": "ascii:strict"}),
    "the plain C locale": Fault(env=PLAIN_C),
    "full output": Fault(">/dev/full"),
    "full errors": Fault("2>/dev/full"),
    "both full, without buffers": Fault(">/dev/full 2>&1", env={"PYTHONUNBUFFERED": "1"}),
    "output that nobody reads": Fault(unread=("stdout",)),
    "nobody reads": Fault(unread=("stdout", "stderr")),
    "output read-only": Fault("1</dev/null"),
    "output closed": Fault(">&-"),
    "errors closed": Fault("2>&-"),
    "all closed": Fault("<&- >&- 2>&-"),
}
QUICK = {
    "help": (["canary", "--help"], 0),
    "wrong usage": (["audit", "--nö"], 2),
    "bad input": (["audit", "nö.toml"], 2),
}
GATES = {
    "failed": (["export", "{run}", "--junit", "{new}", "--fail-above", "auc=0.1"], 3),
    "undecided": (["audit", "{settings}", "--run", "{new}", "--fail-on", "leak"], 4),
}
WORST = ("Windows' alphabet", "both full, without buffers", "nobody reads", "all closed")
"""Faults that are tried with what takes longer too."""
NEEDED = {("both full, without buffers", "failed"), ("all closed", "undecided")}
"""What stays of the longer ones where time is short; of the others, a third of the bad input."""
TABLE = [
    (fault, *outcome)
    if (name == "bad input" and number % 3 == 0) or (fault, name) in NEEDED
    else slow(fault, *outcome)
    for number, fault in enumerate(FAULTS)
    for name, outcome in (QUICK | (GATES if fault in WORST else {})).items()
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings of a small audit that cannot decide, with its run folder beside them."""
    folder = tmp_path_factory.mktemp("streams")
    rows = [f"{k % 2},{(k % 10) / 10},{1 - (k % 10) / 10},{k % 3 % 2}" for k in range(8)]
    (folder / "answers.csv").write_text("\n".join(["label,p_0,p_1,member", *rows]) + "\n")
    path = folder / "audit.toml"
    path.write_text(
        'name = "ε"\nattacks = [{ name = "threshold" }]\n[predictions]\nfile = "answers.csv"\n'
    )
    divulge.audit_file(path, folder / "run")
    return path


@contextlib.contextmanager
def dead_pipe() -> Iterator[int]:
    """The end of a pipe for writing, whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


def run(fault: Fault, words: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run the program, as a shell starts it, with this fault."""
    with dead_pipe() as dead:
        return subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {fault.words}', "sh",
             sys.executable, "-W", "error::ResourceWarning", "-m", "divulge", *words],
            env={**os.environ, **fault.env},
            stdout=dead if "stdout" in fault.unread else subprocess.PIPE,
            stderr=dead if "stderr" in fault.unread else subprocess.PIPE,
            timeout=patience.PATIENCE,
            check=False,
        )  # fmt: skip


@pytest.mark.parametrize(("fault", "words", "code"), TABLE)
def test_no_fault_of_a_stream_changes_how_a_command_ends(
    fault: str, words: list[str], code: int, settings: Path, tmp_path: Path
) -> None:
    if "/dev/full" in FAULTS[fault].words and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    new = tmp_path / "new"
    places = {"run": settings.parent / "run", "settings": settings, "new": new}
    done = run(FAULTS[fault], [word.format_map(places) for word in words])
    assert done.returncode == code, done.stderr
    assert not [one for one in TRACES if one in (done.stdout or b"") + (done.stderr or b"")]
    if "{new}" in words:
        assert (new / "report.html").is_file() if words[0] == "audit" else new.is_file()


def test_a_sign_that_cannot_be_printed_is_replaced() -> None:
    words = ["canary", "--help"]
    whole = run(Fault(env={"PYTHONIOENCODING": "utf-8"}), words).stdout.decode("utf-8")
    assert "ε" in whole
    for name in ("ascii", "cp1252"):
        found = run(Fault(env={"PYTHONIOENCODING": name}), words).stdout
        assert found == whole.encode(name, "replace")


def test_objects_for_programs_need_no_alphabet() -> None:
    found = Inspection("ε", "", "weights", "", 1, 2, (), (), ())
    assert inspection.as_json(found).isascii()
    assert json.loads(inspection.as_json(found))["name"] == "ε"


def test_a_full_output_is_said_in_one_line_and_a_reader_that_has_left_is_not() -> None:
    said = run(FAULTS["full output"], ["--help"]).stderr.decode()
    assert said.startswith("Expected to write to the standard output, got: ")
    assert said.count("\n") == 1
    for fault in ("output that nobody reads", "output closed"):
        assert run(FAULTS[fault], ["--help"]).stderr == b""


def run_python(code: str, redirections: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {redirections}', sys.executable, "-c", code],
        # with a buffer, as users have: one of these variables takes it away
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        capture_output=True,
        timeout=patience.PATIENCE,
        check=False,
    )


def test_no_file_is_opened_in_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    code = (
        "import os, sys; from divulge._util.streams import guard_streams; guard_streams()\n"
        f"file = open({str(tmp_path / 'x')!r}, 'wb'); os.write(1, b'native'); print('python')\n"
        "print(sys.stdin.read()); sys.exit(file.fileno() < 3)"
    )
    done = run_python(code, "<&- >&- 2>&-")
    assert done.returncode == 0
    assert (tmp_path / "x").read_bytes() == b""


def test_what_is_printed_as_the_interpreter_ends_and_in_logs_fails_no_more() -> None:
    code = (
        "import atexit, logging, sys, warnings\n"
        "from divulge._util.streams import guard_streams; guard_streams()\n"
        "atexit.register(print, 'late ε'); logging.warning('ε'); warnings.warn('ε')\n"
        "sys.__stdout__.write('ε'); sys.exit(4)"
    )
    for words in (">/dev/full", "2>&-", ">&- 2>&-"):
        done = run_python(code, words)
        assert done.returncode == 4
        assert not [one for one in TRACES if one in done.stdout + done.stderr]


def test_a_pipe_that_is_full_for_a_moment_loses_nothing() -> None:
    code = (
        "import os; os.set_blocking(1, False)\n"
        "from divulge._util.streams import guard_streams; guard_streams()\n"
        "print('x' * 2**20, flush=True)"
    )
    assert run_python(code, "").stdout == b"x" * 2**20 + b"\n"


def test_progress_in_a_program_of_somebody_else_ends_no_work() -> None:
    code = "from divulge._util.progress import say; say('ε'); print('on')"
    for words in ("2>/dev/full", "2>&-"):
        done = run_python(code, words)
        assert (done.returncode, done.stdout) == (0, b"on\n")


def test_what_users_print_in_other_processes_ends_no_work() -> None:
    code = (
        "import joblib, sys\n"
        "from divulge._util.processes import parallel_calls\n"
        "from divulge._util.streams import guard_streams; guard_streams()\n"
        "def speak(number):\n"
        "    print('ε' * 2**16); print('ε' * 2**16, file=sys.stderr); return number\n"
        "found = list(parallel_calls(map(joblib.delayed(speak), (3, 4)), 2))\n"
        "sys.exit(sum(found))"
    )
    for words in (">/dev/full 2>&1", ">&- 2>&-"):
        done = run_python(code, words)
        assert (done.returncode, done.stdout, done.stderr) == (7, b"", b"")
