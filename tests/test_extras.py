"""What is loaded of packages that are not divulge's own."""

import subprocess
import sys

import pytest

pytest.importorskip("pandas")

_FRAME = """
import sys
from divulge._util.extras import load_sklearn
load_sklearn()
assert "pandas" not in sys.modules
import pandas
from sklearn.preprocessing import StandardScaler
scaler = StandardScaler().fit(pandas.DataFrame({"age": [1.0, 2.0], "height": [3.0, 5.0]}))
assert scaler.get_feature_names_out().tolist() == ["age", "height"]
"""


@pytest.mark.slow  # two interpreters with pandas
def test_scikit_learn_loads_no_pandas_and_knows_frames_all_the_same() -> None:
    subprocess.run([sys.executable, "-c", _FRAME], check=True)


def test_a_package_is_hidden_from_one_thread_alone() -> None:
    from divulge._util.extras import _HidingFinder

    hidden = _HidingFinder("pandas")
    with pytest.raises(ModuleNotFoundError, match="pandas"):
        hidden.find_spec("pandas")
    hidden.find_spec("numpy")
    hidden._thread += 1
    hidden.find_spec("pandas")
