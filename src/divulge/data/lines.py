"""Read the lines of a text file, packed or not, within limits of size."""

from collections.abc import Iterator
from pathlib import Path

from divulge.data.text_files import open_bytes
from divulge.errors import DataError

MAX_TEXT_BYTES = 2**31
"""Bytes that a file may unpack to: a kilobyte of xz can claim gigabytes."""
MAX_LINE_BYTES = 2**16
"""The most bytes of a line."""


def read_lines(path: Path, largest: int = MAX_TEXT_BYTES) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without their ends; empty ones are left out.

    Raises:
        DataError: the file is missing, damaged, too large, no text, or a line is too long.
    """
    left = largest
    try:
        with open_bytes(path) as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                left -= len(line)
                if left < 0 or len(line) > MAX_LINE_BYTES:
                    raise DataError(
                        f"expected at most {largest} bytes and {MAX_LINE_BYTES} a line in {path}, "
                        f"got more at line {number}: split the file"
                    )
                text = line.decode("utf-8").strip()
                if text:
                    yield number, text
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"expected text in {path}, got a damaged file: {error}") from error
