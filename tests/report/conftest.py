"""Drawing leaves out whether a chart is valid Vega-Lite: here each that is drawn is checked."""

from collections.abc import Iterator
from typing import Any

import altair as alt
import pytest


@pytest.fixture(scope="package", autouse=True)
def _charts_are_valid() -> Iterator[None]:
    convert = alt.TopLevelMixin.to_dict

    def checked(self: Any, validate: bool = True, **options: Any) -> dict[str, Any]:
        whole = not options.get("context")  # parts of a chart have one, and are no charts alone
        return convert(self, validate=validate or whole, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alt.TopLevelMixin, "to_dict", checked)
        yield
