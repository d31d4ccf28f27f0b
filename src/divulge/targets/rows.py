"""Records recognised by their content."""

import hashlib

import numpy as np
from jaxtyping import Shaped


def row_keys(x: Shaped[np.ndarray, " records *features"], salt: bytes = b"") -> list[bytes]:
    """One 16-byte hash per record, of its type, shape and bytes.

    Examples:
        >>> one, two, same = row_keys(np.array([1.0, 2.0, 1.0]))
        >>> one == same, one == two
        (True, False)
    """
    start = hashlib.blake2b(f"{x.dtype.str}{x.shape[1:]}".encode(), digest_size=16, key=salt)
    content = memoryview(x.tobytes())
    width = len(content) // max(1, len(x))
    keys = []
    for row in range(len(x)):
        state = start.copy()
        state.update(content[row * width : (row + 1) * width])
        keys.append(state.digest())
    return keys
