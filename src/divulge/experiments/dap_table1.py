"""DAP's table 1: what defended models are good for."""

from divulge.experiments.dap_rows import DIFFERS, MINUTES, PAIRS, SEEDS, UNITS, figures, rows
from divulge.experiments.table import Table

_PAPER = {
    "CIFAR-10": figures(0.784, 0.811, 0.313, 0.374, 0.417, 0.418, 0.624, 0.613),
    "CIFAR-100": figures(0.481, 0.532, 0.039, 0.083, 0.090, 0.072, 0.315, 0.276),
    "Fashion-MNIST": figures(0.932, 0.926, 0.605, 0.701, 0.736, 0.774, 0.866, 0.871),
}
_COLUMNS = ("accuracy", "accuracy, less the baseline's")
_AGAINST = ("accuracy, less the baseline's",)

TABLE = Table(
    title="Accuracy of defended models on test sets",
    source="Lomurno et al. 2023, table 1",
    columns=_COLUMNS,
    rows=rows("accuracy", _PAPER, _AGAINST),
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
