"""Ask a model behind a URL: in batches, several at a time, each answer handed on as it comes."""

import hashlib
import json
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
import pydantic
from jaxtyping import Float, Int

from divulge._util.arguments import Count, check_arguments
from divulge._util.contents import mask_sent
from divulge._util.credentials import NOT_SHOWN, check_value
from divulge._util.json import JSON
from divulge.core import Need
from divulge.core.tokens import Tokens, join_tokens
from divulge.errors import SpecError, TargetError
from divulge.targets import http_client, http_keys
from divulge.targets.batching import count_rows, take_rows
from divulge.targets.echoed_tokens import ask_tokens
from divulge.targets.http_account import Account, Prices, Spent
from divulge.targets.http_address import shown_address
from divulge.targets.http_client import Memory, Question, Session
from divulge.targets.http_formats import ProtocolName, WireFormat
from divulge.targets.http_keys import FilledSettings
from divulge.targets.http_loop import background_loop, open_session
from divulge.targets.http_pace import Pace, Patience
from divulge.targets.http_parts import RowRange, cut_parts, join_answers, stream_parts
from divulge.targets.json_records import to_rows
from divulge.targets.outputs import Output, access_of, to_probabilities
from divulge.targets.transformers import as_plain_texts

T = TypeVar("T")

Seconds = Annotated[float, pydantic.Field(gt=0, le=86400)]
Price = Annotated[float, pydantic.Field(ge=0)]
Rate = Annotated[float, pydantic.Field(ge=1e-3, le=1e6)]
Concurrency = Annotated[int, pydantic.Field(ge=1, le=256)]
Retries = Annotated[int, pydantic.Field(ge=0, le=20)]
Address = Annotated[str, NOT_SHOWN]
Parameters = Annotated[Mapping[str, JSON], NOT_SHOWN]
Headers = Annotated[Mapping[str, str], NOT_SHOWN]


