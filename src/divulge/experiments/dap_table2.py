"""DAP's table 2: what attacks on defended models achieve."""

from divulge.experiments.dap_rows import DIFFERS, MINUTES, PAIRS, SEEDS, UNITS, figures, rows
from divulge.experiments.table import Table

_PAPER = {
    "CIFAR-10": figures(0.648, 0.631, 0.505, 0.526, 0.519, 0.503, 0.507, 0.505),
    "CIFAR-100": figures(0.603, 0.621, 0.501, 0.515, 0.507, 0.506, 0.516, 0.506),
    "Fashion-MNIST": figures(0.552, 0.562, 0.502, 0.502, 0.504, 0.505, 0.507, 0.506),
}
_COLUMNS = (
    "AUC",
    "AUC, adaptive",
    "AUC, adaptive, less the baseline's",
    "TPR at 1 % FPR, adaptive",
    "TPR at 0.1 % FPR, adaptive",
)
_AGAINST = ("AUC, adaptive, less the baseline's",)

TABLE = Table(
    title="AUC of membership inference on defended models",
    source="Lomurno et al. 2023, table 2",
    columns=_COLUMNS,
    rows=rows("AUC", _PAPER, _AGAINST),
    work="divulge.experiments.dap_models:measured",
    units=UNITS,
    nested=False,
    kinds=dict.fromkeys(_COLUMNS, "normal"),
    pairs=PAIRS,
    seeds=SEEDS,
    minutes=MINUTES,
    differs=DIFFERS,
    keeps=True,
    smallest=dict.fromkeys(_AGAINST, -1.0),
)
