"""Trajectories as rows, for tests of what reads them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import (
    CallRecord,
    ChatMessage,
    Criterion,
    CriterionVerdict,
    Persona,
    Quote,
    RefusedTrajectory,
    ToolCall,
    ToolCallFunction,
    Trajectory,
)
from tokenmill.schemas.columns import to_table

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def trajectory(task: int, sample: int = 0, level: str = "parallel_calls", **changed: Any) -> Trajectory:
    """Two calls of one turn, their results, a reply."""
    places = ("Oslo", "Rome")
    calls = [
        ToolCall(
            id=f"functions.get_weather:{n}",
            function=ToolCallFunction(name="get_weather", arguments=json.dumps({"city": city})),
        )
        for n, city in enumerate(places)
    ]
    messages = [
        ChatMessage(role="system", content="You tell the weather."),
        ChatMessage(role="user", content=f"Weather in Oslo and Rome, please ({task})."),
        ChatMessage(role="assistant", tool_calls=calls),
        *(
            ChatMessage(role="tool", content='{"sky": "rain"}', tool_call_id=call.id, name="get_weather")
            for call in calls
        ),
        ChatMessage(role="assistant", content="Rain in both places."),
    ]
    values: dict[str, Any] = {
        "id": f"agent/{task}/{sample}",
        "messages": messages,
        "tools": json.dumps([TOOL]),
        "task_id": f"agent/{task}",
        "agent_id": "agent",
        "sample": sample,
        "level": level,
        "situation": "Somebody packs.",
        "goal": "Know what to wear.",
        "rubric": [Criterion(id="asks", kind="call", description="asks for both", spec='{"tool":"get_weather"}')],
        "threshold": 0.8,
        "score": 1.0,
        "verdicts": [CriterionVerdict(criterion="asks", passed=True, score=1.0, decided_by="code")],
        "calls": [
            CallRecord(
                id=call.id,
                turn=2,
                tool="get_weather",
                arguments=call.function.arguments,
                result='{"sky": "rain"}',
                engine="simulator",
            )
            for call in calls
        ],
        "persona": Persona(name="terse", style="short", patience=2, knowledge="none"),
        "ended": "user_done",
        "state_before": "{}",
        "state_after": "{}",
        "engine": "simulator",
        "domains": ["weather"],
        "model": "m",
        "user_model": "m",
        "tool_model": "m",
        "judge_model": "m",
        "prompts": ["agentic/user@1"],
        "seed": 0,
        "model_calls": 6,
        "prompt_tokens": 900,
        "completion_tokens": 100,
    }
    return Trajectory(**{**values, **changed})


def refused(task: int, sample: int = 0, reason: str = "call_missing", **changed: Any) -> RefusedTrajectory:
    """The same, refused for a call that it did not make."""
    row = trajectory(task, sample, **changed)
    missed = CriterionVerdict(
        criterion="asks",
        passed=False,
        score=0.0,
        decided_by="judge",
        reason=reason,
        detail="it never asked <b>once</b>",
        quotes=[Quote(message=5, text="Rain in both places.")],
    )
    values = {name: getattr(row, name) for name in asdict(row)}
    return RefusedTrajectory(
        **{**values, "score": 0.0, "verdicts": [missed], "reason": reason, "detail": "it never asked"}
    )


def write_run(folder: Path, kept: list[Trajectory], rejected: list[RefusedTrajectory] = []) -> Path:  # noqa: B006
    """Shards as a run leaves them, without the manifest."""
    for kind, rows, row_type in (("data", kept, Trajectory), ("rejected", rejected, RefusedTrajectory)):
        if rows:
            (folder / kind).mkdir(parents=True, exist_ok=True)
            write_parquet(to_table(rows, row_type), str(folder / kind / "train-00000-of-00001.parquet"))
    return folder
