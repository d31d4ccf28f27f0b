"""``audit.toml``: its sections, which of them make up an audit, and how they are read.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pydantic

from divulge._util import credentials, toml
from divulge._util.arguments import Count, CountFromZero, Delta, KnownMembers, RunName, Seed
from divulge._util.credentials import NOT_SHOWN
from divulge._util.json import JSON
from divulge._util.toml import Section
from divulge.attacks import catalog, own
from divulge.audits.gate import GateSpec
from divulge.audits.options import PersonScores
from divulge.audits.secrets.base import FederatedSecret
from divulge.audits.secrets.registry import SECTIONS, FederationSections
from divulge.core import Attack, MembershipAttack, MembershipDraw, Need, NoiseAssumption
from divulge.core.people import SMALLEST_STRATUM
from divulge.errors import SpecError
from divulge.metrics.people import PERSON_SCORES
from divulge.targets import http, http_address, http_formats, http_keys
from divulge.targets.given_scores import ScoreKind
from divulge.targets.model_process import TIME_LIMIT, TimeLimit
from divulge.targets.token_table import has_shadows

Epsilon = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


class HTTPSpec(Section):
    """``[target.http]``: how a model behind a URL is asked, and how its answers are read."""

    protocol: http_formats.ProtocolName = "json"
    """How requests and responses look: see [endpoints](endpoints.md)."""
    records: str | None = None
    """The name under which a request holds records; that of the protocol unless given."""
    answers: str | None = None
    """Where a response holds answers, such as ``"results.*.scores"``; where the protocol has them
    unless given."""
    labels: tuple[str, ...] = ()
    """The classes as the endpoint names them, in the order in which your records number them."""
    prompt: str | None = None
    """Of the openai protocols, with ``{record}`` or ``{column}`` where the record belongs."""
    datatype: str | None = None
    """Of ``"kserve-v2"``, the type of numeric tensors, such as ``"FP32"``; that of the records
    unless given."""
    parameters: Annotated[dict[str, JSON] | None, NOT_SHOWN] = None
    """Further keys of a request, such as the name of the model; a [key](endpoints.md#keys) as
    ``"env:NAME"``."""
    headers: Annotated[dict[str, str] | None, NOT_SHOWN] = None
    """Further headers; a [key](endpoints.md#keys) as ``"env:NAME"`` or ``"Bearer env:NAME"``. Other
    values are not stored."""
    records_per_request: Count = 32
    """Highest number of records in one request."""
    concurrency: http.Concurrency = 4
    """Highest number of requests at the same time."""
    requests_per_second: http.Rate | None = None
    """Highest number of requests a second; no limit unless given."""
    timeout: http.Seconds = 60.0
    """Seconds within which a whole response has to be there."""
    retries: http.Retries = 5
    """How often a request is repeated that got no good response."""
    max_wait: http.Seconds = 300.0
    """Longest wait in seconds that the server may ask for by ``Retry-After``."""
    price_per_request: http.Price = 0.0
    """What a request costs, in any currency; repeated ones cost again."""
    price_per_record: http.Price = 0.0
    """What each record in a request costs."""
    max_cost: http.Price | None = None
    """Highest cost; a request that would exceed it is not sent."""
    plain_http: bool = False
    """Allow ``http://`` to another machine: everybody on the way can read records, answers and
    headers."""

    @pydantic.field_serializer("headers")
    def _store_headers(self, headers: dict[str, str] | None) -> dict[str, str] | None:
        return headers and {name: credentials.hide_text(text) for name, text in headers.items()}


class TargetSpec(Section):
    """``[target]``: the model."""

    model: str | None = None
    """``file.py:name``, ``package.module:name``, or the path of a saved model: see
    [targets](targets.md); required without ``url``."""
    url: Annotated[str | None, NOT_SHOWN] = None
    """In place of ``model``: the URL of [an endpoint](endpoints.md) that
    answers queries; needs ``fingerprint``. A [key](endpoints.md#keys) in it is ``env:NAME``; its
    query and user info are not stored."""
    http: HTTPSpec = HTTPSpec()
    """How the endpoint is asked."""
    factory: str | None = None
    """For ``.safetensors``: what builds the network, as ``file.py:name``."""
    output: Literal["probabilities", "percentages", "logits", "labels", "values"] | None = None
    """What the model answers; PyTorch needs it said. ``values`` are the numbers of
    [regression](attacks/regression.md), one a record."""
    output_name: str | None = None
    """Which output of an ``.onnx`` file holds the answers, where several could."""
    batch_size: Count = 1024
    """Records asked, and answers stored, at a time."""
    device: str | None = None
    """Where PyTorch runs, such as ``"cuda"``; where the weights are, unless given."""
    time_limit: TimeLimit = TIME_LIMIT
    """Seconds that [a model file](targets.md#limits-for-model-files) may take to be loaded, and
    to answer a batch; then its process is ended."""
    classes: Annotated[Count, pydantic.Field(ge=2)] | None = None
    """How many classes there are; needed with ``output = "labels"``."""
    budget: Count | None = None
    """Highest number of answers to ask of the model; those on disk cost nothing."""
    fingerprint: str | None = None
    """Your name of a version of the model, where it is a function or behind a URL: its answers are
    then [kept](run-folder.md), and not paid for again."""
    epsilon: Epsilon | None = None
    """The ε of the [differential privacy claimed](epsilon.md#a-claimed-epsilon) for
    the model, which the audit tests; needs ``delta``."""
    delta: Delta | None = None
    """The δ of that claim."""
    noise: NoiseAssumption = "any"
    """What is known about the training that has it: [the bound](epsilon.md#the-epsilon-bound) is
    higher then."""
    unit: Literal["record", "person"] = "record"
    """Who is hidden by that claim: with ``group``, one for [a record](people.md#what-changes) is
    weaker for a person."""
    answers: dict[str, JSON] | None = None
    """An [answer defence](defences/answers.md) before the model and its shadows:
    its ``name``, and its settings."""
    checkpoints: tuple[str, ...] = ()
    """[The model during its training](choosing.md#an-attacker-who-saw-the-training), in the order
    of training and without the last state, for ``lt-iqr``: files or patterns of files, such as
    ``"epochs/*.safetensors"``, or ``file.py:name`` of a list of models."""

    @pydantic.field_serializer("url")
    def _store_url(self, url: str | None) -> str | None:
        return url and http_address.shown_address(url)


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
    """With ``logprobs``, how many tokens of a text are given when [it is to be
    completed](language-models.md#extraction)."""
    suffix: Count = 50
    """Likewise, how many further ones make up the completion; shorter texts are left out."""
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
    model](checks-and-controls.md#tables-without-features), such as a date, or the loss of another
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
    shift](checks-and-controls.md#tables-without-features)."""

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


class ShadowsSpec(Section):
    """``[shadows]``: models like the target, for the attacks that compare it with others."""

    models: Count = 16
    """How many shadows to train."""
    train: str
    """``file.py:name``: a scikit-learn estimator, or a function (x, y, seed) that returns a trained
    model."""
    pool: str | None = None
    """Records to train them on, named as in ``[data]``; without it, random halves of the
    candidates."""
    augment: tuple[str, ...] = ()
    """Further ways to ask about a candidate, see below."""
    cascade: CountFromZero = 0
    """How many further shadows [`cascade`](attacks/shadow-models.md#cascade) trains at a time; 0
    leaves it out. Not with ``pool``."""
    thresholds: bool = False
    """Whether shadows also [choose thresholds](metrics.md#thresholds-from-shadows-alone) for
    false-positive rates of 1 % and 0.1 %; not with ``pool``."""


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


class KnownSpec(Section):
    """``[known]``: an attacker who knows only some features of each candidate."""

    columns: tuple[str, ...] = ()
    """Names of known columns, or patterns such as ``"job=*"``; without names, their numbers from
    0."""
    share: Annotated[float, pydantic.Field(ge=0, le=1)] | None = None
    """In place of columns: how much of each candidate is known."""
    pattern: Literal["random", "pixels", "block", "rows", "columns", "telling-columns"] = "random"
    """[Where the share lies](attacks/partial-knowledge.md#which-part-is-known)."""
    fill: Literal["chosen", "gaussian", "local", "neighbours", "mean", "global-mean", "zero"] = (
        "chosen"
    )
    """How the rest is [filled in](attacks/partial-knowledge.md#filling-in)."""
    completions: Count = 1
    """In how many ways each candidate is filled in and asked about."""
    one_hot: tuple[str, ...] = ()
    """Groups of columns of which exactly one is 1, each a pattern such as ``"job=*"``."""
    grid: tuple[Count, ...] = ()
    """Shape in which features of a flat record are neighbours, channels first, such as
    ``[1, 28, 28]``; the records' own shape, unless given."""


class MetricsSpec(Section):
    """``[metrics]``."""

    delta: Delta | None = None
    """The δ of the [epsilon bounds](epsilon.md#the-epsilon-bound) in the table of attacks; that of
    the claim unless given, and 0 without a claim."""


class CommonSpec(Section):
    """What may stand in every ``audit.toml``, whatever is audited."""

    name: RunName = "audit"
    """Title of the report, and name of the run folder: any text on one line, at most 100
    characters."""
    seed: Seed = 0
    """Fixes every random choice."""
    attacks: tuple[dict[str, JSON], ...] = ()
    """Which attacks to run; if empty, the default ones named [below](#attacks)."""
    metrics: MetricsSpec = MetricsSpec()
    """Settings of metrics."""
    gate: GateSpec = GateSpec()
    """When a job in continuous integration fails."""

    @property
    def about(self) -> str:
        """The secret that is asked about."""
        return "membership"


class ModelAuditSpec(CommonSpec):
    """An ``audit.toml`` about a model and its records."""

    target: TargetSpec
    """The model."""
    data: DataSpec
    """The records."""
    shadows: ShadowsSpec | None = None
    """Models to train for comparison."""
    known: KnownSpec | None = None
    """An attacker who knows only some features of each candidate."""


class PredictionsAuditSpec(CommonSpec):
    """An ``audit.toml`` about a table of a model's answers."""

    predictions: PredictionsSpec
    """The table."""


class LeaveOneOutAuditSpec(CommonSpec):
    """An ``audit.toml`` about models that are trained, and audited against each other."""

    leave_one_out: LeaveOneOutSpec
    """Models to train and to audit against each other."""
    data: DataSpec
    """The records."""


class FederationAuditSpec(FederationSections, CommonSpec):
    """An ``audit.toml`` about a federation's clients: exactly one section says what of them."""

    @property
    def section(self) -> str:
        """The name of the section that is there."""
        return next(name for name in SECTIONS if getattr(self, name) is not None)

    @property
    def secret(self) -> type[FederatedSecret[Any, Any]]:
        """The secret that this section asks about."""
        return SECTIONS[self.section]

    @property
    def about(self) -> str:
        """The kind of this secret."""
        return self.secret.kind


AuditSpec = ModelAuditSpec | PredictionsAuditSpec | LeaveOneOutAuditSpec | FederationAuditSpec
"""A whole ``audit.toml``: what is audited decides which sections it has."""


def read_config(path: Path) -> AuditSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, a section is missing, or sections stand together
            that belong to different audits.
    """
    return parse_config(toml.read_toml(path), where=str(path))


def parse_config(table: dict[str, JSON], where: str) -> AuditSpec:
    """The settings in a table, of the kind of audit that its sections are those of.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read_config`.
    """
    toml.check_finite(table, where, ())
    known = {key for kind in get_args(AuditSpec) for key in kind.model_fields}
    toml.check_keys(table, known, where)
    _check_urls(table, where, ())
    if sections := [name for name in SECTIONS if name in table]:
        return _parse_federation(table, sections[0], where)
    if "known" in table and "target" not in table:
        raise SpecError(
            f"{where}: expected [target] and [data] beside [known], got no [target]: the model has "
            "to be asked about records with filled-in features"
        )
    if "leave_one_out" in table:
        return _parse_leave_one_out(table, where)
    audited = table.keys() & {"target", "data", "predictions"}
    if audited not in ({"target", "data"}, {"predictions"}):
        given = ", ".join(f"[{name}]" for name in sorted(table) if isinstance(table[name], dict))
        raise SpecError(
            f"{where}: expected [target] and [data], or [predictions] alone, got "
            f"{given or 'neither'}: say what is to be audited, once"
        )
    if "target" in table:
        spec = toml.validate_section(ModelAuditSpec, table, where)
        _check_keys(spec.data, where, wanted=("members", "nonmembers"), unwanted=("records",))
        _check_model(spec.target, where)
        _check_claim(spec.target, where)
        return spec
    if "shadows" in table:
        raise SpecError(
            f"{where}: expected [target] and [data] beside [shadows], got [predictions]"
        )
    exported = toml.validate_section(PredictionsAuditSpec, table, where)
    _check_claim(exported.predictions, where)
    check_given(exported.predictions, where)
    return exported


def check_given(spec: PredictionsSpec, where: str) -> None:
    """Refuse a loss or a score beside the other, or beside what only answers have.

    Args:
        spec: the table, in whose `model_fields_set` is what was set.
        where: the file's name, for messages.

    Raises:
        SpecError: names what is set besides.
    """
    if spec.known_members is not None and spec.logprobs is None:
        raise SpecError(
            f"{where}: expected no known_members without logprobs, got {spec.known_members:g}: an "
            "attack that learns from them needs a model, or the tokens of texts"
        )
    if spec.single is None:
        return
    kind, column = spec.single
    others = ("loss", "score", "logprobs", "probabilities", "label", "output", "class_names")
    if beside := [name for name in others if name != kind and name in spec.model_fields_set]:
        raise SpecError(
            f"{where}: expected no {beside[0]} beside {kind} = {column!r}, got "
            f"{getattr(spec, beside[0])!r}: a table is audited by one loss, one score, the "
            "tokens of texts, or the model's answers; leave out what is not to be audited"
        )


def table_attacks(
    spec: PredictionsSpec, asked: Iterable[MembershipAttack] | None, folder: Path
) -> tuple[MembershipAttack, ...]:
    """The attacks on a table: those asked for, or the default ones.

    Raises:
        SpecError: an attack needs more than the one number a record that the table has.
        DataError: the table cannot be read.
    """
    if asked is None:
        asked = catalog.default_attacks(
            regression=spec.output == "values",
            scores=spec.given is not None,
            tokens=spec.logprobs is not None,
            shadows=spec.logprobs is not None and has_shadows(folder / spec.file),
            known_members=spec.known_members is not None,
        )
    attacks = tuple(asked)
    for attack in attacks:
        if spec.given and (missing := attack.needs & ~Need.SCORES):
            raise SpecError(
                f"expected no attack but given-score beside {spec.given[0]}, got {attack.name!r}, "
                f"which needs {missing.words()}: leave attacks out, or audit the model, or a table "
                "of its answers"
            )
    return attacks


def _check_urls(value: JSON, where: str, place: tuple[str, ...]) -> None:
    """Refuse a URL with a key where no URL belongs: what stands there is stored, and shown.

    Raises:
        SpecError: names the place, never the URL.
    """
    if place in (("target", "url"), ("target", "http")):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_urls(inner, where, (*place, key))
    elif isinstance(value, list):
        for inner in value:
            _check_urls(inner, where, place)
    elif isinstance(value, str) and "://" in value and credentials.hides_key(value):
        raise SpecError(
            f"{where}: expected no URL with a key in {'.'.join(place)!r}, got one: only target.url "
            "takes an endpoint; fetch a file first, and name it here"
        )


def _parse_federation(table: dict[str, JSON], section: str, where: str) -> FederationAuditSpec:
    may = CommonSpec.model_fields.keys() | {section}
    if given := [name for name in table if name not in may]:
        raise SpecError(
            f"{where}: expected [{section}] alone, got [{given[0]}] beside it: a federation is "
            "audited without a model of its own, and for one secret at a time"
        )
    spec = toml.validate_section(FederationAuditSpec, table, where)
    spec.secret.check_section(getattr(spec, section), where)
    if spec.gate.claim:
        raise SpecError(
            f"{where}: expected no gate.claim beside [{section}], got true: a claim is about one "
            "model"
        )
    return spec


def _parse_leave_one_out(table: dict[str, JSON], where: str) -> LeaveOneOutAuditSpec:
    others = [name for name in ("target", "predictions", "shadows") if name in table]
    if others or "data" not in table:
        raise SpecError(
            f"{where}: expected [leave_one_out] and [data] alone, got "
            f"{', '.join(f'[{name}]' for name in others) or 'no [data]'}: its models are the "
            "targets, and each other's shadows"
        )
    spec = toml.validate_section(LeaveOneOutAuditSpec, table, where)
    if spec.gate.claim:
        raise SpecError(
            f"{where}: expected no gate.claim beside [leave_one_out], got true: a claim is about "
            "one model, and here are many"
        )
    check_pool_section(spec.data, where)
    return spec


def _check_model(target: TargetSpec, where: str) -> None:
    if target.model is None and target.url is None:
        raise SpecError(f"{where}: expected the key 'target.model', it is missing: add it, or url")
    fixed = {"model", "factory", "device", "output_name"} if target.url is not None else {"http"}
    if given := sorted(fixed & target.model_fields_set):
        beside = "without target.url" if target.url is None else "beside target.url"
        raise SpecError(
            f"{where}: expected no key 'target.{given[0]}' {beside}, got one: a model is either "
            "an object or file of yours, or behind a URL"
        )
    if target.url is not None and not target.fingerprint:
        raise SpecError(
            f"{where}: expected the key 'target.fingerprint' beside target.url, it is missing: "
            "name the version of the model, since nobody can see from outside whether it has "
            "changed; its answers are kept under this name, and not paid for again"
        )
    if target.url is not None:
        _check_keys_of_endpoint(target.url, target.http, where)


def _check_keys_of_endpoint(url: str, asked: HTTPSpec, where: str) -> None:
    headers, parameters = asked.headers or {}, asked.parameters or {}
    try:
        http_keys.check_keys(url, headers, parameters, plain_http=asked.plain_http)
    except SpecError as error:
        problem = str(error)
    else:
        return
    raise SpecError(f"{where}: {problem}")


def _check_claim(audited: TargetSpec | PredictionsSpec, where: str) -> None:
    if (audited.epsilon is None) != (audited.delta is None):
        raise SpecError(
            f"{where}: expected epsilon and delta of the claim together, got one of them: say "
            "delta = 0.0 if the claim has none"
        )
    if audited.noise != "any" and not audited.delta:
        raise SpecError(
            f"{where}: expected epsilon and delta above 0 beside noise = {audited.noise!r}, got "
            f"delta = {audited.delta}: noise says what the claim rests on"
        )


def check_pool_section(data: DataSpec, where: str) -> None:
    """Refuse other data than all records at once, or members and non-members to be joined.

    Raises:
        SpecError: a key is missing, or too much.
    """
    if data.membership is not None:
        raise SpecError(
            f"{where}: expected no key 'data.membership', got {data.membership!r}: here divulge "
            "decides who is a member, by a coin for each record and model"
        )
    if data.known_members is not None:
        raise SpecError(
            f"{where}: expected no key 'data.known_members', got {data.known_members:g}: each of "
            "several models has members of its own; audit one of them with [target]"
        )
    if data.strata is not None:
        raise SpecError(
            f"{where}: expected no key 'data.strata', got {data.strata!r}: exposure is compared by "
            "subpopulation on one model alone; audit one of them with [target]"
        )
    if data.records is None:
        _check_keys(data, where, wanted=("members", "nonmembers"), unwanted=())
    else:
        _check_keys(data, where, wanted=(), unwanted=("members", "nonmembers"))


def _check_keys(
    data: DataSpec, where: str, wanted: tuple[str, ...], unwanted: tuple[str, ...]
) -> None:
    for key in wanted:
        if getattr(data, key) is None:
            raise SpecError(f"{where}: expected the key 'data.{key}', it is missing: add it")
    for key in unwanted:
        if getattr(data, key) is not None:
            raise SpecError(
                f"{where}: expected no key 'data.{key}', got {getattr(data, key)!r}: either "
                "members and nonmembers, or with [leave_one_out] records alone"
            )


def requested_attacks(
    spec: AuditSpec, folder: Path, offers: Need = Need.NONE
) -> tuple[Attack[Any, Any], ...]:
    """The attacks asked for, or the default ones of this kind of audit.

    Args:
        spec: the settings.
        folder: where relative paths start; attacks of the user's own are loaded from there.
        offers: what the model offers, where it is loaded already: numbers, or tokens of texts.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    if isinstance(spec, FederationAuditSpec):
        make = own.builder(spec.about, folder)
        usual = spec.secret.default_attacks(getattr(spec, spec.section))
        return tuple(toml.build_attacks(spec.attacks, make)) or tuple(map(make, usual))
    make = own.builder(spec.about, folder)
    asked = tuple(toml.build_attacks(spec.attacks, make))
    if isinstance(spec, PredictionsAuditSpec):
        return table_attacks(spec.predictions, asked or None, folder)
    if asked:
        return asked
    if isinstance(spec, ModelAuditSpec):
        return catalog.default_attacks(
            shadows=bool(spec.shadows),
            partial=bool(spec.known),
            known_members=spec.data.known_members is not None,
            checkpoints=bool(spec.target.checkpoints),
            cascade=bool(spec.shadows and spec.shadows.cascade),
            regression=Need.VALUES in offers,
            tokens=Need.TOKENS in offers,
        )
    return catalog.default_attacks(shadows=True, regression=Need.VALUES in offers)
