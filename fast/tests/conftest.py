"""The tests of native code run as those of divulge do."""

from tests.conftest import *  # noqa: F403
