"""HTML and SVG as a browser would take them apart."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "br"})


@dataclass
class Parsed:
    """What a text turned out to contain."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    """Tag, name, value."""
    texts: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that a reader sees, with single spaces."""
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [value for _, key, value in self.attributes if key == name]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parsed = Parsed()
        self.goes_on = False
        """Whether the next text goes on with the last one, which may be broken there."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr":
            self.goes_on = True
            return
        self.parsed.tags.append(tag)
        self.parsed.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.parsed.unclosed.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.parsed.unclosed
        assert self.parsed.unclosed[-1] == tag, f"</{tag}> closes <{self.parsed.unclosed[-1]}>"
        self.parsed.unclosed.pop()

    def handle_data(self, data: str) -> None:
        within = self.parsed.unclosed[-1:]
        if self.goes_on:
            self.goes_on = False
            self.parsed.texts[-1] += data
            return
        (self.parsed.styles if within == ["style"] else self.parsed.texts).append(data)


def parse(text: str) -> Parsed:
    """Take a page or a drawing apart; fails where tags do not nest."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert not parser.parsed.unclosed
    return parser.parsed
