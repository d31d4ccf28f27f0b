"""DAP's table 4: what defences cost in time."""

from divulge.experiments.dap_rows import DIFFERS, MINUTES, SEEDS, UNITS, figures, rows
from divulge.experiments.table import Table

_PAPER = {
    "CIFAR-10": figures(5.6, 5.9, 46.5, 46.5, 46.5, 46.5, 17.8, 17.7),
    "CIFAR-100": figures(8.9, 9.5, 48.2, 48.2, 48.2, 48.2, 17.9, 17.9),
    "Fashion-MNIST": figures(12.1, 11.7, 53.2, 53.2, 53.2, 53.2, 23.4, 23.5),
}
_COLUMNS = (
    "seconds an epoch",
    "epoch, times the baseline's",
    "whole training, times the baseline's",
)
_AGAINST = (
    "epoch, times the baseline's",
    "whole training, times the baseline's",
)

TABLE = Table(
    title="CPU seconds of training",
    source="Lomurno et al. 2023, table 4",
    columns=_COLUMNS,
    rows=rows("seconds an epoch", _PAPER, _AGAINST),
    work="divulge.experiments.dap_models:measured",
    units=UNITS,
    nested=False,
    kinds=dict.fromkeys(_COLUMNS, "normal"),
    seeds=SEEDS,
    minutes=MINUTES,
    differs=DIFFERS,
    keeps=True,
    largest={
        "seconds an epoch": 1e4,
        "epoch, times the baseline's": 1e4,
        "whole training, times the baseline's": 1e5,
    },
)
