"""Is what a simulated user writes a user's? It does not play the agent, keeps what it is not asked for, makes nothing up.

Heuristics that rather let a turn pass than refuse an honest one; a refused turn is asked for again with the finding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenmill.prompts.fence import CONTROL_TOKEN, MARKER

LONGEST = 2_000
"""Characters of a user's message."""
_SERVED = "(?:updat|cancel|cancell|book|process|refund|schedul|issu|creat|submitt|approv|confirm|locat|retriev)ed"
_AGENT = re.compile(
    r"\bas (?:an? |your |the )?(?:AI\b|artificial intelligence|(?:large )?language model|(?:virtual|digital) assistant\b)"
    r"|\bI(?:'m|’m| am) (?:an?|your|the) (?:AI\b|(?:virtual|digital|automated) assistant\b|chatbot|language model)"
    r"|\b(?:as|I am|I'm|I’m) your assistant\b"
    r"|\bhow (?:can|may) I (?:help|assist)\b"
    r"|\banything else (?:that )?(?:I|we) can (?:help|assist|do for)\b"
    r"|\b(?:I|we)(?:'d|’d| would) be (?:happy|glad) to (?:help|assist)\b"
    r"|\bthank you for (?:contacting|reaching out|choosing|your patience)\b"
    r"|\b(?:let me|I(?:'ll|’ll| will)|we(?:'ll|’ll| will)) (?:look up|pull up|check|process|update|cancel|book|issue) your\b"
    rf"|\b(?:I|we)(?:'ve|’ve| have) (?:now |just |successfully )*{_SERVED} your\b"
    rf"|\byour (?:\w+ ){{1,3}}(?:has|have) (?:now |successfully )*been (?:successfully )?{_SERVED}\b"
    r"|\bplease (?:provide|share|send me|give me|confirm) your\b",
    re.IGNORECASE,
)
_SPEAKER = re.compile(r"^\W{0,4}(?:assistant|agent|system|tool|function|user)\W{0,4}:", re.IGNORECASE | re.MULTILINE)
_CALL = re.compile(r"\bfunctions\.\w+|</?tool_calls?\b|\"(?:tool_calls?|arguments|parameters|function)\"\s*:")
_QUOTED = re.compile(r'"[^"\n]{1,300}"|“[^”\n]{1,300}”|«[^»\n]{1,300}»')
_TOKEN = re.compile(r"[^\s,;:!?()\[\]{}\"“”«»<>]+")
_DIGITS = re.compile(r"\d+")
_AMOUNT = re.compile(r"\d{1,3}(?:,\d{3})+")
_IDENTIFIER = re.compile(r"(?=.*[_]|.*[a-z][A-Z]|.*-)[A-Za-z][\w-]{3,}")
_RUN = 80
"""Characters that, copied in one piece from what the agent wrote, are the agent's words."""


@dataclass(frozen=True)
class Knowledge:
    """What a user can speak of."""

    told: tuple[str, ...]
    """What it may say at once."""
    hidden: tuple[tuple[str, str], ...]
    """(what it is about, what it is) of the facts that it tells when asked."""
    goal: str = ""


