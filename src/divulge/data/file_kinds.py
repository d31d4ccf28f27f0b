"""Tell what a file is by its first bytes: a suffix may be missing, in upper case or wrong."""

from typing import Final, Literal

from divulge.errors import DataError

Kind = Literal["text", "parquet", "arrow file", "arrow stream"]
Packing = Literal["gzip", "bzip2", "xz", "zstd"]

HEAD: Final = 2048
"""Bytes at the beginning of a file that are looked at."""

_PACKINGS: Final[dict[bytes, Packing]] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}

_TABLES: Final[dict[bytes, Kind]] = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow file",
    b"\xff\xff\xff\xff": "arrow stream",
}

_AS_CSV = "save the table as CSV in UTF-8, or as Parquet"

_OTHERS: Final = {
    b"PK\x03\x04": ("a ZIP archive", "unpack it, and name the table in it"),
    b"PK\x05\x06": ("an empty ZIP archive", _AS_CSV),
    b"\xd0\xcf\x11\xe0": ("an Excel workbook", "in Excel, save it as CSV UTF-8"),
    b"FEA1": ("a Feather file of version 1", "write it with version 2, or as Parquet"),
    b"\x89HDF": ("an HDF5 file", _AS_CSV),
    b"\x93NUMPY": ("a NumPy array", _AS_CSV + "; records may be in a .npz file"),
    b"SQLite format 3": ("an SQLite database", _AS_CSV),
    b"Obj\x01": ("an Avro file", _AS_CSV),
    b"ORC": ("an ORC file", _AS_CSV),
    b"RDX": ("a workspace of R", "in R, write the table with write.csv"),
    b"X\n\0\0": ("an .rds file of R", "in R, write the table with write.csv"),
    b"$FL2": ("an SPSS file", _AS_CSV),
    b"<stata": ("a Stata file", _AS_CSV),
    b"\x80\x02": ("a pickle", "a pickle can run any code; " + _AS_CSV),
    b"\x80\x03": ("a pickle", "a pickle can run any code; " + _AS_CSV),
    b"\x80\x04": ("a pickle", "a pickle can run any code; " + _AS_CSV),
    b"\x80\x05": ("a pickle", "a pickle can run any code; " + _AS_CSV),
    b"%PDF": ("a PDF file", _AS_CSV),
    b"\xff\xfe\0\0": ("text in UTF-32", "save it as UTF-8"),
    b"\0\0\xfe\xff": ("text in UTF-32", "save it as UTF-8"),
}

_ARCHIVES: Final = {
    b"xl/": ("an Excel workbook", "in Excel, save it as CSV UTF-8"),
    b"[Content_Types].xml": ("an Excel workbook", "in Excel, save it as CSV UTF-8"),
    b"opendocument": ("an OpenDocument spreadsheet", "save it as CSV in UTF-8"),
    b".npy": ("arrays of NumPy", "give them the suffix .npz as records; predictions are a table"),
}
"""What a ZIP archive is, by what stands in its first bytes."""


def find_packing(head: bytes) -> Packing | None:
    """How a file with these first bytes is packed; None where it is not."""
    return next((name for magic, name in _PACKINGS.items() if head.startswith(magic)), None)


def tell_kind(head: bytes, where: str) -> Kind:
    """What a file with these first bytes is.

    Args:
        head: at least `HEAD` bytes, or the whole file.
        where: the file, for the message.

    Raises:
        DataError: it is neither text nor a table of Arrow; says what it is.
    """
    for magic, kind in _TABLES.items():
        if head.startswith(magic):
            return kind
    for magic, (name, advice) in _OTHERS.items():
        if head.startswith(magic):
            inside = _ARCHIVES if magic.startswith(b"PK\x03") else {}
            name, advice = next(
                (described for sign, described in inside.items() if sign in head), (name, advice)
            )
            raise DataError(f"expected a table in {where}, got {name}: {advice}")
    _refuse_binary(head, where)
    return "text"


def _refuse_binary(head: bytes, where: str) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16
        return
    if b"\0" in head[:2]:
        raise DataError(
            f"expected a table in {where}, got what looks like UTF-16 without a byte order mark: "
            "save it as UTF-8"
        )
    first = head.replace(b"\r", b"\n").partition(b"\n")[0]
    if b"\0" in first:
        raise DataError(f"expected a table in {where}, got bytes that are no text: {_AS_CSV}")
    if first.lstrip(b"\xef\xbb\xbf \t").lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise DataError(f"expected a table in {where}, got a page of HTML or XML: {_AS_CSV}")
