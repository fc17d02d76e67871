"""What a browser makes of a page: its elements, attributes and text."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements with their attributes, and text in pieces with the elements around it."""

    VOID = frozenset({"br", "meta", "hr", "img", "link", "input"})

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[tuple[str, tuple[str, ...]]] = []
        self.comments: list[str] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.pieces.append((data, tuple(self.open)))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    @property
    def text(self) -> str:
        return "".join(piece for piece, _ in self.pieces)


def flat(text: str) -> str:
    """Text without any white space, to compare what is said and not how it is broken."""
    return "".join(text.split())
