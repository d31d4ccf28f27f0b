"""Keys and signatures of minisign (https://jedisct1.github.io/minisign), by py-minisign."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from divulge._util import untrusted
from divulge._util.extras import name_missing_extra
from divulge.errors import SpecError, StoreError

if TYPE_CHECKING:
    import minisign

_MAX_KEY_BYTES = 4096


def read_secret_key(path: Path, password: str | None) -> "minisign.SecretKey":
    """The key in a file that ``minisign -G`` wrote, ready to sign.

    Args:
        path: the file.
        password: of the key; None if it has none.

    Raises:
        MissingExtra: py-minisign is not installed.
        SpecError: there is no such file, it is no key, or the password is wrong.
    """
    key = _parse_secret_key(path)
    import minisign

    if key.is_encrypted():
        if password is None:
            raise SpecError(f"expected the password of the key in {path}, got none: give it")
        try:
            key.decrypt(password)
        except (minisign.Error, ValueError, MemoryError) as error:
            raise SpecError(
                f"expected the password of the key in {path}, got another: try again"
            ) from error
    try:  # py-minisign does not check whether a key without a password is whole
        key.get_public_key().verify(b"", key.sign(b""))
    except (minisign.Error, ValueError) as error:
        raise _not_a_key(path, "secret") from error
    return key


def needs_password(path: Path) -> bool:
    """Whether a secret key is encrypted, as far as its file says.

    Raises:
        MissingExtra: py-minisign is not installed.
        SpecError: there is no such file, or it is no key.
    """
    return bool(_parse_secret_key(path).is_encrypted())


def read_public_key(text: bytes, where: str) -> "minisign.PublicKey":
    """The key in the content of a ``minisign.pub``.

    Raises:
        MissingExtra: py-minisign is not installed.
        SpecError: it is something else.
    """
    with name_missing_extra():
        import minisign
    try:
        return minisign.PublicKey.from_bytes(text)
    except minisign.Error as error:
        raise _not_a_key(where, "public") from error


def name_key(key: "minisign.PublicKey") -> str:
    """The number of a key as minisign prints it."""
    return _show_number(key.to_base64())


def sign(message: bytes, key: "minisign.SecretKey", comment: str) -> bytes:
    """The content of a ``.minisig`` file.

    Args:
        message: what is signed.
        key: who signs.
        comment: the trusted comment, one line that is signed too; minisign takes printable ASCII
            alone, so that other characters stand as their escapes.
    """
    signature = key.sign(
        message,
        untrusted_comment=f"signature from minisign secret key {name_key(key.get_public_key())}",
        trusted_comment=comment.encode("ascii", "backslashreplace").decode(),
    )
    return bytes(signature) + b"\n"


def verify(message: bytes, signature: bytes, key: "minisign.PublicKey") -> str:
    """Check a signature, and return its trusted comment.

    Args:
        message: what is said to be signed.
        signature: the content of a ``.minisig`` file.
        key: who is said to have signed.

    Raises:
        StoreError: it is no signature, that of another key, or not of this message.
    """
    import minisign

    try:
        parsed = minisign.Signature.from_bytes(signature)
    except minisign.Error as error:
        raise StoreError(
            "expected a signature of minisign by Ed25519, got something else: ask for the pack "
            "again"
        ) from error
    signer = _show_number(signature.splitlines()[1])
    if signer != name_key(key):
        raise StoreError(
            f"expected a signature by the key {name_key(key)}, got one by {signer}: ask who signed"
        )
    try:
        key.verify(message, parsed)
    except minisign.VerifyError as error:
        raise StoreError(
            f"expected a manifest that the key {name_key(key)} signed, got another: it was changed "
            "after it was signed"
        ) from error
    return str(parsed.trusted_comment)


def _parse_secret_key(path: Path) -> "minisign.SecretKey":
    with name_missing_extra():
        import minisign
    content = untrusted.read_file(path, _MAX_KEY_BYTES, SpecError)
    try:
        return minisign.SecretKey.from_bytes(content)
    except minisign.Error as error:
        raise _not_a_key(path, "secret") from error


def _show_number(line: bytes) -> str:
    """The number in a line of base64, behind two bytes that name the algorithm."""
    return base64.b64decode(line)[2:10][::-1].hex().upper()


def _not_a_key(where: str | Path, kind: str) -> SpecError:
    return SpecError(
        f"expected a {kind} key of minisign in {where}, got something else: make one by "
        "`minisign -G`"
    )
