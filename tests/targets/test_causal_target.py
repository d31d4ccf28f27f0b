"""Causal language models: what they say of each token, in batches, and what is refused."""

import contextlib
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.core import ControlOutcome, Status
from divulge.data.records import as_texts
from divulge.errors import DataError, NotApplicable, TargetError
from divulge.targets import CausalTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.encoded import EncodedTarget
from tests.golden import golden
from tests.tiny_language_model import WORDS, Tokenizer

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
TEXTS = [
    " ".join(map(str, RNG.integers(2, WORDS, size))) for size in RNG.integers(2, 15, 60).tolist()
]


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Looks at this token and all before it; padding on the right changes nothing."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = torch.nn.Embedding(WORDS, 8)
        self.mix = torch.nn.GRU(8, 16, batch_first=True)
        self.head = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(16, WORDS))
        self.config = SimpleNamespace(vocab_size=WORDS, max_position_embeddings=16)
        self.batches: list[int] = []

    def forward(self, input_ids: Any, attention_mask: Any, use_cache: bool) -> Any:
        del attention_mask  # what stands to the right changes nothing
        assert not use_cache
        assert not self.training
        self.batches.append(input_ids.numel())
        return SimpleNamespace(logits=self.head(self.mix(self.embed(input_ids))[0]))


def pipeline(seed: int = 0, begins: bool = False, model: Any = None) -> Any:
    model = Model(seed) if model is None else model
    return SimpleNamespace(task="text-generation", model=model, tokenizer=Tokenizer(begins))


def by_hand(pipe: Any, text: str) -> tuple[np.ndarray, ...]:
    """One text, one token at a time, in float64."""
    ids = pipe.tokenizer(text)["input_ids"]
    found = []
    with torch.no_grad():
        pipe.model.eval()
        logits = pipe.model(torch.tensor([ids]), None, use_cache=False).logits[0].double().numpy()
    for at in range(1, len(ids)):
        p = np.exp(logits[at - 1]) / np.exp(logits[at - 1]).sum()
        mean = float((p * np.log(p)).sum())
        sd = float(np.sqrt((p * (np.log(p) - mean) ** 2).sum()))
        found.append((np.log(p[ids[at]]), mean, sd, p.argmax() == ids[at]))
    return tuple(np.array(one) for one in zip(*found, strict=True))


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("numbers", [1, 3000, 2**25])
def test_batches_say_of_each_token_what_one_text_at_a_time_says(begins: bool, numbers: int) -> None:
    pipe = pipeline(begins=begins)
    target = CausalTarget(pipe, numbers=numbers)
    tokens = target.tokens(TEXTS)
    for row, text in enumerate(TEXTS):
        wanted = by_hand(pipe, text)
        of_tokens = (tokens.logprob, tokens.mean, tokens.sd, tokens.top)
        got = [tokens.split(one)[row] for one in of_tokens if one is not None]
        for mine, his in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine, his, atol=2e-6)
    assert tokens.size is not None
    assert tokens.size.tolist() == [len(zlib.compress(text.encode())) for text in TEXTS]
    means = target.predict(TEXTS)[:, 0]
    np.testing.assert_allclose(means, tokens.average(tokens.logprob), rtol=1e-12)
    assert not target.tokens(TEXTS).reference.size


def test_each_text_is_read_once_and_no_batch_exceeds_what_it_may_hold() -> None:
    pipe = pipeline()
    pipe.model.train()
    target = CausalTarget(pipe, numbers=60 * WORDS)
    records = as_texts([*TEXTS, *TEXTS], "texts")
    assert records.encoding is not None
    cached = CachedTarget(EncodedTarget(target, records.encoding))
    means = cached.predict(records.x)
    batches = list(pipe.model.batches)
    assert max(batches) <= 60
    tokens = cached.tokens(records.x[:60][::-1])
    assert pipe.model.batches == batches
    assert pipe.model.training
    np.testing.assert_array_equal(tokens.average(tokens.logprob), means[:60][::-1, 0])
    assert tokens.size is not None
    np.testing.assert_array_equal(
        tokens.ids,
        np.concatenate([[int(word) for word in text.split()[1:]] for text in TEXTS[::-1]]),
    )


@pytest.mark.parametrize("begins", [False, True])
def test_behind_other_texts_the_same_tokens_are_scored(begins: bool) -> None:
    pipe = pipeline(begins=begins)
    target, short = CausalTarget(pipe), ["5 6 7", "9 8"]
    tokens = target.tokens(short, ["30 31", "32 33 34"])
    for row, text in enumerate(short):
        whole = by_hand(pipe, f"30 31 32 33 34 {text}")[0]
        count = len(text.split()) - (not begins)
        np.testing.assert_allclose(tokens.split(tokens.logprob)[row], whole[-count:], atol=2e-6)
    np.testing.assert_array_equal(tokens.count, target.tokens(short).count)


