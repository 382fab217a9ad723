"""Cutting a long document into chunks for autoregressive rewriting (Kimi K2 report, figure 4).

Chunks end at paragraph or sentence boundaries, never inside a sentence; a heading stays with the text that follows it;
put together they are the document again, character for character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sentencex import segment

_TOKEN = re.compile(r"[A-Za-z]{1,8}|\d{1,3}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,4}|[^\s\w]|_")
_HEADING = re.compile(r"(#{1,6}\s|=+\s.*\s=+\s*$)")
_CLOSED = tuple(".!?:;,…。！？；：\"'”’)]}|`*")
_LINE_OF_ITS_OWN = re.compile(r"\s*(?:[-*+•|>#]|\d+[.)]\s|\**[^\W\d][^\n.?!]{0,40}:\**\s)")
_PARAGRAPH = re.compile(r"\s*\S.*?(?:\n[^\S\n]*\n\s*|\Z)|\s+\Z", re.DOTALL)
_WINDOW = 20_000
"""Characters of a paragraph that are segmented at a time: the segmenter's time grows with the square of what it is given
where quotation marks are many and have no partner. A sentence that is longer is looked for without such marks."""
_QUOTES = dict.fromkeys(map(ord, "\"'‘’‚‛“”„‟‹›«»「」『』《》〈〉()[]{}"), "_")
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
_NO_SENTENCE = 4
"""Targets that no sentence is as long as."""


def count_tokens(text: str) -> int:
    """About how many tokens a common byte-level BPE makes of a text. An estimate: within a tenth on English prose."""
    return len(_TOKEN.findall(text))


@dataclass(frozen=True)
class Chunk:
    """A consecutive part of a document, with the whitespace that follows it."""

    text: str
    tokens: int

    @property
    def body(self) -> str:
        return self.text.strip()

    @property
    def ends_paragraph(self) -> bool:
        return "\n\n" in self.text[len(self.text.rstrip()) :]


@dataclass(frozen=True)
class _Unit:
    """A sentence, a list item or a block of code: what is never cut."""

    text: str
    tokens: int
    ends_paragraph: bool
    is_heading: bool


def chunk(text: str, target: int = 256, language: str = "en", tokens: int = 0) -> list[Chunk]:
    """Cut a text into chunks of about `target` tokens, at most a quarter more unless one sentence alone is longer.

    Many lines without the end of a sentence (a list of names, a poem) are cut between lines.

    The chunks' texts concatenate to `text`.

    Args:
        tokens: of the text, where they have been counted.
    """
    if target < 1:
        raise ValueError("the chunk target must be at least one token")
    total = tokens or count_tokens(text)
    if total <= target * 1.25:
        return [Chunk(text, total)]
    units = _units(text, language, _NO_SENTENCE * target)
    # Equal parts read better than full ones and a remnant.
    share = total / max(1, round(total / target))
    return _packed(units, share, target * 1.25)


def _packed(units: list[_Unit], share: float, limit: float) -> list[Chunk]:
    chunks: list[Chunk] = []
    held: list[_Unit] = []
    size = 0

    def flush() -> None:
        nonlocal held, size
        kept = len(held)
        while kept > 1 and held[kept - 1].is_heading:  # a heading goes with what it heads
            kept -= 1
        if all(unit.is_heading for unit in held[:kept]):
            return
        chunks.append(Chunk("".join(u.text for u in held[:kept]), sum(u.tokens for u in held[:kept])))
        held = held[kept:]
        size = sum(u.tokens for u in held)

    for unit in units:
        if held and size + unit.tokens > limit:
            flush()
        held.append(unit)
        size += unit.tokens
        if size >= share or (unit.ends_paragraph and size >= 0.75 * share):
            flush()
    if held:
        rest = Chunk("".join(u.text for u in held), size)
        if chunks and (size < 0.2 * share or all(u.is_heading or not u.text.strip() for u in held)):
            last = chunks.pop()
            rest = Chunk(last.text + rest.text, last.tokens + rest.tokens)
        chunks.append(rest)
    return chunks


def _units(text: str, language: str, longest: int) -> list[_Unit]:
    """Sentences and blocks of code; what is longer than `longest` tokens and has several lines is no sentence but a list
    or a poem, and its lines are units.
    """
    pieces: list[str] = []
    for part, is_code in _code_blocks(text):
        for piece in [part] if is_code else _sentences(part, language):
            lines = not is_code and len(piece) > longest and "\n" in piece.strip() and count_tokens(piece) > longest
            pieces += piece.splitlines(keepends=True) if lines else [piece]
    if len(pieces) > 1 and not pieces[0].strip():
        pieces[:2] = [pieces[0] + pieces[1]]
    units = []
    for index, piece in enumerate(pieces):
        body = piece.rstrip()
        gap = piece[len(body) :]
        follows = index + 1 < len(pieces)
        starts_line = index == 0 or pieces[index - 1].endswith("\n")
        units.append(
            _Unit(piece, count_tokens(body), "\n\n" in gap, follows and starts_line and _heads(body.lstrip(), gap))
        )
    return units


def _sentences(text: str, language: str) -> list[str]:
    """The sentences of a text, each with the whitespace that follows it; they concatenate to the text."""
    pieces: list[str] = []
    for paragraph in _PARAGRAPH.findall(text):
        start, window = 0, _WINDOW
        while start + window < len(paragraph):
            found = _segmented(paragraph[start : start + window], language)
            if len(found) > 1:  # the last one may go on after the window
                pieces += found[:-1]
                start += sum(map(len, found[:-1]))
                window = _WINDOW
            else:
                window *= 2
        pieces += _segmented(paragraph[start:], language)
    return pieces


def _segmented(paragraph: str, language: str) -> list[str]:
    """The sentences of a paragraph. The segmenter gives them without saying where they stand and may leave out whitespace
    between them, so each is looked up again."""
    pieces: list[str] = []
    start = position = 0
    plain = paragraph if len(paragraph) <= _WINDOW else paragraph.translate(_QUOTES)
    for sentence in segment(language if language != "und" else "en", plain):
        body = sentence.strip()
        found = plain.find(body, position) if body else -1
        if found < 0:
            continue
        if found > start:
            pieces.append(paragraph[start:found])
            start = found
        position = found + len(body)
    pieces.append(paragraph[start:])
    return pieces


def _heads(line: str, gap: str) -> bool:
    """Whether a line looks like a heading: marked as one, or short, unpunctuated and set apart."""
    if "\n" in line or not line:
        return False
    if _HEADING.match(line):
        return True
    return (
        "\n\n" in gap and len(line) <= 80 and not line.endswith(_CLOSED) and not line.startswith(("-", "*", "•", "|"))
    )


def _code_blocks(text: str) -> list[tuple[str, bool]]:
    """The text cut into prose and fenced code blocks; an unclosed fence is prose."""
    fences = [m.start() for m in _FENCE.finditer(text)]
    parts: list[tuple[str, bool]] = []
    position = 0
    for opening, closing in zip(fences[::2], fences[1::2], strict=False):
        end = text.find("\n", closing)
        end = len(text) if end < 0 else end + 1
        if opening > position:
            parts.append((text[position:opening], False))
        parts.append((text[opening:end], True))
        position = end
    if position < len(text):
        parts.append((text[position:], False))
    return parts


def join(before: str, after: str, *, new_paragraph: bool) -> str:
    """Stitch two rewritten parts: a paragraph break where the source had one or where the form has lines of its own
    (lists, questions and answers, dialogue), a space where prose goes on in the same paragraph."""
    if not before:
        return after
    meeting = before.rpartition("\n\n")[2], after.partition("\n\n")[0]
    if new_paragraph or any("\n" in part or _LINE_OF_ITS_OWN.match(part) for part in meeting):
        return f"{before}\n\n{after}"
    return f"{before} {after}"


def tail(text: str, tokens: int) -> str:
    """The end of a text, about so many tokens, beginning with a word."""
    text = text.strip()
    if len(text) <= tokens * 4:
        return text
    cut = text[-tokens * 4 :]
    while count_tokens(cut) > tokens * 1.5:  # scripts with a token per character
        cut = cut[len(cut) // 4 :]
    space = cut.find(" ")
    return "… " + (cut[space + 1 :] if 0 <= space < 40 else cut)
