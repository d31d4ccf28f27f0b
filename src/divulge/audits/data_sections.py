"""Sections of ``audit.toml`` about records: members and others, a table, models in turn."""

from collections.abc import Collection
from typing import Annotated, Literal

import pydantic

from divulge._util.arguments import Count, Delta, KnownMembers
from divulge._util.json import JSON
from divulge._util.toml import Section
from divulge.audits.model_sections import Epsilon
from divulge.audits.options import PersonScores
from divulge.core import MembershipDraw, NoiseAssumption
from divulge.core.people import SMALLEST_STRATUM
from divulge.metrics.people import PERSON_SCORES
from divulge.targets.given_scores import ScoreKind


class DataSpec(Section):
    """``[data]``: records the model was trained on, and records it never saw."""

    members: str | None = None
    """Records the model was trained on; required without ``[leave_one_out]``."""
    nonmembers: str | None = None
    """Records it never saw, from the same population; required likewise."""
    records: str | None = None
    """With ``[leave_one_out]`` alone, in place of the two above: all records."""
    reference: str | None = None
    """Further such records, which the attacker may calibrate on."""
    known_members: KnownMembers | None = None
    """How many members [the attacker knows](choosing.md#an-attacker-who-knows-some-members):
    below 1 a share of them, from 1 on their number. They are drawn by the seed, given to attacks,
    and not scored; not with ``[leave_one_out]`` or ``[known]``."""
    label: str = "label"
    """The column of a table that holds the class, or the true value."""
    id: str | None = None
    """The column with your own ids, which is then no feature, for
    [``exposed.csv``](run-folder.md#exposedcsv); beside records named ``file.py:name`` an object
    named likewise."""
    group: str | None = None
    """The column that says whose record each is, which is then no feature: [people are
    audited](people.md), and not records; beside records named ``file.py:name`` an object named
    likewise."""
    person_scores: PersonScores = PERSON_SCORES
    """How [a person's score](people.md#scores-of-people) is made of those of its records; each
    attack is tried with each."""
    strata: str | None = None
    """The column with the subpopulation of each record, such as a site or a band of ages, by which
    [exposure is compared](people.md#who-is-hit-hardest). It is no feature, unless the model knows a
    column of this name."""
    smallest_stratum: Count = SMALLEST_STRATUM
    """The fewest members, and non-members, of a stratum that is shown; [smaller ones are
    merged](people.md#small-strata), without their names."""
    class_names: tuple[str, ...] = ()
    """Names of [the classes](tables.md#how-labels-find-their-columns), in the order of the
    model's; classes that it does not know last."""
    membership: MembershipDraw | None = None
    """How members were drawn: by a fair coin for each record, or so many of them, which is what is
    taken without the key; not with ``[leave_one_out]``, which draws by coins."""
    prefix: Count = 50
    """Of a language model, how many tokens of a text are given when [it is to be
    completed](language-models.md#extraction)."""
    suffix: Count = 50
    """Likewise, how many further ones make up the completion; shorter texts are left out."""

    def besides(self, features: Collection[str] = ()) -> tuple[str, ...]:
        """The columns that are no features of the model.

        Args:
            features: the columns that the model knows, if it knows any.
        """
        strata = None if self.strata in features else self.strata
        return tuple(name for name in (self.id, self.group, strata) if name is not None)


class PredictionsSpec(Section):
    """``[predictions]``: an exported table of answers, in place of a model and its data."""

    file: str
    """A table, one row per record: CSV, Parquet and [others](tables.md)."""
    loss: str | None = None
    """In place of probabilities and labels: the column with [the loss of each
    record](tables.md#a-loss-or-a-score), which is lower for members."""
    score: str | None = None
    """Likewise: the column with a score of each record, by any attack, which is higher for
    members."""
    logprobs: str | None = None
    """Likewise, of [a language model](language-models.md): the column with the list of the
    log-probabilities of each text's tokens."""
    known_members: KnownMembers | None = None
    """With ``logprobs``, how many members the attacker knows, and what share of the non-members: as
    in ``[data]``."""
    prefix: Count = 50
    """As in ``[data]``, with ``logprobs``."""
    suffix: Count = 50
    """Likewise."""
    probabilities: str = "p_*"
    """Pattern of the columns with the answers; with ``output = "values"`` the name of the one
    column."""
    label: str = "label"
    """The column with the true class, as [the columns or ``class_names`` call
    it](tables.md#how-labels-find-their-columns); or with the true value."""
    member: str = "member"
    """The column that says whether the record was trained on: 1 or 0, true or false, yes or no,
    train or test, in or out, member or nonmember."""
    member_value: str | None = None
    """What that column says of members, where it has two other values."""
    id: str | None = None
    """The column with your own ids, for [``exposed.csv``](run-folder.md#exposedcsv)."""
    group: str | None = None
    """As in ``[data]``."""
    person_scores: PersonScores = PERSON_SCORES
    """As in ``[data]``."""
    strata: str | None = None
    """As in ``[data]``."""
    smallest_stratum: Count = SMALLEST_STRATUM
    """As in ``[data]``."""
    blind: str | None = None
    """A column with a number that [comes from elsewhere than the
    model](tables.md#without-features), such as a date, or the loss of another
    model: what it explains is no leak."""
    output: Literal["probabilities", "percentages", "logits", "labels", "values"] = "probabilities"
    """What the answers are; ``labels`` is one column with the predicted class, and ``values`` are
    numbers, one a record."""
    class_names: tuple[str, ...] = ()
    """Names of the classes, in the order of the columns; or the names of the columns, in the order
    of class numbers."""
    epsilon: Epsilon | None = None
    """The claim, as in ``[target]``."""
    delta: Delta | None = None
    """The δ of that claim."""
    noise: NoiseAssumption = "any"
    """As in ``[target]``."""
    unit: Literal["record", "person"] = "record"
    """As in ``[target]``."""
    membership: MembershipDraw | None = None
    """As in ``[data]``; without it, what is found is at most [a leak or a
    shift](tables.md#without-features)."""

    @property
    def given(self) -> tuple[ScoreKind, str] | None:
        """Which number a record is all that the table has, and its column; None for answers."""
        if self.loss is not None:
            return "loss", self.loss
        return None if self.score is None else ("score", self.score)

    @property
    def single(self) -> tuple[str, str] | None:
        """What stands in place of answers, and its column; None for answers."""
        return self.given if self.logprobs is None else ("logprobs", self.logprobs)


class LeaveOneOutSpec(Section):
    """``[leave_one_out]``: models to train and to audit against each other, without a target."""

    models: Annotated[Count, pydantic.Field(ge=3)] = 16
    """How many to train, each on a random half of the records."""
    targets: Annotated[Count, pydantic.Field(ge=2)] | None = None
    """How many of them to audit; all, unless given."""
    shadows: Count | None = None
    """How many of the others each is compared with; all, unless given."""
    train: str
    """As in ``[shadows]``."""
    output: Literal["probabilities", "percentages", "logits", "values"] | None = None
    """What a model answers that a function returned."""
    answers: dict[str, JSON] | None = None
    """An answer defence before every model, as in ``[target]``."""
    augment: tuple[str, ...] = ()
    """As in ``[shadows]``."""
