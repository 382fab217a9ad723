"""Does the rewrite stop in the middle, or go round in circles until the token limit stops it?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenmill.judges.form.words import N, ngrams, repeats, sequence, shared_ngrams, unspaced, words
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "truncation"
_STOPS = frozenset(".!?…。！？．｡।॥؟۔։።")
_CLOSERS = "\"'”’“»«›」』】）)]}*_`~ \t"
_UNSTOPPED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")  # Thai, Lao, Burmese, Khmer end without a stop
_ITEM = re.compile(r"\s*(?:[-*+•–—>]|\(?\w{1,3}[.)]\s)")
_COMMA = re.compile(r"[,;，、،–—]$")
_DANGLING = re.compile(
    r"(?:[(\[{]|\b(?:the|an?|and|or|of|to|in|for|with|by|as|that|which|who|whose|is|was|are|were|from|at|but|on|into|"
    r"their|its|his|her|this|these|than|because|while|when|der|die|das|den|dem|ein|eine|einer|und|oder|von|mit|für|im|"
    r"el|la|los|las|un|una|y|de|del|que|con|por|le|les|et|du|des|une|dans|pour|par|"
    r"и|в|на|с|из|к|по|для|что|от|о|не))$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=\w\w)[.!?…][\"'”’»)\]*_]*\s+(?=[\"“«(*_]*[^\W\d_a-z])|[。！？][」』”）]*")
_CUT_WORDS = 5
"""Words of a sentence begun behind another in its line that show it to be cut off; fewer may sign a letter."""
_CUT_LINE = 12
"""Words of a line of its own that do, where all other lines of that length are whole sentences."""
_PERIODIC = re.compile(r"(\S.{0,11}?)\1{79,}", re.DOTALL)


@dataclass(frozen=True)
class Truncation:
    """Refuses with `stops_in_the_middle` or `repeats_itself`.

    A line of its own without a full stop may be an item, a heading, a cell or a signature: it is a cut only where it breaks off
    at a comma or a word that wants another. What the source repeats or leaves open the rewrite may as well.
    """

    max_repeated: float = 0.35
    """Largest share of n-grams that may be repetitions of earlier ones."""
    loop_words: int = 24
    """Words that must follow the same period, at least three times round, to be called a loop."""

    def __post_init__(self) -> None:
        if not 0 < self.max_repeated <= 1:
            raise ValueError(f"Truncation.max_repeated must be in (0, 1], not {self.max_repeated}")

    def __call__(self, source: str, rewrite: str, finish_reason: str = "stop", context: str = "") -> Verdict:
        """`context` is what was already rewritten: saying it again is going round in circles, too."""
        loop = self._loop(source, rewrite) or self._again(source, rewrite, context)
        if loop:
            detail = "Say everything once; the text goes round in circles."
            return Verdict(CHECK, False, 0.0, "repeats_itself", (Finding("loop", detail, "", loop),))
        fault = _cut(source, rewrite, finish_reason)
        if fault:
            detail = f"Finish the passage: {fault}."
            ending = rewrite.rstrip()[-100:]
            return Verdict(CHECK, False, 0.0, "stops_in_the_middle", (Finding("cut_off", detail, "", ending),))
        return _CLEAN

    def _again(self, source: str, rewrite: str, context: str) -> str:
        """Words of the context that the rewrite says again, or an empty string."""
        shared = shared_ngrams(rewrite, context)
        if not shared:
            return ""
        again = shared - ngrams(source)
        if len(again) <= max(self.loop_words - N, self.max_repeated * len(ngrams(rewrite))):
            return ""
        return " ".join(next(gram for gram in sequence(words(rewrite)) if gram in again))

    def _loop(self, source: str, rewrite: str) -> str:
        """The words that repeat, or an empty string."""
        tokens = words(rewrite)
        if len(rewrite) > 10 * len(tokens) + 100:  # few words for its length: a run of punctuation, an endless word
            endless = _PERIODIC.search(rewrite[-2_000:])
            if endless and endless[0] not in source:
                return endless[0][:100]
        if not repeats(rewrite, self.loop_words - N):
            return ""
        total = len(tokens) - N + 1
        distinct = len(ngrams(rewrite))
        if total - distinct < self.loop_words - N:
            return ""
        found = _circle(tokens, self.loop_words)
        if found and not _circle(words(source), self.loop_words):
            return found
        repeated = 1 - distinct / total
        own = 1 - len(ngrams(source)) / max(1, len(words(source)) - N + 1)
        if repeated > max(self.max_repeated, 2 * own):
            return " ".join(tokens[-2 * N :])
        return ""


_CLEAN = Verdict(CHECK, True, 1.0)


def _circle(tokens: list[str], enough: int) -> str:
    """One round of the first stretch in which every n-gram repeats the one a constant distance before."""
    last: dict[tuple[str, ...], int] = {}
    period = run = 0
    for i, gram in enumerate(sequence(tokens)):
        distance = i - last.get(gram, i)
        run = run + 1 if distance and distance == period else int(distance > 0)
        period = distance
        last[gram] = i
        if period and run >= max(enough - N, 2 * period - N):
            return " ".join(tokens[i : i + max(period, N)][:40])
    return ""


def _cut(source: str, rewrite: str, finish_reason: str) -> str:
    """What shows that the rewrite was cut off, or an empty string."""
    if finish_reason == "length":
        return "the token limit cut it off"
    if finish_reason == "content_filter":
        return "the endpoint's content filter cut it off"
    if source.strip() and not rewrite.strip():
        return "there is no text"
    if rewrite.count("```") % 2 and not source.count("```") % 2:
        return "a code fence is left open"
    text, before = rewrite.rstrip(), source.rstrip()
    if _ended(text):
        return ""
    opened = _open_brackets(text)
    if opened > 0 and opened > _open_brackets(before):
        return "a bracket is left open"
    if _open_quote(text) and not _open_quote(before):
        return "a quotation is left open"
    return "it ends in the middle of a sentence" if _breaks_off(text, before) else ""


def _open_brackets(text: str) -> int:
    """Brackets opened and not closed; kinds are counted together, as half-open intervals such as [0, 1) need."""
    opened = text.count("(") + text.count("[") + text.count("{")
    return opened - text.count(")") - text.count("]") - text.count("}") if opened else 0


def _open_quote(text: str) -> bool:
    paragraph = text[text.rfind("\n") + 1 :]
    if paragraph.count('"') % 2 and not re.search(r'\d"', paragraph):  # 10" is a length
        return True
    return "„" not in paragraph and paragraph.count("“") > paragraph.count("”")


def _ended(text: str) -> bool:
    core = text[-40:].rstrip(_CLOSERS)
    if core[-1:] in _STOPS:
        return True
    return text.endswith(("```", "$$", "\\]")) or _UNSTOPPED.search(core[-12:]) is not None


def _breaks_off(text: str, source: str) -> bool:
    """Whether a last line without a full stop is plainly no complete one."""
    line = text[text.rfind("\n") + 1 :]
    if line.strip() in map(str.strip, source.splitlines()):
        return False
    if _DANGLING.search(line[-40:]) and len(words(line)) >= _CUT_WORDS:  # an item may read "Sign in"
        return True
    *before, earlier = text[: -len(line)].rstrip().split("\n")
    if line.startswith("|"):
        return earlier.endswith("|") and (not line.endswith("|") or line.count("|") < earlier.count("|"))
    if line.startswith("#"):
        return not source[source.rfind("\n") + 1 :].startswith("#")
    if not _ended(source):
        return False
    if _COMMA.search(line):
        return len(words(line)) >= _CUT_WORDS  # "Best wishes," may end a letter
    if _ITEM.match(line):
        return bool(_ITEM.match(earlier)) and _ended(earlier)
    wide = 1 + unspaced(line)
    if len(begun := _SENTENCE_END.split(line)) > 1:
        return len(words(begun[-1])) >= _CUT_WORDS * wide
    others = [other for other in (*before, earlier) if len(words(other)) >= _CUT_LINE * wide]
    return len(words(line)) >= _CUT_LINE * wide and bool(others) and all(map(_ended, others))
