"""Sections of ``audit.toml`` about a model: how it is asked, its shadows, what is known."""

from typing import Annotated, Literal

import pydantic

from divulge._util import credentials
from divulge._util.arguments import Count, CountFromZero, Delta
from divulge._util.credentials import NOT_SHOWN
from divulge._util.json import JSON
from divulge._util.toml import Section
from divulge.core import NoiseAssumption
from divulge.targets import http, http_address, http_formats
from divulge.targets.model_process import TIME_LIMIT, TimeLimit

Epsilon = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
"""The ε of a claim."""


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
    """Of openai-completions and openai-chat, with ``{record}`` or ``{column}`` where the record
    belongs."""
    datatype: str | None = None
    """Of ``"kserve-v2"``, the type of numeric tensors, such as ``"FP32"``; that of the records
    unless given."""
    parameters: Annotated[dict[str, JSON] | None, NOT_SHOWN] = None
    """Further keys of a request, such as the name of the model; a [key](endpoints.md#keys) as
    ``"env:NAME"``."""
    headers: Annotated[dict[str, str] | None, NOT_SHOWN] = None
    """Further headers; a [key](endpoints.md#keys) as ``"env:NAME"`` or ``"Bearer env:NAME"``. Other
    values are not stored."""
    references: tuple[str, ...] = ()
    """Of [openai-tokens](endpoints.md#openai-tokens), names of further models at the same URL with
    the same tokenizer, such as the one before the fine-tuning; each is asked about each text."""
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
