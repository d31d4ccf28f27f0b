"""Canaries in text: is an ε that is true of a DP fine-tune ever contradicted, and a false one?"""

import copy
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import divulge
from benchmarks.timing import environment, require_packages
from divulge.core import Need, NoiseAssumption
from divulge.core.tokens import Tokens

SUMMARY = "canaries in text: DP fine-tunes of a small language model, whole and by LoRA"

KINDS = {"all weights": (0, 0.5), "LoRA, rank 4": (4, 2.0)}
"""The rank of the adapters, and the rate of learning."""


class Change(NamedTuple):
    """What is done otherwise than stated: factors of what `KINDS` and the constants set."""

    noise: float = 1.0
    """Of the standard deviation, in multiples of the clipping norm."""
    norm: float = 1.0
    epochs: int = 1
    rate: float = 1.0


NONE = Change()
FAULTS = {
    "noise off": Change(noise=1e-6),
    "noise for a quarter of the sensitivity": Change(noise=0.25),
    "noise and clipping off": Change(noise=1e-6, norm=1e3),
    "noise and clipping off, 8 times the steps, 4 times the rate": Change(1e-6, 1e3, 8, 4.0),
}

_NOISES: tuple[NoiseAssumption, ...] = ("any", "independent-gaussian")
_NOISE, _DELTA = 2.7, 1e-5
_TEXTS, _CANARIES, _LONGEST = 50, 200, 32
_BEFORE, _EPOCHS, _BATCH = 2_000, 3, 75


class Audited(NamedTuple):
    """What one fine-tune shows."""

    contradicted: tuple[bool, ...]
    """By supposition about the noise, whether the stated ε is."""
    figures: tuple[float, ...]
    """See `COLUMNS`."""


COLUMNS = (
    "stated ε",
    *(f"bound, {noise}" for noise in _NOISES),
    "AUC of the steps",
    "AUC of the model",
    "exposure, bits",
)
"""Means over fine-tunes."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print how many fine-tunes are contradicted, correct ones first, as two tables.

    Args:
        quick: two fine-tunes of each kind in place of fifty, one of each fault in place of five.

    Raises:
        MissingPeer: Opacus or dp-accounting is not installed.
        MissingData: there are no verses.
    """
    require_packages(("opacus", "dp_accounting"), "dp")
    import torch

    torch.set_num_threads(1)
    start = time.process_time()
    print(environment(("divulge", "torch", "opacus", "dp-accounting")))
    columns = (*_NOISES, *COLUMNS)
    print(f"\n| fine-tune | kind | {' | '.join(columns)} |\n|---|---|{'---:|' * len(columns)}")
    runs = _report("correct", NONE, 0, 2 if quick else 50)
    for number, (fault, changed) in enumerate(FAULTS.items(), 1):
        runs += _report(fault, changed, 10_000 * number, 1 if quick else 5)
    print(f"\n{runs} fine-tunes, {(time.process_time() - start) / 60:.1f} minutes of one core")


def _report(name: str, changed: Change, first: int, repeats: int) -> int:
    """Print a row a kind, and of correct ones the share that is contradicted."""
    wrong = np.zeros(len(_NOISES), int)
    for kind in KINDS:
        found = [audit(kind, first + k, changed) for k in range(repeats)]
        each = np.sum([one.contradicted for one in found], axis=0)
        wrong += each
        means = np.mean([one.figures for one in found], axis=0)
        counts = (f"{count} of {repeats}" for count in each)
        print("|", " | ".join((name, kind, *counts, *(f"{mean:.2f}" for mean in means))), "|")
        sys.stdout.flush()
    runs = len(KINDS) * repeats
    if name == "correct":
        for supposed, count in zip(_NOISES, wrong, strict=True):
            low, high = stats.binomtest(int(count), runs).proportion_ci()
            print(f"| of all {runs}, {supposed}: {count} ({low:.3f} to {high:.3f}) |")
    return runs


def audit(kind: str, seed: int, changed: Change = NONE) -> Audited:
    """Fine-tune with canaries, and hold their scores against the stated ε.

    Args:
        kind: of `KINDS`.
        seed: draws texts, canaries, coins, batches and noise.
        changed: what is done otherwise than stated.
    """
    from benchmarks import fine_tunes

    verses = fine_tunes.verses()[_BEFORE:]
    chosen = np.random.default_rng(seed).permutation(len(verses))[:_TEXTS]
    texts = _cut([verses[k] for k in chosen])
    with TemporaryDirectory() as name:
        folder, scores = Path(name, "canaries"), [Path(name, "white.npz"), Path(name, "black.npz")]
        divulge.make_canaries(texts, folder, _CANARIES, seed=seed)
        records = _fine_tune(_trainer(kind, changed), seed, texts, folder, scores)
        stated = _trainer(kind).guarantee(records)
        found = []
        for noise in _NOISES:
            copied = shutil.copytree(folder, Path(name, noise))  # coins are opened once
            found.append(
                divulge.audit_canaries(
                    copied, scores, epsilon=stated.epsilon, delta=_DELTA, noise=noise
                )
            )
    white, black = found[0].results
    assert black.exposure is not None
    return Audited(
        tuple(one.verdict.level == "contradicted" for one in found),
        (
            stated.epsilon,
            *(one.bound for one in found),
            white.auc.value,
            black.auc.value,
            black.exposure.value,
        ),
    )


