"""The flags of jobs that run trajectories, and what follows from them."""

from __future__ import annotations

import argparse

from tokenmill.inference.servers.launch import DEFAULT_CTX
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.trajectories.agent_turn import JSON, NATIVE, Protocol
from tokenmill.pipelines.agentic.trajectories.dialogue import Limits
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError

AUTO = "auto"
MARGIN = 1536
"""Tokens of a small context that are kept free for an answer."""


def add_trajectory_flags(parser: argparse.ArgumentParser) -> None:
    """How many tries, how long they may be, how the agent is spoken to."""
    shape = parser.add_argument_group("how trajectories are run")
    shape.add_argument(
        "--samples",
        type=options.positive,
        default=1,
        metavar="S",
        help="tries at each task; more than one is rejection sampling and gives pass@k and pass^k (default 1)",
    )
    shape.add_argument(
        "--agent-protocol",
        choices=(AUTO, NATIVE, JSON),
        default=AUTO,
        help="native: OpenAI tool calling; json: a JSON answer, for models without it; "
        "auto (default): json for the embedded model, native for others",
    )
    shape.add_argument(
        "--max-turns", type=options.positive, default=30, metavar="N", help="messages of the agent (default 30)"
    )
    shape.add_argument("--max-calls", type=options.positive, default=40, metavar="N", help="tool calls (default 40)")
    shape.add_argument(
        "--max-context",
        type=options.positive,
        metavar="N",
        help="length of a conversation in tokens as the agent's endpoint bills it "
        "(default 32000, less where the embedded model's context is smaller)",
    )


def protocol_of(args: argparse.Namespace) -> Protocol:
    """The agent's protocol, decided."""
    if args.agent_protocol != AUTO:
        return args.agent_protocol
    return JSON if parse_spec(args.llm).kind == "embedded" else NATIVE


def limits_of(args: argparse.Namespace) -> Limits:
    """The limits of a trajectory; a context that the flag does not give follows from the model.

    Raises:
        UsageError: it would not fit into the context of the server that we start.
    """
    spec, most = parse_spec(args.llm), 32_000
    if spec.kind in ("embedded", "llamacpp"):
        most = min(most, int(dict(spec.options).get("ctx", DEFAULT_CTX)) - MARGIN)
        if most < MARGIN:
            raise UsageError(f"--llm {args.llm}: its context is too small for a conversation; add ?ctx={DEFAULT_CTX}")
    return Limits(turns=args.max_turns, calls=args.max_calls, tokens=args.max_context or most)


def answer_limit(args: argparse.Namespace, usual: int) -> int:
    """Tokens that one answer of the agent may have."""
    return min(usual, 1024) if parse_spec(args.llm).kind in ("embedded", "llamacpp") else usual
