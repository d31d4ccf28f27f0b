"""Use divulge with NVIDIA FLARE: record on the server what clients send.

This is the only package that imports ``nvflare``.
"""

from divulge._util.extras import name_missing_extra

with name_missing_extra():
    from divulge.federation.nvflare.recorder import FlareRecorder

__all__ = ["FlareRecorder"]