def test_the_first_of_the_other_texts_give_way_to_a_text_that_is_long() -> None:
    pipe = pipeline()
    target, long = CausalTarget(pipe), " ".join(["7"] * 12)
    found = target.tokens([long], ["30 31", "32 33 34"])  # of 16 tokens, 4 are left
    wanted = by_hand(pipe, f"32 33 34 {long}")[0][-11:]
    np.testing.assert_allclose(found.logprob, wanted, atol=2e-6)
    with pytest.raises(NotApplicable, match="room for another text before one of 16 tokens"):
        target.tokens([" ".join(["7"] * 16)], ["30 31"])


def test_references_are_the_models_given_and_the_one_beneath_adapters() -> None:
    class Adapted(Model):
        """Adapters add something to the answers."""

        off = False

        @contextlib.contextmanager
        def disable_adapter(self) -> Iterator[None]:
            self.off = True
            yield
            self.off = False

        def forward(self, input_ids: Any, attention_mask: Any, use_cache: bool) -> Any:
            found = super().forward(input_ids, attention_mask, use_cache)
            if not self.off:
                found.logits[..., 3] += 2
            return found

    tuned, other = pipeline(model=Adapted(0)), pipeline(1)
    tokens = CausalTarget(tuned, (other,)).tokens(TEXTS[:7])
    for row, pipe in enumerate((pipeline(0), other)):
        wanted = np.concatenate([by_hand(pipe, text)[0] for text in TEXTS[:7]])
        np.testing.assert_allclose(tokens.reference[row], wanted, atol=2e-6)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["5"], "two tokens or more"),
        (["5 6", " ".join(["7"] * 17)], "at most 16 tokens, got 17: cut long texts"),
        ([5, 6], "expected texts"),
        ([{"text": "5 6"}], "got dicts: pass each text as one string"),
    ],
)
def test_texts_that_cannot_be_scored_are_refused(texts: list[Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        CausalTarget(pipeline()).predict(texts)


def test_other_tasks_and_other_tokenizers_are_refused() -> None:
    wrong = pipeline()
    wrong.task = "summarization"
    with pytest.raises(TargetError, match="a text-generation pipeline, got summarization"):
        CausalTarget(wrong)
    with pytest.raises(TargetError, match="the same tokenizer"):
        CausalTarget(pipeline(), (pipeline(begins=True),)).predict(TEXTS)


def test_a_model_that_answers_no_numbers_is_refused_and_not_scored() -> None:
    pipe = pipeline()
    with torch.no_grad():
        pipe.model.head[1].bias[7] = float("nan")
    target = CausalTarget(pipe)
    for ask in (target.tokens, target.predict):  # nothing of the first is kept
        with pytest.raises(TargetError, match=r"finite log-probability .* in 60 of 60 texts"):
            ask(TEXTS)


def test_a_budget_of_one_answer_a_text_is_enough_for_all_attacks() -> None:
    access = divulge.Access(budget=len(TEXTS))
    found = divulge.audit(
        CausalTarget(pipeline()), members=TEXTS[:30], nonmembers=TEXTS[30:], access=access
    )
    assert not [one for one in found.findings if "budget" in one.reason]


class Letters:
    """Each word is a letter: of a lower-case one there may be further tokens."""

    model_max_length = 10**30

    def __init__(self, small: int = 1) -> None:
        self.small = small

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        ids: list[int] = []
        for word in text.split():
            ids += [ord(word[0]) - 95] * self.small if word.islower() else [ord(word[0]) - 45]
        return {"input_ids": ids, "special_tokens_mask": [0] * len(ids)}


MIXED = ["A b C", "b a B A", "a b c", "A B C a b c", "a b c", "B b"]


def test_texts_in_lower_case_are_read_once_more_where_that_is_asked_for() -> None:
    pipe = pipeline()
    pipe.tokenizer = Letters()
    plain = CausalTarget(pipe).tokens(MIXED)
    assert (plain.lowercase, plain.gradient_norm) == (None, None)
    pipe.model.batches.clear()
    tokens = CausalTarget(pipe, lowercase=True).tokens(MIXED)
    assert pipe.model.batches == [5 * 6, 4 * 6]  # five texts, and four forms in lower case
    assert tokens.lowercase is not None
    wanted = [by_hand(pipe, text.lower())[0].mean() for text in MIXED]
    np.testing.assert_allclose(tokens.lowercase, wanted, atol=2e-6)
    own = tokens.average(tokens.logprob)
    assert (tokens.lowercase == own).tolist() == [False, False, True, False, True, False]
    assert CausalTarget(pipe, lowercase=True).tokens(MIXED, ["a"]).lowercase is None
    pipe.model.batches.clear()
    CausalTarget(pipe, lowercase=True, gradients=True).predict(MIXED)
    assert pipe.model.batches == [5 * 6]  # the mean needs neither


def test_a_form_in_lower_case_of_more_tokens_is_cut() -> None:
    pipe = pipeline()
    pipe.tokenizer = Letters(small=2)
    text = " ".join("ABCABCABCD")  # of 16 tokens, 20 were needed
    (found,) = np.asarray(CausalTarget(pipe, lowercase=True).tokens([text]).lowercase)
    wanted = by_hand(pipe, " ".join("abcabcab"))[0].mean()
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    pipe.tokenizer = Letters(small=0)
    with pytest.raises(TargetError, match="in lower case of two tokens or more"):
        CausalTarget(pipe, lowercase=True).tokens(["A B"])


def test_gradients_are_those_of_each_text_alone_by_the_weights_that_are_trained() -> None:
    pipe = pipeline(begins=True)
    model, texts = pipe.model.train(), [TEXTS[0], TEXTS[1], TEXTS[0]]
    target = CausalTarget(pipe, gradients=True)

    def by_autograd(text: str, weights: Any) -> float:
        ids = torch.tensor([pipe.tokenizer(text)["input_ids"]])
        model.eval()
        logits = model(ids, None, use_cache=False).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:])
        squares = [part.square().sum() for part in torch.autograd.grad(loss, weights)]
        model.train()
        return float(torch.stack(squares).sum().sqrt())

    def measured() -> np.ndarray:
        return np.asarray(target.tokens(texts).gradient_norm)

    every = list(model.parameters())
    wanted = [by_autograd(text, every) for text in texts]
    np.testing.assert_allclose(measured(), wanted, rtol=1e-5)
    assert model.training
    adapters = list(model.mix.parameters())
    by_adapters = [by_autograd(text, adapters) for text in texts]
    for weight in every:
        weight.requires_grad_(requires_grad=False)
    np.testing.assert_allclose(measured(), wanted, rtol=1e-5)
    model.base_model = SimpleNamespace(prefix="mix.")  # as of a PeftModel that predicts
    np.testing.assert_allclose(measured(), by_adapters, rtol=1e-5)
    assert not any(weight.requires_grad for weight in every)
    assert all(weight.grad is None for weight in every)
    model.embed.weight.requires_grad_(requires_grad=True)
    wanted = [by_autograd(text, model.embed.weight) for text in texts]
    np.testing.assert_allclose(measured(), wanted, rtol=1e-5)


