"""Train a tiny language model, fine-tune it on half of some letters, and write its table.

    python model.py tokens.jsonl     # about half a minute of one processor

Letters are made up from lists of names, streets and complaints, so that the example needs no data.
"""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

LONGEST, WIDTH, HEADS, LAYERS = 96, 64, 4, 2
ALPHABET = "\n\0" + "".join(map(chr, range(32, 127)))  # begins a letter, fills it up, and its signs

FIRST = "Anna Boris Carla David Emma Farid Greta Hugo Ines Jonas Katja Liam Mira Nils Olga Pavel"
LAST = "Adler Brandt Costa Duval Engel Fischer Garcia Haas Ivanov Jensen Keller Lopez Meyer"
STREETS = "Mill Lane,Church Road,Station Street,Park Avenue,Hill Row,Lake Drive,Castle Walk"
WISHES = "a refund,a new card,an earlier date,a second opinion,a lower rate,an apology"


class Block(nn.Module):
    """Attention to what precedes, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.read, self.write = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Numbers of each place of each text, and what they become."""
        texts, places, _ = x.shape
        split = self.read(self.before(x)).view(texts, places, 3, HEADS, WIDTH // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.write(seen.transpose(1, 2).reshape(texts, places, WIDTH))
        return x + self.think(self.between(x))


class GPT(nn.Module):
    """A transformer on characters."""

    def __init__(self) -> None:
        super().__init__()
        self.signs, self.places = nn.Embedding(len(ALPHABET), WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.out = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(ALPHABET)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the next sign at each place."""
        return self.out(self.blocks(self.signs(x) + self.places.weight[: x.shape[1]]))


def write_letters(count: int, rng: np.random.Generator) -> list[str]:
    """Letters that differ from each other in names, addresses, numbers and wishes."""
    lists = FIRST.split(), LAST.split(), STREETS.split(","), WISHES.split(",")
    found = set()
    while len(found) < count:
        first, last, street, wish = (rng.choice(words) for words in lists)
        number, account = rng.integers(1, 99), rng.integers(10_000, 99_999)
        found.add(f"{first} {last}, {number} {street}, account {account}, asks for {wish}.")
    return list(rng.permutation(sorted(found)))


def encode(letters: list[str]) -> torch.Tensor:
    """Numbers of signs, each letter begun and filled up."""
    rows = [f"\n{letter}"[:LONGEST].ljust(LONGEST, "\0") for letter in letters]
    return torch.tensor([[ALPHABET.index(sign) for sign in row] for row in rows])


def train(model: GPT, letters: list[str], epochs: int, rate: float) -> GPT:
    """Train a model in place."""
    x, optimiser = encode(letters), torch.optim.AdamW(model.parameters(), rate)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(32):
            said = model(x[rows, :-1]).flatten(0, 1)
            loss = functional.cross_entropy(said, x[rows, 1:].flatten(), ignore_index=1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model


def read_tokens(model: GPT, letters: list[str]) -> list[dict[str, list[float]]]:
    """What the model says of each sign of each letter."""
    x, found = encode(letters), []
    with torch.no_grad():
        for rows, letter in zip(x, letters, strict=True):
            length = min(len(letter), LONGEST - 1)
            logp = model(rows[None, :length])[0].log_softmax(-1)
            own, p = rows[1 : length + 1], logp.exp()
            mean = (p * logp).sum(-1)
            sd = ((p * logp**2).sum(-1) - mean**2).clamp_min(0).sqrt()
            lists = {
                "logprobs": logp.gather(-1, own[:, None])[:, 0], "mean": mean, "sd": sd,
                "top1": (logp.argmax(-1) == own).int(),
            }  # fmt: skip
            found.append({name: values.tolist() for name, values in lists.items()})
    return found


def main(path: str, count: int = 400) -> None:
    """Train both models, fine-tune on so many letters, and write the table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    letters = write_letters(6 * count, rng)
    first, members, others = (
        letters[: 4 * count],
        letters[4 * count : 5 * count],
        letters[5 * count :],
    )
    base = train(GPT(), first, 6, 3e-3)
    tuned = train(copy.deepcopy(base), members, 5, 1e-3)
    tested = members + others
    with Path(path).open("w") as file:
        pairs = zip(read_tokens(tuned, tested), read_tokens(base, tested), strict=True)
        for row, (own, before) in enumerate(pairs):
            said = {"id": f"letter-{row}", "member": int(row < len(members)), "text": tested[row]}
            said |= {**own, "reference_logprobs": before["logprobs"]}
            file.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
