"""Which language is a text in, and did the rewrite keep it?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from tokenmill.judges.form.words import words
from tokenmill.schemas.verdicts import Finding, Verdict

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

CHECK = "language"
UNDETERMINED = "und"

_SAMPLE = 4_000  # characters shown to the detector; more does not make it surer
_MIN_LETTERS = 20
_MIN_PROBABILITY = 0.5

# Function words; those that two of the languages share decide nothing and drop out below.
_FUNCTION_WORDS = {
    "en": "the of and to that was for with as from by were are which this his had they been their has its also who "
    "would there what when because it be on at or not have one more these than into can he she but you how if",
    "de": "der die das und ist von mit den dem nicht auch eine einen einer eines wurde werden sich auf für als nach "
    "aus bei sind oder durch wird über zum zur wie aber noch nur es ein im an sie er",
    "es": "el los las una del que con por su se fue como para más pero sus este esta entre también desde era son "
    "muy cuando donde sin sobre hasta y lo al ha",
    "fr": "le les des une du est dans qui pour par sur avec il elle au aux sont cette ces mais ou leur plus été pas "
    "ont ainsi où et être son sa ses nous ce comme était",
    "it": "il gli della del che di con per una nel nella sono anche dei delle dal alla questo più non è era come si lo "
    "ha tra fu loro degli dell dalla sua suo",
    "pt": "os uma do da em não com dos das ao pelo pela foi mais também são seu sua entre quando muito até pelos num "
    "numa às e é ou na no que um como",
    "nl": "het een van en op dat zijn met voor niet aan ook door werd bij naar uit wordt over deze hij haar hun om "
    "maar nog als tot dan zich de",
    "sv": "och att det som en på är av för med till den har inte om ett men var från vid kan så under efter",
    "da": "og at det som en på er af for med til den har ikke om et men var fra ved kan blev efter",
    "pl": "i w na z się nie do jest to że jak oraz przez od był była po dla są jego które który",
    "ru": "и в на не что он как это с по из был была для от его их при который были также",
    "tr": "ve bir bu için ile olarak olan de da daha en gibi sonra çok kadar",
}
_RELATED = (("bs", "hr", "sr"), ("nb", "nn", "no", "da"), ("id", "ms"), ("cs", "sk"), ("gl", "pt"))
_FAMILY = {code: family[0] for family in _RELATED for code in family}


def _owners() -> dict[str, str]:
    """Function word -> the one language that has it."""
    seen = Counter(word for listed in _FUNCTION_WORDS.values() for word in set(listed.split()))
    return {word: code for code, listed in _FUNCTION_WORDS.items() for word in listed.split() if seen[word] == 1}


_OWNER = _owners()
_ENOUGH = {
    code: 0.1 if sum(owner == code for owner in _OWNER.values()) >= 15 else 0.07 for code in _FUNCTION_WORDS
}  # share of function words that settles it; languages that share most of theirs keep few of their own


@dataclass(frozen=True)
class Language:
    """Refuses with `changes_language`, also when only one half of the rewrite changed."""

    min_words: int = 10
    """Texts shorter than this are not judged: too little to tell."""
    sure: float = 0.5
    """Probability the other language must have."""
    unlikely: float = 0.05
    """Probability that the expected one must fall below."""

    def __post_init__(self) -> None:
        if not 0 <= self.unlikely < self.sure <= 1:
            raise ValueError(f"Language needs 0 <= unlikely < sure <= 1, not {self.unlikely} and {self.sure}")

    def __call__(self, source: str, rewrite: str, language: str = UNDETERMINED) -> Verdict:
        """`language` is the source's ISO 639-1 code; undetermined, it is detected here."""
        tokens = words(rewrite)
        if len(tokens) < self.min_words:
            return _CLEAN
        expected = code(language)
        if expected == UNDETERMINED:
            expected = detect(source)
            if expected == UNDETERMINED:
                return _CLEAN
        middle = len(tokens) // 2
        pieces = [tokens] if middle < 2 * self.min_words else [tokens[:middle], tokens[middle:]]
        if all(_profile(piece) == expected for piece in pieces):
            return _CLEAN
        return self._slowly(source, rewrite, expected, len(pieces))

    def _partly(self, source: str, language: str) -> bool:
        """Whether a quarter of the source is in a language: documents are mixed, and their language columns err."""
        size = len(source) // 4 + 1
        quarters = (source[at : at + min(size, _SAMPLE)] for at in range(0, len(source), size))
        return any(dict(_ranked(quarter)).get(language, 0) >= self.sure for quarter in quarters)

    def _slowly(self, source: str, rewrite: str, expected: str, pieces: int) -> Verdict:
        middle = len(rewrite) // 2
        worst = 1.0
        for piece in (rewrite,) if pieces == 1 else (rewrite[:middle], rewrite[middle:]):
            likely = dict(_ranked(piece[:_SAMPLE]))
            if not likely:
                continue
            best = max(likely, key=likely.__getitem__)
            kept = likely.get(_FAMILY.get(expected, expected), 0.0)
            worst = min(worst, kept)
            other = expected_is_known(expected) and likely[best] >= self.sure and kept < self.unlikely
            if other and not self._partly(source, best):
                detail = f"Write in the language of the source ({expected}), not in {best}."
                quote = piece.strip()[:100]
                return Verdict(
                    CHECK, False, round(kept, 4), "changes_language", (Finding("other_language", detail, "", quote),)
                )
        return Verdict(CHECK, True, round(worst, 4))


_CLEAN = Verdict(CHECK, True, 1.0)


def code(language: str) -> str:
    """The ISO 639-1 part of a language tag: `en-US` and `EN` are `en`; anything else is `und`."""
    head = language.replace("_", "-").split("-", 1)[0].strip().lower()
    return head if len(head) == 2 and head.isalpha() else UNDETERMINED


def detect(text: str) -> str:
    """ISO 639-1 code of the language of `text`, or `und` when it is too short, too mixed or no language."""
    sample = text[:_SAMPLE]
    tokens = words(sample)
    found = _profile(tokens) if len(tokens) >= 20 else ""
    if found:
        return found
    ranked = _ranked(sample)
    if not ranked:
        return UNDETERMINED
    best, probability = _identifier().classify(sample)
    return ("no" if best in ("nb", "nn") else best) if probability >= _MIN_PROBABILITY else UNDETERMINED


def _profile(tokens: list[str]) -> str:
    """The language whose own function words are frequent, with no rival; empty when that does not settle it."""
    owners = list(filter(None, map(_OWNER.get, tokens)))
    if not owners:
        return ""
    if owners.count(owners[0]) == len(owners):  # as in most texts
        return owners[0] if len(owners) >= _ENOUGH[owners[0]] * len(tokens) else ""
    (best, hits), *others = Counter(owners).most_common(2)
    clear = hits >= _ENOUGH[best] * len(tokens) and (not others or others[0][1] * 4 <= hits)
    return best if clear else ""


@lru_cache(maxsize=16)
def _ranked(sample: str) -> tuple[tuple[str, float], ...]:
    """(language family, probability); empty when there are too few letters to tell."""
    letters = sum(map(str.isalpha, sample[:200]))
    if letters < _MIN_LETTERS and not (letters >= 8 and not sample.isascii()):
        return ()
    merged: Counter[str] = Counter()
    for found, probability in _identifier().rank(sample):
        merged[_FAMILY.get(found, found)] += probability
    return tuple(merged.items())


def expected_is_known(expected: str) -> bool:
    """Whether the detector knows this language at all."""
    return expected in _identifier().labels


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages([label for label in identifier.labels if len(label) == 2])
    return identifier
