"""What answers are compared by: core rubrics, prescriptive ones, and those that people wrote.

Kimi K2 report, appendix F.1 and F.2; the wording is our own. Mandatory rubrics and prescriptive ones are vetoes: an answer that
breaks one ranks below all that break none. Of the others the critic weighs the whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tokenmill import prompts

CORE = ("critic/core/clarity", "critic/core/conversation", "critic/core/objectivity")
NO_PRAISE, NO_JUSTIFICATION = "critic/prescriptive/no_opening_praise", "critic/prescriptive/no_self_justification"
PRESCRIPTIVE = (NO_PRAISE, NO_JUSTIFICATION)


@dataclass(frozen=True)
class Rubric:
    """One thing that an answer is looked at for."""

    name: str
    text: str
    """What the critic reads."""
    mandatory: bool = False
    """Whether an answer that breaks it is beaten by every one that does not."""


def core() -> tuple[Rubric, ...]:
    """The report's core rubrics, in our words."""
    return tuple(Rubric(name.rpartition("/")[2], prompts.load(name).text) for name in CORE)


def prescriptive() -> tuple[Rubric, ...]:
    """The report's prescriptive rubrics, in our words; all of them mandatory."""
    return tuple(Rubric(name.rpartition("/")[2], prompts.load(name).text, mandatory=True) for name in PRESCRIPTIVE)


def written(texts: Iterable[str], mandatory: Iterable[str] = ()) -> tuple[Rubric, ...]:
    """Rubrics that people wrote for one prompt.

    >>> [rubric.name for rubric in written(["Names a price."], ["Is in German."])]
    ['given_1', 'must_1']
    """
    given = [Rubric(f"given_{number}", text) for number, text in enumerate(texts, 1)]
    must = [Rubric(f"must_{number}", text, mandatory=True) for number, text in enumerate(mandatory, 1)]
    return (*given, *must)


# Openings only: a compliment further on may be part of the matter ("the examiner called it an excellent question").
_PRAISE = re.compile(
    r"(?:(?:oh|wow|ah|well|yes|sure|absolutely|certainly|of course|hi|hello|hey)\b[^\n.!?]{0,20}[,.!]\s+)?"
    r"(?:what an?\s+(?:\w+\s+){0,3}?(?:question|idea|topic|request|prompt|point|observation|challenge)\b"
    r"|(?:that(?:'s| is)|this is|it(?:'s| is)|you(?:'ve| have)? (?:asked|raised|made|brought up|hit on))\s+"
    r"(?:(?:such|really|quite|truly|a|an|very|one of the)\s+)*"
    r"(?:great|good|excellent|fantastic|wonderful|brilliant|superb|thoughtful|insightful|interesting|fascinating|beautiful|"
    r"important|perceptive|lovely|amazing|terrific|smart|clever|best)\b[^\n.!?]{0,40}?"
    r"(?:question|idea|topic|request|prompt|point|observation|thought|one|challenge|taste)\b"
    r"|(?:great|good|excellent|fantastic|wonderful|brilliant|thoughtful|insightful|interesting|amazing|lovely|nice)\s+"
    r"(?:question|idea|topic|request|point|observation|choice|one|thinking|catch)\b"
    r"|i (?:really |just )?(?:love|like|admire|appreciate|adore)\s+(?:this|that|your|how|the way|where)\b"
    r"|thank(?:s| you)\s+(?:so much |very much )?for\s+(?:(?:such|this|that|your|a|an|the|asking)\s+)*"
    r"(?:great|good|excellent|fantastic|wonderful|brilliant|thoughtful|insightful|interesting|lovely|amazing|fascinating)\b"
    r"|(?:sehr gute|gute|tolle|ausgezeichnete|spannende|großartige) frage\b|(?:was für|welch) eine (?:\w+ )?frage\b"
    r"|(?:très bonne|excellente|bonne|superbe) question\b|quelle (?:\w+ )?question\b"
    r"|(?:excelente|buena|gran|muy buena|magnífica) pregunta\b|qué (?:\w+ )?pregunta\b)",
    re.IGNORECASE,
)
_ITSELF = (
    r"(?:this|my|the)\s+(?:above\s+|following\s+|given\s+)?(?:answer|response|reply|explanation|solution|essay|text|poem|"
    r"story|summary|list|draft|version|piece|work|approach|analysis)"
)
_GOOD = (
    r"(?:correct|complete|comprehensive|accurate|concise|thorough|excellent|optimal|ideal|perfect|clear|balanced|"
    r"high[- ]quality|well[- ](?:structured|researched|written|rounded|crafted)|detailed|helpful|nuanced|satisf\w+|flawless|"
    r"exactly|fully|entirely|unbiased|objective|superior|the best)"
)
_JUSTIFIED = re.compile(
    rf"\b{_ITSELF}\s+(?:is|was|aims to be|has been|remains|should be|provides|offers|gives|presents|delivers|contains|covers)\s+"
    rf"(?:\w+ly\s+|an?\s+|both\s+|as\s+|the\s+)*{_GOOD}\b"
    rf"|\b{_ITSELF}\s+(?:\w+ly\s+)?(?:answers|addresses|meets|satisfies|fulfil+s|follows|covers|adheres to|respects|"
    r"complies with)\s+(?:\w+ly\s+)?(?:all|every|each|your|the|both|exactly)\b"
    r"|\bI(?:'ve| have)?\s+(?:carefully\s+|fully\s+|successfully\s+|now\s+)?(?:followed|met|fulfil+ed|addressed|covered|"
    r"satisfied|adhered to|complied with|ensured|made sure|taken care)\b[^\n.!?]{0,40}\b"
    r"(?:all|every|each|your|the)\b[^\n.!?]{0,30}\b(?:instruction|requirement|constraint|criteri|rubric|request|point|guideline)\w*"
    r"|\bas (?:you )?(?:requested|asked|instructed),? (?:this|the|my) (?:answer|response|reply)\b"
    r"|\bthe (?:above|preceding) (?:answer|response|reply) (?:is|was|answers|meets)\b",
    re.IGNORECASE,
)


def opening_praise(answer: str) -> str:
    """The compliment with which an answer begins, empty where it begins otherwise; English, German, French and Spanish."""
    found = _PRAISE.match(answer.lstrip(" \t\r\n#*_>\"'“¡¿-"))
    return found[0].strip() if found else ""


def self_justification(answer: str) -> str:
    """Where an answer says of itself that it is good, empty where it does not; English."""
    found = _JUSTIFIED.search(answer)
    return found[0].strip() if found else ""


BY_CODE: dict[str, Callable[[str], str]] = {
    "no_opening_praise": opening_praise,
    "no_self_justification": self_justification,
}
"""Rubrics that code can see broken. What it does not see the critic may: they stand in its prompt, too."""
