"""Look into a model through a wrapper around it, as into the model itself."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.core import LastLayer, Target, as_white_box


class LookThrough:
    """A wrapper around a target that is looked into as that target is."""

    _target: Target

    def gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records *features"]:
        """The inner target's gradients.

        Raises:
            NotApplicable: the inner target cannot be looked into.
        """
        return as_white_box(self._target).gradient(*self._pass_on(x, y))

    def parameter_gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records parameters"]:
        """The inner target's gradients by its weights; errors as of `gradient`."""
        return as_white_box(self._target).parameter_gradient(*self._pass_on(x, y))

    def hessian_product(
        self,
        x: Shaped[np.ndarray, "records *features"],
        y: Int[np.ndarray, " records"],
        vector: Float[np.ndarray, " parameters"],
    ) -> Float[np.ndarray, " parameters"]:
        """The inner target's Hessian times a vector; errors as of `gradient`."""
        return as_white_box(self._target).hessian_product(*self._pass_on(x, y), vector)

    def last_layer(self, x: Shaped[np.ndarray, "records *features"]) -> LastLayer:
        """The inner target's last layer; errors as of `gradient`."""
        return as_white_box(self._target).last_layer(self._pass_on(x)[0])

    def _pass_on(
        self,
        x: Shaped[np.ndarray, "records *features"],
        y: Int[np.ndarray, " records"] | None = None,
    ) -> tuple[Any, Any]:
        """The records with which the inner target is looked into, and their classes."""
        return x, y
