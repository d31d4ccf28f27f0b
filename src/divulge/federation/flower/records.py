"""Convert between Flower's records and divulge's tensors and settings."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from divulge._util.json import JSON, Settings
from divulge.core import LocalTraining, Tensors
from divulge.errors import DataError
from divulge.federation.transcript.recording import as_count

FRAMEWORK = f"flwr {version('flwr')}"
"""How a transcript names the framework that ran the federation."""

FIT_INS = "fitins.parameters"
"""Name of the record of weights that a server of the legacy API sends for training."""

SETTING_NAMES = {
    "optimiser": ("optimiser", "optimizer"),
    "lr": ("lr", "learning-rate"),
    "momentum": ("momentum",),
    "weight_decay": ("weight-decay",),
    "epochs": ("epochs", "local-epochs", "num-epochs"),
    "batch_size": ("batch-size",),
}
"""Names that Flower apps give to settings of local training; underscores count as hyphens."""
SETTING_TYPES = {"optimiser": str, "epochs": int, "batch_size": int}


def read_tensors(content: RecordDict) -> dict[str, np.ndarray]:
    """Read the arrays of a message that holds one array record.

    Raises:
        DataError: it has none, several, or arrays that cannot be read.
    """
    records = list(content.array_records.values())
    if len(records) != 1:
        raise DataError(
            f"expected one ArrayRecord in a message, got {len(records)}: send the weights in one"
        )
    try:
        return {name: array.numpy() for name, array in records[0].items()}
    except Exception as error:  # NumPy reads a header that somebody else wrote, as far as it gets
        raise DataError(
            f"expected arrays of numbers in a message, got {type(error).__name__}: {error}: "
            "send those"
        ) from error


def array_record(arrays: Tensors) -> ArrayRecord:
    """Array record of Flower that holds these arrays."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def copy_records(content: RecordDict) -> RecordDict:
    """Copy records, so that changes leave the original alone; the bytes of arrays are shared."""
    copy = RecordDict()
    for name, record in content.items():
        mine: dict[str, Any] = dict(record)
        if not isinstance(record, ArrayRecord):
            mine = {key: list(v) if isinstance(v, list) else v for key, v in mine.items()}
        copy[name] = type(record)(mine)
    return copy


def fit_result(arrays: Tensors, records: int, metrics: Mapping[str, int | float]) -> RecordDict:
    """Reply that a server of the legacy API expects: weights, number of records and metrics."""
    return RecordDict({
        "fitres.parameters": array_record(arrays),
        "fitres.num_examples": MetricRecord({"num_examples": records}),
        "fitres.metrics": ConfigRecord(dict(metrics)),
        "fitres.status": ConfigRecord({"code": 0, "message": ""}),
    })  # fmt: skip


def number_of_records(content: RecordDict, key: str) -> int | None:
    """Number of records that a reply gives under a key; None where it is not a whole number."""
    counts = [metrics[key] for metrics in content.metric_records.values() if key in metrics]
    return as_count(counts[0]) if len(counts) == 1 else None


def read_config(content: RecordDict) -> dict[str, JSON]:
    """Settings in a message that JSON can hold, without the round number that Flower adds."""
    each: list[ConfigRecord] = list(content.config_records.values())
    merged = {name: value for record in each for name, value in record.items()}
    return {
        name: value
        for name, value in merged.items()
        if isinstance(value, str | int | float) and name != "server-round"
    }


def read_local_training(settings: Settings, otherwise: LocalTraining) -> LocalTraining:
    """Settings of local training that a message names; the others are taken from ``otherwise``."""
    plain = {name.lower().replace("_", "-"): value for name, value in settings.items()}
    given = {field: getattr(otherwise, field) for field in SETTING_NAMES}
    for field, words in SETTING_NAMES.items():
        kind = SETTING_TYPES.get(field, float)
        for value in (plain[word] for word in words if word in plain):
            if isinstance(value, str) == (kind is str):
                given[field] = kind(value)
    return LocalTraining(**given)
