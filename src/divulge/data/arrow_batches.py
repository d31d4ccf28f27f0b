"""Read the batches of Parquet and Arrow files, within the limit of memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from divulge.data import arrow_lists
from divulge.data.arrow_sizes import file_messages, unpacked_size
from divulge.data.cells import check_unpacked
from divulge.data.file_kinds import Kind

_FEW_COLUMNS = 1000


def open_parquet(path: Path, texts: Sequence[str] = (), metadata: Any = None) -> Any:
    """Open a Parquet file.

    Args:
        path: the file.
        texts: columns whose values are kept once each, however often they stand there.
        metadata: of the same file, where it was opened before.
    """
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, metadata=metadata, read_dictionary=list(texts))


def read_parquet(
    path: Path, names: Sequence[str], texts: Sequence[str], row_bytes: int, rows: int
) -> Iterator[Any]:
    """Batches of so many rows of a Parquet file.

    Args:
        path: the file.
        names: the columns.
        texts: those of them whose values are kept once each.
        row_bytes: the least that a row takes.
        rows: in a batch.

    Raises:
        DataError: the columns are larger than the limit.
    """
    file = open_parquet(path)
    file = open_parquet(path, texts, file.metadata) if texts else file
    check_unpacked(path, file.metadata.num_rows * row_bytes)
    check_unpacked(path, arrow_lists.count_bytes(file.metadata, names))
    # with many columns each holds little, and a thread for each would cost more than it saves
    threads = len(names) < _FEW_COLUMNS
    for groups in _row_groups(file.metadata, rows):
        yield from file.iter_batches(rows, groups, list(names), use_threads=threads)


def _row_groups(metadata: Any, rows: int) -> Iterator[list[int]]:
    """Groups of rows that hold so many together: Arrow keeps in memory all that it is asked for."""
    together, count = list[int](), 0
    for group in range(metadata.num_row_groups):
        together.append(group)
        count += metadata.row_group(group).num_rows
        if count >= rows or group + 1 == metadata.num_row_groups:
            yield together
            together, count = [], 0


def _open_ipc(source: Any, kind: Kind, columns: Sequence[int] | None = None) -> Any:
    import pyarrow as pa

    source.seek(0)
    options = pa.ipc.IpcReadOptions(included_fields=columns)
    if kind == "arrow file":
        return pa.ipc.open_file(source, options=options)
    return pa.ipc.open_stream(source, options=options)


def ipc_schema(path: Path, kind: Kind) -> Any:
    """The names and types of the columns of an Arrow file or stream."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        return _open_ipc(source, kind).schema


def read_ipc(
    path: Path, kind: Kind, names: Sequence[str], row_bytes: int, rows: int
) -> Iterator[Any]:
    """Batches whose places and numbers were checked: Arrow follows them without looking.

    Args:
        path: the file.
        kind: what it is.
        names: the columns.
        row_bytes: the least that a row takes.
        rows: in a batch, at most.

    Raises:
        DataError: the columns are larger than the limit.
    """
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        size = 0
        for message in _messages(source, kind):
            size += unpacked_size(message)
            check_unpacked(path, size)
        schema = _open_ipc(source, kind).schema
        places = [schema.get_field_index(name) for name in names]
        reader = _open_ipc(source, kind, sorted(places))
        total = 0
        for batch in _ipc_batches(reader, kind):
            total += batch.num_rows
            check_unpacked(path, total * row_bytes)
            batch.validate(full=True)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)


def _messages(source: Any, kind: Kind) -> Iterator[Any]:
    import pyarrow as pa

    if kind == "arrow file":
        yield from file_messages(source)
        return
    source.seek(0)
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _ipc_batches(reader: Any, kind: Kind) -> Iterator[Any]:
    if kind == "arrow file":
        yield from map(reader.get_batch, range(reader.num_record_batches))
    else:
        yield from reader
