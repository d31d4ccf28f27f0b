"""What this distribution brings is what divulge looks for, and finds."""

from divulge.training.engine import native
from divulge.training.engine.native import NativeTraining
from divulge_fast import threads


def test_it_is_found_and_offers_what_is_asked_for() -> None:
    offered: NativeTraining = threads
    assert native.find_native() is offered
