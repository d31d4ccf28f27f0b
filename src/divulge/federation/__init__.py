"""Federations: simulated or recorded, and what their server sees of them."""

from divulge.federation.layout import Header
from divulge.federation.partition import dirichlet, exact, iid
from divulge.federation.playing import simulate
from divulge.federation.server import accuracy
from divulge.federation.simulation import Federation
from divulge.federation.transcript import Transcript
from divulge.federation.writer import Writer

__all__ = [
    "Federation",
    "Header",
    "Transcript",
    "Writer",
    "accuracy",
    "dirichlet",
    "exact",
    "iid",
    "simulate",
]