@check_arguments
@dataclass(frozen=True)
class HTTPTarget:
    """A model behind a URL, over HTTP; needs the extra ``urls``.

    Args:
        url: the address that answers questions: ``https://``, or ``http://`` on this machine.
            ``"env:NAME"`` in its path, query or user info, in headers and in parameters, alone or
            as in ``"Bearer env:NAME"``, stands for the value of an environment variable, which is
            neither stored nor printed. A key that is written out is refused.
        fingerprint: your name for the version of the model. No one can see from outside whether the
            model behind a URL has changed; answers are kept under this name, the URL and the
            format, so that none is paid for twice or taken for another version's.
        output: what the endpoint answers with.
        classes: the number of classes, for labels that are numbers.
        protocol: how requests and responses look; ``"json"`` is rows under names of yours.
        records: the name under which the request holds records; that of the protocol unless given.
            Of ``"json"``, ``""`` sends the list of records alone.
        answers: where the response holds answers, such as ``"predictions"``,
            ``"data.0.probabilities"`` or ``"results.*.scores"``: names, positions, and ``*`` for
            each entry of a list. Of ``"kserve-v2"`` the name of the output tensor.
        labels: the classes as the endpoint names them, in the order in which your records number
            them.
        prompt: of openai-completions and openai-chat, with ``{record}`` or ``{column}`` where the
            record belongs.
        datatype: of ``"kserve-v2"``, the type of numeric tensors, such as ``"FP32"``, where the
            model wants another than your records have.
        parameters: further keys of the request, such as the name of the model.
        headers: further headers.
        references: of openai-tokens, the names of further models at the same URL with the same
            tokenizer, such as the one before the fine-tuning; each is asked about each text.
        records_per_request: the highest number of records in one request.
        concurrency: the highest number of requests at the same time.
        requests_per_second: the highest number of requests a second; no limit unless given.
        timeout: seconds within which a whole response has to be there.
        retries: how often a request is repeated that got no good response.
        max_wait: the longest wait in seconds that a server may ask for by ``Retry-After``.
        price_per_request: what a request costs, in any currency; repeated ones cost again.
        price_per_record: what each record in a request costs.
        max_cost: the highest cost; a request that would exceed it is not sent.
        plain_http: allow ``http://`` to another machine: everybody on the way can read records,
            answers and headers.

    Raises:
        SpecError: a setting cannot be used, or they contradict each other.

    Examples:
        >>> HTTPTarget("https://models.example/income", "2026-11", price_per_record=0.01).spent
        Spent(requests=0, records=0, cost=0.0)
    """

    url: Address
    fingerprint: str
    output: Output = "probabilities"
    classes: Count | None = None
    protocol: ProtocolName = "json"
    records: str | None = None
    answers: str | None = None
    labels: tuple[str, ...] = ()
    prompt: str | None = None
    datatype: str | None = None
    parameters: Parameters | None = None
    headers: Headers | None = None
    references: tuple[str, ...] = ()
    records_per_request: Count = 32
    concurrency: Concurrency = 4
    requests_per_second: Rate | None = None
    timeout: Seconds = 60.0
    retries: Retries = 5
    max_wait: Seconds = 300.0
    price_per_request: Price = 0.0
    price_per_record: Price = 0.0
    max_cost: Price | None = None
    plain_http: bool = False
    takes_frames: ClassVar[bool] = True

    _memory: Memory = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.fingerprint:
            raise SpecError(
                "expected a fingerprint for a model behind a URL, got none: name the version of "
                "the model, since nobody can see from outside whether it has changed; answers "
                "are kept under this name and not paid for again"
            )
        if self.max_cost is not None and not self.price_per_request + self.price_per_record:
            raise SpecError(
                "expected price_per_request or price_per_record beside max_cost, got neither: say "
                "what a question costs"
            )
        self._wire  # noqa: B018 - refuses settings that contradict each other
        if self.references and not self._wire.of_tokens:
            raise SpecError(
                f"expected no references beside protocol = {self.protocol!r}, got some: only "
                "openai-tokens compares language models"
            )
        self._identity()
        http_keys.check_keys(
            self.url, self.headers or {}, self.parameters or {}, plain_http=self.plain_http
        )
        check_value("", list(self.references), "references")
        prices = Prices(self.price_per_request, self.price_per_record, self.max_cost)
        memory = Memory(Account(prices), Pace(self.requests_per_second))
        object.__setattr__(self, "_memory", memory)

    def __repr__(self) -> str:
        return f"HTTPTarget({shown_address(self.url)!r}, {self.fingerprint!r})"

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        if self._wire.of_tokens:
            return Need.TOKENS | Need.SCORES | Need.FEATURES | Need.PREFIX
        return access_of(self.output)

    @property
    def round(self) -> int:
        """How many records fit into requests that are on their way at the same time."""
        return self.concurrency * min(
            self.records_per_request, self._wire.most or self.records_per_request
        )

    @property
    def spent(self) -> Spent:
        """What was asked of the endpoint so far, and what that cost."""
        return self._memory.account.spent

    @property
    def identity(self) -> str:
        """A hash that differs between versions, addresses, and ways to ask and to read answers."""
        return hashlib.blake2b(self._identity()).hexdigest()

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """Probabilities in float64; of a language model the mean log-probability of each text.

        Args:
            x: an array, a sparse matrix, a list of texts, a pandas or polars frame, or arrays by
                name.

        Raises:
            TargetError: there is no answer, or none that fits.
            BudgetSpent: the next request would exceed the highest cost.
        """
        parts = list(self.stream(x))
        rows = np.concatenate([rows for rows, _ in parts])
        return join_answers([answers for _, answers in parts])[np.argsort(rows)]

    def stream(
        self, x: Any
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """Yield positions in ``x`` with their probabilities, as responses arrive.

        Whoever keeps each part has all answers but those on their way, which are as many as
        ``concurrency`` at the most.

        Raises:
            TargetError: see `predict`; answers on their way are yielded before.
            BudgetSpent: see `predict`; likewise.
        """
        if self._wire.of_tokens:
            for rows, tokens in self.stream_tokens(x):
                yield rows, tokens.average(tokens.logprob)[:, None]
            return
        for rows, answers in self._stream(x, self._ask):
            yield rows, join_answers(answers)

    def tokens(self, x: Any, after: Any = None) -> Tokens:
        """What the language model says of the tokens of texts.

        Args:
            x: texts.
            after: texts that stand before each of them, with a space between.

        Raises:
            TargetError: see `predict`; or no language model is asked by this protocol.
            BudgetSpent: see `predict`.
        """
        parts = list(self.stream_tokens(x, after))
        rows = np.concatenate([rows for rows, _ in parts])
        return join_tokens([tokens for _, tokens in parts]).take(np.argsort(rows))

    def stream_tokens(
        self, x: Any, after: Any = None
    ) -> Generator[tuple[Int[np.ndarray, " part"], Tokens], None, None]:
        """The same as responses arrive, with positions in ``x``; errors as of `tokens`."""
        if not self._wire.of_tokens:
            raise TargetError(
                f'expected protocol = "openai-tokens" for tokens, got {self.protocol!r}: name it'
            )
        before = "" if after is None else "".join(f"{text} " for text in as_plain_texts(after))
        ask = partial(ask_tokens, self._wire, self.references, before)
        for rows, answers in self._stream(as_plain_texts(x), ask):
            yield rows, join_tokens(answers)

    def _stream(
        self, x: Any, ask: Callable[[Session, Any], Coroutine[Any, Any, T]]
    ) -> Generator[tuple[Int[np.ndarray, " part"], list[T]], None, None]:
        """Positions in ``x`` with the answers about them, as they come."""
        count = count_rows(x)
        if not count:
            raise TargetError("expected at least one record, got none: ask about one or more")
        size = min(self.records_per_request, self._wire.most or count)
        settings = FilledSettings.read(
            self.url, self.headers or {}, self.parameters or {}, plain_http=self.plain_http
        )
        patience = Patience(self.timeout, self.retries, self.max_wait)
        with (
            background_loop() as loop,
            open_session(loop, settings, patience, self._memory, self.concurrency) as session,
        ):

            def start(part: RowRange) -> Coroutine[Any, Any, T]:
                return ask(session, take_rows(x, np.arange(*part)))

            parts = cut_parts(count, size)
            yield from stream_parts(parts, start, session, loop, self.concurrency)

    @property
    def _wire(self) -> WireFormat:
        return WireFormat(
            self.protocol,
            self.output,
            self.records,
            self.answers,
            self.labels,
            self.prompt,
            self.datatype,
            self.parameters,
        )

    def _identity(self) -> bytes:
        try:
            wire = asdict(self._wire) | {"parameters": dict(self.parameters or {})}
            identity = [self.url, self.fingerprint, self.classes, wire, *self.references]
            return json.dumps(identity, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SpecError(
                "expected parameters that JSON can hold, got others: use texts, numbers, lists "
                "and dicts"
            ) from error

    async def _ask(self, session: Session, x: Any) -> np.ndarray:
        count = count_rows(x)
        wire = replace(self._wire, parameters=session.settings.parameters)
        body = http_client.write_json(wire.encode(x))
        question = Question(body, count, lambda text: mask_sent(text, to_rows(x).values))
        return await session.ask(question, partial(self._read, wire, count))

    def _read(self, wire: WireFormat, count: int, body: JSON) -> np.ndarray:
        classes = self.classes if self.classes is not None else len(self.labels) or None
        return to_probabilities(wire.decode(body, count), self.output, count, classes)
