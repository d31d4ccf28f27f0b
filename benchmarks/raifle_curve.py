"""Curves of RAIFLE: AUC over how far items may be moved, cost over numbers of items and users."""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import data
from divulge.core import UpdateDefence
from divulge.data import ranking
from divulge.metrics import interactions as metrics

if TYPE_CHECKING:
    import altair as alt

SUMMARY = "RAIFLE's power by manipulation budget, and its cost by items and users"

IMAGES = Path(__file__).parents[1] / "docs" / "images"

BUDGETS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, math.inf)
"""L2 norms; the features of MQ2008 lie in [0, 1]."""

QUERIES, USERS = 16, 20

ITEMS = (100, 1_000, 10_000, 100_000)
MANY = (1, 10, 100, 1_000)
"""Users, of 500 items each."""

Point = dict[str, Any]


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print both curves; draw them, unless it is a trial.

    Raises:
        MissingData: there is no MQ2008.
    """
    import torch

    from divulge.report.charts import render

    torch.set_num_threads(1)
    power = list(_power(2 if quick else USERS))
    _print_detection()
    cost = list(_cost(1 if quick else 5))
    if not quick:
        (IMAGES / "raifle-budget.svg").write_bytes(render(_power_figure(power), "svg"))
        (IMAGES / "raifle-cost.svg").write_bytes(render(_cost_figure(cost), "svg"))


def _power(users: int) -> Iterator[Point]:
    """AUC of clicks by budget, on the same users each time."""
    from divulge.federation.manipulation.features import NoiseInjection

    queries = ranking.read_queries(data.file("letor-mq2008/Fold1-train.txt.xz"))
    print(f"MQ2008, informational clicks, {QUERIES} queries, {users} users a line")
    print("| ranker | an item may move by | moved on average | AUC (95 %) |\n|---|---:|---:|---|")
    for hidden in (0, 16):
        name = f"{hidden} hidden units" if hidden else "linear"
        for budget in BUDGETS:
            shaped = NoiseInjection(0.1, budget=budget)
            auc = metrics.mean_over_users([_auc(queries, hidden, shaped, k) for k in range(users)])
            rng = np.random.default_rng(0)
            moved = np.linalg.norm(shaped(queries.x, rng) - queries.x, axis=1).mean()
            print(
                f"| {name} | {budget:g} | {moved:.2f} | {auc.value:.3f} ({auc.low:.3f} to "
                f"{auc.high:.3f}) |",
                flush=True,
            )
            yield {"ranker": name, "moved": moved, "auc": auc.value,
                   "low": auc.low, "high": auc.high}  # fmt: skip


def _auc(queries: ranking.Queries, hidden: int, shaped: Any, seed: int) -> float:
    import torch

    from divulge.attacks.interactions.raifle.attack import RAIFLE
    from divulge.federation.search import click_models, models
    from divulge.federation.search.users import Searching

    world = Searching(
        queries, click_models.published_click_model("informational", 3), manipulate=shaped
    )
    weights = models.ranker(queries.x.shape[1], hidden, torch.Generator().manual_seed(seed))
    game = world.challenge(weights, QUERIES, UpdateDefence(), np.random.default_rng(seed))
    guess = RAIFLE()(game.view, np.random.default_rng(seed))
    return metrics.measure_user(guess, game.truth).auc


def _print_detection() -> None:
    """How often the check of a client calls lists odd, by budget: the first half is learnt from."""
    from divulge.federation.client_checks import items
    from divulge.federation.manipulation.features import NoiseInjection

    queries = ranking.read_queries(data.file("letor-mq2008/Fold1-train.txt.xz"))
    lists = [queries.x[part] for part in queries.of_each() if part.stop - part.start > 1]
    half = len(lists) // 2
    check, rng = items.learn_check(lists[:half]), np.random.default_rng(0)
    print(f"\nlists of MQ2008 called odd, {half} learnt from and {len(lists) - half} looked at")
    alarms = items.flag_rate(check, lists[half:])
    print(f"honest: {alarms.value:.3f} ({alarms.low:.3f} to {alarms.high:.3f})")
    for budget in BUDGETS[1:]:
        shaped = NoiseInjection(0.1, budget=budget)
        rate = items.flag_rate(check, [shaped(features, rng) for features in lists[half:]])
        print(f"moved by {budget:g}: {rate.value:.3f} ({rate.low:.3f} to {rate.high:.3f})")


def _cost(times: int) -> Iterator[Point]:
    """CPU seconds of the embedding's direction."""
    print("\nSYNTHETIC movements of 64 numbers an item, CPU seconds of one thread, best of a few")
    for items in ITEMS:
        yield _time_calls(
            "items of one user", items, times, partial(_attack, _simulate_moves(items), 1)
        )
    for users in MANY:
        yield _time_calls(
            "users of 500 items", users, times, partial(_attack, _simulate_moves(500), users)
        )


def _attack(moved: np.ndarray, users: int) -> None:
    from divulge.attacks.interactions.raifle.embedding import main_direction_signal

    for _ in range(users):
        main_direction_signal(moved)


def _simulate_moves(items: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    acted = rng.random(items) < 0.2
    moved: np.ndarray = np.where(acted, 1.0, -0.5)[:, None] * rng.normal(size=64)
    return moved + rng.normal(0, 0.5, (items, 64))


def _time_calls(what: str, count: int, times: int, call: Callable[[], object]) -> Point:
    spent = []
    for _ in range(times):
        begun = time.process_time()
        call()
        spent.append(time.process_time() - begun)
    print(f"{count:10,d} {what:20}{min(spent):10.4f} CPU s", flush=True)
    return {"what": what, "count": count, "seconds": min(spent)}


def _power_figure(points: list[Point]) -> "alt.LayerChart":
    import altair as alt

    from divulge.report import chart_style

    names = list(dict.fromkeys(point["ranker"] for point in points))
    legend = alt.Legend(orient="top", title=None)
    colour = alt.Color("ranker:N", legend=legend).scale(domain=names, range=chart_style.COLOURS[:2])
    x = alt.X("moved:Q", title="How far items were moved (mean L2)")
    y = alt.Y("auc:Q", title="AUC of the attack").scale(domain=[0.7, 1.0])
    base = alt.Chart(chart_style.inline_data(points)).encode(x=x, color=colour)
    return chart_style.style_layers(
        base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(point=True).encode(y=y),
        height=240,
    )


def _cost_figure(points: list[Point]) -> "alt.LayerChart":
    import altair as alt

    from divulge.report import chart_style

    names = list(dict.fromkeys(point["what"] for point in points))
    legend = alt.Legend(orient="top", title=None)
    colour = alt.Color("what:N", legend=legend).scale(domain=names, range=chart_style.COLOURS[:2])
    x = alt.X("count:Q", title="Items, or users").scale(type="log")
    y = alt.Y("seconds:Q", title="CPU seconds").scale(type="log")
    base = alt.Chart(chart_style.inline_data(points)).encode(x=x, y=y, color=colour)
    return chart_style.style_layers(base.mark_line(), base.mark_point(filled=True), height=240)
