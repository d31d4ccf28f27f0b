"""Signals of tokens are those of slow and obvious versions of their formulas."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from divulge.attacks import catalog
from divulge.attacks.membership.token_stack import compare
from divulge.attacks.shared.token_shadows import read_shadows
from divulge.attacks.shared.token_signals import _lowest, all_signals
from divulge.core import ModelView, Need, Records
from divulge.core.tokens import Tokens
from divulge.errors import NotApplicable, SpecError
from divulge.targets.token_target import TokenTableTarget

from ..token_tables import draw


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return draw(30, 1.0, np.random.default_rng(4))[0]


def score(tokens: Tokens, name: str, **settings: Any) -> np.ndarray:
    return catalog.attack(name, **settings)(view_of(tokens), np.random.default_rng(0)).score


def view_of(tokens: Tokens) -> ModelView:
    rows = Records(np.arange(len(tokens))[:, None], np.zeros(len(tokens), np.int64))
    return ModelView(TokenTableTarget(tokens), rows)


def texts(tokens: Tokens) -> list[list[dict[str, float]]]:
    """Each token by itself, as a person would write it down."""
    assert tokens.mean is not None
    assert tokens.sd is not None
    assert tokens.top is not None
    found = []
    for begin, end in zip(tokens.start[:-1], tokens.start[1:], strict=True):
        found.append(
            [
                {
                    "lp": float(tokens.logprob[t]),
                    "ref": float(tokens.reference[:, t].mean()),
                    "mean": float(tokens.mean[t]),
                    "sd": float(tokens.sd[t]),
                    "top": bool(tokens.top[t]),
                }
                for t in range(begin, end)
            ]
        )
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def lowest(values: list[float], share: float) -> float:
    return mean(sorted(values)[: max(1, math.floor(share * len(values)))])


def test_own_signals(tokens: Tokens) -> None:
    read = texts(tokens)
    assert tokens.size is not None
    naive: dict[str, list[float]] = {
        "loss": [mean([t["lp"] for t in text]) for text in read],
        "zlib": [
            mean([t["lp"] for t in text]) / size
            for text, size in zip(read, tokens.size.tolist(), strict=True)
        ],
        "min-k": [lowest([t["lp"] for t in text], 0.3) for text in read],
        "min-k++": [
            lowest([(t["lp"] - t["mean"]) / max(t["sd"], 1e-6) for t in text], 0.3) for text in read
        ],
    }
    for signal, expected in naive.items():
        found = score(tokens, "token-threshold", signal=signal, share=0.3)
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=signal)


def test_the_form_in_lower_case_and_the_gradient(tokens: Tokens) -> None:
    assert tokens.lowercase is not None
    assert tokens.gradient_norm is not None
    perplexity = [math.exp(-mean([t["lp"] for t in text])) for text in texts(tokens)]
    lower = [math.exp(-value) for value in tokens.lowercase.tolist()]
    expected = [math.log(b) / math.log(a) for a, b in zip(perplexity, lower, strict=True)]
    found = score(tokens, "token-threshold", signal="lowercase")
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    found = score(tokens, "token-threshold", signal="gradient-norm")
    assert np.argsort(found).tolist() == np.argsort(-tokens.gradient_norm).tolist()
    np.testing.assert_allclose(found, [-math.log(n) for n in tokens.gradient_norm.tolist()])
    certain = replace(
        tokens, logprob=np.zeros_like(tokens.logprob), gradient_norm=np.zeros(len(tokens))
    )
    for signal in ("lowercase", "gradient-norm"):
        assert np.isfinite(score(certain, "token-threshold", signal=signal)).all()


def test_texts_in_lower_case_alone_are_not_compared_with_themselves(tokens: Tokens) -> None:
    own = tokens.average(tokens.logprob)
    with pytest.raises(NotApplicable, match="texts with capital letters, got texts in lower case"):
        score(replace(tokens, lowercase=own), "token-threshold", signal="lowercase")
    one = np.append(own[:-1], own[-1] - 0.1)
    found = score(replace(tokens, lowercase=one), "token-threshold", signal="lowercase")
    assert found.tolist()[:-1] == [1.0] * (len(own) - 1)
    assert found[-1] > 1


def test_the_lowest_tokens_are_those_of_a_sorted_text() -> None:
    """Whatever a partition leaves in order: few of many long texts tell it from a sort."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        values = rng.normal(size=1000)
        np.testing.assert_array_equal(np.sort(_lowest(values, 0.2)), np.sort(values)[:200])


