"""The flags by which the `tools` commands curate what they made, and what the flags mean."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from tokenmill.inference.roles import Role
from tokenmill.inference.spec import SpecError, parse_spec
from tokenmill.judges.embedding.similarity import Embedder
from tokenmill.judges.model.tool_clarity import ToolClarity
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.embedding import embedder
from tokenmill.pipelines.runs.errors import UsageError
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


def add_curation(parser: argparse.ArgumentParser, *, judge_llm: bool = True) -> None:
    """The flags `--no-dedup`, `--embedding-model`, `--judge-llm`, `--judge-sampling` and `--votes`.

    Args:
        judge_llm: False where the parser has `--judge-llm` and `--judge-sampling` already.
    """
    quality = parser.add_argument_group("what is kept")
    quality.add_argument("--no-dedup", action="store_true", help="keep near-duplicates")
    quality.add_argument(
        "--embedding-model",
        default="minilm",
        metavar="NAME",
        help="finds near-duplicates in other words: a sentence-transformers model (default: the packaged MiniLM), or "
        "`none` to compare words only",
    )
    quality.add_argument(
        "--votes", type=options.positive, default=1, metavar="N", help="judge's votes per tool, odd (default 1)"
    )
    if judge_llm:
        quality.add_argument(
            "--judge-llm",
            metavar="SPEC",
            help="a model that refuses vague, impossible or contradictory tools: MODEL@http://host:port/v1, "
            "openai:MODEL, ... (default: no such judge)",
        )
        quality.add_argument(
            "--judge-sampling",
            type=options.sampling,
            default={},
            metavar="JSON",
            help="parameters for the judge's calls that replace the built-in ones",
        )


def curation(args: argparse.Namespace) -> Curation:
    """What the flags say.

    Raises:
        UsageError: a flag's value makes no sense.
    """
    likeness = None if args.no_dedup else Likeness(None if args.embedding_model == "none" else embedder(args))
    if not args.judge_llm:
        return Curation(likeness, None, {})
    try:
        judge = ToolClarity(votes=args.votes)
    except ValueError as error:
        raise UsageError(f"--votes {args.votes}: {error}") from None
    try:
        parse_spec(args.judge_llm)
    except SpecError as error:
        raise UsageError(str(error)) from None
    return Curation(likeness, judge, {"judge": Role(args.judge_llm, args.judge_sampling)})
