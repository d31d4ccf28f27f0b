"""From an exported table of answers, losses or scores to loaded things."""

from pathlib import Path
from typing import TypedDict

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.random import stream
from divulge.audits import data_sections
from divulge.audits.subject import AuditInputs, claimed_guarantee
from divulge.audits.texts import Completion
from divulge.checks.answers import check_endless
from divulge.checks.class_mix import compare_values
from divulge.core import (
    Check,
    Records,
    Verdict,
)
from divulge.core.check_names import DATES, TOKENS_EACH
from divulge.data import groups, ids
from divulge.data.text_features import RowEncoding, describe_texts
from divulge.errors import SpecError
from divulge.targets import files
from divulge.targets import predictions as targets_predictions
from divulge.targets.blind_column import read_blind
from divulge.targets.given_scores import ScoreKind, read_scores
from divulge.targets.token_table import REFERENCE, TokenTable, read_tokens


def inputs_from_predictions(spec: data_sections.PredictionsSpec, folder: Path) -> AuditInputs:
    """An exported table of answers as a subject.

    Raises:
        DataError: the file is not such a table.
        TargetError: the answers in it are not what was said.
    """
    path = folder / spec.file
    if spec.logprobs is not None:
        return _inputs_from_tokens(spec, path, spec.logprobs)
    if spec.given is not None:
        return _inputs_from_scores(spec, path, *spec.given)
    answers = targets_predictions.read_predictions(
        path,
        probabilities=spec.probabilities,
        label=spec.label,
        member=spec.member,
        member_value=spec.member_value,
        class_names=spec.class_names,
        output=spec.output,
        own_id=spec.id,
        also=tuple(name for name in (spec.blind, spec.group, spec.strata) if name is not None),
    )
    # the only "feature" of a record is its row; the target offers no features, so nobody reads it
    rows = np.arange(len(answers.label))[:, None]
    records, subpopulations = _read_people(spec, path, Records(rows, answers.label))
    return AuditInputs(
        target=answers.target,
        members=records.take(answers.member),
        nonmembers=records.take(~answers.member),
        class_names=answers.classes,
        noticed=_describe_columns(answers),
        fingerprint=files.fingerprint_file(path),
        guarantee=claimed_guarantee(spec),
        ids=ids.read_ids(path, spec.id, len(rows))[answers.member] if spec.id else None,
        drawn=spec.membership or "fixed",
        randomised=spec.membership is not None,
        person_scores=spec.person_scores,
        subpopulations=subpopulations,
        smallest_stratum=spec.smallest_stratum,
        **_read_ease(spec, path),
    )


def _read_people(
    spec: data_sections.PredictionsSpec, path: Path, records: Records
) -> tuple[Records, tuple[str, ...]]:
    """The rows of a table with whose they are and their subpopulation, and the latter's names."""
    # the user's own ids may be people: whoever names them so wants their names in exposed.csv
    taken = {spec.member, spec.label, spec.loss, spec.score} - {None}
    for what, column in (("group", spec.group), ("strata", spec.strata)):
        if column is not None and (column in taken if what == "group" else column == spec.member):
            raise SpecError(
                f"expected a column of its own as {what}, got {column!r}, which has another "
                "meaning in this table: name the column that says whose row each is"
            )
    own, strata = (
        None if column is None else {"records": groups.read_values(str(path), column, Path())}
        for column in (spec.group, spec.strata)
    )
    attached, names = groups.attach({"records": records}, own, strata)
    assert attached["records"] is not None
    return attached["records"], names


def _inputs_from_scores(
    spec: data_sections.PredictionsSpec, path: Path, kind: ScoreKind, column: str
) -> AuditInputs:
    """A table of losses or scores as a subject."""
    table = read_scores(
        path, kind, column, member=spec.member, member_value=spec.member_value, own_id=spec.id
    )
    rows = np.arange(len(table.score))[:, None]
    # nothing is known of classes: all records are of one, which nobody shows
    records, subpopulations = _read_people(spec, path, Records(rows, np.zeros(len(rows), np.int64)))
    return AuditInputs(
        target=table.target,
        members=records.take(table.member),
        nonmembers=records.take(~table.member),
        noticed=(
            Check("membership column", Verdict.PASS, table.membership),
            Check(f"{kind} column", Verdict.PASS, table.how),
            *check_endless(kind, table.endless, len(rows)),
        ),
        fingerprint=files.fingerprint_file(path),
        guarantee=claimed_guarantee(spec),
        ids=ids.read_ids(path, spec.id, len(rows))[table.member] if spec.id else None,
        drawn=spec.membership or "fixed",
        randomised=spec.membership is not None,
        person_scores=spec.person_scores,
        subpopulations=subpopulations,
        smallest_stratum=spec.smallest_stratum,
        **_read_ease(spec, path),
    )


