"""The keys of an endpoint: refused in settings, put into requests, and kept out of messages."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from divulge._util import credentials
from divulge._util.contents import mask_numbers
from divulge._util.credentials import REFERENCE
from divulge._util.json import JSON
from divulge._util.redaction import Redactor
from divulge._util.showable import make_showable
from divulge.errors import SpecError
from divulge.targets.http_address import check_address, fill_address, shown_address

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_SCHEME = re.compile(r"(?i:api-?key|basic|bearer|digest|token)\s+\S.*")
_LONGEST_MESSAGE, _LONGEST_QUOTE = 500, 200
_SHORTEST_LITERAL = 8  # of headers and queries without a key: shorter ones are usual words

THREAD: Final = "divulge-http"
"""The thread in which requests are sent."""


def check_keys(
    url: str,
    headers: Mapping[str, str],
    parameters: Mapping[str, Any],
    *,
    plain_http: bool,
) -> None:
    """Refuse settings that could not be sent, and keys that are written out in them.

    Raises:
        SpecError: names the setting, never its value.
    """
    check_address(url, plain_http=plain_http)
    for name, value in headers.items():
        _check_header(name, value)
    credentials.check_value("", parameters, "parameters")


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
        raise SpecError(
            "expected the name and value of a header, got characters that it cannot have: use "
            "printable ASCII characters, and for the name no spaces or colons"
        )
    if credentials.hides_key(name):
        raise credentials.written_out_error("the name of a header", "what looks like a key")
    where = f"headers.{make_showable(name)[:60]}"
    credentials.check_value(name, value, where)
    if _SCHEME.fullmatch(value) and not REFERENCE.search(value):
        raise credentials.written_out_error(
            where, "a key that is written out", '"Bearer env:MODEL_KEY"'
        )


@dataclass(frozen=True, slots=True)
class FilledSettings:
    """What requests are sent with: settings with the values of environment variables in them."""

    place: str
    """The address for messages."""
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    parameters: Mapping[str, JSON] = field(repr=False)
    _redactor: Redactor = field(repr=False)

    @classmethod
    def read(
        cls,
        url: str,
        headers: Mapping[str, str],
        parameters: Mapping[str, JSON],
        *,
        plain_http: bool,
    ) -> "FilledSettings":
        """The settings with the present values.

        Raises:
            SpecError: a variable is missing or cannot be sent; its value is not shown.
        """
        address, keys = fill_address(url, plain_http=plain_http)
        filled, in_headers = _fill_headers(headers)
        body, in_body = _fill_value(dict(parameters), "parameters")
        sent = [*filled.values(), *re.split("[?&=]", url.partition("?")[2])]
        literal = [text for text in sent if sum(map(str.isalnum, text)) >= _SHORTEST_LITERAL]
        redactor = Redactor([*keys, *in_headers, *in_body, *literal])
        place = url if REFERENCE.fullmatch(url) else shown_address(url)[:200]
        return cls(place, address, filled, body, redactor)

    def clean(self, text: str) -> str:
        """A text with words of the server, for a message: without keys, and cut."""
        return make_showable(" ".join(self._redactor.redact(text).split()))[:_LONGEST_MESSAGE]

    def quote(self, content: bytes, hide: Callable[[str], str]) -> str:
        """The beginning of a response, for a message.

        Keys are masked, and so are contents of records: those that ``hide`` knows, and all numbers
        of four digits or more.
        """
        # cut where no message reaches, as a whole response may be large
        text = self._redactor.redact(content[: 2**16].decode("utf-8", "replace"))
        text = hide(mask_numbers(" ".join(text.split())[: 2 * _LONGEST_QUOTE]))[:_LONGEST_QUOTE]
        return repr(make_showable(text)) if text else "an empty response"


def _fill_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    filled: dict[str, str] = {}
    keys: list[str] = []
    for name, value in headers.items():
        filled[name], own = credentials.fill(value, f"the header {name}")
        if not _HEADER_VALUE.fullmatch(filled[name]):
            raise SpecError(
                f"expected a value in the environment variable {REFERENCE.findall(value)[0]} for "
                f"the header {name}, got one with characters that no header can hold: set it"
            )
        keys.extend(own)
    return filled, tuple(keys)


def _fill_value(value: Any, where: str) -> tuple[Any, tuple[str, ...]]:
    """A setting of any depth, filled, and the values of variables in it."""
    if isinstance(value, str):
        return credentials.fill(value, where)
    if isinstance(value, Mapping):
        pairs = {str(key): _fill_value(inner, f"{where}.{key}") for key, inner in value.items()}
        every = [key for _, keys in pairs.values() for key in keys]
        return {name: inner for name, (inner, _) in pairs.items()}, tuple(every)
    if isinstance(value, list | tuple):
        parts = [_fill_value(inner, where) for inner in value]
        return [inner for inner, _ in parts], tuple(key for _, keys in parts for key in keys)
    return value, ()


class _Silence(logging.Filter):
    """Drops what libraries log of our requests: their URLs, and headers of responses."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.threadName != THREAD


_SILENCE = _Silence()
_LOGGERS = (
    "httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy",
    "httpcore.socks",
)  # fmt: skip


def silence_libraries() -> None:
    """Keep addresses and headers out of logs, which other programs may write."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_SILENCE)
