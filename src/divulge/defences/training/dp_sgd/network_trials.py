"""A network is tried once for each kind of records that a private trainer gets."""

from functools import partial
from typing import Any

import numpy as np
import torch

from divulge._util.extras import name_missing_extra
from divulge.core import Records
from divulge.defences.training.dp_sgd.clipping import Clipping
from divulge.defences.training.dp_sgd.clipping_way import ClippingWay, choose_way
from divulge.defences.training.dp_sgd.network_check import check_network, draw_trial_records
from divulge.targets.batching import translate_model_errors
from divulge.training.engine.loop import Job, build_network, torch_threads
from divulge.training.engine.networks import pool_before_relu
from divulge.training.recipe import Recipe
from divulge.training.tensors import cast_to_precision

translate_training_errors = partial(
    translate_model_errors,
    "a private model to train",
    "build the network yourself, and run it on a few records",
)
"""Raise what a network raises in training as an error of divulge's."""


class NetworkTrials:
    """What trials of the network have shown. It follows from the settings, and is none of them."""

    __slots__ = ("_ways_by_kind",)
    _ways_by_kind: dict[Any, ClippingWay]

    recipe: Recipe
    clipping: Clipping

    @property
    def _ways(self) -> dict[Any, ClippingWay]:
        """By shape and type of records: how the network's gradients are clipped."""
        if not hasattr(self, "_ways_by_kind"):
            # trainers are frozen, and what a trial shows changes none of their settings
            object.__setattr__(self, "_ways_by_kind", {})
        return self._ways_by_kind

    def _clipping_way(self, pool: Records) -> ClippingWay:
        """How gradients on such records are clipped, tried once for each shape and type."""
        with name_missing_extra():
            import opacus  # noqa: F401 (refused before anything is computed)
        key = (pool.x.shape[1:], pool.x.dtype, pool.regression)
        if key not in self._ways:
            with translate_training_errors(), torch_threads(1):
                network = build_network(self.recipe, Job(np.arange(1), 0)).train()
                first, _ = cast_to_precision(pool.take(np.arange(min(1, len(pool)))), network)
                like = torch.tensor(first)
                with pool_before_relu(network):
                    # shape and type alone: a trial on a record would depend on the record
                    trial = draw_trial_records(network, tuple(like.shape[1:]), like.dtype)
                    check_network(network, trial)
                    self._ways[key] = choose_way(network, trial.x, self.clipping)
        return self._ways[key]

    def _clipping_note(self) -> str:
        """How gradients are clipped where that is not as set, as far as networks were tried."""
        return "; ".join(sorted({way.note for way in self._ways.values() if way.note}))