def test_surprising_tokens(tokens: Tokens) -> None:
    expected, fallbacks = [], 0
    for text in texts(tokens):
        low = sorted(text, key=lambda t: t["lp"])[: max(1, int(0.2 * len(text)))]
        sure = [t for t in low if -t["mean"] < 1.7]
        fallbacks += not sure
        expected.append(mean([t["lp"] for t in sure or low]))
    assert 0 < fallbacks < len(expected)  # both rules are tried
    found = score(tokens, "token-threshold", signal="surprising", entropy=1.7)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_signals_with_a_reference(tokens: Tokens) -> None:
    two = replace(tokens, reference=np.vstack([tokens.reference[0], tokens.reference[0] - 0.3]))
    ratio, votes, zone = [], [], []
    sizes = [2, 3, 4, 5, 8, 11, 15, 21, 29, 40]  # of 2 to 40, each 1.39 times the one before
    for text in texts(two):
        gain = [t["lp"] - t["ref"] for t in text]
        ratio.append(mean(gain))
        by_size = []
        for size in sizes:
            if size <= len(gain):
                windows = [sum(gain[i : i + size]) for i in range(len(gain) - size + 1)]
                by_size.append(mean([float(window > 0) for window in windows]))
        votes.append(mean(by_size))
        wrong = [g for g, t in zip(gain, text, strict=True) if not t["top"]]
        up, down = sum(g for g in wrong if g > 0), -sum(g for g in wrong if g < 0)
        zone.append(up / down if down else math.inf)
    np.testing.assert_allclose(score(two, "reference-ratio"), ratio, rtol=1e-9)
    np.testing.assert_allclose(score(two, "wbc"), votes, rtol=1e-9)
    found = score(two, "ez-mia")
    np.testing.assert_allclose(found, [z / (1 + z) if z < math.inf else 1.0 for z in zone])


def test_what_is_learned_from_are_the_attacks_own_signals() -> None:
    rng = np.random.default_rng(2)
    long = Tokens(
        np.array([0, 45, 90, 95]), -rng.exponential(size=95), -rng.exponential(size=(1, 95)),
        mean=-rng.exponential(2.0, size=95), sd=rng.exponential(size=95),
        top=rng.random(95) < 0.3, size=np.array([90, 80, 20]),
        lowercase=-rng.exponential(size=3), gradient_norm=rng.exponential(size=3),
    )  # fmt: skip
    gain = long.split(long.logprob - long.reference[0])
    votes = [
        mean([
            mean([float(sum(part[i : i + size]) > 0) for i in range(len(part) - size + 1)])
            for size in (2, 4, 9, 18, 40) if size <= len(part)
        ])
        for part in gain
    ]  # fmt: skip
    expected: list[np.ndarray] = [
        *(score(long, "token-threshold", signal=signal)
          for signal in ("loss", "zlib", "min-k", "min-k++", "surprising", "lowercase")),
        score(long, "reference-ratio"),
        np.array([lowest(part.tolist(), 0.2) for part in gain]),
        np.array(votes),
        score(long, "ez-mia"),
    ]  # fmt: skip
    np.testing.assert_allclose(all_signals(long), np.column_stack(expected), rtol=1e-12)
    bare = replace(
        long, mean=None, sd=None, top=None, reference=np.zeros((0, 95)), lowercase=None,
        gradient_norm=None,
    )  # fmt: skip
    np.testing.assert_allclose(all_signals(bare), np.column_stack(expected)[:, :3], rtol=1e-12)


def test_rare_tokens_count_once_a_text_and_to_a_bound() -> None:
    ids = [[3, 5, 3, 9], [7, 7], [5, 3]]
    logprob = [[-0.1, -2.0, -0.2, -5.0], [-1.0, -3.0], [-0.5, -4.0]]
    corpus = [[3, 3, 5, 8], [3]]
    ends = np.concatenate([[0], np.cumsum([*map(len, ids), *map(len, corpus)])])
    tokens = Tokens(
        ends, np.array([*itertools.chain(*logprob), *[-1.0] * 5]), np.zeros((0, 13)),
        ids=np.array([*itertools.chain(*ids, *corpus)]),
    )  # fmt: skip
    rows = Records(np.arange(5)[:, None], np.zeros(5, np.int64))
    view = ModelView(TokenTableTarget(tokens), rows.take(np.arange(3)), rows.take(np.array([3, 4])))
    for bound, vocabulary in ((0.01, None), (0.4, None), (9.0, None), (9.0, 1000)):
        expected = []
        for text, own in zip(ids, logprob, strict=True):
            first: dict[int, float] = {}
            for token, value in zip(text, own, strict=True):
                count = [other for part in corpus for other in part].count(token)
                q = (count + 1) / (5 + (vocabulary or 5))  # of 3, 5, 7, 8 and 9
                first.setdefault(token, min(bound, math.exp(value) * -math.log(q)))
            expected.append(mean(list(first.values())))
        attack = catalog.attack("dc-pdd", bound=bound, vocabulary=vocabulary)
        np.testing.assert_allclose(attack(view, np.random.default_rng(0)).score, expected)
    blank = replace(view, target=TokenTableTarget(replace(tokens, ids=None)))
    with pytest.raises(NotApplicable, match="'token_ids'"):
        catalog.attack("dc-pdd")(blank, np.random.default_rng(0))


