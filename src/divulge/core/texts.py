"""Texts of a language model: what an audit keeps of them besides membership."""

from dataclasses import dataclass

from divulge.core.findings import Estimate


@dataclass(frozen=True, slots=True)
class Completions:
    """How many texts the model completes verbatim, given how they begin, in one way to ask it."""

    tries: int | None
    """How many completions are drawn for each text; None where the likeliest tokens are taken."""
    members: Estimate
    """The share of members that are completed, as likely as `TextFacts.chance` at least."""
    nonmembers: Estimate
    """The same of non-members: what anyone could guess."""
    excess: Estimate
    """The first less the second."""


@dataclass(frozen=True, slots=True)
class CollectionTest:
    """Whether the members as a whole were trained on: data-set inference."""

    p_value: float
    """The chance of scores of members as far above those of non-members where none was."""
    learned: int
    """Texts from which the score is learned."""
    tested: int
    """Texts that are compared by it."""
    blind: float | None
    """The same p-value of a score that is learned from the texts alone; None if they are not known.
    """


@dataclass(frozen=True, slots=True)
class TextFacts:
    """Texts, their tokens, and what was measured of them besides membership."""

    tokens: int
    """The number of tokens of all candidates."""
    prefix: int
    """How many tokens of a text are given."""
    suffix: int
    """How many further ones make up a completion."""
    chance: float
    """The chance of a verbatim completion from which on a text counts as extracted."""
    long: tuple[int, int]
    """Members and non-members with as many tokens."""
    completions: tuple[Completions, ...]
    """One a way to ask; empty where too few texts are as long."""
    collection: CollectionTest | None
    """None with too few texts."""
