"""The address of an endpoint: checked, filled with keys from the environment, and shown without."""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, unquote_plus, urlsplit

from divulge._util import credentials
from divulge._util.credentials import REFERENCE
from divulge._util.showable import make_showable
from divulge.errors import SpecError

_ADDRESS = re.compile(
    r"(?P<scheme>(?i:https?)://)(?:(?P<user>[^/?#]*)@)?(?P<host>[^/?#]*)(?P<path>[^?#]*)"
    r"(?P<query>\??[^#]*)(?P<fragment>#?.*)",
    re.DOTALL,
)
_IN_PATH = "/:@!$&'()*+,;=~"
_IN_QUERY = "%/:@!$&'()*+,;=~?"

_HOW_IN_QUERY = '"https://models.example/predict?key=env:MODEL_KEY"'
_HOW_IN_PATH = '"https://models.example/env:MODEL_KEY/predict"'
_HOW_AS_USER = '"https://env:MODEL_USER:env:MODEL_KEY@models.example/predict"'


class _Parts(NamedTuple):
    """A URL, each part with the sign that tells it from the others."""

    scheme: str
    user: str | None
    host: str
    path: str
    query: str
    fragment: str


def _split(url: str) -> _Parts | None:
    match = _ADDRESS.fullmatch(url)
    return match and _Parts(**match.groupdict())


def shown_address(url: str) -> str:
    """A URL for settings that are stored, and for messages: scheme, host and path alone.

    Examples:
        >>> shown_address("https://env:USER:env:PASS@models.example/v1?key=env:KEY")
        'https://models.example/v1'
    """
    return make_showable(credentials.hide_in_urls(url).partition("?")[0].partition("#")[0])[:2000]


def check_address(url: str, *, plain_http: bool) -> None:
    """Refuse what is no address of an endpoint, holds a key, or would send records openly.

    A URL that a variable holds as a whole is not known yet, and checked when it is filled.

    Raises:
        SpecError: says which; never shows user info or query.
    """
    if REFERENCE.fullmatch(url):
        return
    parts = _split(url)
    if parts is not None:
        _check_keys(parts)
    hidden = "@" in url or credentials.hides_key(url)
    shown = "another text" if hidden else repr(shown_address(url)[:200])
    _check_place(REFERENCE.sub("x", url), shown, plain_http=plain_http)


def _check_place(url: str, shown: str, *, plain_http: bool) -> None:
    """Refuse what is no address of an endpoint, or would send records openly."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    printable = url.isascii() and url.isprintable() and " " not in url
    if not host or not printable or parts.scheme not in ("http", "https") or len(url) > 8000:
        raise SpecError(
            f"expected a URL such as https://models.example/predict, got {shown}: write the whole "
            "address that answers questions"
        )
    if parts.scheme == "http" and not plain_http and not _is_this_machine(host):
        raise SpecError(
            f"expected https:// in place of http://, got {shown}: everybody on the way could read "
            "records, answers and headers; set plain_http if the network is your own"
        )


def _check_keys(parts: _Parts) -> None:
    """Refuse a key that is written out in an address.

    Raises:
        SpecError: names the part, and the name in the query, never a value.
    """
    if REFERENCE.search(parts.host):
        raise SpecError(
            "expected the host of url to be written out, got a reference to an environment "
            'variable: write the host, or name the whole URL by a variable: url = "env:MODEL_URL"'
        )
    if parts.user is not None:
        name, _, password = REFERENCE.sub(_as_word, parts.user).partition(":")
        if (password or name).replace(_WORD, "") or credentials.looks_random(name):
            raise credentials.written_out_error(
                "the name and password in url", "them written out", _HOW_AS_USER
            )
    if credentials.hides_key(unquote_plus(parts.path)):
        raise credentials.written_out_error(
            "the path of url", "what looks like a key", _HOW_IN_PATH
        )
    for piece in re.split("[&;]", parts.query[1:] + "&" + parts.fragment[1:]):
        name, equals, value = piece.partition("=")
        name, value = unquote_plus(name), unquote_plus(value)
        key_like = credentials.is_key_like(name) and value and not REFERENCE.search(value)
        if key_like or credentials.hides_key(value):
            # a name is shown unless it is one of those that nobody would give
            label = (
                make_showable(name)[:40] if equals and not credentials.hides_key(name) else "key"
            )
            raise credentials.written_out_error(
                f"{label!r} in the query of url",
                "a value that is written out" if key_like else "what looks like a key",
                _HOW_IN_QUERY,
            )
        if credentials.hides_key(name):
            raise credentials.written_out_error(
                "the query of url", "what looks like a key", _HOW_IN_QUERY
            )


_WORD = "\0"


def _as_word(_: re.Match[str]) -> str:
    return _WORD


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fill_address(url: str, *, plain_http: bool) -> tuple[str, tuple[str, ...]]:
    """The address that a request goes to, and the values of variables in it.

    Values are percent-encoded. One that is a piece of the query of its own, as in
    ``?version=1&env:SIGNATURE``, may hold names and values, and stays as it is.

    Raises:
        SpecError: a variable is missing or cannot be sent, or holds no URL where it should.
    """
    if REFERENCE.fullmatch(url):
        whole, keys = credentials.fill(url, "url")
        _check_place(whole, url, plain_http=plain_http)
        return whole, keys
    parts = _split(url)
    assert parts is not None  # it was checked
    user, in_user = credentials.fill(parts.user or "", "url", _quote_all)
    path, in_path = credentials.fill(parts.path, "url", _quote_path)
    filled: list[str] = []
    secrets = [*in_user, *in_path]
    for piece in parts.query.removeprefix("?").split("&"):
        how = _quote_query if REFERENCE.fullmatch(piece) else _quote_all
        text, values = credentials.fill(piece, "url", how)
        filled.append(text)
        secrets.extend(values)
    at = "" if parts.user is None else f"{user}@"
    query = "?" + "&".join(filled) if parts.query else ""
    return f"{parts.scheme}{at}{parts.host}{path}{query}", tuple(secrets)


def _quote_all(value: str) -> str:
    return quote(value, safe="")


def _quote_path(value: str) -> str:
    return quote(value, safe=_IN_PATH)


def _quote_query(value: str) -> str:
    return quote(value, safe=_IN_QUERY)