def _fine_tune(trainer: Any, seed: int, texts: list[str], folder: Path, scores: list[Path]) -> int:
    """Write the scores by the steps, and by the losses of the trained model; how many texts."""
    from divulge.defences import TextLoss

    with np.load(folder / "for-trainer" / "train.npz") as inserted:
        rows = _encode(texts + inserted["x"].tolist())
    recorder = divulge.CanaryRecorder(
        folder,
        trainer.recipe.network(),
        scores[0],
        max_grad_norm=trainer.max_grad_norm,
        prepare=_encode,
    )
    records = divulge.Records(rows.numpy(), np.zeros(len(rows), np.int64))
    trained = trainer.train(records, seed, watch=recorder.watch)
    assert isinstance(trained, TextLoss)
    recorder.save()
    after, before = (_Answers(model) for model in (trained.model, base_model()))
    divulge.score_canaries(folder, after, scores[1], reference=before)
    return len(rows)


@cache
def base_model() -> Any:
    """A network of 12,000 weights, from the last four signs to the next, that has read verses."""
    import torch

    from benchmarks import fine_tunes, tiny_gpt

    class Reader(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.signs = torch.nn.Embedding(97, 16)
            self.read: torch.nn.Module = torch.nn.Linear(4 * 16, 64)
            self.write: torch.nn.Module = torch.nn.Linear(64, 97)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = torch.nn.functional.pad(self.signs(ids), (0, 0, 3, 0))
            last = torch.cat([x[:, k : k + ids.shape[1]] for k in range(4)], dim=2)
            logits: torch.Tensor = self.write(self.read(last).relu())
            return logits

    torch.manual_seed(0)
    model, ids = Reader(), _encode(fine_tunes.verses()[:_BEFORE])
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    order = torch.randperm(5 * len(ids)).remainder(len(ids))
    for rows in (order[at : at + 64] for at in range(0, len(order), 64)):
        logits = model(ids[rows, :-1]).flatten(0, 1)
        optimiser.zero_grad()
        wanted = ids[rows, 1:].flatten()
        loss = torch.nn.functional.cross_entropy(logits, wanted, ignore_index=tiny_gpt.FILL)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return model


@cache
def _trainer(kind: str, changed: Change = NONE) -> Any:
    """DP-SGD that keeps what it states, but for what is changed; its trials are kept."""
    from benchmarks import tiny_gpt
    from divulge.defences import DPSGD, TextLoss
    from divulge.training import Recipe

    rank, rate = KINDS[kind]

    def network() -> TextLoss:
        model = copy.deepcopy(base_model())
        if rank:
            model.requires_grad_(requires_grad=False)
            model.read, model.write = (
                tiny_gpt.Adapter(layer, rank) for layer in (model.read, model.write)
            )
        return TextLoss(model, tiny_gpt.FILL)

    return DPSGD(
        Recipe(network, lr=rate * changed.rate, epochs=_EPOCHS * changed.epochs, batch_size=_BATCH),
        delta=_DELTA,
        noise_multiplier=_NOISE * changed.noise,
        max_grad_norm=changed.norm,
        clipping="per-record",
    )


def _cut(texts: Sequence[str]) -> list[str]:
    """The texts as long as they are trained on."""
    return [text[: _LONGEST - 1] for text in texts]


def _encode(texts: Sequence[str]) -> Any:
    from benchmarks import tiny_gpt

    return tiny_gpt.encode(_cut(texts))[:, :_LONGEST]


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a model says of texts."""

    model: Any

    offers = Need.TOKENS | Need.SCORES

    def tokens(self, x: Sequence[str]) -> Tokens:
        """Of each sign of each text."""
        import torch

        from benchmarks import tiny_gpt

        ids = _encode(x)
        with torch.no_grad():
            logp = self.model(ids[:, :-1]).log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        real = (ids[:, 1:] != tiny_gpt.FILL).numpy()
        start = np.concatenate([[0], np.cumsum(real.sum(axis=1))])
        return Tokens(start, logp.double().numpy()[real], np.zeros((0, real.sum())))

    def predict(self, x: Sequence[str]) -> np.ndarray:
        """The mean log-probability of each text, in nats a sign."""
        tokens = self.tokens(x)
        sums = np.add.reduceat(tokens.logprob, tokens.start[:-1])
        return np.asarray(sums / np.diff(tokens.start))[:, None]
