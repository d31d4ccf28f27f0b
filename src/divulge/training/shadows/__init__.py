"""Shadow models: planned, trained here or on a cluster, and their predictions stored."""

from divulge.errors import SpecError
from divulge.training.shadows.workers import LocalWorkers, Workers


def workers_by_name(name: str) -> Workers:
    """Workers by name: ``local``, ``ray``, or ``ray:ADDRESS``.

    Raises:
        SpecError: there are none of this name.
        MissingExtra: Ray is not installed.
    """
    kind, _, address = name.partition(":")
    if name == "local":
        return LocalWorkers()
    if kind == "ray" and (address or name == "ray"):
        from divulge.training.shadows.ray import RayCluster

        return RayCluster(address or None)
    raise SpecError(
        f"expected workers to be local, ray, ray:auto or ray:HOST:PORT, got {name!r}: "
        "leave it out to train in this process"
    )
