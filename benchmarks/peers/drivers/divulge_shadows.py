"""divulge: a whole audit with shadow models, checks and controls."""

from functools import partial

import numpy as np

import divulge
from benchmarks.networks import dense
from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk
from divulge.attacks import catalog
from divulge.core import Records
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe


def main() -> None:
    """The attacks that are named, or all."""
    desk = Desk()
    settings, arrays = desk.settings, desk.arrays("records")
    recipe = Recipe(
        partial(dense, *settings["widths"]),
        lr=settings["lr"],
        momentum=settings["momentum"],
        epochs=settings["epochs"],
        batch_size=settings["batch"],
    )
    records, member = Records(arrays["x"], arrays["y"]), arrays["member"]
    with desk.timed("audit"):
        found = divulge.audit(
            plain.loaded(settings, desk.arrays("target")),
            access=divulge.Access("logits"),
            members=records.take(np.flatnonzero(member)),
            nonmembers=records.take(np.flatnonzero(~member)),
            reference=Records(arrays["reference_x"], arrays["reference_y"]),
            shadows=divulge.ShadowModels(settings["shadows"], train=Fleet(recipe)),
            attacks=[catalog.attack(name) for name in desk.more] or None,
        )
    there = found.candidates
    rows = np.where(
        there.member, np.flatnonzero(member)[there.index % member.sum()],
        np.flatnonzero(~member)[there.index % (~member).sum()],
    )  # fmt: skip
    for entry in found.contents.entries:
        if entry.score is not None:
            score = np.empty(len(rows))
            score[rows] = entry.score
            desk.leave(entry.finding.label, score)


if __name__ == "__main__":
    main()
