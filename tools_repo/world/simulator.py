"""Tools whose results come from a model: it gives a result and a patch of the state, code checks both.

    world = Simulator(tools, entities, state, ask, odds=Odds.parse("timeout=0.05"), seed=(0, task.id, sample))
    result = await world.call("cancel_order", '{"order_id": "ORD-10"}', 0)

Kimi K2 report, section 3.1.1 ("a sophisticated tool simulator ... maintains and updates state after each tool
execution"). An answer that contradicts the tool's semantics, the state or the entity model is asked for again; when
none is right the call raises, since a simulator's own failure must not become training data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import orjson
from jsonschema.exceptions import best_match
from tokenmill.inference.call import Ask, Message
from tokenmill.prompts.fence import fence
from tokenmill.schemas.agentic import SUCCESS
from tokenmill.schemas.answer_schema import record
from tokenmill.schemas.json_schema import validator_for
from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.world.ask_checked import REPAIR, CheckFailed, ask_checked
from tokenmill.tools_repo.world.call_checks import NOT_FOUND
from tokenmill.tools_repo.world.consistency import disagreements
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.outcomes import CERTAIN, Odds, error
from tokenmill.tools_repo.world.patch import PatchInvalid, apply, changed_records
from tokenmill.tools_repo.world.state_view import relevant
from tokenmill.tools_repo.world.stateful import Ran, StatefulWorld, as_text, reads_only

from tokenmill import prompts

ENGINE = "simulator"
SIMULATE = "world/simulate"
PROMPTS = (SIMULATE, REPAIR)
"""Every prompt that a simulator may use."""

MAX_RESULT = 16_000
"""Characters of a result."""
_PAST_CALLS = 8
_PAST_SHOWN = 1_200
"""Earlier calls that the model sees, and characters of the arguments and of the result of each."""
_ERROR_CODE = 64

_ANSWER: dict[str, Any] = {
    "check": {"type": "string"},
    "error_code": {"type": "string"},
    "error_message": {"type": "string"},
    "result": {},
    "patch": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "op": {"type": "string", "enum": ["add", "replace", "remove", "move", "copy", "test"]},
                "path": {"type": "string"},
                "from": {"type": "string"},
                "value": {},
            },
            "required": ["op", "path"],
            "additionalProperties": False,
        },
    },
}


class SimulationFailed(CheckFailed):
    """The model gave no answer that agrees with the tool, the state and the entity model."""


class Simulator(StatefulWorld):
    """A world whose tools a model simulates."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        entities: EntityModel | str,
        state: State | str,
        ask: Ask,
        *,
        odds: Odds = CERTAIN,
        seed: Sequence[object] = (0,),
        first: str = "",
        needed: Collection[str] = (),
        now: str = "",
        tries: int = 3,
        **params: Any,
    ) -> None:
        """
        Args:
            tries: answers for one call, faulty ones included.
            params: sampling parameters of the model's calls.

        Raises:
            ValueError: see `StatefulWorld`.
        """
        super().__init__(tools, entities, state, odds=odds, seed=seed, first=first, needed=needed, now=now)
        self.ask = ask
        self.tries = tries
        self.params = params

    async def _run(self, spec: ToolSpec, arguments: dict[str, Any], state: State, number: int, stale: bool) -> Ran:
        messages = self._messages(spec, arguments, state, stale)
        schema = answer_schema(spec.output_schema)

        doubted: list[str] = []

        def check(answer: Any) -> tuple[Any, State, str]:
            checked = self._checked(spec, arguments, state, answer)
            # What is only unlikely is asked about once: the model may insist.
            if not doubted and (doubt := self._doubt(spec, arguments, state, checked)):
                doubted.append(doubt)
                raise ValueError(doubt)
            return checked

        try:
            result, after, code = await ask_checked(
                self.ask, messages, schema, check, to="tools", tries=self.tries, **self.params
            )
        except CheckFailed as failed:
            raise SimulationFailed(f"{spec.name}: {failed}") from None
        return Ran(result, after, code, ENGINE)

    def _messages(self, spec: ToolSpec, arguments: dict[str, Any], state: State, stale: bool) -> list[Message]:
        shown, left = relevant(spec, self.checks.kinds_named(spec.name, arguments, state), state, self.entities)
        kinds = {
            name: {"description": kind.description, "schema": kind.schema}
            for name, kind in self.entities.kinds.items()
            if name in shown or name in spec.semantics.writes
        }
        missing = "".join(f"\n({count} more records of {kind} exist.)" for kind, count in left.items())
        past = self.past[:-1] if stale and self.past and self.past[-1].changed else self.past
        calls = [
            {
                "call": call.tool,
                "arguments": call.arguments[:_PAST_SHOWN],
                "answered": call.content[:_PAST_SHOWN],
            }
            for call in past[-_PAST_CALLS:]
        ]
        told = fence("\n".join(dump(call) for call in calls), "calls")
        return prompts.load(SIMULATE).render(
            tool=fence(describe(spec), "tool"),
            entities=fence(dump(kinds), "entities"),
            now=self.now,
            state=fence(dump(shown), "state") + missing,
            past=f"\nEarlier calls, oldest first:\n{told}\n" if calls else "",
            call=fence(dump({"name": spec.name, "arguments": arguments}), "call"),
        )

    def _checked(
        self, spec: ToolSpec, arguments: dict[str, Any], state: State, answer: dict[str, Any]
    ) -> tuple[Any, State, str]:
        """(result, state, error code) of an answer.

        Raises:
            ValueError: it cannot be right; the text says why, for the model to read.
        """
        patch, code = answer["patch"], answer["error_code"].strip()
        if code:
            if patch:
                raise ValueError("a call that fails changes nothing: with an error_code the patch must be empty")
            if not code.replace("_", "").isalnum() or len(code) > _ERROR_CODE or code == SUCCESS:
                raise ValueError("error_code must be one short snake_case word, empty when the call succeeds")
            if not answer["error_message"].strip():
                raise ValueError("error_message must say what is wrong")
            return orjson.loads(error(code, answer["error_message"].strip()[:1_000])), state, code
        result = answer["result"]
        try:
            if len(as_text(result)) > MAX_RESULT:
                raise ValueError(f"the result is longer than {MAX_RESULT} characters")
        except RecursionError:
            raise ValueError("the result nests too deeply") from None
        after = self._after(spec, state, patch)
        if spec.output_schema and (fault := best_match(_validator(spec.output_schema).iter_errors(result))):
            where = "/".join(map(str, fault.absolute_path)) or "result"
            raise ValueError(f"the result does not meet the tool's output schema at {where}: {fault.message[:300]}")
        # What was deleted may still be named.
        known = {kind: {**state.get(kind, {}), **records} for kind, records in after.items()}
        if wrong := disagreements(result, known, self.entities, arguments):
            raise ValueError(f"the result does not agree with the state: {'; '.join(wrong)}")
        return result, after, ""

    def _doubt(self, spec: ToolSpec, arguments: dict[str, Any], state: State, checked: tuple[Any, State, str]) -> str:
        """What speaks against an answer that breaks no rule; empty for nothing."""
        _, after, code = checked
        named = self.checks.kinds_named(spec.name, arguments, state)
        if code == NOT_FOUND and named and not _searches(arguments, named):
            found = ", ".join(f"{kind} {name}" for kind, names in named.items() for name in names)
            return f"{code}, but the state has {found}: if the call is about something else that is missing, say what"
        if not code and after is state and set(spec.semantics.writes) & self.entities.kinds.keys():
            writes = ", ".join(spec.semantics.writes)
            return (
                f"the call succeeds, and {spec.name} changes {writes}, but the patch is empty: give the change, an error_code, "
                "or the same answer again if everything is as the call asks for already"
            )
        return ""

    def _after(self, spec: ToolSpec, state: State, patch: list[dict[str, Any]]) -> State:
        if not patch:
            return state
        if reads_only(spec):
            raise ValueError(f"{spec.name} only reads: the patch must be empty")
        for operation in patch:
            steps = operation["path"].split("/")
            if operation["op"] == "add" and len(steps) == 3 and _unescaped(steps[2]) in state.get(steps[1], {}):
                raise ValueError(
                    f"{operation['path'][:200]} exists already: replace what changes, or choose a new name"
                )
        try:
            after = apply(state, patch, self.entities)
        except PatchInvalid as fault:
            raise ValueError(f"the patch cannot be applied: {fault}") from None
        changed = changed_records(state, after)
        allowed = set(spec.semantics.writes) & self.entities.kinds.keys()
        if allowed and (beyond := sorted({kind for kind, _ in changed} - allowed)):
            raise ValueError(f"{spec.name} may change only {', '.join(sorted(allowed))}, not {', '.join(beyond)}")
        return after if changed else state


