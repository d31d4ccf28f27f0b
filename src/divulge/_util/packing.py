"""Settings with code in them, on their way to another process."""

import importlib
import importlib.util
import inspect
import sys
from importlib.machinery import PathFinder
from typing import Any


def pickle_settings(settings: Any, code: Any) -> bytes:
    """The settings as bytes, with the code of a module that could not be imported there.

    The Python file beside an ``audit.toml`` is such a module. Unpack with ``pickle.loads``, and
    only what this program has packed.

    Args:
        settings: anything that cloudpickle takes.
        code: the function or class whose module may have to go along.
    """
    vendored = importlib.util.find_spec("cloudpickle") is None  # by joblib, before its 1.6
    pickler = importlib.import_module("joblib.externals.cloudpickle" if vendored else "cloudpickle")
    module = sys.modules.get(getattr(inspect.unwrap(code), "__module__", None) or "__main__")
    top = module.__name__.partition(".")[0] if module else "__main__"
    if top == "__main__" or PathFinder.find_spec(top) or top in sys.builtin_module_names:
        return bytes(pickler.dumps(settings))
    pickler.register_pickle_by_value(module)
    try:
        return bytes(pickler.dumps(settings))
    finally:
        pickler.unregister_pickle_by_value(module)
