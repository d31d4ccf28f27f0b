"""LeakPro: its HopSkipJump, on a target that it is given as weights.

Its OSLO takes seconds a record (400 steps for each, one record at a time), and is left out.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.peers.drivers import leakpro_audit
from benchmarks.peers.drivers.desk import Desk
from benchmarks.peers.drivers.leakpro_audit import Population


def main() -> None:
    """The records that are searched, with the reference records as further population."""
    desk, out = Desk(), Path(sys.argv[2])
    records, rows = desk.arrays("records"), desk.arrays("searched")["rows"]
    x = np.concatenate([records["x"][rows], records["reference_x"]])
    y = np.concatenate([records["y"][rows], records["reference_y"]])
    member = records["member"][rows]
    inside, outside = (np.flatnonzero(member == side) for side in (True, False))
    attack = {
        "attack": "HSJ", "attack_data_fraction": 1.0, "initial_num_evals": 20,
        "max_num_evals": 60, "num_iterations": 2, "verbose": False,
    }  # fmt: skip
    # its HopSkipJump takes images alone: channels, rows, columns
    population = Population(x[:, None, None], y, inside, outside)
    audit = leakpro_audit.prepare(out, desk.settings, desk.arrays("target"), population, [attack])
    with desk.timed("boundary behind top-1"):
        (result,) = audit.run_audit(create_pdf=False)
    score = leakpro_audit.place(result, records["member"])
    desk.leave("boundary behind top-1", score)
    desk.leave("questions of boundary", np.array([np.nan]))


if __name__ == "__main__":
    main()
