"""Pack finished tables for publication, and read them back.

Of a table of size paper the pieces are published, as ``NAME.jsonl.xz``, and the table is combined
from them. Of size small its ``table.json`` is, as ``small/NAME.json.xz``: the keys of its pieces
depend on the source, so later code cannot combine them.
"""

import lzma
from pathlib import Path

from divulge._util import atomic, untrusted
from divulge.errors import StoreError
from divulge_papers.budget import Costs
from divulge_papers.cells import PIECES_FILE, Piece, key_pieces, parse_pieces
from divulge_papers.combine import combine
from divulge_papers.provenance import Provenance
from divulge_papers.result import RESULT_FILE, Outcome, read_outcome
from divulge_papers.table import Size, find_table

_MEMORY = 2**28
"""Memory that unpacking may use, in bytes: four times what the strongest usual setting needs."""


def published_file(results: Path, name: str, size: Size) -> Path:
    """Path of a table in the folder of published results."""
    return results / (f"{name}.jsonl.xz" if size == "paper" else f"small/{name}.json.xz")


def pack(folder: Path, results: Path) -> Path:
    """Pack a run folder for publication, and return the path of the packed file.

    Args:
        folder: run folder of a table.
        results: folder of published results.

    Raises:
        StoreError: the run folder is damaged, or something cannot be read or written.
    """
    outcome = read_outcome(folder / RESULT_FILE)
    source = folder / (PIECES_FILE if outcome.size == "paper" else RESULT_FILE)
    raw = atomic.read(source)
    if outcome.size == "paper":
        _pieces(raw, source)
    packed = published_file(results, outcome.table, outcome.size)
    with atomic.translate_os_errors(packed):
        packed.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(packed, lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME))
    return packed


def unpack(packed: Path) -> bytes:
    """Unpack a published file.

    Raises:
        StoreError: it cannot be read, is damaged, or unpacks to more than 64 MiB.
    """
    raw = atomic.read(packed)
    limit = untrusted.byte_limit(untrusted.MAX_TEXT_BYTES)
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    try:
        content = unpacker.decompress(raw, limit + 1)
    except lzma.LZMAError as error:
        raise atomic.damaged_file_error(packed, error) from error
    if len(content) > limit:
        raise StoreError(
            f"expected {packed} to unpack to at most {limit:,} bytes, got more: restore it, or if "
            f"you trust it, set {untrusted.VARIABLE} to a higher limit"
        )
    if not unpacker.eof or unpacker.unused_data:
        raise atomic.damaged_file_error(packed, EOFError("cut off, or followed by something"))
    return content


def read_published(results: Path, name: str, size: Size) -> Outcome | None:
    """Read a table from the folder of published results; None where it is not published.

    Of size paper it is combined from its pieces, which takes a minute for the largest tables.

    Raises:
        StoreError: the file cannot be read, or is damaged.
    """
    packed = published_file(results, name, size)
    if not packed.exists():
        return None
    raw = unpack(packed)
    if size == "small":
        return atomic.from_json(raw, Outcome, packed)
    table, stored = find_table(name), _pieces(raw, packed)
    pieces = {key: stored[key] for key, *_ in key_pieces(table, size) if key in stored}
    costs = Costs([table], size)
    for piece in pieces.values():
        costs.learn(piece)
    last = max((piece.made for piece in stored.values()), key=lambda made: made.date)
    command = f"divulge reproduce {name} --size {size}"
    made = Provenance(command, last.commit, last.cores, 1, last.date, 0.0, last.divulge)
    return combine(name, size, pieces, costs, made)


def _pieces(raw: bytes, path: Path) -> dict[str, Piece]:
    *lines, unfinished = raw.split(b"\n")
    if unfinished or not lines:
        raise atomic.damaged_file_error(path, EOFError("its last line is not finished"))
    return parse_pieces(lines, path)
