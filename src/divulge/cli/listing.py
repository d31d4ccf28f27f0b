"""Attacks, defences, kinds of target and data sets, one line each."""

from collections.abc import Iterator

from divulge.attacks import catalog as attacks_catalog
from divulge.data.bundled import BUNDLED_DATA
from divulge.defences import catalog
from divulge.errors import MissingExtra
from divulge.secrets.registry import SECRETS
from divulge.targets import files, http_formats, wrap


def attacks(secret: str | None) -> Iterator[str]:
    """A line with the question of a secret, or of each, and a line for each attack on it."""
    for kind in [secret] if secret else SECRETS:
        yield f"{kind}: {SECRETS[kind].question}"
        for name in attacks_catalog.CATALOGUE[kind]:
            yield f"  {name:<19} {_first_line(attacks_catalog.attack_class(name))}"


def lines(what: str) -> Iterator[tuple[str, str]]:
    """Name and explanation of each.

    Args:
        what: ``defences``, ``targets`` or ``data``.
    """
    if what == "targets":
        for kind, model in wrap.KINDS.items():
            yield kind, model.text
        for suffix, file in files.FORMATS.items():
            yield suffix, file.text
        yield "url", "a model behind a URL: " + ", ".join(http_formats.PRESETS)
        yield "predictions", "a table of answers, labels and member flags; no model"
    elif what == "data":
        for name, load in BUNDLED_DATA.items():
            yield name, f"{_first_line(load)} [divulge.data.bundled:{load.__name__}]"
    else:
        for name in catalog.TRAINED_DEFENCES:
            try:
                cls = catalog.trained_defence_class(name)
            except MissingExtra as error:
                yield name, f"{error} [in training]"
            else:
                yield name, f"{_first_line(cls)} [in training]"
        for name in catalog.TUNED_DEFENCES:
            cls = catalog.tuned_defence_class(name)
            yield name, f"{_first_line(cls)} [any training]"
        for name in catalog.UPDATE_DEFENCES:
            cls = catalog.update_defence_class(name)
            yield name, f"{_first_line(cls)} [updates]"
        for name in catalog.ANSWER_DEFENCES:
            cls = catalog.answer_defence_class(name)
            yield name, f"{_first_line(cls)} [predictions]"


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").splitlines()[0]
