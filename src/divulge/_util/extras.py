"""Packages that are not installed with divulge itself: which extra brings each."""

import contextlib
from collections.abc import Callable, Iterator

import lazy_loader

from divulge.errors import MissingExtra

EXTRAS = {
    "torch": "torch",
    "safetensors": "torch",
    "onnxruntime": "onnx",
    "skops": "skops",
    "pyarrow": "parquet",
    "pandas": "pandas",
    "opacus": "dp",
    "dp_accounting": "dp",
    "xgboost": "stacking",
    "ray": "ray",
    "cryptography": "signing",
    "flwr": "flower",
    "nvflare": "nvflare",
    "torchvision": "images",
    "PIL": "images",
    "httpx": "http",
    "keras": "keras",
    "transformers": "transformers",
    "accelerate": "transformers",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "huggingface_hub": "huggingface",
}
"""By the name that is imported."""


@contextlib.contextmanager
def name_missing_extra() -> Iterator[None]:
    """Say which extra would bring a package that is not there, instead of an import error.

    Raises:
        MissingExtra: a package of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(package, EXTRAS[package]) from error


def attach_stub(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Let a package offer the names in its stub, each loaded when it is first asked for.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``.
    """
    get, names, public = lazy_loader.attach_stub(package, file)

    def get_attribute(name: str) -> object:
        with name_missing_extra():
            return get(name)

    return get_attribute, names, public
