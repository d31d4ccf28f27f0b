"""Centre and covariance of a cluster, and the densities of points under it."""

from types import EllipsisType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy import special

Of = Int[np.ndarray, "*chosen"] | EllipsisType


FREEDOM = 6.0
"""Degrees of freedom of the non-members' Student t: outliers among them are common."""


class Shape(NamedTuple):
    """Centre and covariance of one cluster; of several, stacked."""

    mean: Float64[np.ndarray, "*clusters dimensions"]
    scatter: Float64[np.ndarray, "*clusters dimensions dimensions"]

    def take(self, chosen: Int[np.ndarray, " chosen"]) -> "Shape":
        """The chosen clusters."""
        return Shape(self.mean[chosen], self.scatter[chosen])

    def gaussian(
        self, z: Float64[np.ndarray, "*some points dimensions"], of: Of = ...
    ) -> Float64[np.ndarray, "*other points"]:
        """Log density without the factor (2π)^(-d/2), which `student` leaves out too.

        Clusters and points are broadcast: of all points for each cluster.

        Args:
            z: the points.
            of: numbers of the clusters, if not each once.
        """
        squared, log_det = self._distances(z, of)
        density: np.ndarray = -0.5 * (log_det + squared)
        return density

    def student(
        self, z: Float64[np.ndarray, "*some points dimensions"], of: Of = ...
    ) -> Float64[np.ndarray, "*other points"]:
        """Log density of a multivariate t with this centre and scale matrix, as `gaussian`."""
        d, nu = self.mean.shape[-1], FREEDOM
        squared, log_det = self._distances(z, of)
        constant = special.gammaln((nu + d) / 2) - special.gammaln(nu / 2) - d / 2 * np.log(nu / 2)
        # the constant that remains of Student's density once both leave out (2π)^(-d/2)
        density: np.ndarray = constant - 0.5 * log_det - (nu + d) / 2 * np.log1p(squared / nu)
        return density

    def _distances(self, z: np.ndarray, of: Of) -> tuple[np.ndarray, np.ndarray]:
        """Squared Mahalanobis distances (*clusters points), and log determinants (*clusters 1)."""
        mean, factor = self.mean[of], np.linalg.cholesky(self.scatter)[of]
        squared: np.ndarray = np.zeros(())
        white: list[np.ndarray] = []
        for i in range(self.mean.shape[-1]):  # few dimensions, many points: solved a row at a time
            row = z[..., i] - mean[..., i, None]
            for j, known in enumerate(white):
                row -= factor[..., i, j, None] * known
            row /= factor[..., i, i, None]
            white.append(row)
            squared = squared + row**2
        # the determinant by the factor: that of a narrow scatter underflows
        log_det = 2 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1, keepdims=True)
        return squared, log_det
