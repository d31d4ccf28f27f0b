"""The gate as a test: `pytest` audits the model, and a failure says what was found."""

from typing import Any


def test_the_model_does_not_leak_its_training_records(divulge: Any) -> None:
    """The audit of the settings, with a verdict that says so."""
    found = divulge.audit("audit.toml")
    assert found.verdict.level == "no leak found"
