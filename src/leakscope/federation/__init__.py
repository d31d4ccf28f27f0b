"""Federations: simulated or recorded, and what their server sees of them."""

from leakscope.federation.layout import Header
from leakscope.federation.partition import dirichlet, exact, iid
from leakscope.federation.playing import simulate
from leakscope.federation.server import accuracy
from leakscope.federation.simulation import Federation
from leakscope.federation.transcript import Transcript
from leakscope.federation.writer import Writer

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
