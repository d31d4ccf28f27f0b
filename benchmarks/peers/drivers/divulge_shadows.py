"""divulge: a whole audit with shadow models, checks and controls, or attacks on the task's."""

from functools import partial

import numpy as np

import divulge
from benchmarks.networks import dense
from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk
from divulge.attacks import catalog
from divulge.core import ModelView, Records, Shadows
from divulge.targets.torch import TorchTarget
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe


def main() -> None:
    """The attacks that are named, or all."""
    desk = Desk()
    if desk.same_shadows:
        attack_with_same_shadows(desk)
    else:
        audit(desk)


def attack_with_same_shadows(desk: Desk) -> None:
    """The attacks that are named, or all that have shadow models, with the task's."""
    arrays = desk.arrays("records")
    groups = [(arrays["x"], arrays["y"]), (arrays["reference_x"], arrays["reference_y"])]
    with desk.timed("shadows"):
        models, halves = plain.shadows(desk, *groups[0])
        phi, reference_phi = (
            np.stack([plain.scaled_logit(model, x, y) for model in models], axis=1)
            for x, y in groups
        )
    target = TorchTarget(plain.load_network(desk.settings, desk.arrays("target")), "logits")
    records, reference = (Records(x, y) for x, y in groups)
    view = ModelView(target, records, reference, Shadows(phi, halves.T, reference_phi))
    others = {*catalog.RESIDUAL_SHADOW_ATTACKS, *catalog.CASCADE_ATTACKS}  # these cannot run here
    every = [name for name in catalog.ATTACKS_WITH_SHADOWS if name not in others]
    for name in desk.more or every:
        attack = catalog.attack(name)
        with desk.timed(name):
            desk.leave(name, attack(view, np.random.default_rng(0)).score)


def audit(desk: Desk) -> None:
    """A whole audit."""
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
        result = divulge.audit(
            plain.load_network(settings, desk.arrays("target")),
            access=divulge.Access("logits"),
            members=records.take(np.flatnonzero(member)),
            nonmembers=records.take(np.flatnonzero(~member)),
            reference=Records(arrays["reference_x"], arrays["reference_y"]),
            shadows=divulge.ShadowModels(settings["shadows"], train=Fleet(recipe)),
            attacks=[catalog.attack(name) for name in desk.more] or None,
        )
    there = result.candidates
    rows = np.where(
        there.member, np.flatnonzero(member)[there.index % member.sum()],
        np.flatnonzero(~member)[there.index % (~member).sum()],
    )  # fmt: skip
    for entry in result.contents.entries:
        if entry.score is not None:
            score = np.empty(len(rows))
            score[rows] = entry.score
            desk.leave(entry.finding.label, score)


if __name__ == "__main__":
    main()
