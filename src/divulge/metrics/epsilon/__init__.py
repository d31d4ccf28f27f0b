"""Lower bounds on the ε of differential privacy, from the scores of membership attacks."""

from divulge.metrics.epsilon.gaussian import gaussian_estimate
from divulge.metrics.epsilon.lower_bound import count_usable, epsilon_lower_bound
from divulge.metrics.epsilon.pooling import pooled_bound
from divulge.metrics.epsilon.reach import can_refute, largest_bound, records_needed

__all__ = [
    "can_refute",
    "count_usable",
    "epsilon_lower_bound",
    "gaussian_estimate",
    "largest_bound",
    "pooled_bound",
    "records_needed",
]
