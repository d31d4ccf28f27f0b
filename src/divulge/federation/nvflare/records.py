"""Read FLARE's task data, results and models as divulge's tensors and numbers.

FLARE has decoded them by then; nothing is decoded or unpickled here.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from nvflare.apis.dxo import DXO, MetaKey, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable

from divulge.errors import DataError
from divulge.federation.transcript.recording import as_count


def has_failed(result: Shareable) -> bool:
    """Whether a result says that its client failed."""
    try:
        return bool(result.get_return_code() != ReturnCode.OK)
    except ValueError:  # somebody put something else in the place of the headers
        return False


def read_tensors(shareable: Shareable, kind: str) -> dict[str, np.ndarray]:
    """Read the tensors in a task or a result; those of NumPy are not copied.

    Args:
        shareable: the task or the result.
        kind: kind of data that it must have, one of FLARE's ``DataKind``.

    Raises:
        DataError: it has another kind, is encrypted or quantised, or holds something else.
    """
    dxo = _read_dxo(shareable)
    if dxo.data_kind != kind:
        raise DataError(
            f"expected data of kind {kind}, got {str(dxo.data_kind)[:100]!a}: choose the "
            "recorder's `kind` as clients send it"
        )
    if (by := dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM)) is not None:
        raise DataError(
            f"expected plain arrays, got what {str(by)[:100]!a} made of them: record where they "
            "are decoded"
        )
    return as_tensors(dxo.data)


def number_of_records(result: Shareable, key: str) -> int | None:
    """Number of records that a result gives under a key; None where it is not a whole number."""
    try:
        return as_count(_read_dxo(result).get_meta_prop(key))
    except DataError:
        return None


def as_tensors(arrays: Mapping[Any, Any]) -> dict[str, np.ndarray]:
    """Arrays of NumPy, or tensors of PyTorch, as arrays by name.

    Raises:
        DataError: there is something else.
    """
    return {str(name): _as_array(value) for name, value in arrays.items()}


def _read_dxo(shareable: Shareable) -> DXO:
    try:
        return from_shareable(shareable)
    except Exception as error:  # whatever somebody put in its place
        raise DataError(
            f"expected a data exchange object of FLARE, got {type(error).__name__}: send weights"
        ) from error


def _as_array(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    torch = sys.modules.get("torch")  # whoever has sent or decoded a tensor of it has loaded it
    if torch is not None and isinstance(value, torch.Tensor):
        try:
            array: np.ndarray = value.detach().cpu().numpy()
        except (RuntimeError, TypeError) as error:  # sparse, quantised, bfloat16
            raise DataError(f"expected a plain tensor, got {error}: convert it") from error
        return array
    raise DataError(f"expected arrays of numbers, got {type(value).__name__}: send those")
