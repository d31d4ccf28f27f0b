"""Audits of one model that Python users begin."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from divulge._util.arguments import Count, CountFromZero, FilePath, KnownMembers, check_arguments
from divulge._util.json import JSON
from divulge._util.progress import Track, track_silently
from divulge.attacks import catalog
from divulge.audits import config_checks, data_sections, runner
from divulge.audits.challenges import membership
from divulge.audits.from_arguments import GivenSets, inputs_from_arguments
from divulge.audits.options import Access, Options, RunPath, ShadowModels, Texts
from divulge.audits.requested_attacks import table_attacks
from divulge.audits.result import Audit
from divulge.audits.runner import RunHeading, check_attacks
from divulge.audits.subject import AuditInputs
from divulge.audits.table_inputs import inputs_from_predictions
from divulge.core import MembershipAttack, Need
from divulge.data.known_features import KnownFeatures
from divulge.errors import SpecError
from divulge.finished_runs.run_folder import Run, open_run_folder
from divulge.secrets.wrapped import attack_people
from divulge.training.shadows import workers_by_name
from divulge.training.shadows.workers import Workers


@check_arguments
def audit(
    model: Any,
    *,
    members: Any,
    nonmembers: Any,
    reference: Any = None,
    attacks: Iterable[MembershipAttack] | None = None,
    access: Access = Access(),
    shadows: CountFromZero | ShadowModels = 0,
    known: KnownFeatures | None = None,
    known_members: Count | KnownMembers | None = None,
    groups: Any = None,
    strata: Any = None,
    run: RunPath = None,
    options: Options = Options(),
) -> Audit:
    """Audit a trained classifier or regression model for membership leakage.

    Args:
        model: a callable from features to probabilities, a fitted scikit-learn estimator, a
            ``torch.nn.Module``, the path of a saved model, or a ``divulge.Target``. A regression
            model has ``output="values"`` in its access, or is a scikit-learn regressor.
        members: records the model was trained on: a pair (x, y) or ``divulge.Records``.
        nonmembers: records it never saw, drawn from the same population.
        reference: further records it never saw, which the attacker owns. Without them the
            attacks that calibrate on known non-members do not apply.
        attacks: default: every attack that divulge has on such a model.
        access: how the model is asked; a torch module needs ``divulge.Access(output="logits")`` or
            the like.
        shadows: models like the target to train, for the attacks that compare the target with
            them: how many, or ``divulge.ShadowModels`` that says how.
        known: what the attacker knows of each candidate, if not all; the rest is filled in from
            ``reference``.
        known_members: how many members the attacker knows: below 1 a share of them, from 1 on
            their number. They are drawn by the seed, given to attacks, and not scored.
        groups: whose record each is, where people have several: **people** are then drawn, tested
            and counted, and not records. The name of a column of the data frames, which is then no
            feature; or arrays of names, one a record, for members, non-members and reference in
            turn, or for these and ``pool`` by name. Nothing made of a name is stored.
        strata: likewise, the subpopulation of each record, such as a site or a band of ages:
            exposure is compared by it. As a column it stays a feature of a model that knows it.
        run: write the run folder as the work goes on, so that it survives a crash.
        options: seed, title, claim, class names and the like.

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
    trained = shadows if isinstance(shadows, ShadowModels) else ShadowModels(shadows)
    sets = GivenSets(members, nonmembers, reference, groups, strata)
    subject = inputs_from_arguments(model, sets, access, trained, options)
    subject = replace(
        subject,
        known=known,
        known_members=None if known_members is None else float(known_members),
    )
    if attacks is None:
        attacks = catalog.attacks_on(
            subject.target.offers,
            shadows=subject.shadows is not None,
            partial=known is not None,
            known_members=known_members is not None,
            checkpoints=bool(subject.checkpoints),
            cascade=trained.cascade > 0,
            reference=reference is not None,
        )
    settings: dict[str, JSON] = {"output": access.output, "shadows": trained.models}
    if access.output_name is not None:
        settings["output_name"] = access.output_name
    if access.answers is not None:
        settings["answers"] = repr(access.answers)
    if known is not None:
        settings["known"] = asdict(known)
    if known_members is not None:
        settings["known_members"] = known_members
    if subject.checkpoints:
        settings["checkpoints"] = len(subject.checkpoints)
    wanted = tuple(attacks)
    heading = RunHeading(options.name or "audit", options.seed, settings)
    with open_run_folder(run, resume=options.resume) as folder:
        workers = workers_by_name(trained.workers)
        return audit_subject(
            subject, wanted, heading, options.delta, folder, options.track, workers
        )


