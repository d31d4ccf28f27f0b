"""One request to a model behind a URL: sent, repeated where that may help, and its answer read.

What the server sends is hostile until proven otherwise: a response is read up to a limit of bytes
and of time, no redirect is followed, and texts of the server are shown without what a terminal
obeys, and without the keys and the contents of records that it was sent.
"""

import asyncio
import contextlib
import functools
import json
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from divulge._util import credentials, untrusted
from divulge._util.json import JSON, RepeatedKey, parse_json
from divulge.errors import TargetError
from divulge.targets.http_account import Account
from divulge.targets.http_address import shown_address
from divulge.targets.http_keys import FilledSettings
from divulge.targets.http_pace import Pace, Patience, retry_after

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

MAX_RESPONSE_BYTES: Final = 16 * 2**20
"""Largest response; `DIVULGE_MAX_BYTES` raises it."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0  # seconds before the first repetition, and before a later one

_JITTER = random.SystemRandom()  # of its own: nobody's seeded numbers change


class RetryableError(Exception):
    """An exchange that failed in a way that may pass; says how, and when to try again."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass(slots=True)
class Memory:
    """What lasts from one batch to the next."""

    account: Account
    pace: Pace
    fits: bool = False
    """Whether any response was read successfully: until then the format itself is in doubt."""


class Question(NamedTuple):
    """What one request asks."""

    body: bytes
    """JSON."""
    records: int
    """How many are asked about."""
    hide: Callable[[str], str]
    """Masks what a text of the server repeats of these records."""
    advice: str = "check url, protocol, and the form of your records"
    """What to do where the server takes no such question."""