def test_both_tell_members_of_a_model_that_has_learned_its_texts() -> None:
    rng = np.random.default_rng(3)
    words = [letter * 2 for letter in "abcdefghABCDEFGH"]
    texts = [" ".join(rng.choice(words, 9)) for _ in range(80)]
    pipe = fitted(texts[:40], 12, Letters())
    target = CausalTarget(pipe, lowercase=True, gradients=True)
    found = divulge.audit(target, members=texts[:40], nonmembers=texts[40:])
    by_label = {entry.finding.label: entry for entry in found.contents.entries}
    for signal, auc in (("lowercase", 0.934), ("gradient-norm", 0.848)):
        entry = by_label[f"token-threshold(signal={signal})"]
        assert entry.finding.status is Status.DONE, entry.finding
        assert entry.finding.metrics["auc"].value == golden(auc)
        assert entry.control is not None
        assert entry.control.outcome is ControlOutcome.PASSED


def fitted(texts: list[str], epochs: int, tokenizer: Any = None) -> Any:
    model = Model(0).train()
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    tokenizer = Tokenizer() if tokenizer is None else tokenizer
    for _ in range(epochs):
        for text in texts:
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            logits = model.head(model.mix(model.embed(ids))[0])[0, :-1]
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, ids[0, 1:]).backward()
            optimiser.step()
    model.config.max_position_embeddings = 64
    found = pipeline(model=model)
    found.tokenizer = tokenizer
    return found


def test_a_model_that_has_learned_its_texts_is_audited_by_their_tokens() -> None:
    members, others = TEXTS[:30], TEXTS[30:]
    target = CausalTarget(fitted(members, 4), (fitted([], 0),))
    found = divulge.audit(
        target,
        members=members,
        nonmembers=others,
        reference=[" ".join(text.split()[::-1]) for text in others],
        options=divulge.Options(membership="fixed", prefix=2, suffix=3),
    )
    named = {finding.label: finding for finding in found.findings}
    assert found.summary.texts is not None
    assert (found.summary.texts.prefix, found.summary.texts.suffix) == (2, 3)
    assert {"recall", "dc-pdd"} < named.keys()
    asked_for = {f"token-threshold(signal={signal})" for signal in ("lowercase", "gradient-norm")}
    for entry in found.contents.entries:
        if entry.finding.label in asked_for:
            assert "CausalTarget(pipeline, " in entry.finding.reason
            continue
        assert entry.finding.status is Status.DONE, entry.finding
        assert entry.control is not None
        assert entry.control.outcome is ControlOutcome.PASSED, entry.finding.label
    assert named["reference-ratio"].metrics["auc"].value == golden(0.9756)
    assert "token-threshold(signal=min-k++)" in named
    assert found.verdict.level == "leak"
    assert "Fine-tune for fewer epochs" in found.verdict.next_step
    with pytest.raises(DataError, match="a list of texts for members, got tuple"):
        divulge.audit(target, members=(members, [0] * 30), nonmembers=others)
