"""Keys and passwords in settings: named by ``env:NAME``, and refused where they are written out.

``env:NAME`` stands for the value of an environment variable. Settings hold the name alone, so that
they can be stored and shown; the value is read when a request is sent.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from divulge.errors import SpecError

NOT_SHOWN: Final = object()
"""In the annotation of a setting or an argument that may hold a key: no message shows its value."""

REFERENCE: Final = re.compile(r"(?<!\w)env:([A-Za-z_]\w*)", re.ASCII)
"""The name of an environment variable, whole or within a text."""

_SHOWN_REFERENCE = re.compile(rf"(?:[A-Za-z][A-Za-z-]* )?{REFERENCE.pattern}", re.ASCII)

# --- names ---

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ALWAYS = re.compile(
    r"auth|auth(?:entication|ori[sz]ation)|bearer|cookies?|credentials?|jwt|passphrase|passwd"
    r"|passwords?|pwd|sas|secrets?"
)
_AT_THE_END = re.compile(r"code|key|pass|session|sig|signature|token")
_AFTERWARDS = re.compile(r"id|value|[0-9]+")
_JOINED = re.compile(
    r"(?:access|api|app|auth|private|secret|subscription)(?:key|token)s?|appid|password|passwd"
)
_HARMLESS = re.compile(
    r"(?:bos|cls|end|eos|mask|pad|sep|special|start|stop|unk)token"
    r"|(?:cache|feature|input|instance|label|output|prediction|record|sort)key"
    r"|(?:country|currency|lang|language|status|zip)code"
)


def is_key_like(name: str) -> bool:
    """Whether a name says that its value is a key, a password or the like.

    Examples:
        >>> [is_key_like(name) for name in ("X-Api-Key", "apiKey", "client_secret", "sig")]
        [True, True, True, True]
        >>> [is_key_like(name) for name in ("max_tokens", "signature_name", "eos_token", "model")]
        [False, False, False, False]
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if any(map(_ALWAYS.fullmatch, words)) or _JOINED.search("".join(words)):
        return True
    while len(words) > 1 and _AFTERWARDS.fullmatch(words[-1]):
        words.pop()
    last = words[-1] if words else ""
    return bool(_AT_THE_END.fullmatch(last)) and not _HARMLESS.search("".join(words[-2:]))


# --- values ---

_FOLLOWERS = {
    "a": "bcdgilmnprstuy", "b": "aeilo", "c": "aehiklortu", "d": "adeios", "e": "acdefglmnprstvx",
    "f": "aefior", "g": "eirs", "h": "aeio", "i": "abcdefglmnoprstvz", "k": "e",
    "l": "adeilostuy", "m": "aeiop", "n": "acdefgiostv", "o": "bcdglmnoprstuw", "p": "aeiloprst",
    "q": "u", "r": "acdeimorst", "s": "acehilopstu", "t": "acehiorstuy", "u": "beilmnprst",
    "v": "aei", "w": "i", "x": "t", "z": "e",
}  # fmt: skip
_FREQUENT = frozenset(a + b for a, others in _FOLLOWERS.items() for b in others)
"""The 180 pairs of letters that are four fifths of those in 50,000 English and technical words."""

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9+/_=-]*")
_PAIR = re.compile(r"(?=([A-Za-z0-9])([A-Za-z0-9]))")
_IDENTIFIER = re.compile(
    r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])"  # a UUID
    r"|\bsha(?:1|256|384|512)[:-][0-9a-f]{40,128}\b",
    re.IGNORECASE,
)
_HEXADECIMAL = re.compile(r"[0-9a-f]{32,}", re.IGNORECASE)
_SHORTEST, _LONGEST_PIECE, _FEWEST, _SHARE = 16, 8, 6, 0.4


def looks_random(text: str) -> bool:
    """Whether a text has a run of characters that no words and numbers make up, as keys have.

    A run is 16 or more letters and digits, with or without ``+ / _ = -`` among them, but with 8 or
    more in a row. In words four of five neighbouring letters are frequent pairs; in keys most
    neighbours are other pairs, or change between letters and digits, or from small to capital
    letters. A run of which less than two fifths of neighbours are frequent pairs looks random; two
    digits beside each other do not count, and a run with fewer than six other pairs is taken for
    none. 32 hexadecimal digits in a row, letters and numbers, always look random. A UUID, and a
    digest after the name of its hash function, are names of things and not taken for keys.

    Examples:
        >>> [looks_random(text) for text in ("meta-llama/Llama-3.1-8B-Instruct", "2026-11-28")]
        [False, False]
        >>> looks_random("9f86d081884c7d659a2feaa0c55ad015")
        True
    """
    return any(map(_is_random, _RUN.findall(_IDENTIFIER.sub(" ", text))))


