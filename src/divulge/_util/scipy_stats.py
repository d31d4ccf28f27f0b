"""`scipy.stats`, loaded by its first use: half a second and 40 MiB that many commands never use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import stats as stats
else:

    class _Stats:
        """Passes every name on to the module."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("scipy.stats"), name)

    stats = _Stats()
