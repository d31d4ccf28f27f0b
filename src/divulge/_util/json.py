"""The type of what JSON and TOML files hold."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
else:
    JSON = Any  # what checks types at run time knows none that contain themselves

Settings = Mapping[str, JSON]
"""Values by name, such as the settings of an attack."""
