"""A table of token log-probabilities is read as it is meant, or refused by name."""

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.core.tokens import Tokens
from divulge.errors import DataError
from divulge.targets.token_forms import check_forms
from divulge.targets.token_table import has_shadows, read_tokens

from ..token_tables import draw

Rows = list[dict[str, Any]]


def rows(tokens: Tokens, member: np.ndarray) -> Rows:
    """One dict a text, as an exporter writes them."""
    assert tokens.mean is not None
    assert tokens.sd is not None
    assert tokens.top is not None
    parts = {
        "logprobs": tokens.split(tokens.logprob),
        "reference_logprobs": tokens.split(tokens.reference[0]),
        "mean": tokens.split(tokens.mean),
        "sd": tokens.split(tokens.sd),
        "top1": tokens.split(tokens.top),
    }
    assert tokens.gradient_norm is not None
    norm = tokens.gradient_norm.tolist()
    lower = [[None, *(2.0 * part).tolist()] for part in tokens.split(tokens.logprob)]
    return [
        {
            "member": int(m),
            **{name: part[row].tolist() for name, part in parts.items()},
            "lowercase_logprobs": lower[row],
            "gradient_norm": norm[row],
        }
        for row, m in enumerate(member)
    ]


def example(texts: int = 20, leak: float = 1.0) -> Rows:
    return rows(*draw(texts, leak, np.random.default_rng(2)))