@dataclass(slots=True)
class Session:
    """Requests to one endpoint, as long as its connections are open."""

    client: "httpx.AsyncClient"
    settings: FilledSettings
    patience: Patience
    memory: Memory
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nothing is to be sent any more: another request has failed for good."""

    async def ask(self, question: Question, read: Callable[[JSON], T]) -> T:
        """Send a request, again where that may help, and read its response.

        Args:
            question: what is sent.
            read: makes an answer of the response; a TargetError means that it does not fit.

        Raises:
            TargetError: there is no answer, or none that fits.
            BudgetSpent: the next request would exceed the highest cost.
        """
        for attempt in range(self.patience.retries + 1):
            await self._sleep(self.memory.pace.take_turn())
            self.memory.account.charge(question.records)
            try:
                return await self._try(question, read)
            except RetryableError as error:
                problem, wait = str(error), error.wait
            if attempt < self.patience.retries:
                await self._rest(attempt, wait, problem)
        spent = self.memory.account.spent
        raise TargetError(
            f"expected an answer from {self.settings.place} within {attempt + 1} attempts, got at "
            f"last {self.settings.clean(problem)}: {spent.requests:,} requests were sent in all; "
            "look after the endpoint, then continue; in a run folder, answers so far are kept"
        )

    async def _try(self, question: Question, read: Callable[[JSON], T]) -> T:
        """One exchange, and what it answers.

        Raises:
            RetryableError: there is no good answer, but may be later.
            TargetError: there will be none.
        """
        content = await self._exchange(question)
        try:
            answer = read(content)
        except TargetError as error:
            problem = question.hide(self.settings.clean(str(error)))
        else:
            self.memory.fits = True
            return answer
        # Until an answer has fitted, the settings are at fault: repeating would not help.
        kind = RetryableError if self.memory.fits else TargetError
        raise kind(problem)

    async def _rest(self, attempt: int, wait: float | None, problem: str) -> None:
        # Jitter, so that requests which failed together do not come back together.
        usual = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt) * _JITTER.uniform(0.5, 1)
        if wait is not None and wait > self.patience.max_wait:
            raise TargetError(
                f"expected to wait {self.patience.max_wait:g} s at most for {self.settings.place}, "
                f"got {self.settings.clean(problem)}, which asks for {wait:.0f} s: continue later, "
                "or raise max_wait; in a run folder, answers so far are kept"
            )
        if wait is not None:
            self.memory.pace.rest(wait)
        await self._sleep(max(usual, wait or 0))

    async def _sleep(self, seconds: float) -> None:
        """Wait, but no longer than anything is to be sent.

        Raises:
            TargetError: nothing is to be sent any more.
        """
        if seconds > 0 and not self.stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), seconds)
        if self.stop.is_set():
            raise TargetError("expected to ask on, got a request that failed for good before")

    async def _exchange(self, question: Question) -> JSON:
        """The JSON of one response.

        Raises:
            RetryableError: there is none, but may be later.
            TargetError: there will be none.
        """
        import httpx

        advice = ""
        try:
            async with asyncio.timeout(self.patience.timeout):
                return await self._send(question)
        except TimeoutError:
            message = f"no whole answer within {self.patience.timeout:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            advice = _certificate_advice(error)
            message = question.hide(self.settings.clean(credentials.hide_in_urls(str(error))))
            message = f"{type(error).__name__} ({message})" if message else type(error).__name__
        # raised out here: an error of httpx holds the whole request, and would stand behind ours
        if advice:
            raise TargetError(
                f"expected a certificate of {self.settings.place} that this machine trusts, got "
                f"{message}: {advice}"
            )
        raise RetryableError(message)

    async def _send(self, question: Question) -> JSON:
        settings = self.settings
        async with self.client.stream(
            "POST", settings.url, content=question.body, headers=dict(settings.headers)
        ) as response:
            if response.is_redirect:
                where = settings.clean(shown_address(response.headers.get("location", "")))
                raise TargetError(
                    f"expected an answer from {settings.place}, got a redirection to {where}, "
                    "which is not followed: if you trust it, set url to it"
                )
            content = await self._read_limited(response)
            if not response.is_success:
                self._refuse(response, content, question)
        # raised outside of the handlers: no error with the response hangs behind ours
        repeated = False
        try:
            answer: JSON = parse_json(content)
        except RepeatedKey:
            repeated = True
        except (ValueError, RecursionError):
            pass
        else:
            return answer
        if repeated:
            raise TargetError(
                f"expected each key once in an object of a response of {settings.place}, got one "
                "that stands twice: correct the endpoint"
            )
        raise RetryableError(f"no JSON but {settings.quote(content, question.hide)}")

    async def _read_limited(self, response: "httpx.Response") -> bytes:
        length = response.headers.get("content-length", "")
        size = int(length) if length.isdecimal() and len(length) < 20 else 0
        coding = response.headers.get("content-encoding", "identity")
        if coding.strip().lower() not in ("", "identity"):  # it could unpack to any size
            raise TargetError(
                f"expected a response without compression, got {self.settings.clean(coding)!r}: "
                "none was asked for; look at what stands between here and the endpoint"
            )
        what, parts, read = f"a response of {self.settings.place}", [], 0
        untrusted.check_size(size, MAX_RESPONSE_BYTES, what, TargetError)
        async for part in response.aiter_raw():
            read += len(part)
            untrusted.check_size(read, MAX_RESPONSE_BYTES, what, TargetError)
            parts.append(part)
        return b"".join(parts)

    def _refuse(self, response: "httpx.Response", content: bytes, question: Question) -> None:
        """Raise what a status other than success calls for.

        Raises:
            RetryableError: for a busy or broken server.
            TargetError: for a request that will never be answered.
        """
        status = response.status_code
        # who refuses a key often repeats it, in whatever form
        quoted = (
            "" if status in _ABOUT_KEYS else f" ({self.settings.quote(content, question.hide)})"
        )
        described = f"status {status}{quoted}"
        if status in (408, 429) or status >= 500:
            raise RetryableError(described, retry_after(response.headers.get("retry-after")))
        raise TargetError(
            f"expected an answer from {self.settings.place}, got {self.settings.clean(described)}: "
            f"{_ADVICE.get(status, question.advice)}"
        )


_ADVICE = {
    401: "check the keys, and the environment variables that hold them",
    403: "check the keys, and the environment variables that hold them",
    404: "check url, with the name of the model in it",
    405: "check url: the endpoint takes no POST requests there",
    413: "lower records_per_request",
}

_ABOUT_KEYS = (401, 403, 407)
"""What a server answers when it does not take a key."""


_UNKNOWN_AUTHORITY: Final = range(18, 22)
"""OpenSSL's codes for a certificate of no known authority, from a self-signed one to one whose
signature cannot be verified: there alone it helps to name an authority."""


def _certificate_advice(error: BaseException | None) -> str:
    """What to do about the certificate that led to the error; empty where none did."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    if error is None:
        return ""
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            "correct it, or name the authority that signed it in the environment variable "
            "SSL_CERT_FILE"
        )
    return "correct it, or set url to a host that it names"


@functools.cache
def tls_settings() -> ssl.SSLContext:
    """Certificates are checked against the usual authorities; read once, as that takes a while."""
    import httpx

    return httpx.create_ssl_context()


def write_json(body: Any) -> bytes:
    """A request's body."""
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
