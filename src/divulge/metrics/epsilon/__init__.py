"""Lower bounds on the ε of differential privacy."""

from divulge.metrics.epsilon.bound import epsilon_lower_bound, largest_bound, records_needed

__all__ = ["epsilon_lower_bound", "largest_bound", "records_needed"]