def write(path: Path, table: Rows) -> Path:
    if path.suffix == ".parquet":
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

        parquet.write_table(pa.Table.from_pylist(table), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_what_was_written_is_read(suffix: str, tmp_path: Path) -> None:
    tokens, member = draw(20, 1.0, np.random.default_rng(2))
    table = read_tokens(write(tmp_path / f"t.{suffix}", rows(tokens, member)))
    assert table.member.tolist() == member.tolist()
    assert table.tokens.start.tolist() == tokens.start.tolist()
    for name in ("logprob", "reference", "mean", "sd", "top"):
        np.testing.assert_array_equal(getattr(table.tokens, name), getattr(tokens, name), name)
    np.testing.assert_array_equal(table.tokens.gradient_norm, tokens.gradient_norm)
    lower = 2.0 * tokens.average(tokens.logprob)  # as above, the first token left out
    np.testing.assert_allclose(np.asarray(table.tokens.lowercase), lower)
    assert table.tokens.size is None
    assert table.texts == ()
    assert table.first.tolist() == list(range(20))
    assert "20 texts" in table.notes[0]
    assert "reference_logprobs, mean, sd, top1, lowercase_logprobs, gr" in table.notes[0]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_first_token_without_a_number_is_left_out_of_every_list(
    suffix: str, tmp_path: Path
) -> None:
    plain = example()
    begun = [
        {
            name: [None, *cell] if isinstance(cell, list) and name != "lowercase_logprobs" else cell
            for name, cell in row.items()
        }
        for row in plain
    ]
    expected = read_tokens(write(tmp_path / "p.jsonl", plain)).tokens
    table = read_tokens(write(tmp_path / f"b.{suffix}", begun))
    for name in ("start", "logprob", "reference", "mean", "sd", "top"):
        np.testing.assert_array_equal(getattr(table.tokens, name), getattr(expected, name), name)
    assert "The first token of 20 texts has no log-probability" in table.notes[-1]


def test_several_references_ranks_shadows_texts_and_dates(tmp_path: Path) -> None:
    table = [
        {
            **{name: row[name] for name in ("member", "logprobs")},
            "reference_logprobs": [row["reference_logprobs"], row["mean"]],
            "rank": [1 if top else 5 for top in row["top1"]],
            "shadow_means": [-1.0, -2.0, -3.0],
            "shadow_members": [1, 0, 1],
            "text": "the same" if k in (3, 7) else f"text {k}",
            "date": f"2024-01-{k + 1:02d}",
        }
        for k, row in enumerate(example())
    ]
    for suffix in ("jsonl", "parquet"):
        read = read_tokens(write(tmp_path / f"t.{suffix}", table))
        assert read.tokens.reference.shape == (2, len(read.tokens.logprob))
        assert read.tokens.top is not None
        assert read.tokens.top.sum() == sum(top for row in example() for top in row["top1"])
        assert read.tokens.shadow is not None
        assert read.tokens.shadow.shape == (3, 20)
        assert read.tokens.inside is not None
        assert read.tokens.inside[:, 4].tolist() == [True, False, True]
        assert read.first[7] == 3
        assert read.moment is not None
        assert np.diff(read.moment).tolist() == [86400.0] * 19
        assert read.tokens.size is not None
        assert "text 5" not in repr(read)


def test_tokens_under_shadows(tmp_path: Path) -> None:
    table = [
        {
            **{name: row[name] for name in ("member", "logprobs")},
            "shadow_logprobs": [row["reference_logprobs"], row["mean"]],
            "shadow_members": [1, k % 2],
        }
        for k, row in enumerate(example())
    ]
    for suffix in ("jsonl", "parquet"):
        path = write(tmp_path / f"t.{suffix}", table)
        assert has_shadows(path)
        tokens = read_tokens(path).tokens
        assert tokens.shadow_logprob is not None
        assert tokens.shadow_logprob.shape == (2, len(tokens.logprob))
        assert tokens.shadow is not None
        np.testing.assert_allclose(tokens.shadow[1], tokens.average(tokens.shadow_logprob[1]))
        part = tokens.take(np.array([3, 1]))
        assert part.shadow_logprob is not None
        expected = tokens.split(tokens.shadow_logprob[0])[3]
        np.testing.assert_array_equal(part.split(part.shadow_logprob[0])[0], expected)
    del table[4]["shadow_logprobs"][1]
    with pytest.raises(DataError, match="2 lists as in row 1"):
        read_tokens(write(tmp_path / "t.jsonl", table))
    plain = write(tmp_path / "plain.jsonl", example())
    assert not has_shadows(plain)


def second_choices(base: float) -> Rows:
    """Texts in which many tokens are second choices, with up to half of the probability."""
    rng = np.random.default_rng(5)
    p = rng.uniform(0.05, 0.5, (60, 20))
    top = rng.random(p.shape) < 0.5
    logs = np.log(np.where(top, 1 - p, p)) / np.log(base)
    return [
        {"member": k % 2, "logprobs": logs[k].tolist(), "top1": top[k].tolist()} for k in range(60)
    ]


def changed(name: str, change: Any, row: int | None = None) -> Rows:
    table = example()
    for k, each in enumerate(table):
        if row is None or k == row:
            each[name] = change(each[name])
    return table


DOUBTFUL: dict[str, tuple[Rows, str]] = {
    "probabilities": (changed("logprobs", lambda v: np.exp(v).tolist()), "probabilities; take"),
    "losses": (changed("logprobs", lambda v: [-x for x in v]), "losses; change their sign"),
    "logits": (changed("logprobs", lambda v: [x + 3 for x in v]), "take log_softmax"),
    "base 2": (second_choices(2.0), "logarithms to base 2; multiply them by 0.693147"),
    "base 10": (second_choices(10.0), "logarithms to base 10 by 2.302585"),
    "sums": (changed("logprobs", sum), "one number a text: a sum or a mean"),
    "sums in lists": (
        [{"member": r["member"], "logprobs": [sum(r["logprobs"])]} for r in example()],
        "one number in each list",
    ),
    "running sums": (
        [{"member": r["member"], "logprobs": np.cumsum(r["logprobs"]).tolist()} for r in example()],
        "running sums; take their differences",
    ),
    "a hole": (changed("logprobs", lambda v: [*v[:3], None, *v[4:]], 2), "row 3, got none at"),
    "another tokenizer": (
        changed("reference_logprobs", lambda v: v[1:], 4),
        "row 5, got .*another tokenizer",
    ),
    "minus infinity": (changed("logprobs", lambda v: [-np.inf, *v[1:]], 1), "minus infinity"),
    "a stand-in": (changed("logprobs", lambda v: [-9999.0, *v[1:]], 1), "numbers below -1000"),
    "entropy for mean": (changed("mean", lambda v: [-x for x in v]), "an entropy; change its sign"),
    "a negative spread": (changed("sd", lambda v: [-x for x in v]), "'sd', got some below 0"),
    "no tokens": (changed("logprobs", lambda _: [], 0), "'reference_logprobs', row 1"),
    "texts in lists": (changed("logprobs", lambda v: ["a", *v[1:]], 0), "str in a list"),
    "nothing": (changed("logprobs", lambda _: None, 3), "row 4, got NoneType"),
    "ranks from 0": (
        [{"member": r["member"], "logprobs": r["logprobs"],
          "rank": [1 - t for t in r["top1"]]} for r in example()],
        "add 1 if they count from 0",
    ),
    "log-probabilities of first choices": (
        [{**r, "top1": [-0.2 for _ in r["top1"]]} for r in example()],
        "1 or 0 .true or false. in .*, column 'top1', got -0.2",
    ),
    "numbers of shadows": (
        [{"member": r["member"], "logprobs": r["logprobs"], "shadow_means": [-1.0, -2.0],
          "shadow_members": [0, 2]} for r in example()],
        "column 'shadow_members', got 2",
    ),
    "losses of shadows": (
        [{"member": r["member"], "logprobs": r["logprobs"], "shadow_means": [1.0, 2.0],
          "shadow_members": [0, 1]} for r in example()],
        "'shadow_means', got positive numbers: losses; change their sign",
    ),
    "half of the shadows": (
        [{"member": r["member"], "logprobs": r["logprobs"], "shadow_means": [-1.0]}
         for r in example()],
        "column .shadow_members., row 1, got one without",
    ),
    "a number as text": (
        [{**r, "text": 5} for r in example()],
        "a text in .*, column 'text', row 1, got int",
    ),
    "probabilities in lower case": (
        changed("lowercase_logprobs", lambda v: [None, *np.exp(v[1:]).tolist()]),
        "'lowercase_logprobs', got numbers from 0 to 1: probabilities; take",
    ),
    "a mean in lower case": (
        changed("lowercase_logprobs", lambda _: -2.5, 1),
        "column 'lowercase_logprobs', row 2, got float",
    ),
    "a mean in each list": (
        changed("lowercase_logprobs", lambda _: [-2.5]),
        "'lowercase_logprobs', got one number in each list",
    ),
    "a hole in lower case": (
        changed("lowercase_logprobs", lambda v: [*v[:3], None, *v[4:]], 2),
        "column 'lowercase_logprobs', row 3, got a token without a number",
    ),
    "nothing in lower case": (
        changed("lowercase_logprobs", lambda _: [None], 2),
        "column 'lowercase_logprobs', row 3, got none",
    ),
    "a log of a norm": (
        changed("gradient_norm", lambda _: -0.5, 3),
        "a finite norm, 0 at least in .*, column 'gradient_norm', row 4, got -0.5",
    ),
    "no norm": (changed("gradient_norm", lambda _: None, 3), "'gradient_norm', row 4, got None"),
    "norms of layers": (changed("gradient_norm", lambda v: [v, v], 0), "row 1, got ndarray"),
    "no date": ([{**r, "date": "spring"} for r in example()], "column 'date', row 1"),
    "dates and numbers": (
        [{**r, "date": k if k % 2 else f"2024-01-{k + 1:02d}"} for k, r in enumerate(example())],
        "a date, as in the first row, in .*, column 'date', row 2, got a number",
    ),
    "numbers and dates": (
        [{**r, "date": "2024-01-01" if k else 5} for k, r in enumerate(example())],
        "a number, as in the first row, in .*, column 'date', row 2, got a date",
    ),
    "a flag as date": ([{**r, "date": True} for r in example()], "column 'date', row 1"),
    "one date": (
        [{**r, "date": "2024-01-01"} for r in example()],
        "dates that differ between texts in .*, got the same in each of 20 rows",
    ),
    "a reference of placeholders": (
        [{**r, "reference_logprobs": [-1.0] * len(r["logprobs"])} for r in example()],
        "of another model in .*'reference_logprobs', got -1 for each of .* placeholders",
    ),
    "the model as its own reference": (
        [{**r, "reference_logprobs": r["logprobs"]} for r in example()],
        "of another model in .*'reference_logprobs', got those of the audited model",
    ),
    "tokens for means": (
        [{**r, "mean": r["logprobs"]} for r in example()],
        "column 'mean', got the log-probabilities of the tokens",
    ),
    "means above the likeliest token": (
        [{**r, "mean": [0.0] * len(r["logprobs"])} for r in example()],
        "column 'mean', got one above that of the likeliest token for 100%",
    ),
    "shadows of nothing": (
        [{**r, "shadow_means": [-1e9, -2.0], "shadow_members": [0, 1]} for r in example()],
        "'shadow_means', got numbers below -1000",
    ),
    "no membership": ([{"logprobs": r["logprobs"]} for r in example()], "a column 'member'"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
def test_doubtful_forms_are_refused_by_name(name: str, tmp_path: Path) -> None:
    table, says = DOUBTFUL[name]
    with pytest.raises(DataError, match=says):
        read_tokens(write(tmp_path / "t.jsonl", table))


def of_one_kind(numbers: list[float], top: bool = False) -> Rows:
    """Two texts, whose tokens are first choices or none is."""
    one = {"logprobs": numbers, "top1": [top] * len(numbers)}
    return [{"member": member, **one} for member in (0, 1)]


def check(table: Rows, path: Path) -> str:
    """What is wrong with a table; nothing if it is read."""
    try:
        read_tokens(write(path / "t.jsonl", table))
    except DataError as error:
        return str(error)
    return ""


def test_what_rounding_moves_over_a_limit_is_no_other_base(tmp_path: Path) -> None:
    half, slack = math.log(0.5), 0.02
    few = [-3.0] * 198
    assert check(of_one_kind([*few, half + slack + 1e-9, -3.0]), tmp_path) == ""
    assert check(of_one_kind([*few, *[half + slack - 1e-9] * 40]), tmp_path) == ""
    over = check(of_one_kind([*few[:97], *[half + slack + 1e-9] * 3]), tmp_path)  # 3 % of tokens
    assert "got 3% of the tokens" in over
    assert check(of_one_kind([*few[:97], *[half + slack + 1e-9] * 3], top=True), tmp_path) == ""


def test_twenty_tokens_just_below_minus_one_and_none_above_are_base_2(tmp_path: Path) -> None:
    assert "logarithms to base 2" in check(of_one_kind([-1.05] * 10), tmp_path)
    assert "19 just below" not in check(of_one_kind([-1.05] * 9 + [-1.2]), tmp_path)
    assert check(of_one_kind([-1.05] * 9 + [-1.2]), tmp_path) == ""
    assert check(of_one_kind([-1.05] * 30 + [-0.9]), tmp_path) == ""


def test_running_sums_are_those_of_ten_lists_that_never_rise(tmp_path: Path) -> None:
    falls = {"logprobs": [-1.0, -2.0, -2.0, -3.0, -4.0]}  # a token of probability 1 is no rise
    rises = {"logprobs": [-1.0, -2.0, -2.0, -3.0, -2.9]}
    tables = [[{"member": k % 2, **falls} for k in range(many)] for many in (9, 10)]
    assert check(tables[0], tmp_path) == ""
    assert "running sums" in check(tables[1], tmp_path)
    assert check([*tables[1], {"member": 0, **rises}], tmp_path) == ""


def test_a_first_token_that_one_list_lacks_is_left_out_of_all(tmp_path: Path) -> None:
    """Of two references one begins with a token that marks the start."""
    row = {"logprobs": [-1.0, -2.0, -3.0], "reference_logprobs": [[-4.0] * 3, [None, -5.0, -6.0]]}
    found = read_tokens(write(tmp_path / "t.jsonl", [{"member": k, **row} for k in (0, 1)]))
    assert found.tokens.logprob.tolist() == [-2.0, -3.0] * 2
    assert found.tokens.reference.tolist() == [[-4.0, -4.0] * 2, [-5.0, -6.0] * 2]


def test_one_text_of_one_token_is_no_table_of_sums(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one number in each list"):
        read_tokens(write(tmp_path / "t.jsonl", of_one_kind([-1.0])))
    one = Tokens(np.array([0, 1]), np.array([-1.0]), np.zeros((0, 1)))
    check_forms(tmp_path, "logprobs", one)


def test_the_smallest_log_probability_is_one(tmp_path: Path) -> None:
    assert check(of_one_kind([-1000.0, -1.0]), tmp_path) == ""
    assert "numbers below -1000" in check(of_one_kind([-1000.1, -1.0]), tmp_path)


def test_the_second_rank_is_no_first_choice(tmp_path: Path) -> None:
    table = [{"member": k, "logprobs": [-1.0, -2.0, -3.0], "rank": [1, 2, 3]} for k in (0, 1)]
    found = read_tokens(write(tmp_path / "t.jsonl", table)).tokens
    assert found.top is not None
    assert found.top.tolist() == [True, False, False] * 2


def test_texts_are_packed_to_the_bytes_of_zlib(tmp_path: Path) -> None:
    texts = ["a" * 500, "bc"]
    table = [{"member": k, "logprobs": [-1.0, -2.0], "text": t} for k, t in enumerate(texts)]
    found = read_tokens(write(tmp_path / "t.jsonl", table)).tokens
    assert found.size is not None
    assert found.size.tolist() == [len(zlib.compress(t.encode())) for t in texts]


def test_texts_are_taken_in_any_order_with_all_that_is_known_of_them() -> None:
    tokens, _ = draw(6, 1.0, np.random.default_rng(1))
    some = tokens.take(np.array([4, 0, 4]))
    assert some.count.tolist() == tokens.count[[4, 0, 4]].tolist()
    for name in ("logprob", "mean", "sd", "top"):
        parts = tokens.split(getattr(tokens, name))
        expected = np.concatenate([parts[k] for k in (4, 0, 4)])
        np.testing.assert_array_equal(getattr(some, name), expected, name)
    for name in ("size", "shadow", "inside", "lowercase", "gradient_norm"):
        np.testing.assert_array_equal(
            getattr(some, name), getattr(tokens, name)[..., [4, 0, 4]], name
        )
    means = tokens.reference_means
    np.testing.assert_array_equal(some.reference_means, means[:, [4, 0, 4]])


def test_logarithms_of_the_right_base_pass(tmp_path: Path) -> None:
    assert "natural" in read_tokens(write(tmp_path / "t.jsonl", second_choices(np.e))).notes[1]
    without = [{"member": r["member"], "logprobs": r["logprobs"]} for r in example()]
    assert (
        "which nothing in the table shows"
        in (read_tokens(write(tmp_path / "u.jsonl", without)).notes[1])
    )


def test_a_table_larger_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    monkeypatch.setattr("divulge._util.untrusted.MAX_DATA_BYTES", 100_000)
    one = pa.array([[-1.0] * 200_000], pa.list_(pa.float64()))
    table = pa.table({"member": [1], "logprobs": one})
    parquet.write_table(table, tmp_path / "large.parquet")  # packed to a few bytes
    assert (tmp_path / "large.parquet").stat().st_size < 100_000
    with pytest.raises(DataError, match="unpacks to"):
        read_tokens(tmp_path / "large.parquet")


def test_csv_and_lists_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("member,logprobs\n1,-0.5\n0,-0.7\n")
    with pytest.raises(DataError, match="JSON lines or as Parquet"):
        read_tokens(tmp_path / "t.csv")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    for wrong, says in (([["a"]], "lists of string"), ([{"a": 1.0}], "struct")):
        table = pa.table({"member": [1], "logprobs": pa.array(wrong)})
        parquet.write_table(table, tmp_path / "w.parquet")
        with pytest.raises(DataError, match=says):
            read_tokens(tmp_path / "w.parquet")