class Prefixed:
    """Tokens lose a nat for each text before them; one more token is said of each."""

    offers = Need.TOKENS | Need.SCORES | Need.FEATURES | Need.PREFIX

    def __init__(self, tokens: Tokens) -> None:
        self.inner = TokenTableTarget(tokens)
        self.before: list[list[int]] = []

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.inner.predict(x)

    def tokens(self, x: np.ndarray, after: np.ndarray | None = None) -> Tokens:
        alone = self.inner.tokens(x)
        if after is None:
            return alone
        self.before.append(after[:, 0].tolist())
        lost = float(after.sum()) / 50
        parts = [np.append(-99.0, part - lost) for part in alone.split(alone.logprob)]
        ends = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return Tokens(ends, np.concatenate(parts), np.zeros((0, int(ends[-1]))))


def test_log_likelihoods_behind_known_texts_by_those_without(tokens: Tokens) -> None:
    target, rows = Prefixed(tokens), Records(np.arange(30)[:, None], np.zeros(30, np.int64))
    parts = [rows.take(np.arange(*ends)) for ends in ((0, 20), (20, 25), (25, 30))]
    view = ModelView(target, parts[0], parts[1], known_members=parts[2])
    found = catalog.attack("recall", shots=3)(view, np.random.default_rng(0)).score
    (drawn,) = target.before
    assert len(set(drawn)) == 3
    assert set(drawn) <= set(range(20, 25))  # never a text that is judged
    alone = [mean([t["lp"] for t in text]) for text in texts(tokens)[:20]]
    lost = sum(drawn) / 50
    np.testing.assert_allclose(found, [(ll - lost) / ll for ll in alone], rtol=1e-6)
    found = catalog.attack("con-recall", gamma=0.25)(view, np.random.default_rng(0)).score
    outside, inside = target.before[1:]
    assert sorted(outside) == list(range(20, 25))
    assert sorted(inside) == list(range(25, 30))
    expected = [((ll - sum(outside) / 50) - 0.25 * (ll - sum(inside) / 50)) / ll for ll in alone]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_texts_that_a_model_is_certain_of_have_a_ratio(tokens: Tokens) -> None:
    certain = replace(tokens, logprob=np.zeros_like(tokens.logprob))
    rows = Records(np.arange(30)[:, None], np.zeros(30, np.int64))
    view = ModelView(Prefixed(certain), rows.take(np.arange(20)), rows.take(np.array([0])))
    assert catalog.attack("recall")(view, np.random.default_rng(0)).score.tolist() == [1.0] * 20


def test_edges_of_the_error_zone() -> None:
    one = np.array([-1.0, -1.0])
    known = Tokens(np.array([0, 2]), one, one[None] - [0.5, 0.0], top=np.array([False, True]))
    assert score(known, "ez-mia").tolist() == [1.0]  # nothing fell
    still = replace(known, reference=one[None])
    assert score(still, "ez-mia").tolist() == [0.5]  # nothing moved
    both = Tokens(
        np.array([0, 2, 4]), np.tile(one, 2), np.tile(one, 2)[None] + 0.5,
        top=np.array([True, True, False, True]),
    )  # fmt: skip
    assert score(both, "ez-mia").tolist() == [1.0, 0.0]  # no wrong token; all fell
    with pytest.raises(NotApplicable, match="first choices alone"):
        score(replace(known, top=np.array([True, True])), "ez-mia")


def test_a_short_text_is_one_window() -> None:
    one = np.array([-1.0])
    short = Tokens(np.array([0, 1]), one, one[None] - 1)
    assert score(short, "wbc").tolist() == [1.0]


