"""Define the table of accuracy and leakage by the number of records, which DAP's paper has not."""

from collections.abc import Mapping

from divulge._util.json import Settings
from divulge_papers.table import Row, Table

_COLUMNS = ("accuracy", "AUC", "AOP(2)")

_ROWS: Mapping[str, Settings] = {
    "linear, by accuracy": {"linear": True, "select": "accuracy"},
    "linear, by AOP": {"linear": True},
    "network, by accuracy": {"select": "accuracy"},
    "network, by AOP": {},
    "flat network, by accuracy": {"head": "flat", "select": "accuracy"},
    "flat network, by AOP": {"head": "flat"},
}

_BASELINE = {"accuracy": 0.932, "AUC": 0.552, "AOP(2)": 0.765}
"""The paper's plain training on all records, its epoch chosen by accuracy: tables 1 to 3."""

_NUMBERS = (800, 4800, 48000)


def _name(records: int, row: str) -> str:
    return f"Fashion-MNIST, {records:,} records: {row}"


def _rows() -> tuple[Row, ...]:
    return tuple(
        Row(
            _name(records, name),
            {"data": "fashion_mnist", "records": records, **settings},
            _BASELINE if (records, name) == (_NUMBERS[-1], "network, by accuracy") else {},
            weight=(0.1 if "linear" in name else 1.0) * records**0.5,
        )
        for records in _NUMBERS
        for name, settings in _ROWS.items()
    )


_DIFFERS = (
    "No table of the paper, which has one number of records a data set, all 60,000 of "
    "Fashion-MNIST. One model a seed is trained on so many records, the epoch is chosen on a "
    "quarter as many that are held out, and 10,000 others test and are the attack's non-members: "
    "they choose nothing. The network has convolutions of 16, 32 and 64 channels (the paper: 64, "
    "128 and 256), and its last layer reads the mean of each channel. The flat one has "
    "convolutions of 16 and 32 channels, and its last layer reads every position. Adam at 1e-3, "
    "batches of 64, at most 120, 30 and 6 epochs with 800, 4,800 and "
    "48,000 records. AUC is that of a threshold on the loss, no adaptive attack. "
)

BY_RECORDS = Table(
    title="Accuracy and leakage by the number of records a model is trained on",
    source="Lomurno et al. 2023, section 5, whose figures are of whole data sets",
    columns=_COLUMNS,
    rows=_rows(),
    work="divulge_papers.papers.dap.by_records:measure_by_records",
    units="models, each on records of its own draw",
    nested=False,
    data=("fashion_mnist",),
    seeds={"small": 3, "paper": 3},
    minutes={"small": 5, "paper": 30},
    kinds=dict.fromkeys(_COLUMNS, "normal"),
    pairs=tuple(
        (_name(records, name), _name(records, "flat network, by AOP"))
        for records in _NUMBERS
        for name in _ROWS
        if name != "flat network, by AOP"
    ),
    differs={
        "small": f"{_DIFFERS}800 records alone.",
        "paper": f"{_DIFFERS}800, 4,800 and 48,000 records.",
    },
)
