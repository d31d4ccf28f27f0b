"""divulge: attacks on labels alone beside attacks on probabilities, behind answer defences."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.networks import dense
from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk
from divulge.attacks import catalog
from divulge.core import Game, Membership, ModelView, Records, Shadows, Target
from divulge.defences.answers.coarse import Rounding, TopOne
from divulge.metrics import signals
from divulge.secrets import attempt, wrapped
from divulge.targets.defended import DefendedTarget
from divulge.targets.torch import TorchTarget
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe

DEFENCES = {"none": None, "rounding": Rounding(1), "top-1": TopOne()}

QUICK = (
    catalog.attack("threshold", signal="scaled_logit"),
    catalog.attack("lira"),
    catalog.attack("shadow-stack"),
    catalog.attack("gap"),
    catalog.attack("shadow-gap"),
    catalog.attack("agreement", questions=10),
    catalog.attack("boundary", questions=10),
)

SLOW = (
    catalog.attack("oslo"),
    catalog.attack("agreement", questions=100),
    catalog.attack("boundary", questions=100),
    catalog.attack("boundary", questions=300),
)


def main() -> None:
    """Quick attacks behind every defence, slow ones, which read labels alone, behind the last.

    All of these defences keep the label. Shadows stand behind the same defence as the target.
    """
    desk = Desk()
    arrays = desk.arrays("records")
    records = Records(arrays["x"], arrays["y"])
    reference = Records(arrays["reference_x"], arrays["reference_y"])
    target = TorchTarget(plain.load_network(desk.settings, desk.arrays("target")), "logits")
    with desk.timed("shadows"):
        halves = np.random.default_rng(1).random((desk.settings["shadows"], len(records))) < 0.5
        models = list(_shadows(desk, records, halves))
    for name, defence in DEFENCES.items():
        behind = [
            model if defence is None else DefendedTarget(model, defence, 0)
            for model in (target, *models)
        ]
        defended_target, *others = behind
        phi, reference_phi = (
            np.stack([signals.compute_signal("scaled_logit", shadow.predict(some.x), some.y)
                      for shadow in others], axis=1)
            for some in (records, reference)
        )  # fmt: skip
        view = ModelView(defended_target, records, reference, Shadows(phi, halves.T, reference_phi))
        game = Game(view, Membership(arrays["member"]))
        for attack in (*QUICK, *SLOW) if name == "top-1" else QUICK:
            label = wrapped.attack_label(attack)
            with desk.timed(f"{label} behind {name}"):
                outcome = attempt.run_on_model(game, attack)
            if outcome.guess is not None:
                desk.leave(f"{label} behind {name}", outcome.guess.score)
                # its own answer is what every attack is given
                further = outcome.finding.queries / len(records) - 1
                desk.leave(f"questions of {label}", np.array([further]))


def _shadows(desk: Desk, records: Records, halves: np.ndarray) -> Iterator[Target]:
    settings = desk.settings
    recipe = Recipe(
        partial(dense, *settings["widths"]),
        lr=settings["lr"],
        momentum=settings["momentum"],
        epochs=settings["epochs"],
        batch_size=settings["batch"],
    )
    return Fleet(recipe).many(records, halves, range(len(halves)))


if __name__ == "__main__":
    main()