def test_a_text_shorter_than_all_windows_is_summed_as_a_whole() -> None:
    gain = np.array([1.0, -2.0])
    short = Tokens(np.array([0, 2]), -np.ones(2), -np.ones(2)[None] - gain)
    assert score(short, "wbc", smallest=3).tolist() == [0.0]  # -1 in all; the first alone is 1


def test_a_window_that_did_not_move_has_no_vote() -> None:
    still = Tokens(np.array([0, 3]), -np.ones(3), -np.ones((1, 3)))
    assert score(still, "wbc").tolist() == [0.0]


def test_a_model_whose_entropy_is_at_the_limit_is_not_sure() -> None:
    two = Tokens(
        np.array([0, 2]), np.array([-6.0, -4.0]), np.zeros((0, 2)), mean=np.array([-2.0, -1.0])
    )
    assert score(two, "token-threshold", signal="surprising", share=1.0).tolist() == [-4.0]


def test_a_small_spread_counts_as_it_is_and_none_as_a_millionth() -> None:
    two = Tokens(
        np.array([0, 1, 2]), np.array([-0.5, -0.5]), np.zeros((0, 2)),
        mean=np.array([-0.4, -0.4]), sd=np.array([1e-3, 0.0]),
    )  # fmt: skip
    found = score(two, "token-threshold", signal="min-k++")
    np.testing.assert_allclose(found, [-0.1 / 1e-3, -0.1 / 1e-6])


def test_shadows_that_agree_leave_the_difference_itself() -> None:
    three = Tokens(
        np.array([0, 1, 2]), np.array([-1.0, -2.0]), np.zeros((0, 2)),
        shadow=np.array([[-3.0, -2.5]] * 3), inside=np.zeros((3, 2), bool),
    )  # fmt: skip
    assert score(three, "token-lira").tolist() == [2.0, 0.5]


@pytest.mark.parametrize("inside", [[[1, 1], [1, 1], [0, 0]], [[1, 1], [0, 0], [0, 0]]])
def test_one_shadow_on_a_side_of_every_text_is_too_few(inside: list[list[int]]) -> None:
    known = np.array(inside, bool)
    tokens = Tokens(
        np.array([0, 1, 2]), -np.ones(2), np.zeros((0, 2)),
        shadow=-np.ones(known.shape), inside=known,
    )  # fmt: skip
    with pytest.raises(NotApplicable, match="two shadow models or more"):
        score(tokens, "token-lira")


def supervised(members: int, others: int) -> tuple[np.ndarray, Tokens, np.ndarray]:
    """Its scores of 10 texts, the texts with known ones behind them, and who of those is one."""
    known = np.arange(members + others) < members
    drawn, _ = draw(
        10 + len(known), 1.0, np.random.default_rng(3), np.concatenate([np.arange(10) < 5, known])
    )
    rows = Records(np.arange(len(drawn))[:, None], np.zeros(len(drawn), np.int64))
    view = ModelView(
        TokenTableTarget(drawn),
        rows.take(np.arange(10)),
        rows.take(10 + np.flatnonzero(~known)),
        known_members=rows.take(10 + np.flatnonzero(known)),
    )
    return catalog.attack("token-supervised")(view, np.random.default_rng(0)).score, drawn, known


def test_known_texts_of_either_kind_weigh_alike_whatever_their_numbers() -> None:
    """Its log odds have no slope of the ridge's own loss, with half of the weight on members."""
    found, drawn, known = supervised(60, 150)
    columns = all_signals(drawn)
    lessons = columns[10:]
    scaled = (columns - lessons.mean(axis=0)) / lessons.std(axis=0)
    weight = np.where(known, 1 / 60, 1 / 150) * 210 / 2
    x, y = np.column_stack([scaled[10:], np.ones(210)]), known.astype(float)
    beta = np.zeros(x.shape[1])
    penalty = np.diag([10.0] * (x.shape[1] - 1) + [0.0])  # 1 / 0.1, and none of the intercept
    for _ in range(30):  # Newton's steps
        p = 1 / (1 + np.exp(-x @ beta))
        slope = x.T @ (weight * (p - y)) + penalty @ beta
        curve = x.T @ (x * (weight * p * (1 - p))[:, None]) + penalty
        beta -= np.linalg.solve(curve, slope)
    # lbfgs stops at slopes of 1e-4 a record: 210e-4 / 10 a signal, each up to 3 deviations away
    np.testing.assert_allclose(found, scaled[:10] @ beta[:-1] + beta[-1], atol=9 * 3 * 210e-5)


