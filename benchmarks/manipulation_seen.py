"""Measure how well clients detect manipulated items, and anybody the updates trained on them."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.core import Estimate, UpdateDefence

if TYPE_CHECKING:
    import altair as alt

    from divulge.federation.client_checks.items import Detection
    from divulge.targets.features import Extractor

SUMMARY = "manipulated items: ROC of a client's check, and a picture of updates"

FOLDER = Path(__file__).parents[1] / "docs" / "images"
BUDGETS = (4.0, 16.0, float("inf"))
"""Levels of 255 that a pixel may move."""
_WIDTH, _LISTS, _UPDATES, _PERPLEXITY = 32, 100, 150, 30


class Part(NamedTuple):
    """Features of images, and of versions that were made of the same."""

    known: np.ndarray
    """Features of the images that a client learns its check from, none of which is tested."""
    honest: np.ndarray
    shaped: Mapping[float, np.ndarray]
    """Features of the manipulated versions by budget."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print detection by budget, and how well updates are told apart; draw both.

    Raises:
        MissingData: there is no CIFAR-10, or no sample of MSLR-WEB10K.
    """
    import torch

    from divulge.report.charts import render

    for name in ("cifar10/x_strip.png", "mslr-web10k-sample/fold1_train_first5k.txt.xz"):
        data.file(name)
    torch.set_num_threads(1)
    print(environment(("divulge", "torch", "numpy", "scikit-learn")))
    part = _images(quick)
    checks = _checks(part)
    groups = {
        "search results (FPDGD), 16 hidden units": _search_updates(quick),
        "images, 8 hidden units": _image_updates(part, quick),
    }
    points = [point for name, (x, y) in groups.items() for point in _place(name, x, y)]
    if not quick:
        (FOLDER / "manipulation-check.svg").write_bytes(render(_curves(checks), "svg"))
        (FOLDER / "manipulation-updates.svg").write_bytes(render(_map(points), "svg"))


def _images(quick: bool) -> Part:  # noqa: FBT001
    from divulge.federation.manipulation.pixels import PixelNoise
    from divulge.metrics import images as quality
    from divulge_papers import vision
    from divulge_papers.papers.raifle.extractors import make_plain

    with TemporaryDirectory() as folder:
        extractor = vision.load_cifar_network("plain", make_plain, Path(folder), _WIDTH)
    images = vision.load_cifar_images(120 if quick else 300)
    own, shaped = images[len(images) // 3 * 2 :], {}
    for budget in BUDGETS:
        how = PixelNoise(steps=5 if quick else 60, lr=0.02, optimiser="momentum", budget=budget)
        versions = how(own, extractor, np.random.default_rng(0))
        shaped[budget] = _features(extractor, versions)
        looks = [quality.ssim(own, v).mean() for v in versions.swapaxes(0, 1)]
        print(f"{_format_budget(budget):18} SSIM {np.mean(looks):.3f}", flush=True)
    features = _features(extractor, images[:, None])
    return Part(features[: len(features) // 3 * 2], features[len(features) // 3 * 2 :], shaped)


def _features(extractor: "Extractor", versions: np.ndarray) -> np.ndarray:
    each = [extractor.features(np.ascontiguousarray(v)) for v in versions.swapaxes(0, 1)]
    return np.stack(each, axis=1)


def _checks(part: Part) -> dict[float, "Detection"]:
    """A client's check, measured on images of which none was learnt from; 95 % intervals."""
    from divulge.federation.client_checks import items
    from divulge.federation.search.images import draw_features

    def lists(features: np.ndarray, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        return [draw_features(features, min(_WIDTH, len(features)), rng) for _ in range(_LISTS)]

    half = len(part.known) // 2
    check = items.learn_check([*lists(part.known[:half], 1), *lists(part.known[half:], 2)])
    detections = {}
    print(f"\n{'':18}{'AUC of the check':>22}{'called odd':>22}{'upvotes found, AUC':>24}")
    none = _measure_recovery(part.honest)
    for budget, shaped in part.shaped.items():
        detections[budget] = items.measure_detection(check, lists(part.honest, 3), lists(shaped, 3))
        detection = detections[budget]
        cells = (_rate(detection.auc), _rate(detection.caught), _rate(_measure_recovery(shaped)))
        print(f"{_format_budget(budget):18}{cells[0]:>22}{cells[1]:>22}{cells[2]:>24}", flush=True)
    alarms = _rate(next(iter(detections.values())).alarms)
    print(f"{'as they are':18}{'':>22}{alarms:>22}{_rate(none):>24}")
    return detections


def _measure_recovery(features: np.ndarray) -> Estimate:
    """The mean AUC over users with 2 hidden units who see nearly all images."""
    import torch

    from divulge.attacks.interactions.raifle.attack import RAIFLE
    from divulge.federation.search import images, models
    from divulge.metrics import interactions

    aucs = []
    for user in range(50):
        rng = stream(0, "seen", user)
        weights = models.ranker(_WIDTH, 2, torch.Generator().manual_seed(user))
        items = images.draw_features(features, min(3 * _WIDTH, len(features)), rng)
        game = images.upvote_challenge(weights, items, UpdateDefence(), rng)
        aucs.append(interactions.measure_user(RAIFLE()(game.view, rng), game.truth).auc)
    return interactions.mean_over_users(aucs)


def _image_updates(part: Part, quick: bool) -> tuple[np.ndarray, np.ndarray]:  # noqa: FBT001
    """Updates of one ranker by users who see 32 images as they are, and manipulated."""
    import torch

    from divulge.federation.search import images, models

    weights = models.ranker(_WIDTH, 8, torch.Generator().manual_seed(0))
    count, rng = (20 if quick else _UPDATES), np.random.default_rng(0)
    updates = []
    for features in (part.honest, part.shaped[float("inf")]):
        for _ in range(count):
            items = images.draw_features(features, _WIDTH, rng)
            game = images.upvote_challenge(weights, items, UpdateDefence(), rng)
            updates.append(_flat(game.view.rounds[0].change(game.view.victim)))
    return np.stack(updates), np.arange(2 * count) >= count


def _search_updates(quick: bool) -> tuple[np.ndarray, np.ndarray]:  # noqa: FBT001
    """Updates of one ranker by users of a search engine, with features as they are, and noise."""
    import torch

    from divulge.federation.manipulation.features import NoiseInjection
    from divulge.federation.search import models
    from divulge.federation.search.click_models import published_click_model
    from divulge.federation.search.users import Searching, keep_features
    from divulge_papers.papers.raifle.study import load_queries

    queries, clicks = load_queries("mslr", "attack"), published_click_model("informational", 5)
    weights = models.ranker(queries.x.shape[1], 16, torch.Generator().manual_seed(0))
    count, rng = (20 if quick else _UPDATES), np.random.default_rng(0)
    updates = []
    for manipulate in (keep_features, NoiseInjection(0.1)):
        world = Searching(queries, clicks, manipulate=manipulate)
        for _ in range(count):
            game = world.challenge(weights, 12, UpdateDefence(), rng)
            updates.append(_flat(game.view.rounds[0].change(game.view.victim)))
    return np.stack(updates), np.arange(2 * count) >= count


def _flat(change: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([change[name].ravel() for name in sorted(change)])


def _place(name: str, x: np.ndarray, shaped: np.ndarray) -> list[dict[str, Any]]:
    """Place updates by t-SNE; print how well a random forest tells the two kinds apart."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.manifold import TSNE
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    from divulge.metrics import membership

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    forest = RandomForestClassifier(200, random_state=0)
    score = cross_val_predict(forest, x, shaped, cv=folds, method="predict_proba")[:, 1]
    auc = membership.auc(score, shaped)
    print(f"\n{name}: {len(x)} updates, told apart by a forest with AUC {_rate(auc)}")
    print(f"norm: {_spread(x[~shaped])} as they are, {_spread(x[shaped])} manipulated", flush=True)
    perplexity = min(_PERPLEXITY, len(x) // 4)
    at = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(x)
    at = (at - at.min(axis=0)) / np.ptp(at, axis=0)
    panel = f"{name}; forest's AUC {auc.value:.2f}"
    return [
        {
            "panel": panel,
            "x": float(a),
            "y": float(b),
            "items": "manipulated" if s else "as they are",
        }
        for (a, b), s in zip(at, shaped, strict=True)
    ]


def _spread(x: np.ndarray) -> str:
    norm = np.linalg.norm(x, axis=1)
    return f"{norm.mean():.3g} ± {norm.std():.2g}"


def _curves(detections: Mapping[float, "Detection"]) -> "alt.LayerChart":
    """A ROC for each budget; the legend has the area and its interval."""
    import altair as alt

    from divulge.report import chart_style

    names = [
        f"{_format_budget(b)}: AUC {_rate(detection.auc)}" for b, detection in detections.items()
    ]
    rows = [
        {"x": float(fpr), "y": float(tpr), "what": name, "order": k}
        for name, detection in zip(names, detections.values(), strict=True)
        for k, (fpr, tpr) in enumerate(zip(detection.roc.fpr, detection.roc.tpr, strict=True))
    ]
    x = alt.X("x:Q", title="Honest lists called odd").axis(labelExpr=chart_style.PERCENT)
    y = alt.Y("y:Q", title="Manipulated lists called odd").axis(labelExpr=chart_style.PERCENT)
    legend = alt.Legend(title=None, orient="bottom", columns=1)
    colour = alt.Color("what:N", legend=legend).scale(
        domain=names, range=chart_style.COLOURS[: len(names)]
    )
    dash = alt.StrokeDash("what:N", legend=legend).scale(
        domain=names, range=[list(dash) for dash in chart_style.DASHES[: len(names)]]
    )
    lines = (
        alt.Chart(chart_style.inline_data(rows))
        .mark_line(strokeWidth=2.5, interpolate="linear", clip=False)
        .encode(x=x, y=y, color=colour, strokeDash=dash, order="order:Q")
    )
    diagonal = alt.Chart(chart_style.inline_data([{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    guess = diagonal.mark_line(color=chart_style.MUTED, strokeDash=[2, 3]).encode(x=x, y=y)
    return chart_style.style_layers(guess, lines, height=340)


def _map(points: list[dict[str, Any]]) -> "alt.FacetChart":
    """Updates as t-SNE places them; axes have no meaning and no numbers."""
    import altair as alt

    from divulge.report import chart_style

    kinds = ["as they are", "manipulated"]
    legend = alt.Legend(title="Items", orient="bottom")
    header = alt.Header(labelFont=chart_style.FONT, labelFontSize=13, labelColor=chart_style.INK)
    panels = list(dict.fromkeys(point["panel"] for point in points))
    chart: alt.FacetChart = (
        alt.Chart(chart_style.inline_data(points))
        .mark_point(size=45, opacity=0.75, strokeWidth=1.5)
        .encode(
            x=alt.X("x:Q", axis=None).scale(domain=[-0.05, 1.05]),
            y=alt.Y("y:Q", axis=None).scale(domain=[-0.05, 1.05]),
            color=alt.Color("items:N", legend=legend).scale(
                domain=kinds, range=chart_style.COLOURS[:2]
            ),
            shape=alt.Shape("items:N", legend=legend).scale(
                domain=kinds, range=["circle", "cross"]
            ),
        )
        .properties(width=320, height=300)
        .facet(column=alt.Column("panel:N", title=None, sort=panels, header=header))
    )
    framed: alt.FacetChart = chart_style.apply_style(chart.properties(padding=8)).configure_view(
        stroke=chart_style.RULE
    )
    return framed


def _format_budget(budget: float) -> str:
    return "no budget" if np.isinf(budget) else f"budget {budget:g} of 255"


def _rate(estimate: Estimate) -> str:
    high = estimate.value if estimate.high is None else estimate.high
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{high:.3f})"  # noqa: RUF001
