"""Short name to class: the only registry. A new attack is its file and one line here."""

import dataclasses
import importlib
from typing import Any

import pydantic

from leakscope.core import MembershipAttack
from leakscope.errors import SpecError, did_you_mean

ATTACKS = {
    "threshold": "leakscope.attacks.threshold:Threshold",
    "gap": "leakscope.attacks.gap:Gap",
    "external": "leakscope.attacks.external:External",
    "quantile": "leakscope.attacks.quantile:Quantile",
    "shadow": "leakscope.attacks.shadow:Shadow",
    "calibrated": "leakscope.attacks.calibrated:Calibrated",
    "lira": "leakscope.attacks.lira:LiRA",
    "rmia": "leakscope.attacks.rmia:RMIA",
    "shadow-stack": "leakscope.attacks.shadow_stack:ShadowStack",
}


def attack_class(name: str) -> Any:
    """The class of an attack.

    Raises:
        SpecError: no attack has this name.
    """
    if name not in ATTACKS:
        hint = did_you_mean(name, ATTACKS)
        raise SpecError(f"expected the name of an attack, got {name!r}: {hint}")
    module, _, cls = ATTACKS[name].partition(":")
    return getattr(importlib.import_module(module), cls)


def attack(name: str, **settings: Any) -> MembershipAttack:
    """An attack with these settings.

    Examples:
        >>> attack("threshold", signal="margin")
        Threshold(signal='margin', per_class=False)

    Raises:
        SpecError: no attack has this name, or it has no such setting, or not with such a value.
    """
    cls = attack_class(name)
    known = [field.name for field in dataclasses.fields(cls)]
    for key in settings:
        if key not in known:
            hint = did_you_mean(key, known)
            raise SpecError(f"expected a setting of {name}, got {key!r}: {hint}")
    try:
        built: MembershipAttack = pydantic.TypeAdapter(cls).validate_python(settings)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise SpecError(
            f"expected a valid value for {'.'.join(map(str, first['loc']))} of {name}, "
            f"got {first['input']!r}: {first['msg']}"
        ) from error
    return built


SHADOW_ATTACKS = ("shadow", "calibrated", "lira", "rmia", "shadow-stack")


def default(*, shadows: bool = False) -> tuple[MembershipAttack, ...]:
    """What runs when nothing is asked for: every attack, and each signal once.

    Args:
        shadows: whether shadow models are there for the attacks that need them.
    """
    signals = ("loss", "scaled_logit", "confidence", "entropy", "modified_entropy", "margin")
    return (
        *(attack("threshold", signal=signal) for signal in signals),
        attack("threshold", signal="scaled_logit", per_class=True),
        attack("gap"),
        attack("external", signal="scaled_logit", per_class=True),
        attack("quantile"),
        *(attack(name) for name in SHADOW_ATTACKS if shadows),
    )