@dataclass(frozen=True)
class UserCheck:
    """Checks one turn of a conversation. Raises ValueError with what is wrong, as the model is told it."""

    knowledge: Knowledge
    tools: tuple[str, ...] = ()
    """Names of the agent's tools."""
    visible: tuple[tuple[str, str], ...] = ()
    """(role, text) of what was said so far."""

    @property
    def first(self) -> bool:
        return not self.visible

    def __call__(self, text: str, *, ends: bool = False) -> None:
        """
        Args:
            ends: whether the user ends the conversation with this.

        Raises:
            ValueError: the turn is not a user's.
        """
        if self.first and ends:
            raise ValueError('the conversation has not begun: bring up the matter, with "status" "go_on"')
        if not text and not ends:
            raise ValueError("the message is empty")
        if len(text) > LONGEST:
            raise ValueError(f"the message is longer than {LONGEST} characters; nobody writes that much")
        for find in (self._plays_agent, self._names_tools, self._echoes, self._tells_unasked, self._invents):
            if fault := find(text):
                raise ValueError(fault)

    def _plays_agent(self, text: str) -> str:
        for pattern in (_CALL, _SPEAKER, CONTROL_TOKEN, MARKER):
            if found := pattern.search(text):
                return f"a person does not write {found[0][:60]!r}: write plain words, and only the user's"
        if found := _AGENT.search(_QUOTED.sub(" ", text)):
            return f"{found[0][:60]!r} is what the assistant would say: you are the user, who wants something from it"
        return ""

    def _names_tools(self, text: str) -> str:
        heard = " ".join(said for role, said in self.visible if role == "assistant")
        known = " ".join((*self.knowledge.told, *(value for _, value in self.knowledge.hidden), heard))
        for name in self.tools:
            if name not in known and names_tool(name, text):
                return f"the user does not know of {name!r}: say what you want, not how it is done"
        return ""

    def _echoes(self, text: str) -> str:
        said = next((said for role, said in reversed(self.visible) if role == "assistant"), "")
        mine, theirs = _flat(_QUOTED.sub(" ", text)), _flat(said)
        if theirs and (mine == theirs or any(mine[at : at + _RUN] in theirs for at in range(0, len(mine) - _RUN + 1))):
            return "this repeats the assistant's words: answer them as the user"
        return ""

    def _tells_unasked(self, text: str) -> str:
        if not self.first:
            return ""
        told = " ".join(self.knowledge.told)
        for name, value in self.knowledge.hidden:
            if tells_value(text, value, unless=told):
                return f"the first message tells {name!r} before the assistant has asked for it: leave it out"
        return ""

    def _invents(self, text: str) -> str:
        """Figures and identifiers that stand nowhere in what the user knows or has read."""
        hidden = [f"{name} {value}" for name, value in self.knowledge.hidden]
        known = " ".join((*self.knowledge.told, *hidden, self.knowledge.goal, *(said for _, said in self.visible)))
        runs, joined = set(_DIGITS.findall(_plain(known))), re.sub(r"[^a-z0-9]", "", known.lower())
        for token in _TOKEN.findall(_plain(text)):
            if re.sub(r"[^a-z0-9]", "", token.lower()) in joined:
                continue
            unknown = [run for run in _DIGITS.findall(token) if run not in runs and len(run) > 2]
            if unknown or ("@" in token and "." in token.rpartition("@")[2]):
                return (
                    f"{token.strip('.')[:60]!r} is made up: use only what is written above, or say that you do not know"
                )
        return ""


def names_tool(name: str, text: str) -> bool:
    """Whether a text names a tool by a name that is no plain word: `get_order`, not `search`."""
    return bool(_IDENTIFIER.fullmatch(name)) and bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def tells_value(text: str, value: str, *, unless: str = "") -> bool:
    """Whether a text gives a value away: all of it where it is short, or a word of it with digits, that does not stand in
    `unless` too."""
    mine, there = _flat(text), _flat(unless)
    return any(_stands(mark, mine) and not _stands(mark, there) for mark in _marks(value))


def _stands(mark: str, text: str) -> bool:
    return mark in text and re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", text) is not None


def _flat(text: str) -> str:
    return " ".join(text.lower().split())


def _plain(text: str) -> str:
    return _AMOUNT.sub(lambda m: m[0].replace(",", ""), text)


def _marks(value: str) -> list[str]:
    """What tells that a value was given away: all of it when it is short, and its words with digits in them."""
    flat = _flat(value)
    marks = [flat] if 4 <= len(flat) <= 60 else []
    tokens = (token.strip(".") for token in _TOKEN.findall(flat))
    return marks + [token for token in tokens if len(token) > 2 and any(c.isdigit() for c in token)]
