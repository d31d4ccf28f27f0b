"""Ask a model behind a URL: in batches, several at a time, each answer handed on as it comes."""

import asyncio
import hashlib
import json
import sys
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import pydantic
from jaxtyping import Float, Int

from divulge._util.arguments import Count, check_arguments
from divulge._util.contents import mask_sent
from divulge._util.credentials import NOT_SHOWN
from divulge._util.json import JSON
from divulge.core import Need
from divulge.errors import SpecError, TargetError
from divulge.targets import http_client, http_keys
from divulge.targets.batching import count_rows, take_rows
from divulge.targets.http_account import Account, Prices, Spent
from divulge.targets.http_address import shown_address
from divulge.targets.http_client import Memory, Question, Session
from divulge.targets.http_formats import ProtocolName, WireFormat
from divulge.targets.http_keys import FilledSettings
from divulge.targets.http_loop import background_loop, close_client, open_client
from divulge.targets.http_pace import Pace, Patience
from divulge.targets.json_records import to_rows
from divulge.targets.outputs import Output, access_of, to_probabilities

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
        prompt: of the openai protocols, with ``{record}`` or ``{column}`` where the record belongs.
        datatype: of ``"kserve-v2"``, the type of numeric tensors, such as ``"FP32"``, where the
            model wants another than your records have.
        parameters: further keys of the request, such as the name of the model.
        headers: further headers.
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
        self._identity()
        http_keys.check_keys(
            self.url, self.headers or {}, self.parameters or {}, plain_http=self.plain_http
        )
        prices = Prices(self.price_per_request, self.price_per_record, self.max_cost)
        memory = Memory(Account(prices), Pace(self.requests_per_second))
        object.__setattr__(self, "_memory", memory)

    def __repr__(self) -> str:
        return f"HTTPTarget({shown_address(self.url)!r}, {self.fingerprint!r})"

    @property
    def offers(self) -> Need:
        """What its answers allow."""
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
        """Probabilities in float64.

        Args:
            x: an array, a sparse matrix, a list of texts, a pandas or polars frame, or arrays by
                name.

        Raises:
            TargetError: there is no answer, or none that fits.
            BudgetSpent: the next request would exceed the highest cost.
        """
        parts = list(self.stream(x))
        rows = np.concatenate([rows for rows, _ in parts])
        return _join([answers for _, answers in parts])[np.argsort(rows)]

    def stream(
        self, x: Any
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """Yield positions in ``x`` with their probabilities, as responses arrive.

        A request is sent when the answer before it was taken, so that whoever keeps each part has
        all answers but those on their way, which are as many as ``concurrency`` at the most.

        Raises:
            TargetError: see `predict`; answers on their way are yielded before.
            BudgetSpent: see `predict`; likewise.
        """
        count = count_rows(x)
        if not count:
            raise TargetError("expected at least one record, got none: ask about one or more")
        size = min(self.records_per_request, self._wire.most or count)
        parts = iter([(k, min(k + size, count)) for k in range(0, count, size)])
        with background_loop() as loop, self._session(loop) as session:
            waiting: dict[Future[np.ndarray], tuple[int, int]] = {}
            failure: BaseException | None = None
            while True:
                # The first request goes alone: if nothing fits, it alone was paid for.
                room = self.concurrency if self._memory.fits else 1
                while failure is None and len(waiting) < room and (part := next(parts, None)):
                    coming = self._ask(session, take_rows(x, np.arange(*part)), part[1] - part[0])
                    waiting[asyncio.run_coroutine_threadsafe(coming, loop)] = part
                if not waiting:
                    break
                try:
                    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt as error:
                    if failure is not None:  # asked to stop once more
                        raise
                    failure = error
                    loop.call_soon_threadsafe(session.stop.set)
                    continue
                good = {}
                for future in done:
                    part, problem = waiting.pop(future), future.exception()
                    if problem is None:
                        good[part] = future.result()
                    elif failure is None:
                        failure = problem
                        loop.call_soon_threadsafe(session.stop.set)
                if good:
                    rows = np.concatenate([np.arange(*part) for part in good])
                    yield rows, _join(list(good.values()))
        if failure is not None:
            raise failure

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
            identity = [self.url, self.fingerprint, self.classes, wire]
            return json.dumps(identity, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SpecError(
                "expected parameters that JSON can hold, got others: use texts, numbers, lists "
                "and dicts"
            ) from error

    async def _ask(self, session: Session, x: Any, count: int) -> np.ndarray:
        wire = replace(self._wire, parameters=session.settings.parameters)
        body = http_client.write_json(wire.encode(x))
        question = Question(body, count, lambda text: mask_sent(text, to_rows(x).values))
        return await session.ask(question, partial(self._read, wire, count))

    def _read(self, wire: WireFormat, count: int, body: JSON) -> np.ndarray:
        classes = self.classes if self.classes is not None else len(self.labels) or None
        return to_probabilities(wire.decode(body, count), self.output, count, classes)

    @contextmanager
    def _session(self, loop: asyncio.AbstractEventLoop) -> Iterator[Session]:
        """Open connections, closed at the end; requests on their way are cancelled then."""
        settings = FilledSettings.read(
            self.url, self.headers or {}, self.parameters or {}, plain_http=self.plain_http
        )
        client = open_client(self.timeout, self.concurrency)
        patience = Patience(self.timeout, self.retries, self.max_wait)
        try:
            yield Session(client, settings, patience, self._memory)
        finally:
            if not sys.is_finalizing():
                asyncio.run_coroutine_threadsafe(close_client(client), loop).result()


def _join(answers: list[np.ndarray]) -> Float[np.ndarray, "records classes"]:
    widths = {part.shape[1] for part in answers}
    if len(widths) > 1:
        raise TargetError(
            f"expected answers about equally many classes, got {min(widths)} and {max(widths)}: is "
            "this one model?"
        )
    return np.concatenate(answers)
