"""No text from outside is obeyed by the terminal, or by Rich."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
import divulge.cli
from divulge.attacks import catalog
from divulge.audits.result import Audit
from divulge.cli import inspection, render, terminal
from divulge.core import Check, Estimate, Verdict
from divulge.federation.transcript.inspect import ClientLine, Flag, Inspection, RoundLine
from divulge_papers.cli import tables as printed_tables
from divulge_papers.figure import Cell
from divulge_papers.provenance import Provenance
from divulge_papers.result import Outcome

HOSTILE = "[red]a[/red] :x: \x1b[31m\x1b]8;;http://x\x07 \x9b2J \u202e\x00 [bold"
SHOWN = "[red]a[/red] :x: \ufffd[31m\ufffd]8;;http://x\ufffd \ufffd2J \ufffd\ufffd [bold"


def show_inspection() -> None:
    rounds = (RoundLine(0, 1, False, 3, 0.1, {HOSTILE: 0.5}),)
    clients = (ClientLine(HOSTILE, 1, 3, 0.1, None),)
    flags = (Flag(0, HOSTILE, HOSTILE),)
    inspection.show(Inspection(HOSTILE, HOSTILE, "weights", HOSTILE, 1, 2, rounds, clients, flags))


def test_clients_stand_by_name_and_what_the_names_are_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clients = tuple(ClientLine(name, 1, 3, 0.1, None) for name in ("client 10", "client 9", "a"))
    inspection.show(Inspection("run", "flower", "weights", "", 1, 2, (), clients, ()))
    shown = capsys.readouterr().out
    assert shown.index("client 9") < shown.index("client 10")
    assert "with Flower the ids of its nodes" in shown


def show_outcome() -> None:
    cell = Cell(HOSTILE, HOSTILE, Estimate(0.5, 0.4, 0.6), 0.5, reason=HOSTILE)
    made = Provenance("", "", 1, 1, "", 0.0)
    outcome = Outcome(
        HOSTILE, "small", HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), HOSTILE, (cell,), made
    )
    printed_tables.show(outcome)


def show_audit() -> None:
    x, y = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    tree = DecisionTreeClassifier(random_state=0).fit(x[:40], y[:40])
    attacks = [catalog.attack("gap"), catalog.attack("calibrated")]
    found = divulge.audit(
        tree, members=(x[:40], y[:40]), nonmembers=(x[40:], y[40:]), attacks=attacks
    )
    check = Check(HOSTILE, Verdict.WARNING, HOSTILE)
    contents = found.contents
    facts = replace(found.facts, checks=(*found.facts.checks, check))
    entries = tuple(
        replace(entry, finding=replace(entry.finding, label=f"{k} {HOSTILE}", reason=HOSTILE))
        for k, entry in enumerate(contents.entries)
    )
    head = replace(contents.head, facts=facts, attacks=tuple(f"{k} {HOSTILE}" for k in (0, 1)))
    render.show_result(Audit(replace(contents, head=head, entries=entries)))


@pytest.mark.parametrize("show", [show_inspection, show_outcome, show_audit])
def test_hostile_names_are_shown_and_not_obeyed(
    show: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    show()
    said = capsys.readouterr().out
    assert SHOWN in said
    assert not set(said) & set("\x1b\x9b\x07\x00\u202e")


NAMES = ["gap", "threshold (modified_entropy)", "quantile (scaled_logit, per_class=True)"]


def made_table() -> terminal.Grid:
    table = terminal.Grid("Values with their 95 % intervals")
    table.add_columns(["attack"])
    table.add_columns(["AUC", "TPR at 1 % FPR", "epsilon"], right=True)
    table.add_columns(["controls"])
    for name in NAMES:
        figures = ["0.661 (0.62-0.70)", "0.01 (up to 0.04)", "0.74"]
        table.add_row([name, *figures, ("not tested", "red")])
    return table


@pytest.mark.parametrize("width", [30, 45, 60, 68, 80, 120])
def test_a_table_fits_the_terminal_and_loses_nothing(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    terminal.show_table(made_table())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for name in NAMES:
        for word in name.split():
            assert words.count(word) >= sum(word in one.split() for one in NAMES), word
    for figure in ("0.661", "0.62-0.70", "0.04", "0.74"):
        assert sum(figure in word for word in words) == len(NAMES), figure


def test_a_wide_table_has_intervals_beside_values_and_a_narrow_one_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    terminal.show_table(made_table())
    assert capsys.readouterr().out.count("0.661 (0.62-0.70)") == len(NAMES)
    monkeypatch.setenv("COLUMNS", "68")
    terminal.show_table(made_table())
    narrow = capsys.readouterr().out
    assert "(0.62" not in narrow
    assert narrow.count(" 0.62-0.70") == len(NAMES)


def test_every_command_prints_through_one_module() -> None:
    for path in Path(divulge.cli.__file__).parent.glob("*.py"):
        if path.name == Path(terminal.__file__).name:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert "Console" not in names, path
        assert not {"print"} & names, path
        assert not {"echo", "secho", "print"} & used, path
