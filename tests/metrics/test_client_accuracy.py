"""Accuracy of clients' models counts each class as often as the client has it."""

import numpy as np
import pytest

from divulge.metrics import client_accuracy


def test_accuracy_counts_records_by_the_class_mix_of_each_client() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    hits = rng.random((4, 300)) < np.array([0.9, 0.6, 0.3])[y]
    shares = rng.dirichlet(np.ones(3), 4)
    naive = np.mean([
        sum(share * mine[y == k].mean() for k, share in enumerate(shares[c]))
        for c, mine in enumerate(hits)
    ])  # fmt: skip
    estimate = client_accuracy.mean_accuracy(hits, y, shares)
    assert estimate.value == pytest.approx(naive)
    assert estimate.low < naive < estimate.high
    one = client_accuracy.mean_accuracy(hits[:1], y, np.full((4, 3), 1 / 3))
    each = [hits[0][y == k].mean() for k in range(3)]
    assert one.value == pytest.approx(np.mean(each))
    # a class without a test record counts for nobody
    more = np.hstack([shares * 0.5, np.full((4, 1), 0.5)])
    assert client_accuracy.mean_accuracy(hits, y, more).value == pytest.approx(naive)


@pytest.mark.parametrize("rates", [(0.9, 0.6, 0.3), (0.5, 0.5, 0.5)])
def test_the_interval_of_accuracy_covers_what_further_test_records_would_show(
    rates: tuple[float, ...],
) -> None:
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(3), 5)
    truth = float((shares @ np.array(rates)).mean())
    covered = 0
    for _ in range(400):
        y = np.repeat(np.arange(3), 40)
        hits = rng.random((1, 120)) < np.array(rates)[y]
        estimate = client_accuracy.mean_accuracy(hits, y, shares)
        assert estimate.high is not None
        covered += estimate.low <= truth <= estimate.high
    assert covered >= 366  # of 400 intervals at 95 %, so few with a chance of 1 in 1,000