def _searches(arguments: dict[str, Any], named: dict[str, list[str]]) -> bool:
    """Whether a call asks for more than the records that it names, any of which may be what is not found."""
    told = {name for names in named.values() for name in names}
    return any(not (isinstance(value, str) and value in told) for value in arguments.values())


def describe(spec: ToolSpec) -> str:
    """All that is known of a tool, as JSON."""
    semantics = {name: value for name, value in vars(spec.semantics).items() if value}
    known: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "input_schema": spec.parameters,
        **({"output_schema": spec.returns} if spec.output_schema else {}),
        **({"only_reads": True} if reads_only(spec) else {}),
        **semantics,
    }
    return dump(known)


@lru_cache(maxsize=1024)
def answer_schema(output_schema: str) -> dict[str, Any]:
    """JSON Schema of an answer; the result's own schema is part of it where it stands by itself."""
    result: dict[str, Any] = {}
    if output_schema and not any(word in output_schema for word in ('"$ref"', '"$dynamicRef"', '"$id"', '"$schema"')):
        result = {"anyOf": [orjson.loads(output_schema), {"type": "null"}]}
    return record(**{**_ANSWER, "result": result})


@lru_cache(maxsize=1024)
def _validator(schema: str) -> Any:
    parsed = orjson.loads(schema)
    return validator_for(parsed)(parsed)


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
