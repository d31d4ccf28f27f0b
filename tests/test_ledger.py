"""The ledger of benchmarks: what is compared, and what counts as a fall."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import ledger
from benchmarks.__main__ import MISSING
from benchmarks.ledger import Row
from benchmarks.peers import process
from benchmarks.timing import Outcome, Timing, verdict


def row(ratio: float, name: str = "a", processor: str = "p", commit: str = "c") -> Row:
    return Row("2026-01-01", commit, processor, name, 2.0, 2.0 * ratio, 3.0, 4.0)


def shares(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    return {
        (fall.now.name, fall.now.processor): round(fall.share, 9)
        for fall in ledger.find_falls(rows)
    }


def test_the_last_ratio_is_compared_with_the_best_of_its_name_and_processor() -> None:
    assert shares([row(4), row(10), row(7)]) == {("a", "p"): 0.7}
    assert shares([row(10), row(7), row(9)]) == {}
    assert shares([row(10), row(8)]) == {}
    assert shares([row(10), row(1, name="b"), row(1, processor="q")]) == {}


def test_only_ratios_are_compared() -> None:
    slow = Row("2026-01-01", "c", "p", "a", 200.0, 2000.0, 300.0, 400.0)
    assert shares([row(10), slow]) == {}


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "ledger.csv"
    assert ledger.read(file) == []
    ledger.append(file, [row(10)])
    ledger.append(file, [row(3, commit="d+")])
    assert ledger.read(file) == [row(10), row(3, commit="d+")]


def test_ratios_are_read_from_what_a_benchmark_prints() -> None:
    outcome = Outcome(Timing("ours", [1.25e-5, 2e-5]), Timing("theirs", [0.5]))
    text = (
        f"heading\nours=1 theirs=2\n{verdict('a-part', outcome)}\nmore\n{verdict('a', outcome)}\n"
    )
    assert list(ledger.read_ratios(text)) == [("a-part", 1.25e-5, 0.5), ("a", 1.25e-5, 0.5)]


def test_every_benchmark_with_times_to_compare_is_in_it() -> None:
    names = ledger.find_comparisons()
    assert {"fleet", "federation", "raifle", "decaf", "one-pass", "start"} <= set(names)
    assert not {"nulls", "coverage", "peers"} & set(names)


@pytest.mark.parametrize(
    ("code", "ratio", "expected"), [(MISSING, 10, 0), (1, 10, 1), (0, 6, 0), (0, 4, 1)]
)
def test_it_fails_where_a_benchmark_fails_or_a_ratio_fell_by_half(
    code: int,
    ratio: float,
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(name: str) -> list[Row]:
        if code:
            raise process.CommandError("no such thing", code)
        return [row(ratio, name)]

    file = tmp_path / "ledger.csv"
    ledger.append(file, [row(10, "fleet"), row(1, "forgotten"), row(0.1, "forgotten")])
    monkeypatch.setattr(ledger, "LEDGER", file)
    monkeypatch.setattr(ledger, "measure", measure)
    monkeypatch.setattr("sys.argv", ["ledger", "--measure", "fleet"])
    assert ledger.main() == expected
    printed = capsys.readouterr().out
    assert ("NOT MEASURED: no such thing" in printed) == bool(code)
    assert ("fleet" in printed.split("fell by")[1]) == (ratio < 8)
    monkeypatch.setattr("sys.argv", ["ledger"])
    assert ledger.main() == 0


def test_a_benchmark_that_compares_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ledger", "--measure", "nulls"])
    with pytest.raises(SystemExit):
        ledger.main()
    assert "expected benchmarks that compare, got nulls" in capsys.readouterr().err
