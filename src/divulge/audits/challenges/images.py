"""Records on the page of an audit: only of images that were handed out, and only on request."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from divulge._util import atomic
from divulge.errors import SpecError, StoreError
from divulge.federation import Transcript
from divulge.federation.transcript import impressions
from divulge.report.contact_sheet import contact_sheet
from divulge.report.federation.story import ImageSheet

CLIENTS, IMAGES = 4, 8
"""At most so many are shown, and so many images of each."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def draw_sheets(transcript: Transcript, clients: Sequence[str]) -> Mapping[str, bytes]:
    """A contact sheet of each of the first clients: originals above what was shown instead.

    Raises:
        SpecError: the transcript has no images, or no originals.
        DivulgeError: they cannot be drawn.
    """
    pairs = impressions.image_pairs(transcript, clients[:CLIENTS], IMAGES)
    return {_name(k): contact_sheet(*pair, columns=IMAGES) for k, pair in enumerate(pairs)}


def read_sheets(run: Path, clients: Sequence[str], items: Sequence[int]) -> tuple[ImageSheet, ...]:
    """The sheets that a run folder keeps.

    Args:
        run: the folder.
        clients: whose items the audit is about.
        items: how many each was handed.

    Raises:
        SpecError: it keeps none, as nobody asked for them when the audit was carried out.
        StoreError: one of them is damaged.
    """
    sheets = []
    for k, (client, many) in enumerate(zip(clients[:CLIENTS], items, strict=False)):
        path = run / _name(k)
        if not path.is_file():
            raise SpecError(
                f"expected images in {run}, there are none: audit again with --show-records, and "
                "--resume"
            )
        png = atomic.read(path)
        if not png.startswith(_SIGNATURE):
            raise StoreError(f"expected a PNG file at {path}, got something else: audit again")
        sheets.append(ImageSheet(client, min(many, IMAGES), many, png))
    return tuple(sheets)


def _name(client: int) -> str:
    return f"records/{client:04d}.png"
