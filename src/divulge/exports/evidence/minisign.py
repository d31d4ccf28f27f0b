"""Signatures in the format of minisign (https://jedisct1.github.io/minisign), by Ed25519.

A key file has a comment and a line of base64: two bytes that name the algorithm, the key's number
of eight bytes, and the key. A signature has four lines: a comment, base64 with the signature of the
BLAKE2b digest of the message, a trusted comment, and the signature of both.
"""

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

from divulge._util import untrusted
from divulge._util.extras import name_missing_extra
from divulge.errors import SpecError, StoreError

_PLAIN, _HASHED = b"Ed", b"ED"
_SCRYPT, _UNENCRYPTED, _BLAKE2B = b"Sc", b"\0\0", b"B2"
_MAX_KEY_BYTES = 4096
_MAX_MEMORY = 2**30
"""What a key's password may cost: what minisign itself asks for."""
_TRUSTED = "trusted comment: "


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Who signed: the number of a key, and the key."""

    number: bytes
    key: bytes

    def as_file(self) -> bytes:
        """The content of a ``minisign.pub``."""
        packed = base64.standard_b64encode(_PLAIN + self.number + self.key).decode()
        return f"untrusted comment: minisign public key {self.name}\n{packed}\n".encode()

    @property
    def name(self) -> str:
        """The number as minisign prints it."""
        return self.number[::-1].hex().upper()


@dataclass(frozen=True, slots=True, repr=False)
class SecretKey:
    """A key that signs."""

    public: PublicKey
    seed: bytes


def read_secret_key(path: Path, password: str | None) -> SecretKey:
    """The key in a file that ``minisign -G`` wrote.

    Args:
        path: the file.
        password: of the key; None if it has none.

    Raises:
        SpecError: there is no such file, it is no key, or the password is wrong.
    """
    raw = untrusted.read_file(path, _MAX_KEY_BYTES, SpecError)
    try:
        packed = base64.b64decode(raw.splitlines()[1], validate=True)
        kind, kdf, checksum, salt, work, memory, held = struct.unpack("<2s2s2s32sQQ104s", packed)
    except (IndexError, binascii.Error, struct.error) as error:
        raise _not_a_key(path, "secret") from error
    if kind != _PLAIN or checksum != _BLAKE2B or kdf not in (_SCRYPT, _UNENCRYPTED):
        raise _not_a_key(path, "secret")
    if kdf == _SCRYPT:
        if password is None:
            raise SpecError(f"expected the password of the key in {path}, got none: give it")
        stream = _derive(password, salt, work, memory, path)
        held = bytes(one ^ other for one, other in zip(held, stream, strict=True))
    number, seed, public, check = held[:8], held[8:40], held[40:72], held[72:]
    if hashlib.blake2b(kind + held[:72], digest_size=32).digest() != check:
        raise SpecError(f"expected the password of the key in {path}, got another: try again")
    return SecretKey(PublicKey(number, public), seed)


def needs_password(path: Path) -> bool:
    """Whether a secret key is encrypted, as far as its file says."""
    raw = untrusted.read_file(path, _MAX_KEY_BYTES, SpecError)
    try:
        return base64.b64decode(raw.splitlines()[1], validate=True)[2:4] == _SCRYPT
    except (IndexError, binascii.Error) as error:
        raise _not_a_key(path, "secret") from error


def read_public_key(text: bytes, where: str) -> PublicKey:
    """The key in the content of a ``minisign.pub``.

    Raises:
        SpecError: it is something else.
    """
    lines = text.splitlines()
    try:
        packed = base64.b64decode(lines[1], validate=True)
    except (IndexError, binascii.Error) as error:
        raise _not_a_key(where, "public") from error
    if len(packed) != 42 or packed[:2] != _PLAIN:
        raise _not_a_key(where, "public")
    return PublicKey(packed[2:10], packed[10:])


def sign(message: bytes, key: SecretKey, comment: str) -> bytes:
    """The content of a ``.minisig`` file.

    Args:
        message: what is signed.
        key: who signs.
        comment: the trusted comment, one line that is signed too.

    Raises:
        MissingExtra: cryptography is not installed.
    """
    with name_missing_extra():
        from cryptography.hazmat.primitives.asymmetric import ed25519
    secret = ed25519.Ed25519PrivateKey.from_private_bytes(key.seed)
    first = secret.sign(hashlib.blake2b(message).digest())
    second = secret.sign(first + comment.encode())
    packed = base64.standard_b64encode(_HASHED + key.public.number + first).decode()
    return (
        f"untrusted comment: signature from minisign secret key {key.public.name}\n{packed}\n"
        f"{_TRUSTED}{comment}\n{base64.standard_b64encode(second).decode()}\n"
    ).encode()


def verify(message: bytes, signature: bytes, key: PublicKey) -> str:
    """Check a signature, and return its trusted comment.

    Args:
        message: what is said to be signed.
        signature: the content of a ``.minisig`` file.
        key: who is said to have signed.

    Raises:
        MissingExtra: cryptography is not installed.
        StoreError: it is no signature, that of another key, or not of this message.
    """
    with name_missing_extra():
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    try:
        _, line, trusted, last = signature.decode().splitlines()
        packed = base64.b64decode(line, validate=True)
        second = base64.b64decode(last, validate=True)
    except ValueError as error:  # also no UTF-8, and no base64
        raise StoreError(
            "expected a signature of minisign, got something else: ask for the pack again"
        ) from error
    kind, number, first = packed[:2], packed[2:10], packed[10:]
    if kind not in (_PLAIN, _HASHED) or not trusted.startswith(_TRUSTED):
        raise StoreError(
            "expected a signature of minisign by Ed25519, got another: ask for the pack again"
        )
    if number != key.number:
        raise StoreError(
            f"expected a signature by the key {key.name}, got one by "
            f"{number[::-1].hex().upper()}: ask who signed"
        )
    comment = trusted.removeprefix(_TRUSTED)
    content = hashlib.blake2b(message).digest() if kind == _HASHED else message
    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(key.key)
        public.verify(first, content)
        public.verify(second, first + comment.encode())
    except InvalidSignature as error:
        raise StoreError(
            f"expected a manifest that the key {key.name} signed, got another: it was changed "
            "after it was signed"
        ) from error
    return comment


def _derive(password: str, salt: bytes, work: int, memory: int, path: Path) -> bytes:
    """The stream over an encrypted key: scrypt with the cost that libsodium derives from limits."""
    if memory > _MAX_MEMORY or work > 2**32:
        raise SpecError(
            f"expected a key whose password takes at most 1 GiB of memory, {path} asks for more: "
            "make another by `minisign -G`"
        )
    work = max(work, 32768)
    rounds, blocks = 1, work // 32
    if work >= memory // 32:
        blocks = memory // 1024
    exponent = 1
    while exponent < 63 and 1 << exponent <= blocks // 2:
        exponent += 1
    if work >= memory // 32:
        rounds = min(0x3FFFFFFF, work // 4 // (1 << exponent)) // 8
    try:
        return hashlib.scrypt(
            password.encode(),
            salt=salt,
            n=1 << exponent,
            r=8,
            p=rounds,
            maxmem=2**31 - 1,
            dklen=104,
        )
    except ValueError as error:
        raise _not_a_key(path, "secret") from error


def _not_a_key(where: str | Path, kind: str) -> SpecError:
    return SpecError(
        f"expected a {kind} key of minisign in {where}, got something else: make one by "
        "`minisign -G`"
    )
