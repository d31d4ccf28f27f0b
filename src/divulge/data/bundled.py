"""Load small real data sets that come with scikit-learn: no download, no terms to accept."""

from collections.abc import Callable

import numpy as np

from divulge.core import Records


def digits() -> Records:
    """1,797 scanned digits of 8 x 8 pixels in [0, 1], 10 classes (Alpaydin and Kaynak 1998)."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return Records((x / 16).astype(np.float32), y.astype(np.int64))


def breast_cancer() -> Records:
    """569 tumours with 30 measurements, standardised, 2 classes (Wolberg et al. 1995)."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return Records(((x - x.mean(0)) / x.std(0)).astype(np.float32), y.astype(np.int64))


BUNDLED_DATA: dict[str, Callable[[], Records]] = {"digits": digits, "breast-cancer": breast_cancer}
