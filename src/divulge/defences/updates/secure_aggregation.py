"""Mask updates for secure aggregation, so that the server learns their sum and nothing else."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import UInt64

from divulge._util.arguments import check_arguments
from divulge._util.extras import name_missing_extra
from divulge.core import (
    ClientContext,
    ClientUpdates,
    RoundContext,
    ServerView,
    Update,
    UpdateDefence,
    UpdateSum,
)
from divulge.defences.updates import vectors
from divulge.defences.updates.protocol import format_clients, session_fingerprint
from divulge.errors import DataError, SpecError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

EXACT_BITS = 53
"""Integers up to 2^53 are float64 without rounding: a sum never exceeds them."""
SMALLEST_LIMIT = 1e-9
"""Of the entries of an update: smaller ones than any training makes."""
MaskedVector = UInt64[np.ndarray, " entries"]


@check_arguments
@dataclass(frozen=True, slots=True)
class SecureSum(UpdateDefence):
    """The server learns the weighted sum of all updates of a round, and no single update.

    Each pair of clients agrees on a key through the server, which sees public keys alone. A stream
    of random integers from that key is added by one and subtracted by the other. Updates are
    rounded to fixed point and summed modulo 2^64, so the sum is exactly that of the rounded
    updates.

    It has the pairwise masks of Bonawitz et al. (2017), without self masks and secret shares. So
    every participant must send; if one is missing, the round is refused. (To reveal keys of a
    missing client would be unsafe without self masks: a server could call a late client missing,
    and read its update.) The promise is secrecy against a server, and clients who help it, that
    follow the protocol. It fails if the server distributes public keys of its own. The sum itself
    has no differential privacy.

    Args:
        limit: the largest magnitude of an entry, times its client's weight; more is refused.
        fraction_bits: the number b of binary digits after the point; the resolution is 2^-b.

    References:
        Bonawitz et al. (2017), Practical secure aggregation for privacy-preserving machine
        learning, section 4.0.1 (masking with one-time pads); RFC 7748 (X25519), RFC 5869 (HKDF),
        RFC 8439 (ChaCha20).

    Raises:
        SpecError: a setting makes no sense, or not one client would fit.
    """

    limit: float = 1024.0
    fraction_bits: int = 32

    name: ClassVar[str] = "secure-sum"
    paper: ClassVar[str] = "Bonawitz et al. 2017"

    def __post_init__(self) -> None:
        if self.limit < SMALLEST_LIMIT or not 0 <= self.fraction_bits <= EXACT_BITS:
            raise SpecError(
                f"expected limit from {SMALLEST_LIMIT} and fraction_bits from 0 to {EXACT_BITS}, "
                f"got {self.limit} and {self.fraction_bits}: choose a range and a resolution"
            )
        if self.most_clients < 2:
            raise SpecError(
                f"expected limit * 2^fraction_bits up to 2^{EXACT_BITS - 1}, so that the sum of "
                f"two clients is exact, got {self.limit} and {self.fraction_bits}: lower one"
            )

    @property
    def most_clients(self) -> int:
        """How many clients may take part, so that no sum is ever rounded."""
        # so many updates of the limit stay below 2^53, where float64 holds each integer
        return int(2.0 ** (EXACT_BITS - self.fraction_bits) / self.limit)

    @property
    def step(self) -> float:
        """The resolution: the distance of neighbouring numbers in fixed point."""
        return 2.0**-self.fraction_bits

    @property
    def masks(self) -> bool:
        """What leaves the client hook is masked."""
        return True

    def announce(self) -> tuple[Any, bytes]:
        """A fresh private key, to be used once, and its public key.

        Raises:
            MissingExtra: the package cryptography is not installed.
        """
        key = OneTimeKey()
        return key, key.public

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """The update in fixed point, masked: uniformly random unsigned 64-bit integers.

        Raises:
            DataError: the update cannot be encoded, or what was announced is not sound.
            SpecError: the round has too few or too many participants.
        """
        many = len(context.round.participants)
        if not 2 <= many <= self.most_clients:
            raise SpecError(
                f"expected from 2 to {self.most_clients} participants, got {many}: the sum of one "
                "is its update, and more could overflow; choose others, or a lower limit"
            )
        encoded = self.encode(update, context.weight)
        mask = pairwise_mask(context, encoded.size)
        return vectors.split_vector(
            encoded + mask, {name: value.shape for name, value in update.items()}
        )

    def encode(self, update: Update, weight: float = 1.0) -> MaskedVector:
        """Weight times update in units of the resolution, modulo 2^64, not yet masked.

        Raises:
            DataError: the update is empty, not of floating point, not finite, or out of range.
        """
        with np.errstate(over="ignore"):  # infinity is out of range too
            vector = vectors.flatten_update(update) * weight
        largest = float(np.abs(vector).max())
        if largest > self.limit:
            raise DataError(
                f"expected entries up to {self.limit} times weight {weight}, got one of "
                f"{largest:.6g}: clip updates first, or raise the limit for all clients"
            )
        # fixed point modulo 2^64: there sums are exact, and masks uniform
        return np.rint(np.ldexp(vector, self.fraction_bits)).astype(np.int64).view(np.uint64)

    def shrink(self, update: Update, weight: float = 1.0) -> dict[str, np.ndarray]:
        """The update with entries rounded towards zero, to those that `encode` leaves as they are.

        Its norm does not grow, as it may where entries are rounded to the nearest.
        """
        step = self.step / weight
        return {
            name: np.asarray(np.trunc(value.astype(np.float64) / step) * step)
            for name, value in update.items()
        }

    def on_server(self, view: ServerView, context: RoundContext) -> ServerView:
        """The sum, unmasked by nothing but summing.

        Raises:
            DataError: a participant is missing, or the sum is out of range, as it is when a
                message was made with other keys or garbled on the way. A message whose client
                lied within the range is not noticed.
        """
        if not isinstance(view, ClientUpdates):
            raise DataError("expected messages of clients, got a sum: unmask once")
        missing = sorted(set(context.participants) - view.by_client.keys())
        if missing:
            raise DataError(
                f"expected messages of all {len(context.participants)} participants, got none of "
                f"{format_clients(missing)}: masks do not cancel without them; start a new round "
                "with fresh keys and without them"
            )
        total = {name: np.zeros(shape, np.uint64) for name, shape in context.shapes.items()}
        for sent in view.by_client.values():
            for name, value in total.items():
                value += sent[name]  # modulo 2^64, where the masks cancel
        return UpdateSum(context.participants, self.decode(total, len(context.participants)))

    def decode(self, total: Update, clients: int) -> dict[str, np.ndarray]:
        """The sum of so many encoded updates in the units of the weights, without rounding.

        Raises:
            DataError: it is more than so many updates can sum up to.
        """
        most = clients * self.limit * 2.0**self.fraction_bits
        decoded = {}
        for name, value in total.items():
            signed = value.view(np.int64)
            # Compared from both sides: the magnitude of the smallest int64 is no int64.
            if not ((signed >= -most) & (signed <= most)).all():
                raise DataError(
                    f"expected a sum within {clients} times {self.limit}, got more in {name!r}: "
                    "a message was changed, or made with other keys"
                )
            decoded[name] = np.asarray(np.ldexp(signed, -self.fraction_bits))
        return decoded


class OneTimeKey:
    """A private key that masks one update: a second one under the same masks gives both away."""

    def __init__(self) -> None:
        with name_missing_extra():
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        self._key: X25519PrivateKey | None = X25519PrivateKey.generate()
        self.public: bytes = self._key.public_key().public_bytes_raw()

    def take(self) -> "X25519PrivateKey":
        """The key, once.

        Raises:
            DataError: it was taken before.
        """
        key, self._key = self._key, None
        if key is None:
            raise DataError(
                "expected a key that has masked nothing yet, got a used one: send the first "
                "message again, or begin another round"
            )
        return key


def pairwise_mask(context: ClientContext, entries: int) -> MaskedVector:
    """All masks of a client together: they cancel in the sum over all participants.

    Raises:
        DataError: a key is missing, stands for two participants, or is no key; or the client's
            own key is not the one that it announced.
    """
    known = context.round.announced
    if not isinstance(context.secret, OneTimeKey) or (
        known.get(context.client) != context.secret.public
    ):
        raise DataError(
            f"expected the public key that client {context.client} announced, got another one: "
            "somebody changed the announcements"
        )
    if known.keys() != set(context.round.participants) or len(set(known.values())) < len(known):
        raise DataError(
            f"expected one public key for each of the {len(context.round.participants)} "
            f"participants, got {len(set(known.values()))} different ones from {len(known)}: "
            "begin another round"
        )
    key, label = context.secret.take(), session_fingerprint(context.round)
    mask = np.zeros(entries, np.uint64)
    for other, public in known.items():
        if other != context.client:
            stream = _mask_stream(key, public, label, entries, f"client {other}")
            # One of the pair adds what the other takes off, modulo 2^64.
            if context.client < other:
                mask += stream
            else:
                mask -= stream
    return mask


def _mask_stream(
    key: "X25519PrivateKey", public: bytes, label: bytes, entries: int, owner: str
) -> MaskedVector:
    """Random integers that the owners of the two keys know, for this round alone."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        shared = key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # not 32 bytes, or a point that gives everybody the same secret
        raise DataError(f"expected a public key of {owner}, got none: leave it out") from error
    derived = HKDF(SHA256(), 32, salt=None, info=b"divulge secure sum" + label).derive(shared)
    # The key serves one stream, so the nonce may be constant.
    cipher = Cipher(algorithms.ChaCha20(derived, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * entries)), dtype="<u8").astype(
        np.uint64, copy=False
    )
