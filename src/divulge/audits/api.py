"""Audits of one model that Python users begin."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from divulge._util.progress import Track, track_silently
from divulge.attacks import catalog
from divulge.audits import config, inputs, runner
from divulge.audits.challenges import membership
from divulge.audits.result import Audit
from divulge.audits.run_folder import Run, open_run_folder
from divulge.audits.runner import RunHeading, check_delta, check_distinct
from divulge.core import AnswerDefence, Guarantee, MembershipAttack, MembershipDraw
from divulge.data import augmentation as augmenting
from divulge.data import records
from divulge.data.ids import as_ids
from divulge.data.known_features import Known
from divulge.errors import SpecError
from divulge.targets import wrap
from divulge.targets.outputs import Output
from divulge.training.shadows import workers as working
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import Workers
from divulge.training.trainers import as_trainer, trainer_identity


def audit(
    model: Any,
    *,
    members: Any,
    nonmembers: Any,
    membership: MembershipDraw = "fixed",
    reference: Any = None,
    attacks: Iterable[MembershipAttack] | None = None,
    output: Output | None = None,
    answers: AnswerDefence | None = None,
    classes: int | None = None,
    batch_size: int = 1024,
    shadows: int = 0,
    train: Any = None,
    pool: Any = None,
    augment: Iterable[Any] = (),
    known: Known | None = None,
    workers: str = "local",
    ids: Any = None,
    class_names: Iterable[str] = (),
    seed: int = 0,
    guarantee: Guarantee | None = None,
    delta: float | None = None,
    budget: int | None = None,
    fingerprint: str | None = None,
    name: str = "audit",
    run: str | Path | None = None,
    resume: bool = False,
) -> Audit:
    """SecretAudit a trained classifier for membership leakage.

    Args:
        model: a callable from features to probabilities, a fitted scikit-learn estimator, a
            ``torch.nn.Module``, the path of a saved model, or a ``divulge.Target``.
        members: records the model was trained on: a pair (x, y) or ``divulge.Records``.
        nonmembers: records it never saw, drawn from the same population.
        membership: ``"coins"`` if a fair coin of its own decided for each record whether the model
            was trained on it; ``"fixed"`` if so many of each were drawn. The bound on ε is higher
            with coins.
        reference: further records it never saw, which the attacker owns. Without them the
            attacks that calibrate on known non-members do not apply.
        attacks: default: every attack that divulge has.
        output: what the model answers: ``"probabilities"``, ``"logits"`` or ``"labels"``.
            Needed for a torch module; never guessed.
        answers: what changes the answers of the model, and of its shadows, before anybody sees
            them: `divulge.defences.Rounding` and others.
        classes: how many classes there are; only ``output="labels"`` needs it.
        batch_size: how many records to ask at a time; each batch's answers are kept.
        shadows: how many models like the target to train, each on a random half of the
            candidates, for the attacks that compare the target with them; 16 is a good start.
        train: how to train one: a scikit-learn estimator, or a function (x, y, seed) that
            returns a trained model. By default, for a scikit-learn model, its own settings.
        pool: records to train the shadows on instead, for an attacker who cannot train on the
            candidates: a pair (x, y) or ``divulge.Records``, none of them a candidate.
        augment: further ways to ask about a candidate that is an image, for attacks with shadows:
            ``"mirror"``, ``"shift-up"``, ``"shift-down"``, ``"shift-left"``, ``"shift-right"``,
            or a function from features to features of the same shape.
        known: what the attacker knows of each candidate, if not all; the rest is filled in from
            ``reference``.
        workers: who trains the shadows: ``"local"``, this process and those that it starts;
            ``"ray"``, a Ray cluster of this machine's cores; ``"ray:auto"`` or
            ``"ray:HOST:PORT"``, one that is there.
        ids: your own, one a member: texts or numbers, for ``exposed.csv`` alone.
        class_names: one per class, for the report.
        seed: fixes every random choice.
        guarantee: the differential privacy that is claimed for the model, to be held against what
            is measured. By default what ``train`` promises for as many records as there are
            members, if it promises anything, as `divulge.defences.DPSGD` does.
        delta: δ of the epsilon bound. By default that of the guarantee, or 0.
        budget: highest number of answers to ask of the model.
        fingerprint: identifies the model, such as its version. With it (torch modules,
            scikit-learn estimators and files have one of their own) the run folder keeps the
            model's answers, and a resumed run does not ask, or pay, for them again.
        name: the title of the report.
        run: write the run folder as the work goes on, so that it survives a crash.
        resume: continue that run folder instead of refusing to touch it.

    Returns:
        The findings; ``.report()`` writes the page, ``.save()`` the run folder.

    Raises:
        DivulgeError: the model, the data or a setting cannot be used; says what to do.

    Examples:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x, y = np.random.default_rng(0).normal(size=(400, 5)), np.arange(400) % 2
        >>> tree = DecisionTreeClassifier(random_state=0).fit(x[:200], y[:200])
        >>> found = audit(tree, members=(x[:200], y[:200]), nonmembers=(x[200:], y[200:]))
        >>> found.findings[0].metrics["auc"].low > 0.7
        True
    """
    who = working.workers_by_name(workers)
    plan, ways = _plan_shadows(model, output, shadows, train), tuple(augment)
    if plan is None and (ways or pool is not None):
        given = "augment" if ways else "pool"
        raise SpecError(f"expected shadows beside {given}, got none: pass shadows=16")
    if plan is not None and pool is not None:
        own = records.as_records(pool, "pool")
        plan = replace(plan, pool=own, pool_otherwise=augmenting.augment(own, ways))
    inside = records.as_records(members, "members")
    subject = inputs.AuditInputs(
        target=wrap.as_target(model, output, batch_size=batch_size, classes=classes),
        members=inside,
        nonmembers=records.as_records(nonmembers, "nonmembers"),
        reference=None if reference is None else records.as_records(reference, "reference"),
        class_names=tuple(class_names),
        fingerprint=wrap.fingerprint_model(model) if fingerprint is None else fingerprint,
        budget=budget,
        batch_size=batch_size,
        shadows=plan,
        augment=ways,
        guarantee=guarantee,
        known=known,
        columns=_column_names(members),
        ids=None if ids is None else as_ids(ids, len(inside), "ids"),
        drawn=membership,
    )
    if answers is not None:
        subject = subject.behind(answers, seed)
    usual = catalog.default_attacks(shadows=shadows > 0, partial=known is not None)
    settings: dict[str, Any] = {"output": output, "shadows": shadows}
    if answers is not None:
        settings["answers"] = repr(answers)
    if known is not None:
        settings["known"] = asdict(known)
    return audit_subject(
        subject,
        tuple(usual if attacks is None else attacks),
        RunHeading(name, seed, settings),
        delta,
        None if run is None else open_run_folder(Path(run), resume=resume),
        workers=who,
    )


def audit_predictions(
    path: str | Path,
    *,
    probabilities: str = "p_*",
    label: str = "label",
    member: str = "member",
    ids: str | None = None,
    membership: MembershipDraw = "fixed",
    output: Literal["probabilities", "logits"] = "probabilities",
    attacks: Iterable[MembershipAttack] | None = None,
    class_names: Iterable[str] = (),
    seed: int = 0,
    guarantee: Guarantee | None = None,
    delta: float | None = None,
    name: str = "audit",
    run: str | Path | None = None,
    resume: bool = False,
) -> Audit:
    """SecretAudit a table of a model's answers; neither the model nor the records are needed.

    Attacks that read features do not apply, nor do the checks that compare them.

    Args:
        path: ``.csv`` or ``.parquet``, one row a record.
        probabilities: pattern of the columns that hold the answers, in the order of classes.
        label: the column with the true class, 0 to classes - 1.
        member: the column that says whether the model was trained on the record.
        ids: the column with your own ids, for ``exposed.csv`` alone.
        membership: how that was decided, see `audit`.
        output: what the answers are.
        attacks: see `audit`, as for the others.
        class_names: one per class.
        seed: fixes every random choice.
        guarantee: the differential privacy that is claimed for the model.
        delta: δ of the epsilon bound. By default that of the guarantee, or 0.
        name: the title of the report.
        run: write the run folder as the work goes on.
        resume: continue that run folder.

    Raises:
        DivulgeError: the table or a setting cannot be used; says what to do.
    """
    settings = config.PredictionsSpec(
        file=str(Path(path).resolve()),
        probabilities=probabilities,
        label=label,
        member=member,
        id=ids,
        membership=membership,
        output=output,
        class_names=tuple(class_names),
    )
    shown = settings.model_dump(mode="json") | {"file": Path(path).name}
    return audit_subject(
        replace(inputs.inputs_from_predictions(settings, Path()), guarantee=guarantee),
        tuple(catalog.default_attacks() if attacks is None else attacks),
        RunHeading(name, seed, {"predictions": shown}),
        delta,
        None if run is None else open_run_folder(Path(run), resume=resume),
    )


def audit_subject(
    subject: inputs.AuditInputs,
    attacks: tuple[MembershipAttack, ...],
    heading: RunHeading,
    delta: float | None,
    folder: Run | None,
    track: Track[Any] = track_silently,
    workers: Workers | None = None,
) -> Audit:
    """An audit of one model, with its report where there is a run folder."""
    check_distinct(attacks)
    check_delta(delta)
    answers = None if folder is None else folder.path / "answers.sqlite"
    challenge = membership.pose(subject, heading.seed, delta, answers, track)
    found = runner.run_audit(challenge, attacks, heading, folder, track, workers)
    assert isinstance(found, Audit)
    if folder is not None:
        found.report()
    return found


def _column_names(records: Any) -> tuple[str, ...]:
    """The names of features, where they come as a data frame."""
    pair = isinstance(records, tuple | list) and len(records) == 2
    return tuple(map(str, getattr(records[0], "columns", ()))) if pair else ()


def _plan_shadows(model: Any, output: Output | None, shadows: int, train: Any) -> ShadowPlan | None:
    if shadows == 0:
        return None
    if train is None and not hasattr(model, "get_params"):
        raise SpecError(
            "expected to be told how a shadow model is trained, got no train: pass a scikit-learn "
            "estimator, or a function (x, y, seed) that returns a trained model"
        )
    how = model if train is None else train
    return ShadowPlan(as_trainer(how, output), shadows, fingerprint=trainer_identity(how))
