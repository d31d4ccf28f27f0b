"""Shadow models: planned, trained here or on a cluster, and their predictions stored."""

from divulge.training.cluster import cluster_by_name
from divulge.training.shadows.workers import LocalWorkers, Workers


def workers_by_name(name: str) -> Workers:
    """Workers by name: ``local``, ``ray``, or ``ray:ADDRESS``.

    Raises:
        SpecError: there are none of this name.
        MissingExtra: Ray is not installed.
    """
    cluster = cluster_by_name(name)
    if cluster is None:
        return LocalWorkers()
    from divulge.training.shadows.ray import RayWorkers

    return RayWorkers(cluster.address)