def _is_random(run: str) -> bool:
    pieces = [len(piece) for piece in re.split(r"[+/_=-]+", run)]
    if sum(pieces) < _SHORTEST or max(pieces) < _LONGEST_PIECE:
        return False
    if any(not group.isdigit() and not group.isalpha() for group in _HEXADECIMAL.findall(run)):
        return True
    pairs = [a + b for a, b in _PAIR.findall(run) if not (a + b).isdigit()]
    frequent = sum(
        pair.lower() in _FREQUENT and not (pair[0].islower() and pair[1].isupper())
        for pair in pairs
    )
    return len(pairs) >= _FEWEST and frequent < _SHARE * len(pairs)


_ASSIGNMENT = re.compile(r"""([A-Za-z][\w.-]*)(?:["']\s*:|\s*=)\s*["']?([^\s"'&;,]*)""")
_USER_INFO = re.compile(r"//([^/\s?#]*)@")


def hides_key(text: str) -> bool:
    """Whether a text holds what looks like a key, a key-like name with a value, or a password.

    References to environment variables are no keys.

    Examples:
        >>> hides_key("theme=dark; session=hunter2"), hides_key("theme=dark; session=env:SESSION")
        (True, False)
    """
    rest = REFERENCE.sub(" ", text)
    named = (
        value and is_key_like(name) and not REFERENCE.search(value)
        for name, value in _ASSIGNMENT.findall(text)
    )
    written = (REFERENCE.sub("", user).strip(":") for user in _USER_INFO.findall(text))
    return looks_random(rest) or any(named) or any(written)


def check_value(name: str, value: Any, where: str) -> None:
    """Refuse a setting that holds a key.

    Args:
        name: of the setting.
        value: text, or what JSON can hold; every text within it is looked at.
        where: the setting as a message calls it.

    Raises:
        SpecError: names the setting, never its value.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if hides_key(str(key)):
                raise written_out_error(f"a name in {where}", "what looks like a key")
            # what stands under a key-like name is a key, whatever it is called itself
            check_value(name if is_key_like(name) else str(key), inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            check_value(name, inner, where)
    elif value is None or isinstance(value, bool):
        return
    elif is_key_like(name) and value != "" and not REFERENCE.search(str(value)):
        raise written_out_error(where, "a value that is written out")
    elif isinstance(value, str) and hides_key(value):
        raise written_out_error(where, "what looks like a key")


def written_out_error(where: str, got: str, example: str = '"env:MODEL_KEY"') -> SpecError:
    """The error about a key that is written out in settings.

    Args:
        where: the setting.
        got: what was found, without its value.
        example: how the setting may look.
    """
    return SpecError(
        f"expected {where} to name an environment variable, got {got}: set a variable such as "
        f"MODEL_KEY to the value, and write {example}; settings are stored, the values of "
        "variables are not"
    )


# --- what they stand for ---


def fill(text: str, where: str, change: Callable[[str], str] = str) -> tuple[str, tuple[str, ...]]:
    """A text with the values of the environment variables that it names, and these values.

    Args:
        text: a setting.
        where: the setting as a message calls it.
        change: how a value is written where it is put.

    Raises:
        SpecError: a variable is missing, or has characters that cannot be sent; its value is not
            shown.
    """
    for name in REFERENCE.findall(text):
        # no value is a local variable here: some tracebacks show those
        if not os.environ.get(name, "").isprintable() or not os.environ.get(name):
            got = "one with characters that cannot be printed" if os.environ.get(name) else "none"
            raise SpecError(
                f"expected a value in the environment variable {name} for {where}, got {got}: set "
                "it"
            )
    filled = REFERENCE.sub(lambda match: change(os.environ[match[1]]), text)
    return filled, tuple(os.environ[name] for name in REFERENCE.findall(text))


def hide_text(text: str) -> str:
    """A setting as it is stored: a reference, also after a word; anything else as ``***``.

    Examples:
        >>> hide_text("Bearer env:TOKEN"), hide_text("acme")
        ('Bearer env:TOKEN', '***')
    """
    return text if _SHOWN_REFERENCE.fullmatch(text) else "***"


def keys_in_url(url: str) -> list[str]:
    """What may be keys in a URL: the parts of its user info and of its query.

    Examples:
        >>> keys_in_url("https://me:pass@host.example/x?key=abc")
        ['me', 'pass', 'key', 'abc']
    """
    if "://" not in url:
        return []
    address, _, query = url.partition("://")[2].partition("?")
    user = address.rpartition("@")[0]
    return [part for part in re.split("[:&=#]", f"{user}&{query}") if part]


_URL = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)(?:[^/\s?#]*@)?([^\s?#]*)(?:[?#]\S*)?")


def hide_in_urls(text: str) -> str:
    """A text, each URL in it without user info, query and fragment.

    Examples:
        >>> hide_in_urls("https://me:pass@host.example/x?key=abc is down")
        'https://host.example/x is down'
    """
    return _URL.sub(r"\1\2", text)
