from pathlib import Path

import numpy as np
from click.testing import CliRunner

import divulge
from divulge.attacks import Gap, Threshold
from divulge.cli.main import main


def saved(folder: Path, answers: np.ndarray) -> Path:
    x, y = np.arange(len(answers), dtype=float)[:, None], np.zeros(len(answers), int)
    half = len(x) // 2
    divulge.audit(
        lambda asked: answers[asked[:, 0].astype(int)],
        members=(x[:half], y[:half]),
        nonmembers=(x[half:], y[half:]),
        attacks=[Threshold(), Gap()],
        run=folder / "run",
    )
    return folder / "run"


def test_a_table_says_what_fewer_questions_would_have_shown(tmp_path: Path) -> None:
    sure = np.random.default_rng(0).uniform(0.5, 1, 240)
    sure[:120] = 1 - (1 - sure[:120]) / 4
    run = saved(tmp_path, np.column_stack([sure, 1 - sure]))
    found = divulge.load(run)
    assert isinstance(found, divulge.Audit)
    rows = found.questions()
    assert [row.candidates for row in rows] == [10, 30, 100, 240]
    assert rows[-1].found.value == 1
    shown = CliRunner().invoke(main, ["questions", str(run)])
    assert shown.exit_code == 0
    assert all(f"{row.auc:.3f}" in shown.output for row in rows)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["questions", str(tmp_path)])
    assert shown.exit_code == 2
