"""Several processes: the same results, each process alone on its core, and work taken over."""

import operator
import os
import time
from functools import partial
from pathlib import Path

import pytest

from divulge.errors import DataError, DivulgeError
from divulge_papers import cells
from divulge_papers.cells import Work
from divulge_papers.pool import CellWorkers
from divulge_papers.provenance import Measurement
from papers.tests import trial


def died(item: int) -> int:
    os._exit(item)


def refused(item: int) -> int:
    raise DataError(f"expected another number, got {item}")


def present(item: tuple[Path, str | None, int]) -> int:
    """Leave a file, and wait until there are so many: the order is the same on a busy machine."""
    folder, name, awaited = item
    if name is not None:
        (folder / name).touch()
    while len(list(folder.iterdir())) < awaited:
        time.sleep(0.01)
    return os.getpid()


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_two_processes_give_what_one_gives(count: int) -> None:
    double = partial(operator.mul, 2)
    with CellWorkers(2) as cell_workers:
        assert sorted(cell_workers.each(double, range(count))) == list(
            CellWorkers(1).each(double, range(count))
        )


def test_who_is_done_takes_from_the_others(tmp_path: Path) -> None:
    others = [(tmp_path, str(number), 0) for number in range(7)]
    with CellWorkers(2) as cell_workers:  # the first is done once all the others are
        who = list(cell_workers.each(present, [(tmp_path, None, 7), *others]))
    assert sorted(who.count(one) for one in set(who)) == [1, 7]


def test_each_works_with_one_thread() -> None:
    made = Measurement("0", "", "", 2)
    work = Work("one", f"{trial.__name__}:whoami", "row", {}, 0, "small", (), None, made)
    with CellWorkers(2) as cell_workers:
        (piece, other) = cell_workers.each(cells.measure_piece, [work, work._replace(key="two")])
    assert piece.values["one"][1] == other.values["one"][1] == 1
    assert piece.values["one"][0] != other.values["one"][0]


@pytest.mark.parametrize("processes", [1, 2])
def test_items_in_order_are_begun_if_it_is_allowed_when_it_is_their_turn(processes: int) -> None:
    asked: list[int] = []

    def allows(item: int) -> bool:
        asked.append(item)
        return item % 3 != 1

    double = partial(operator.mul, 2)
    with CellWorkers(processes) as cell_workers:
        assert sorted(cell_workers.in_order(double, range(7), allows)) == [0, 4, 6, 10, 12]
    assert asked == list(range(7))


def test_errors_of_ours_pass_and_a_death_is_said_in_our_words() -> None:
    with CellWorkers(2) as cell_workers, pytest.raises(DataError, match="another number"):
        list(cell_workers.each(refused, [1, 2]))
    with CellWorkers(2) as cell_workers, pytest.raises(DivulgeError, match="one died"):
        list(cell_workers.each(died, [1, 2]))
