"""Use divulge with Flower: record on the server, guard on the client, simulate in one process.

This is the only package that imports ``flwr``.
"""

from divulge._util.extras import name_missing_extra

with name_missing_extra():
    from divulge.federation.flower.canary_mod import CanaryMod
    from divulge.federation.flower.canary_probe import CanaryProbe
    from divulge.federation.flower.grid import InProcessGrid, run_in_process
    from divulge.federation.flower.guardrail import Guardrail
    from divulge.federation.flower.recorder import Recorder
    from divulge.federation.flower.secagg import SecAggRecorder

__all__ = [
    "CanaryMod",
    "CanaryProbe",
    "Guardrail",
    "InProcessGrid",
    "Recorder",
    "SecAggRecorder",
    "run_in_process",
]