def test_fifty_known_texts_of_a_kind_are_enough_and_fewer_are_not() -> None:
    assert np.isfinite(supervised(50, 50)[0]).all()
    for sizes in ((49, 60), (60, 49)):
        with pytest.raises(NotApplicable, match="50 or more known members"):
            supervised(*sizes)


def test_likelihood_ratio_of_shadows(tokens: Tokens) -> None:
    assert tokens.shadow is not None
    assert tokens.inside is not None
    squares, freedom = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    means: dict[tuple[int, bool], float] = {}
    for text in range(len(tokens)):
        for side in (True, False):
            own = [
                float(tokens.shadow[k, text])
                for k in range(len(tokens.shadow))
                if tokens.inside[k, text] == side
            ]
            means[text, side] = mean(own)
            squares[side] += sum((value - means[text, side]) ** 2 for value in own)
            freedom[side] += len(own) - 1
    expected = []
    for text, read in enumerate(texts(tokens)):
        phi, density = mean([t["lp"] for t in read]), {}
        for side in (True, False):
            variance = squares[side] / freedom[side]
            density[side] = -math.log(variance) / 2 - (phi - means[text, side]) ** 2 / 2 / variance
        expected.append(density[True] - density[False])
    np.testing.assert_allclose(score(tokens, "token-lira"), expected, rtol=1e-9)
    offline = replace(tokens, inside=np.zeros_like(tokens.inside))
    every = tokens.shadow.var(axis=0, ddof=1).mean()
    loss = score(tokens, "token-threshold")
    expected_offline = (loss - tokens.shadow.mean(axis=0)) / math.sqrt(every)
    np.testing.assert_allclose(score(offline, "token-lira"), expected_offline, rtol=1e-9)


def test_a_text_in_all_shadow_models_or_none_has_the_mean_gap(tokens: Tokens) -> None:
    assert tokens.inside is not None
    some = tokens.inside.copy()
    some[:, 0], some[:, 1] = True, False
    found = score(replace(tokens, inside=some), "token-lira")
    assert np.isfinite(found).all()
    assert np.ptp(found) > 0
    one = np.zeros_like(some)
    one[0] = True
    with pytest.raises(NotApplicable, match="two shadow models or more on a side"):
        score(replace(tokens, inside=one), "token-lira")


def test_ratio_to_the_population_of_shadows(tokens: Tokens) -> None:
    assert tokens.shadow is not None
    assert tokens.inside is not None
    sides = []
    for text in range(len(tokens)):
        p = {
            side: [
                math.exp(float(tokens.shadow[k, text]))
                for k in range(len(tokens.shadow))
                if tokens.inside[k, text] == side
            ]
            for side in (True, False)
        }
        sides.append((mean(p[True]), mean(p[False])))
    expected = [
        mean([t["lp"] for t in text]) - math.log((inside + outside) / 2)
        for text, (inside, outside) in zip(texts(tokens), sides, strict=True)
    ]
    np.testing.assert_allclose(score(tokens, "token-rmia"), expected, rtol=1e-9)
    alone = tokens.inside.copy()
    alone[:, 0] = False
    outside = mean([math.exp(float(value)) for value in tokens.shadow[:, 0]])
    rest = sides[1:]  # a line through (1, 1), by least squares over texts that have both sides
    a = sum((1 - i) * (1 - o) for i, o in rest) / sum((1 - o) ** 2 for _, o in rest)
    expected[0] = mean([t["lp"] for t in texts(tokens)[0]])
    expected[0] -= math.log((a * outside + 1 - a + outside) / 2)
    found = score(replace(tokens, inside=alone), "token-rmia")
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_features_of_a_model_among_shadows(tokens: Tokens) -> None:
    assert tokens.inside is not None
    assert tokens.shadow_logprob is not None
    others = read_shadows(view_of(tokens), tokens)
    found = compare(tokens, tokens.logprob, others)
    assert found.shape == (len(tokens), 12)
    sizes = (2, 4, 9, 18, 40)
    for row, (begin, end) in enumerate(zip(tokens.start[:-1], tokens.start[1:], strict=True)):
        own = tokens.logprob[begin:end].tolist()
        side = {
            known: [
                mean([float(s[t]) for s, i in zip(tokens.shadow_logprob, tokens.inside[:, row],
                                                  strict=True) if i == known])
                for t in range(begin, end)
            ]
            for known in (True, False)
        }  # fmt: skip
        base = tokens.reference[0, begin:end].tolist()
        expected = [mean(own) - mean(side[False]), mean(own) - mean(side[True])]
        np.testing.assert_allclose(found[row, :2], expected, atol=1e-9)
        pairs = zip(own, side[True], side[False], strict=True)
        expected = [mean([(x - (i + o) / 2) * (i - o) for x, i, o in pairs])]
        expected.append(mean([x - b for x, b in zip(own, base, strict=True)]))
        for reference in (side[False], base):
            gain = [x - b for x, b in zip(own, reference, strict=True)]
            expected.append(lowest(gain, 0.2))
            votes = [
                mean([float(sum(gain[i : i + n]) > 0) for i in range(len(gain) - n + 1)])
                for n in sizes
                if n <= len(gain)
            ]
            expected.append(mean(votes))
            expected.append(sum(g for g in gain if g > 0) / sum(map(abs, gain)))
        np.testing.assert_allclose(found[row, 4:], expected, atol=1e-9)


