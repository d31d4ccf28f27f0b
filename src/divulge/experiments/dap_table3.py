"""DAP's table 3: accuracy over privacy."""

from divulge.experiments.dap_rows import DIFFERS, MINUTES, PAIRS, SEEDS, UNITS, figures, rows
from divulge.experiments.table import Table

_PAPER = {
    "CIFAR-10": figures(0.467, 0.509, 0.307, 0.338, 0.387, 0.413, 0.607, 0.601),
    "CIFAR-100": figures(0.331, 0.345, 0.039, 0.078, 0.087, 0.070, 0.296, 0.269),
    "Fashion-MNIST": figures(0.765, 0.733, 0.600, 0.695, 0.724, 0.759, 0.842, 0.850),
}
_COLUMNS = (
    "AOP(2)",
    "AOP(2), less the baseline's",
    "AOP(2), adaptive",
    "AOP(2), adaptive, less the baseline's",
)
_AGAINST = (
    "AOP(2), less the baseline's",
    "AOP(2), adaptive, less the baseline's",
)

TABLE = Table(
    title="AOP(2) of defended models",
    source="Lomurno et al. 2023, table 3",
    columns=_COLUMNS,
    rows=rows("AOP(2)", _PAPER, _AGAINST),
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
