"""RAIFLE on images: reconstruction beside the published descent, manipulation, and detection."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import data
from benchmarks.timing import Outcome, Timing, environment
from leakscope.core import UpdateDefence

if TYPE_CHECKING:
    from leakscope.attacks.raifle import RAIFLE
    from leakscope.targets.extractor import Extractor, Images

SUMMARY = "RAIFLE on images: linear structure beside 300 steps of Adam; manipulation; detection"


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print all three; the verdict is that of reconstruction.

    Raises:
        MissingData: there is no CIFAR-10.
    """
    import torch

    from leakscope.experiments import vision

    data.file("cifar10/x_strip.png")
    torch.set_num_threads(1)
    print(environment(("leakscope", "torch", "numpy")))
    print("one thread; CPU seconds")
    with TemporaryDirectory() as folder:
        extractor = vision.cifar_network(Path(folder), 32)
    images = vision.cifar_images(40 if quick else 300)
    outcome = _reconstruction(extractor, images, quick)
    _manipulation(extractor, images, quick)
    return outcome


def _reconstruction(extractor: "Extractor", images: "Images", quick: bool) -> Outcome:  # noqa: FBT001
    from leakscope.attacks.raifle import RAIFLE

    print("\nupvotes of images, 32 features: mean AUC over users, and CPU s a user")
    print(f"{'':24}{'users':>6}{'linear structure':>22}{'300 steps of Adam':>22}{'times':>8}")
    seen = extractor.features(images)[:, None]
    published = RAIFLE("match", steps=20 if quick else 300, optimiser="adam", rounding="half")
    ours, theirs = [], []
    for hidden in (0, 8):
        for ratio in (1,) if quick else (1, 4):
            users = 2 if quick else 5
            ways = [_attacked(RAIFLE(), seen, hidden, ratio, users)]
            ways.append(_attacked(published, seen, hidden, ratio, users))
            (a, s), (b, t) = ways
            name = f"{hidden or 'no'} hidden, {ratio}x"
            print(
                f"{name:24}{users:6d}{a:12.3f}{s:10.4f}{b:12.3f}{t:10.3f}{t / s:8.0f}", flush=True
            )
            ours.append(s)
            theirs.append(t)
    return Outcome(Timing("linear structure", [sum(ours)]), Timing("Adam", [sum(theirs)]))


def _attacked(
    attack: "RAIFLE", seen: np.ndarray, hidden: int, ratio: int, users: int
) -> tuple[float, float]:
    """Mean AUC and CPU seconds."""
    from leakscope.experiments.raifle_images import users as challenges
    from leakscope.metrics import interactions as metrics

    found, spent = [], []
    for game in challenges(seen, hidden, ratio, users, UpdateDefence(), seed=0):
        begun = time.process_time()
        guess = attack(game.view, np.random.default_rng(0))
        spent.append(time.process_time() - begun)
        found.append(metrics.of_user(guess, game.truth).auc)
    return float(np.mean(found)), float(np.mean(spent))


def _manipulation(extractor: "Extractor", images: "Images", quick: bool) -> None:  # noqa: FBT001
    from leakscope.attacks.pixels import PixelNoise
    from leakscope.metrics import images as quality

    published = PixelNoise(steps=20) if quick else PixelNoise()
    fast = PixelNoise(steps=10 if quick else 100, lr=0.05, optimiser="momentum")
    few = 4 if quick else 16
    print("\nmanipulation, two versions an image; distance to the noise is a mean square")
    print(f"{'':24}{'images':>8}{'distance':>10}{'PSNR':>8}{'SSIM':>8}{'CPU s':>10}")
    for how, some in ((published, images[:few]), (fast, images[:few]), (fast, images)):
        begun = time.process_time()
        versions = how(some, extractor, np.random.default_rng(0))
        spent = time.process_time() - begun
        seen = _features(extractor, versions)
        wanted = how.targets(len(some), seen.shape[2], np.random.default_rng(0))
        print(
            f"{f'{how.optimiser}, {how.steps} steps':24}{len(some):8d}"
            f"{((seen - wanted) ** 2).mean():10.4f}"
            f"{quality.psnr(some, versions[:, 0]).mean():8.2f}"
            f"{quality.ssim(some, versions[:, 0]).mean():8.3f}{spent:10.1f}",
            flush=True,
        )
    _detection(_features(extractor, images[:, None]), seen)


def _features(extractor: "Extractor", versions: np.ndarray) -> np.ndarray:
    each = [extractor.features(np.ascontiguousarray(v)) for v in versions.swapaxes(0, 1)]
    return np.stack(each, axis=1)


def _detection(honest: np.ndarray, shaped: np.ndarray) -> None:
    """What a client's check finds, measured on images of which none was learnt from."""
    from leakscope.defences import item_check
    from leakscope.federation.upvoting import shown

    third, rng = len(honest) // 3, np.random.default_rng(1)
    length = min(32, third)
    # what features are like, how odd honest lists then seem, and what is looked at: no image twice
    usual, known, fresh, bad = (
        [shown(features, length, rng) for _ in range(100)]
        for features in (
            honest[:third], honest[third : 2 * third], honest[2 * third :], shaped[2 * third :],
        )
    )  # fmt: skip
    found = item_check.detection(item_check.learn([*usual, *known]), fresh, bad)
    print(f"\na client's check of the features of {length} images, 95 % intervals")
    for name, rate in (
        ("AUC", found.auc),
        ("manipulated lists called odd", found.caught),
        ("honest lists called odd", found.alarms),
    ):
        print(f"{name:32}{rate.value:8.3f} ({rate.low:.3f}-{rate.high:.3f})")