@check_arguments
def audit_predictions(
    path: FilePath,
    *,
    probabilities: str | None = None,
    label: str | None = None,
    member: str = "member",
    member_value: str | None = None,
    ids: str | None = None,
    output: Literal["probabilities", "percentages", "logits", "labels", "values"] | None = None,
    loss: str | None = None,
    score: str | None = None,
    texts: Texts | None = None,
    blind: str | None = None,
    group: str | None = None,
    strata: str | None = None,
    attacks: Iterable[MembershipAttack] | None = None,
    run: RunPath = None,
    options: Options = Options(),
) -> Audit:
    """Audit a table of a model's answers; neither the model nor the records are needed.

    Attacks that read features do not apply, nor do the checks that compare them. A table with one
    loss or score a record is ranked by it, without probabilities or labels: the one attack is
    ``given-score``.

    Args:
        path: CSV, Parquet or another table, one row a record.
        probabilities: pattern of the columns that hold the answers, by default ``p_*``; with
            ``output="values"`` the name of the one column.
        label: the column with the true class, by default ``label``: what the wildcards of the
            pattern stand for, such as cat in ``p_cat``, or one of the class names in ``options``;
            or with the true value.
        member: the column that says whether the model was trained on the record: 1 or 0, true or
            false, yes or no, train or test, in or out, member or nonmember.
        member_value: what it says of members, where it has two other values.
        ids: the column with your own ids, for ``exposed.csv`` alone.
        output: what the answers are, by default ``probabilities``; ``labels`` is one column with
            the predicted class.
        loss: in place of probabilities, labels and output, the column with the loss of each record,
            which is lower for members.
        score: likewise, the column with a score of each record, by any attack, which is higher for
            members.
        texts: likewise, of a language model: ``divulge.Texts()`` for a table with one row a text,
            which holds the log-probabilities of its tokens, in JSON lines or Parquet.
        blind: the column with a number that comes from elsewhere than the model, such as a date
            or another model's loss: what it explains is no leak.
        group: the column that says whose row each is: people are audited, and not records.
        strata: the column with the subpopulation of each row, by which exposure is compared.
        attacks: see `audit`, as for the others.
        run: write the run folder as the work goes on.
        options: seed, title, claim, class names and the like.

    Raises:
        DivulgeError: the table or a setting cannot be used; says what to do.
    """
    if options.ids is not None:
        raise SpecError("expected ids as the name of a column, got options with ids: pass ids=")
    given: dict[str, Any] = {
        "loss": loss,
        "score": score,
        "blind": blind,
        "group": group,
        "strata": strata,
        "probabilities": probabilities,
        "label": label,
        "member": member,
        "member_value": member_value,
        "id": ids,
        "output": output,
        "class_names": tuple(options.class_names) or None,
    }
    if texts is not None:
        given |= asdict(texts)
    settings = data_sections.PredictionsSpec(
        file=str(Path(path).resolve()),
        membership=options.membership,
        person_scores=tuple(options.person_scores),
        smallest_stratum=options.smallest_stratum,
        prefix=options.prefix,
        suffix=options.suffix,
        **{name: value for name, value in given.items() if value is not None},
    )
    config_checks.check_given(settings, "audit_predictions")
    wanted = table_attacks(settings, attacks, Path())
    shown = settings.model_dump(mode="json", exclude_defaults=True) | {"file": Path(path).name}
    subject = [replace(inputs_from_predictions(settings, Path()), guarantee=options.guarantee)]
    heading = RunHeading(options.name or "audit", options.seed, {"predictions": shown})
    with open_run_folder(run, resume=options.resume) as folder:
        # handed over: of a large table nothing is kept that attacks do not need
        return audit_subject(subject.pop(), wanted, heading, options.delta, folder, options.track)


def audit_subject(
    subject: AuditInputs,
    attacks: tuple[MembershipAttack, ...],
    heading: RunHeading,
    delta: float | None,
    folder: Run | None,
    track: Track[Any] = track_silently,
    workers: Workers | None = None,
) -> Audit:
    """An audit of one model, with its report where there is a run folder."""
    check_attacks(attacks)
    if subject.by_person:
        attacks = attack_people(attacks, subject.person_scores)
    answers = None if folder is None else folder.path / "answers.sqlite"
    posed = membership.pose(subject, heading.seed, delta, answers, track)
    del subject
    inspects = any(Need.PARTIAL in attack.needs for attack in attacks)
    challenge = replace(posed, inspects_shadow=inspects)
    audit = runner.run_audit(challenge, attacks, heading, folder, track, workers)
    assert isinstance(audit, Audit)
    del posed, challenge  # the page needs no answers, nor what the controls remember of them
    if folder is not None:
        with track.step("Writing the report"):
            audit.report()
    return audit
