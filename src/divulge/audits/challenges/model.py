"""The challenge on one model: which candidates was it trained on?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util.progress import Track, track_silently
from divulge.audits import attempt, controls
from divulge.audits.attempt import AttackResult
from divulge.audits.challenges.base import Controls
from divulge.core import (
    Candidates,
    Game,
    Membership,
    MembershipAttack,
    MembershipFacts,
    ModelView,
    Scores,
)
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
    inspects_shadow: bool = True
    """Whether some attack on partial knowledge looks into a shadow model, which is then kept."""

    def prepare(
        self, folder: Path | None, track: Track[Any], workers: Workers | None
    ) -> "MembershipChallenge":
        """The challenge with its shadow models trained; those that the folder holds are not again.

        Raises:
            TargetError: a shadow model could not be trained.
            StoreError: its predictions could not be stored.
        """
        plan, view = self.shadows, self.game.view
        if plan is None:
            return self
        shadows = training.train_shadows(view, plan, self.seed, folder, track, workers)
        inspected = view.known is not None and self.inspects_shadow
        first = training.train_first_shadow(view, plan, self.seed) if inspected else None
        view = replace(view, shadows=shadows, shadow=first)
        return replace(self, game=Game(view, self.game.truth), shadows=None)

    def attempt(
        self, attack: MembershipAttack, seed: int, track: Track[Any] = track_silently
    ) -> AttackResult:
        """One attack on the model."""
        (found,) = (
            attempt.run_on_model(self.game, attack, seed, self.facts.delta)
            for _ in track([attack], attack.name)
        )
        return found

    def control(
        self, attack: MembershipAttack, guess: Scores, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """All controls of an attack that has guessed."""
        del track
        return Controls(control=controls.run_controls(self.game, attack, guess, seed))


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
        classes=view.target.predict(view.records.x[:1]).shape[1],
        class_names=(),
        checks=(),
        shadows="none" if shadows is None else "online" if shadows.online else "offline",
        drawn=truth.drawn,
    )
    candidates = Candidates(member, view.records.y, np.arange(len(member)))
    return MembershipChallenge(Game(view, truth), facts, candidates)
