"""How long and how hard a page is: words, sentences, and Flesch's reading ease."""

import re
from html.parser import HTMLParser

_BLOCKS = frozenset(
    {"p", "li", "dt", "dd", "td", "th", "caption", "figcaption", "summary", "text", "div", "nav"}
    | {f"h{level}" for level in range(1, 5)}
)
_ENDING = re.compile(r"(?<=[.!?])\s+(?=[\W\d]*[A-Z0-9])")
_WORD = re.compile(r"\S*[A-Za-z0-9ε]\S*")


class _Blocks(HTMLParser):
    """The texts of a page by block, without what is folded away."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [""]
        self.folded = 0
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.folded += tag == "details"
        self.hidden += tag in ("style", "script", "title")
        self.folded -= tag == "summary"  # which is what is left to see
        if tag in _BLOCKS:
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self.folded -= tag == "details"
        self.hidden -= tag in ("style", "script", "title")
        self.folded += tag == "summary"
        if tag in _BLOCKS:
            self.blocks.append("")

    def handle_data(self, data: str) -> None:
        if self.folded < 1 and not self.hidden:
            self.blocks[-1] += data


def read(page: str) -> list[str]:
    """The sentences that a reader sees without opening anything."""
    parser = _Blocks()
    parser.feed(page)
    blocks = (" ".join(block.split()) for block in parser.blocks)
    return [one for block in blocks if block for one in _ENDING.split(block)]


def words(sentence: str) -> list[str]:
    """The words and numbers of a sentence."""
    return _WORD.findall(sentence)


def ease(sentences: list[str]) -> float:
    """Flesch's reading ease; 60 is plain English.

    A syllable is a group of vowels, without a silent e at the end; numbers are left out.

    References:
        Flesch (1948), A new readability yardstick.
    """
    found = [[word for word in words(one) if re.search("[A-Za-z]{2}", word)] for one in sentences]
    said = [each for each in found if each]
    count = sum(map(len, said))
    syllables = sum(_syllables(word) for each in said for word in each)
    return 206.835 - 1.015 * count / len(said) - 84.6 * syllables / count


def _syllables(word: str) -> int:
    letters = re.sub("[^a-z]", "", word.lower())
    letters = re.sub("(?<![aeiouyl])es?$|(?<![aeiouydt])ed$", "", letters)
    return max(1, len(re.findall("[aeiouy]+", letters)))
