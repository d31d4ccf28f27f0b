"""What an audit of tokens costs, and reading texts and scoring them, beside bare loops."""

import resource
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import divulge
from benchmarks.timing import (
    Contender,
    Outcome,
    environment,
    interleaved,
    require_packages,
    table,
)
from divulge.attacks.shared import token_signals
from divulge.core.tokens import Tokens

SUMMARY = "an audit of a table of tokens; a causal model and scores, beside bare loops"

WORDS, LONGEST = 5_000, 256
"""Of the vocabulary, and of the longest text."""

SHARE = 0.2


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print what each takes, and the largest difference of figures; SYNTHETIC, one thread.

    Args:
        quick: fewer texts, once.

    Raises:
        MissingPeer: transformers is not installed.
    """
    _audit_table(2_000 if quick else 10_000, 64 if quick else 256)
    require_packages(("torch", "transformers", "tokenizers"), "transformers")
    import torch

    from divulge.targets.causal import CausalTarget

    torch.set_num_threads(1)
    print(environment(("divulge", "torch", "transformers")))
    texts = _draw_texts(100 if quick else 400)
    pipeline = _pipeline()
    target = CausalTarget(pipeline)
    repeats = 1 if quick else 5
    tokens = target.tokens(texts)
    assert tokens.mean is not None
    assert tokens.sd is not None
    everything = _read_by_hand(pipeline, texts, spread=True)
    parts = [tokens.split(part) for part in (tokens.logprob, tokens.mean, tokens.sd)]
    apart = max(
        float(np.abs(own - other).max())
        for text, bare in enumerate(everything)
        for own, other in zip((part[text] for part in parts), bare, strict=True)
    )
    print(f"largest difference of log-probabilities, means and deviations: {apart:.1g}")
    ours, same, less = interleaved(
        [
            Contender("divulge: log p, mean, sd and the likeliest", lambda: target.tokens(texts)),
            Contender(
                "a bare loop: log p, mean and sd",
                lambda: _read_by_hand(pipeline, texts, spread=True),
            ),
            Contender(
                "a bare loop: log p alone", lambda: _read_by_hand(pipeline, texts, spread=False)
            ),
        ],
        repeats,
    )
    print(table((ours, same, less), same))
    _compare_scores(texts, tokens, repeats)
    return Outcome(ours, same)


def _audit_table(texts: int, tokens: int) -> None:
    """Print CPU time and peak memory of an audit of a Parquet table, with texts and a reference."""
    import pyarrow as pa
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.parquet"
        numbers = -rng.exponential(size=(5, texts * tokens))
        numbers[3] = -numbers[3]
        ends = pa.array(np.arange(0, texts * tokens + 1, tokens, dtype=np.int32))
        names = ("logprobs", "reference_logprobs", "mean", "sd")
        lists = {
            name: pa.ListArray.from_arrays(ends, pa.array(row))
            for name, row in zip(names, numbers, strict=False)
        }
        top = pa.ListArray.from_arrays(ends, pa.array((numbers[0] > np.log(0.5)).astype(np.int8)))
        words = np.array([f"word{k}" for k in range(2_000)])
        written = [" ".join(rng.choice(words, tokens * 3 // 4)) for _ in range(texts)]
        columns = {"member": np.arange(texts) % 2, "text": written, **lists, "top1": top}
        pa.parquet.write_table(pa.table(columns), path)
        del numbers, lists, written, columns
        begun = time.process_time()
        divulge.audit_predictions(path, texts=divulge.Texts())
        spent = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"audit of {texts:,} texts x {tokens} tokens: {spent:.1f} CPU s, peak {peak:.0f} MB")


def _draw_texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, LONGEST, count)
    return [" ".join(f"w{k}" for k in rng.integers(0, WORDS - 1, length)) for length in lengths]


def _pipeline() -> Any:
    """A GPT-2 of 1.4 million weights, drawn at random, with a word a token."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = {f"w{k}": k for k in range(WORDS - 1)} | {"?": WORDS - 1}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="?"))  # noqa: S106 (no secret)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=WORDS, n_positions=LONGEST, n_embd=128, n_layer=4, n_head=4)
    return SimpleNamespace(
        task="text-generation",
        model=GPT2LMHeadModel(config).eval(),
        tokenizer=PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            unk_token="?",  # noqa: S106 (no secret)
            model_max_length=LONGEST,
        ),
    )


def _read_by_hand(pipeline: Any, texts: Sequence[str], *, spread: bool) -> list[np.ndarray]:
    """Batches by length, as large as divulge's: of each text log p, and its mean and deviation."""
    import torch

    cut = [pipeline.tokenizer(text)["input_ids"] for text in texts]
    order = sorted(range(len(cut)), key=lambda k: -len(cut[k]))
    answers: dict[int, np.ndarray] = {}
    at = 0
    while at < len(order):
        size = max(1, 2**25 // (len(cut[order[at]]) * WORDS))
        rows = order[at : at + size]
        ids = torch.zeros((len(rows), len(cut[rows[0]])), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, k in enumerate(rows):
            ids[row, : len(cut[k])] = torch.tensor(cut[k])
            mask[row, : len(cut[k])] = 1
        with torch.inference_mode():
            logits = pipeline.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            log_p = logits[:, :-1].log_softmax(-1)
            parts = [log_p.gather(2, ids[:, 1:, None])[..., 0]]
            if spread:
                p = log_p.exp()
                mean = (p * log_p).sum(-1)
                parts += [mean, ((p * log_p.square()).sum(-1) - mean.square()).sqrt()]
        for row, k in enumerate(rows):
            answers[k] = np.array([part[row, : len(cut[k]) - 1].numpy() for part in parts])
        at += size
    return [answers[k] for k in range(len(cut))]


def _compare_scores(texts: Sequence[str], tokens: Tokens, repeats: int) -> None:
    """Loss, zlib, Min-K% and Min-K%++ of all texts at once, and text by text as papers' code."""
    ours: list[Callable[[Tokens], np.ndarray]] = [
        token_signals.mean_logprob,
        token_signals.per_packed_byte,
        lambda all_tokens: token_signals.lowest(all_tokens, all_tokens.logprob, SHARE),
        lambda all_tokens: token_signals.lowest(
            all_tokens, token_signals.standardise(all_tokens), SHARE
        ),
    ]

    def at_once() -> np.ndarray:
        return np.array([signal(tokens) for signal in ours])

    def one_by_one() -> np.ndarray:
        assert tokens.mean is not None
        assert tokens.sd is not None
        parts = map(tokens.split, (tokens.logprob, tokens.mean, tokens.sd))
        return np.transpose([_score_text(*text) for text in zip(texts, *parts, strict=True)])

    print(f"largest difference of scores: {np.abs(at_once() - one_by_one()).max():.1g}")
    fast, slow = interleaved(
        [
            Contender("divulge: four scores of all texts", at_once),
            Contender("text by text, as papers' code", one_by_one),
        ],
        repeats,
    )
    print(table((fast, slow), slow))


def _score_text(text: str, log_p: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> list[float]:
    lowest = max(1, int(SHARE * len(log_p)))
    loss = float(np.mean(log_p))
    standard = (log_p - mean) / sd
    return [
        loss,
        loss / len(zlib.compress(text.encode())),
        float(np.mean(np.sort(log_p)[:lowest])),
        float(np.mean(np.sort(standard)[:lowest])),
    ]