def _inputs_from_tokens(
    spec: data_sections.PredictionsSpec, path: Path, column: str
) -> AuditInputs:
    """A table of the log-probabilities of tokens as a subject."""
    table = read_tokens(path, column, member=spec.member, member_value=spec.member_value)
    rows = table.first[:, None]  # so that copies of a text are copies of a record
    encoding = RowEncoding(_describe_rows(table)) if table.texts else None
    everyone = Records(rows, np.zeros(len(rows), np.int64), encoding=encoding)
    records, subpopulations = _read_people(spec, path, everyone)
    members, others = records.take(table.member), records.take(~table.member)
    known = _draw_known(others, spec.known_members, len(members))
    blind = _read_ease(spec, path)
    if not blind and len(table.tokens.reference):
        blind = {"ease": table.tokens.reference_means, "blind": REFERENCE}
    return AuditInputs(
        target=table.target,
        members=members,
        nonmembers=others.take(~known),
        reference=others.take(known) if known.any() else None,
        noticed=(
            Check("membership column", Verdict.PASS, table.membership),
            Check("tokens", Verdict.PASS, " ".join(table.notes)),
            *(
                [Check("texts", Verdict.PASS, _SEEN)]
                if table.texts
                else _compare_without_texts(table, records)
            ),
        ),
        fingerprint=files.fingerprint_file(path),
        guarantee=claimed_guarantee(spec),
        known_members=spec.known_members,
        ids=ids.read_ids(path, spec.id, len(rows))[table.member] if spec.id else None,
        drawn=spec.membership or "fixed",
        randomised=spec.membership is not None,
        person_scores=spec.person_scores,
        subpopulations=subpopulations,
        smallest_stratum=spec.smallest_stratum,
        completion=Completion(spec.prefix, spec.suffix),
        **blind,
    )


_SEEN = (
    "Checks that never see the model look at the words of a text, its threes of characters, its "
    "length, number of tokens and kinds of signs, and its date if there is one. Texts are not "
    "stored."
)


def _describe_rows(table: TokenTable) -> Float64[np.ndarray, "rows columns"]:
    """What is known of each text without the model: its words and signs, and its date."""
    columns = [describe_texts(table.texts), table.tokens.count]
    return np.column_stack(columns if table.moment is None else [*columns, table.moment])


def _compare_without_texts(table: TokenTable, records: Records) -> list[Check]:
    """Do members and non-members differ in what else is known of texts that are not given?"""
    others = {TOKENS_EACH: ("numbers of tokens", table.tokens.count)}
    if table.moment is not None:
        others[DATES] = ("dates", table.moment)
    return [
        compare_values(name, what, records, values, table.member)
        for name, (what, values) in others.items()
    ]


def _draw_known(
    nonmembers: Records, known_members: float | None, members: int
) -> Bool[np.ndarray, " nonmembers"]:
    """The non-members that the attacker knows: the same share as of the members, by person."""
    if known_members is None:
        return np.zeros(len(nonmembers), bool)
    share = known_members if known_members < 1 else known_members / members
    people = nonmembers.people
    person = np.arange(len(nonmembers)) if people is None else people
    drawn = stream(0, "known non-members").permutation(int(person.max(initial=-1)) + 1)
    return np.asarray((drawn < round(share * len(drawn)))[person])


class _BlindColumn(TypedDict, total=False):
    ease: Float64[np.ndarray, "measures rows"]
    blind: str


def _read_ease(spec: data_sections.PredictionsSpec, path: Path) -> _BlindColumn:
    """The column that never saw the model, if one is named."""
    if spec.blind is None:
        return {}
    taken = {"the membership": spec.member, "your ids": spec.id}
    if spec.single is None:
        taken["the class"] = spec.label
    else:
        taken[f"the {spec.single[0]}"] = spec.single[1]
    return {"ease": read_blind(path, spec.blind, taken)[None], "blind": spec.blind}


def _describe_columns(table: targets_predictions.PredictionTable) -> tuple[Check, ...]:
    """What the page says of how the file, labels and the member column were understood."""
    checks = [
        Check("format of the table", Verdict.PASS, table.notation),
        Check("membership column", Verdict.PASS, table.membership),
        Check("labels", Verdict.PASS, table.matching),
    ]
    return tuple(check for check in checks if check.text)
