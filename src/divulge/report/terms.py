"""What the words of a verdict depend on besides the figures."""

from dataclasses import dataclass

from divulge.report.schema import ShadowKind
from divulge.report.units import RECORD, Unit


@dataclass(frozen=True, slots=True)
class Terms:
    """The attacker, and how members were drawn."""

    shadows: ShadowKind = "none"
    """Whether there were shadow models, and what they were trained on."""
    knows: str = ""
    """What the attacker knows of each record; empty if all."""
    known_members: int = 0
    """How many members the attacker knows, which are not scored."""
    given: str = ""
    """The one number of each record that the attacker has; empty if it asks the model."""
    trained: bool = False
    """Whether divulge trained the models, on members that it drew."""
    shift_excluded: bool = True
    """Whether anything speaks against a difference of members and non-members."""
    unit: Unit = RECORD
    """What was drawn and counted."""
    model_kind: str = ""
    """What the model is, as far as advice depends on it; empty where nobody knows."""


USUAL = Terms()
"""An attacker who asks the model about whole records."""
