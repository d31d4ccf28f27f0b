"""LeakPro: its LiRA, RMIA and BASE, online and offline, with its own shadows or the task's."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.drivers import leakpro_audit
from benchmarks.peers.drivers.desk import Desk
from benchmarks.peers.drivers.leakpro_audit import Population

ONLINE = (("LiRA", True), ("RMIA", True), ("BASE", True))

OFFLINE = (("LiRA", False), ("RMIA", False))

BASE_OFFLINE = (("BASE", False),)
"""It wants each record in half of the shadows, as in the pairs that it trains itself."""


def main() -> None:
    """Shadows are trained on halves of the members and non-members together."""
    desk, out = Desk(), Path(sys.argv[2])
    settings, records = desk.settings, desk.arrays("records")
    member = records["member"]
    inside, outside = (np.flatnonzero(member == side) for side in (True, False))
    population = Population(records["x"], records["y"], inside, outside)
    wanted = (*ONLINE, *OFFLINE, *(() if desk.same_shadows else BASE_OFFLINE))
    attacks: list[dict[str, Any]] = [
        {
            "attack": name.lower(), "num_shadow_models": settings["shadows"],
            "training_data_fraction": 0.5, "online": online,
        }
        for name, online in wanted
    ]  # fmt: skip
    names = [f"{name} {'online' if online else 'offline'}" for name, online in wanted]
    audit = leakpro_audit.prepare(out, settings, desk.arrays("target"), population, attacks)
    if desk.same_shadows:
        leakpro_audit.store_shadows(desk)
        results = [
            _run_alone(desk, name, attack)
            for name, attack in zip(names, audit.attack_scheduler.attacks, strict=True)
        ]
    else:
        with desk.timed("audit"):
            results = audit.run_audit(create_pdf=False)
    for name, result in zip(names, results, strict=True):
        desk.leave(name, leakpro_audit.place(result, member))
        rates = result.fixed_fpr_table
        desk.leave_printed(name, float(result.roc_auc), rates["TPR@1%FPR"], rates["TPR@0.1%FPR"])


def _run_alone(desk: Desk, name: str, attack: Any) -> Any:
    """One attack without the reports about it."""
    with desk.timed(name):
        attack.prepare_attack()
        return attack.run_attack()


if __name__ == "__main__":
    main()
