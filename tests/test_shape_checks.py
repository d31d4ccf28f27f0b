"""While tests run, each checks the shapes and types of the first calls of every function."""

import jaxtyping
import pytest

from divulge.metrics import intervals

from .conftest import CHECKED_CALLS


@pytest.mark.parametrize("test", ["first", "next"])
def test_the_first_calls_in_each_test_are_checked(test: str, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("jaxtyping_packages", None):
        pytest.skip("the import hook is off")
    for _ in range(CHECKED_CALLS):
        with pytest.raises(jaxtyping.TypeCheckError, match="hits"):
            intervals.clopper_pearson("one", 2)  # type: ignore[arg-type]
