"""Every kind of facts has its secret, and every secret all that other rooms hold of it."""

import inspect
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

from divulge.attacks.catalog import CATALOGUE, build_attack
from divulge.core import Facts
from divulge.errors import DivulgeError
from divulge.secrets.registry import SECRETS, SECTIONS, FederationSections
from divulge.testing.properties import World

UNION = get_args(get_args(Facts)[0])
federated = pytest.mark.parametrize("section", SECTIONS)


def kind_of(facts: type[Any]) -> str:
    (kind,) = (field.default for field in fields(facts) if field.name == "kind")
    assert isinstance(kind, str)
    return kind


def test_each_kind_of_facts_has_one_secret_attacks_and_a_guess() -> None:
    kinds = set(map(kind_of, UNION))
    assert kinds == SECRETS.keys() == CATALOGUE.keys()
    assert kinds == {secret.guess.about for secret in SECRETS.values()}


@pytest.mark.parametrize("kind", SECRETS)
def test_each_has_a_question_games_and_a_lead_that_a_gate_may_limit(kind: str) -> None:
    secret = SECRETS[kind]
    assert secret.question.endswith("?")
    assert secret.lead in secret.gated
    games = secret.games()
    assert games
    assert all(isinstance(world, World) for world in games)
    assert {world.guess.about for world in games} == {kind}


def test_each_section_is_a_key_of_settings() -> None:
    assert [*FederationSections.model_fields] == [*SECTIONS]
    assert {secret.kind for secret in SECTIONS.values()} == SECRETS.keys() - {"membership"}


@federated
def test_each_section_has_attacks_a_page_and_what_poses_it(section: str, tmp_path: Path) -> None:
    secret = SECTIONS[section]
    assert {build_attack(secret.kind, name).name for name in secret.usual} == {*secret.usual}
    page = import_module(f"divulge.report.federation.{secret.kind}").page_content
    assert [*inspect.signature(page).parameters][:4] == ["facts", "findings", "guesses", "unsound"]
    (kind, _) = get_args(FederationSections.model_fields[section].annotation)
    given = {"transcript": "none", "network": "n.py:n", "reference": "r.csv"}
    keys = {key: given[key] for key in given.keys() & kind.model_fields.keys()}
    with pytest.raises(DivulgeError, match="none"):
        secret.pose(kind(**keys, **_more(section)), tmp_path)


def _more(section: str) -> dict[str, str]:
    return {"candidates": "c.csv", "external": "e.csv"} if section == "assignment" else {}
