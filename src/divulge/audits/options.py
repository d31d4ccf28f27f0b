"""What `audit`, `leave_one_out` and `compare` are told, in groups that they share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic

from divulge._util.arguments import (
    Count,
    CountFromZero,
    Delta,
    FilePath,
    KnownMembers,
    Seed,
    Title,
    check_arguments,
)
from divulge._util.progress import Progress, Track, as_track
from divulge.core import AnswerDefence, Guarantee, MembershipDraw
from divulge.core.people import SMALLEST_STRATUM
from divulge.errors import SpecError
from divulge.metrics.people import PERSON_SCORES, Rule
from divulge.targets.model_process import TIME_LIMIT, TimeLimit
from divulge.targets.outputs import Output

ClassCount = Annotated[Count, pydantic.Field(ge=2)]

PersonScores = Annotated[tuple[Rule, ...], pydantic.Field(min_length=1)]


@check_arguments
@dataclass(frozen=True, slots=True)
class Access:
    """How a model is asked, and what it answers with.

    Args:
        output: what the model answers: ``"probabilities"``, ``"percentages"``, ``"logits"`` or
            ``"labels"``, or ``"values"``, a number for each record. Needed for a torch module;
            never guessed.
        answers: what changes the predictions of the model, and of its shadow models, before anybody
            sees them: `divulge.defences.Rounding` and others.
        classes: the number of classes; only ``output="labels"`` needs it.
        batch_size: the number of records that are asked about at a time; each batch's predictions
            are kept.
        budget: the highest number of predictions to ask of the model.
        fingerprint: identifies the model, such as its version. With it (torch modules, scikit-learn
            estimators and files have one of their own) the run folder keeps the model's
            predictions, and a resumed run does not ask, or pay, for them again.
        device: where PyTorch runs the model, such as ``"cuda"``; where its weights are, unless
            given.
        time_limit: seconds that the process of a model file may take to load it, and for each batch
            of records; then it is ended. Your own objects and functions have no limit.
        checkpoints: the model as it was during its training, in that order and without the last
            state: models of any kind that `divulge.audit` takes. Their losses on the candidates are
            given to attacks such as ``lt-iqr``; these questions are not counted.
        output_name: which output of an ``.onnx`` file holds the predictions, where several could.
    """

    output: Output | None = None
    answers: AnswerDefence | None = None
    classes: ClassCount | None = None
    batch_size: Count = 1024
    budget: Count | None = None
    fingerprint: str | None = None
    device: str | None = None
    time_limit: TimeLimit = TIME_LIMIT
    checkpoints: Iterable[Any] = ()
    output_name: str | None = None

    def only_output_and_answers(self, where: str) -> "Access":
        """Itself, where nothing else was set.

        Args:
            where: the function that trains the models itself, for the message.

        Raises:
            SpecError: something else was set.
        """
        if self != Access(self.output, self.answers):
            raise SpecError(
                f"expected output and answers alone in the access of {where}, got {self}: its "
                "models are trained here, and asked without a limit"
            )
        return self


@check_arguments
@dataclass(frozen=True, slots=True)
class ShadowModels:
    """Models like the target, for the attacks that compare it with them.

    Args:
        models: the number of models, each trained on a random half of the candidates; 16 is a good
            start.
        train: how to train one: a scikit-learn estimator, or a function (x, y, seed) that returns
            a trained model. By default, for a scikit-learn model, its own settings.
        pool: records to train them on instead, for an attacker who cannot train on the candidates:
            a pair (x, y) or ``divulge.Records``, none of them a candidate.
        augment: further ways to ask about a candidate that is an image: ``"mirror"``,
            ``"shift-up"``, ``"shift-down"``, ``"shift-left"``, ``"shift-right"``, or a function
            from features to features of the same shape.
        cascade: the number of further models that the attack ``cascade`` trains at a time, where it
            is sure who of some candidates is a member; 0 leaves this attack out. Not with a pool.
        thresholds: whether the models also choose thresholds for false-positive rates of 1 % and
            0.1 %, each in the target's place; not with a pool.
        workers: who trains: ``"local"``, this process and those that it starts; ``"ray"``, a Ray
            cluster of this machine's cores; ``"ray:auto"`` or ``"ray:HOST:PORT"``, one that is
            there.
    """

    models: CountFromZero = 16
    train: Any = None
    pool: Any = None
    augment: Iterable[Any] = ()
    cascade: CountFromZero = 0
    thresholds: bool = False
    workers: str = "local"


@check_arguments
@dataclass(frozen=True, slots=True)
class Texts:
    """A table of a language model's tokens, and what an attacker knows.

    Args:
        logprobs: the column with the list of the log-probabilities of each text's tokens; further
            columns are found by name, see `divulge.targets.token_table.read_tokens`.
        known_members: how many members the attacker knows: below 1 a share of them, from 1 on their
            number; and the same share of the non-members. They are drawn by the seed, and not
            scored.
    """

    logprobs: str = "logprobs"
    known_members: Count | KnownMembers | None = None


@check_arguments
@dataclass(frozen=True, slots=True)
class Rotation:
    """Models that are trained alike and audited in turn, each against the others.

    Args:
        models: the number of models to train; 3 or more.
        targets: the number of them to audit, 2 or more; None is all (of `divulge.compare`, 3).
        shadows: the number of the others that each is compared with; None is all.
        augment: further ways to ask about a record, as for `ShadowModels`.
        workers: who trains, as for `ShadowModels`.
    """

    models: Count = 16
    targets: Count | None = None
    shadows: Count | None = None
    augment: Iterable[Any] = ()
    workers: str = "local"


@check_arguments
@dataclass(frozen=True, slots=True)
class Options:
    """What the run is called and how it is kept, and what is known of the records.

    Args:
        name: the title of the report.
        seed: fixes every random choice.
        resume: continue the run folder instead of refusing to touch it.
        guarantee: the differential privacy that is claimed for the model, to be held against what
            is measured. By default what training promises for as many records as there are
            members, if it promises anything, as `divulge.defences.DPSGD` does.
        delta: δ of the bound on ε. By default that of the guarantee, or 0.
        membership: ``"coins"`` if a fair coin of its own decided for each record whether the model
            was trained on it; ``"fixed"`` if so many of each were drawn at random, which is also
            taken unless it is said. The bound on ε is higher with coins.
        ids: your own ids, one a member (or one a record, where membership is drawn here): texts or
            numbers, for ``exposed.csv`` alone.
        person_scores: where people have several records, how a person's score is made of theirs:
            ``"mean"``, ``"max"``, ``"sum"``, ``"median"`` or ``"quantile"``. Each attack is tried
            with each, and corrected for that.
        smallest_stratum: the fewest members, and non-members, of a stratum that is shown; smaller
            ones are merged, without their names.
        class_names: the classes in the order of the model's, or of the columns of a table: for
            labels that are matched with them, and for the report. Classes that the model does not
            know stand last, and get probability 0.
        prefix: of a language model, how many tokens of a text are given when it is to be completed
            verbatim.
        suffix: likewise, how many further ones make up the completion; shorter texts are left out.
        progress: True shows how far the work is: bars in a terminal; elsewhere, as in notebooks and
            logs, a line at the end of each step, and every 30 seconds within it. A function in its
            place is called with each step: see `divulge._util.progress.Track`.
    """

    name: Title | None = None
    seed: Seed = 0
    resume: bool = False
    guarantee: Guarantee | None = None
    delta: Delta | None = None
    membership: MembershipDraw | None = None
    ids: Any = None
    person_scores: PersonScores = PERSON_SCORES
    smallest_stratum: Count = SMALLEST_STRATUM
    class_names: Iterable[str] = ()
    prefix: Count = 50
    suffix: Count = 50
    progress: Progress = False

    @property
    def track(self) -> Track[Any]:
        """What shows progress."""
        return as_track(self.progress)

    def of_several_models(self, where: str) -> "Options":
        """Itself, where nothing was set that is about one model.

        Args:
            where: the function that trains several, for the message.

        Raises:
            SpecError: a guarantee or a way of drawing members was set.
        """
        if self.guarantee is not None or self.membership is not None:
            raise SpecError(
                f"expected no guarantee and no membership in the options of {where}, got one: "
                "members are drawn here, by coins, and a trainer tells its own guarantee"
            )
        return self


RunPath = FilePath | None
"""A run folder to write as the work goes on, so that it survives a crash; None writes none."""
