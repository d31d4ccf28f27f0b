"""What is to be compared: one question for each defence."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from divulge.audits.compare import config, defences
from divulge.audits.compare.defences import Rival
from divulge.audits.compare.result import Entered, Plan
from divulge.audits.leave_one_out.design import Question, pool, question
from divulge.audits.run_folder import environment
from divulge.core import Records
from divulge.data import records as data_records
from divulge.errors import SpecError, did_you_mean

FOLDER = "defences"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be compared, loaded."""

    questions: tuple[tuple[Rival, Question], ...]
    plan: Plan

    def question(self, name: str) -> Question:
        """That of the defence of this name.

        Raises:
            SpecError: there is none.
        """
        for rival, one in self.questions:
            if rival.name == name:
                return one
        hint = did_you_mean(name, [rival.name for rival, _ in self.questions])
        raise SpecError(f"expected the name of a defence to be compared, got {name!r}: {hint}")


def from_spec(settings: config.CompareSpec, folder: Path) -> Asked:
    """What settings ask, with its records loaded.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    attacks = config.attacks(settings)
    entered = defences.named(settings, folder)
    records, reference, ids = pool(settings.data, folder)
    return asked(
        entered,
        records,
        reference,
        ways=data_records.resolve_augmentations(settings.augment, folder),
        targets=settings.targets,
        shadows=settings.shadows,
        attacks=attacks,
        class_names=settings.data.class_names,
        ids=ids,
        lambdas=settings.lambdas,
        settings=settings.model_dump(mode="json", exclude_defaults=True),
        seed=settings.seed,
        name=settings.name,
    )


def asked(
    entered: Sequence[Rival],
    records: Records,
    reference: Records | None,
    *,
    lambdas: tuple[float, ...],
    settings: dict[str, Any],
    seed: int,
    name: str,
    **common: Any,
) -> Asked:
    """One question for each rival; they differ in the way to train and to answer alone.

    Args:
        entered: the rivals.
        records: all of them.
        reference: further ones.
        lambdas: weights of privacy.
        settings: as the user gave them.
        seed: of every random choice.
        name: of the comparison.
        common: see `divulge.audits.leave_one_out.design.question`.

    Raises:
        DivulgeError: a question cannot be asked.
    """
    questions = tuple(
        (
            rival,
            question(
                records,
                reference,
                rival.plan,
                settings={"defence": rival.name},
                seed=seed,
                delta=None,
                name=f"{name}: {rival.name}",
                **common,
            ),
        )
        for rival in entered
    )
    plan = Plan(
        name=name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        seed=seed,
        lambdas=lambdas,
        defences=tuple(
            Entered(
                rival.name,
                _run(rival, one),
                _described(rival),
                rival.network,
                _same_labels(rival, entered[0]),
            )
            for rival, one in questions
        ),
        settings=settings,
        environment=environment(),
        divulge=version("divulge"),
    )
    return Asked(questions, plan)


def _run(rival: Rival, asked: Question) -> str:
    """The folder of a rival's audits, named after all that its models' answers depend on."""
    slug = re.sub(r"[^a-z0-9]+", "-", rival.name.lower()).strip("-")[:40] or "defence"
    return f"{FOLDER}/{slug}-{asked.plan.challenge[:12]}"


def _same_labels(rival: Rival, first: Rival) -> bool:
    """Whether both train alike, and no answer defence of theirs ever changes a label."""
    behind = [one.plan.answers for one in (rival, first) if one.plan.answers is not None]
    return rival.plan.fingerprint == first.plan.fingerprint and all(
        one.keeps_label for one in behind
    )


def _described(rival: Rival) -> str:
    behind = rival.plan.answers
    trainer = type(rival.plan.trainer).__name__
    return trainer if behind is None else f"{trainer}, answers by {behind!r}"
