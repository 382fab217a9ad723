"""The options by which the `tools` commands curate what they made, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from tokenmill.inference.roles import Role
from tokenmill.inference.spec import parse_spec
from tokenmill.judges.embedding.similarity import Embedder
from tokenmill.judges.model.tool_clarity import ToolClarity
from tokenmill.pipelines.runs.embedding import embedder
from tokenmill.pipelines.runs.options import RunOptions, model, roles
from tokenmill.schemas.flags import checked, flag, odd
from tokenmill.tools_repo.specs.likeness import Likeness


@dataclass(frozen=True)
class Curation:
    """How a run curates its tools."""

    likeness: Likeness | None
    judge: ToolClarity | None
    roles: dict[str, Role]
    """`judge`, where there is one."""

    @property
    def config(self) -> dict[str, Any]:
        """All that shapes the rows."""
        likeness = self.likeness
        return {
            "likeness": likeness and {n: getattr(likeness, n) for n in ("words", "meaning", "meaning_same_name")},
            "embedding_model": likeness.embedder.model
            if likeness and isinstance(likeness.embedder, Embedder)
            else None,
            "judge_votes": self.judge.votes if self.judge else 0,
        }

    @property
    def prompts(self) -> tuple[str, ...]:
        return (self.judge.prompt, "structured/repair") if self.judge else ()


_quality = partial(flag, group="what is kept")


@dataclass(frozen=True, kw_only=True)
class CurationOptions(RunOptions):
    """Of jobs that curate the tools that they made."""

    judge_llm: str | None = model(
        None,
        help="a model that refuses vague, impossible or contradictory tools: MODEL@http://host:port/v1, openai:MODEL, ... "
        "(default: no such judge)",
    )
    no_dedup: bool = _quality(False, help="keep near-duplicates")
    embedding_model: str = _quality(
        "minilm",
        metavar="NAME",
        help="finds near-duplicates in other words: a sentence-transformers model (default: the packaged MiniLM), or "
        "`none` to compare words only",
    )
    votes: int = _quality(1, metavar="N", parse=odd, help="judge's votes per tool, odd")

    @property
    def judged(self) -> bool:
        return bool(self.judge_llm)


@dataclass(frozen=True, kw_only=True)
class JudgeOnlyOptions(CurationOptions):
    """Of jobs in which no model writes: whatever model is named judges."""

    llm: str = model(
        "",
        parse=checked(lambda spec: spec and parse_spec(spec)),
        help="model that judges, where --judge-llm names none",
    )

    @property
    def judged(self) -> bool:
        return bool(self.judge_llm or self.llm)


def curation(options: CurationOptions) -> Curation:
    """What the options say.

    Raises:
        UsageError: there is no such embedding model.
    """
    likeness = None
    if not options.no_dedup:
        likeness = Likeness(None if options.embedding_model == "none" else embedder(options))
    if not options.judged:
        return Curation(likeness, None, {})
    return Curation(likeness, ToolClarity(votes=options.votes), roles(options, "judge"))
