"""Find what was planted in whatever a program wrote, packed, compressed or encoded."""

import base64
import gzip
import html
import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from urllib.parse import quote

import numpy as np

Needles = Mapping[str, Iterable[bytes]]
"""By what is looked for, the forms that it may have."""


def text_forms(text: str) -> set[bytes]:
    """A text as it may come out: whole, halved, escaped, or in base64."""
    raw = text.encode()
    coded = {
        base64.b64encode(b"x" * k + raw)[2 * k + 2 : len(b"x" * k + raw) // 3 * 4] for k in range(3)
    }
    written = {
        text, text[: len(text) // 2], text[len(text) // 2 :], quote(text, safe=""), quote(text),
        json.dumps(text)[1:-1], json.dumps(text)[1:-1].replace("/", "\\/"), html.escape(text),
        "".join(f"\\u{ord(letter):04x}" for letter in text),
        "".join(f"&#{ord(letter)};" for letter in text), raw.hex(),
    }  # fmt: skip
    return {form.encode() for form in written} | coded


def number_forms(number: float) -> set[bytes]:
    """A number of seven digits and more before the point as it may come out, in text or as bytes.

    Seven digits are what single precision keeps of it, cut off or rounded.
    """
    written = {f"{number:.7g}", f"{int(number)}"[:7], f"{int(number):,}", f"{number:.9e}"[:7]}
    bits = {np.array(number, kind).tobytes() for kind in ("<f8", ">f8", "<f4", ">f4")}
    return {form.encode() for form in written} | bits


def find(content: bytes, needles: Needles) -> set[str]:
    """What of it is in a content, and in what is packed, compressed or encoded within it."""
    held = {name for name, forms in needles.items() if any(form in content for form in forms)}
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            inner = [packed.read(name) for name in packed.namelist()]
            names = map(str.encode, packed.namelist())
            return held.union(*(find(one, needles) for one in (*inner, *names)))
    if content.startswith(b"\x1f\x8b"):
        return held | find(gzip.decompress(content), needles)
    if content.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(content)
            held |= find("\n".join(database.iterdump()).encode(), needles)
    for coded in re.findall(rb";base64,([A-Za-z0-9+/=]+)", content):
        held |= find(base64.b64decode(coded), needles)
    return held
