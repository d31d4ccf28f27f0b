"""Code of others that ends the program: ``sys.exit`` in a model, an attack or a file of data."""

import signal
import traceback

from divulge.errors import SpecError


def exit_error(error: SystemExit) -> SpecError:
    """The error to raise in place of an exit that somebody else's code asked for."""
    return SpecError(
        "expected your model, attack or data to return, it ended the program (sys.exit with "
        f"{str(error.code)[:80]!r}): raise an error instead, or return"
    )


def came_from_a_signal(error: SystemExit) -> bool:
    """Whether a handler of a signal asked for the exit, as of a program that is being stopped."""
    handlers = {
        getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()
    }
    frames = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(code in handlers for code in frames)