def test_a_regression_over_shadows_reads_means_alone_and_refuses_too_few(tokens: Tokens) -> None:
    assert tokens.shadow is not None
    assert tokens.inside is not None
    means = replace(tokens, shadow_logprob=None)
    assert np.isfinite(score(means, "token-stack")).all()
    few = replace(tokens, shadow=tokens.shadow[:3], inside=tokens.inside[:3], shadow_logprob=None)
    with pytest.raises(NotApplicable, match=r"4 or more shadow models .* got 3"):
        score(few, "token-stack")
    offline = replace(means, inside=np.zeros_like(tokens.inside))
    with pytest.raises(NotApplicable, match="got none"):
        score(offline, "token-stack")


@pytest.mark.parametrize(
    ("name", "settings", "lacks", "says"),
    [
        ("token-threshold", {"signal": "zlib"}, {"size": None}, "'text'"),
        ("token-threshold", {"signal": "min-k++"}, {"sd": None}, "'sd'"),
        ("token-threshold", {"signal": "lowercase"}, {"lowercase": None}, "'lowercase_logprobs'"),
        (
            "token-threshold",
            {"signal": "gradient-norm"},
            {"gradient_norm": None},
            "column 'gradient_norm', or pass CausalTarget.pipeline, gradients=True",
        ),
        ("token-threshold", {"signal": "surprising"}, {"mean": None}, "'mean'"),
        ("reference-ratio", {}, {"reference": "none"}, "'reference_logprobs'"),
        ("wbc", {}, {"reference": "none"}, "'reference_logprobs'"),
        ("ez-mia", {}, {"top": None}, "'top1' or 'rank'"),
        *((name, {}, {"shadow": None}, "'shadow_means'") for name in catalog.TOKEN_SHADOW_ATTACKS),
    ],
)
def test_what_a_table_lacks_is_named(
    tokens: Tokens, name: str, settings: Any, lacks: Any, says: str
) -> None:
    if lacks.get("reference") == "none":
        lacks = {"reference": np.zeros((0, len(tokens.logprob)))}
    with pytest.raises(NotApplicable, match=says):
        score(replace(tokens, **lacks), name, **settings)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(SpecError, match="share above 0"):
        catalog.attack("token-threshold", signal="min-k", share=0.0)
    with pytest.raises(SpecError, match="bound above 0"):
        catalog.attack("dc-pdd", bound=0.0)
    with pytest.raises(SpecError, match="gamma from 0 to 1"):
        catalog.attack("con-recall", gamma=1.5)
    with pytest.raises(SpecError, match="smallest windows"):
        catalog.attack("wbc", smallest=50)


def test_a_base_of_logarithms_changes_no_rank_but_that_of_surprising_tokens(tokens: Tokens) -> None:
    assert tokens.mean is not None
    assert tokens.sd is not None
    by = math.log2(math.e)
    other = replace(
        tokens, logprob=tokens.logprob * by, reference=tokens.reference * by,
        mean=tokens.mean * by, sd=tokens.sd * by,
    )  # fmt: skip
    cases: list[tuple[str, dict[str, str]]] = [
        ("reference-ratio", {}),
        ("wbc", {}),
        ("ez-mia", {}),
    ]
    cases += [("token-threshold", {"signal": s}) for s in ("loss", "zlib", "min-k", "min-k++")]
    for name, settings in cases:
        ranks = [score(one, name, **settings).argsort().tolist() for one in (tokens, other)]
        assert ranks[0] == ranks[1], name
