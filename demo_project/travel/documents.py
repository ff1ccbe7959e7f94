"""Search of the agency's documents."""

import math
from dataclasses import dataclass

from demo_project.travel.models import Document
from demo_project.travel.text import fold

PAGE_SIZE = 10
LAST_PAGE = 10
MAX_KEYWORDS = 10
WORDS_BEFORE, WORDS_AFTER = 12, 28


@dataclass(frozen=True, slots=True)
class Hit:
    """A document and the passage that matches."""

    document: Document
    snippet: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of hits.

    Attributes:
        total: number of matching documents.
        pages: number of pages, at most ten.
    """

    hits: list[Hit]
    index: int
    total: int

    @property
    def pages(self) -> int:
        return min(math.ceil(self.total / PAGE_SIZE), LAST_PAGE)


def search(keyword: str, page_index: int = 1) -> Page:
    """Return the documents that contain every word of *keyword*, ignoring case and accents, by title.

    Raises:
        ValueError: no word, too many words, or a page outside of 1 to 10.
    """
    words = list(dict.fromkeys(fold(keyword).replace("\0", " ").split()))
    if not words:
        raise ValueError("Enter at least one search term.")
    if len(words) > MAX_KEYWORDS:
        raise ValueError(f"Enter at most {MAX_KEYWORDS} search terms.")
    if not 1 <= page_index <= LAST_PAGE:
        raise ValueError(f"Pages are numbered from 1 to {LAST_PAGE}.")
    found = Document.objects.all()
    for word in words:
        found = found.filter(folded__contains=word)
    start = (page_index - 1) * PAGE_SIZE
    documents = found.defer("folded")[start : start + PAGE_SIZE]
    return Page(hits=[Hit(each, snippet(each, words)) for each in documents], index=page_index, total=found.count())


def snippet(document: Document, words: list[str]) -> str:
    """Return the passage with the most of *words*, about forty words long."""
    paragraphs = [paragraph.split() for paragraph in document.text.split("\n\n")]
    folded = [[fold(word) for word in paragraph] for paragraph in paragraphs]
    best = max(range(len(paragraphs)), key=lambda at: sum(any(word in each for each in folded[at]) for word in words))
    hit = next((at for at, each in enumerate(folded[best]) if any(word in each for word in words)), 0)
    start, end = max(hit - WORDS_BEFORE, 0), hit + WORDS_AFTER
    passage = " ".join(paragraphs[best][start:end])
    return f"{'… ' if start else ''}{passage}{' …' if end < len(paragraphs[best]) else ''}"
