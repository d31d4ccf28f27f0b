"""Objects of JSON with a key that stands twice are refused wherever divulge reads JSON."""

import json
from pathlib import Path

import pytest

from divulge._util import atomic
from divulge._util.json import RepeatedKey, parse_json, refuse_repeated_keys
from divulge.errors import StoreError
from divulge.federation.transcript import layout

TWICE = ['{"a": 1, "a": 1}', '[{"x": {"b": 1, "c": 2, "b": 3}}]', '{"n": 1, "\\u006e": 2}']


@pytest.mark.parametrize("text", TWICE)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    for raw in (text, text.encode()):
        with pytest.raises(RepeatedKey, match="stands twice in one object"):
            parse_json(raw)
        with pytest.raises(RepeatedKey, match="stands twice in one object"):
            refuse_repeated_keys(raw)


def test_what_has_each_key_once_is_read_as_it_is() -> None:
    value = {"a": [1, 2.5, None, True], "b": {"a": {"a": "x"}}}
    assert parse_json(json.dumps(value)) == value
    refuse_repeated_keys(json.dumps(value))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "1" * 10_000, ""])
def test_what_is_no_json_is_left_to_the_parser_that_reads_it(text: str) -> None:
    refuse_repeated_keys(text)


def test_a_key_is_found_twice_beside_numbers_of_any_length() -> None:
    with pytest.raises(RepeatedKey):
        refuse_repeated_keys('{"n": ' + "1" * 10_000 + ', "n": 0}')


def test_files_of_run_folders_and_transcripts_are_held_to_it(tmp_path: Path) -> None:
    raw = b'{"schema": 1, "schema": 2}'
    with pytest.raises(StoreError, match="the key 'schema' stands twice"):
        atomic.from_json(raw, dict, tmp_path / "run.json")
    with pytest.raises(StoreError, match="the key 'schema' stands twice"):
        layout.from_json(raw, layout.SchemaStamp, tmp_path / "transcript.json")
