"""The tests of papers run as those of divulge do."""

from tests.conftest import *  # noqa: F403
