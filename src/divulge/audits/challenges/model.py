"""The challenge on one model: which candidates was it trained on?"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from divulge._util.progress import Track, track_silently
from divulge.audits.shadow_thresholds import thresholds_from_shadows
from divulge.checks.shadow_models import check_shadow_models
from divulge.core import (
    Candidates,
    Game,
    Measurements,
    Membership,
    MembershipAttack,
    MembershipFacts,
    ModelView,
    Scores,
)
from divulge.core.records import STRATA
from divulge.secrets import attempt, controls, wrapped
from divulge.secrets.attempt import AttackResult
from divulge.secrets.base import Controls
from divulge.secrets.control_games import ControlGames
from divulge.secrets.membership import MembershipSecret
from divulge.training.shadows import train as training
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import Workers


@dataclass(frozen=True, slots=True)
class MembershipChallenge:
    """Candidates of which some are members, and all that attacks are given about them."""

    game: Game[ModelView, Membership]
    facts: MembershipFacts
    candidates: Candidates
    digest: str = ""
    compared: str = ""
    shadows: ShadowPlan | None = None
    """Shadow models that are still to be trained and asked."""
    seed: int = 0
    """The seed of the shadow models."""
    thresholds: bool = False
    """Whether shadow models also choose thresholds."""
    inspects_shadow: bool = True
    """Whether some attack on partial knowledge looks into a shadow model, which is then kept."""
    libraries: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By name, the versions of the libraries that the model and its data come from."""
    control_games: ControlGames = field(default_factory=ControlGames, repr=False, compare=False)
    """The games of the controls, which all attacks share."""

    def prepare(
        self, folder: Path | None, track: Track[Any], workers: Workers | None
    ) -> "MembershipChallenge":
        """The challenge with its shadow models trained, and checked against the target.

        Those that the folder holds are not trained again.

        Raises:
            TargetError: a shadow model could not be trained.
            StoreError: its predictions could not be stored.
        """
        plan, view = self.shadows, self.game.view
        if plan is None:
            return self
        arguments = (view, plan, self.seed, folder, track, workers)
        first = None
        if view.known is not None and self.inspects_shadow:
            shadows, first = training.train_shadows_and_keep_first(*arguments)
        else:
            shadows = training.train_shadows(*arguments)
        further = None
        if plan.cascade:
            further = training.ConditionalShadowTrainer(*arguments)
        view = replace(view, shadows=shadows, shadow=first, conditional=further)
        pool_people = None if plan.pool is None else plan.pool.people
        check = check_shadow_models(view, self._member_by_record(), pool_people)
        facts = replace(self.facts, checks=(*self.facts.checks, check))
        return replace(self, game=Game(view, self.game.truth), facts=facts, shadows=None)

    def _member_by_record(self) -> Bool[np.ndarray, " records"]:
        member, person = self.candidates.member, self.candidates.person
        return member if person is None else member[person]

    def attempt(
        self, attack: MembershipAttack, seed: int, track: Track[Any] = track_silently
    ) -> AttackResult:
        """One attack on the model."""
        with track.step(wrapped.attack_label(attack)):
            result = attempt.run_on_model(
                self.game, attack, seed, self.facts.delta, self._measure, self.control_games.scores
            )
        if not self.thresholds or result.guess is None:
            return result
        view, truth = self.game.view, self.game.truth
        with track.step(f"Thresholds of {wrapped.attack_label(attack)}"):
            shared = self.control_games.scores
            chosen = thresholds_from_shadows(view, attack, result.guess, truth, seed, shared)
        return result._replace(finding=replace(result.finding, shadow_thresholds=chosen))

    def _measure(self, guess: Scores, truth: Membership, delta: float) -> Measurements:
        """The metrics as they are measured again from a run folder."""
        del truth, delta
        return MembershipSecret(self.facts, self.candidates).measure(guess)

    def control(
        self, attack: MembershipAttack, guess: Scores, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """All controls of an attack that has guessed."""
        with track.step(f"Controls of {wrapped.attack_label(attack)}"):
            control = controls.run_controls(self.game, attack, guess, seed, self.control_games)
        return Controls(control=control)


def pose_view(view: ModelView, truth: Membership) -> MembershipChallenge:
    """The challenge of a view that is whole already; nothing is checked about its records.

    Args:
        view: of the attacker, with the shadow models that there are.
        truth: which candidates are members.

    Raises:
        TargetError: the model failed.
    """
    member, shadows = truth.member, view.shadows
    facts = MembershipFacts(
        delta=0.0,
        members=int(member.sum()),
        nonmembers=int((~member).sum()),
        reference=0 if view.reference is None else len(view.reference),
        classes=0 if view.records.regression else view.target.predict(view.records.x[:1]).shape[1],
        class_names=STRATA if view.records.regression else (),
        checks=(),
        shadows="none" if shadows is None else "online" if shadows.online else "offline",
        drawn=truth.drawn,
    )
    candidates = Candidates(member, view.records.stratum, np.arange(len(member)))
    return MembershipChallenge(Game(view, truth), facts, candidates)
