"""The same tests on any machine: one thread a process, and no clock in the drawn examples."""

import os
from collections.abc import Iterator
from contextlib import chdir

import pytest
from hypothesis import HealthCheck, settings

# the suite already runs one process a core, and small trees only wait
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

# by default an example that takes 0.2 s fails, and so does drawing that is slow: on a busy machine
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(scope="module")
def in_a_folder_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For tests whose bad values include paths that can be written to."""
    with chdir(tmp_path_factory.mktemp("work")):
        yield
