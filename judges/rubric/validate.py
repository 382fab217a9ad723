"""Faults of a rubric that can be seen without running anything: unknown tools, dangling ids, pointers into nothing.

Each fault is one line that a model can act on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
from tokenmill.judges.rubric.conditions import Condition, same
from tokenmill.judges.rubric.criteria import (
    AFTER_USER,
    SAME_TURN,
    SEQUENCE,
    AnswerSpec,
    CallSpec,
    ForbiddenSpec,
    OrderSpec,
    Spec,
    StateSpec,
    parse,
)
from tokenmill.judges.rubric.evidence import writes
from tokenmill.schemas.agentic import (
    DECLINE,
    DEPENDENT_CALLS,
    MISSING_INFORMATION,
    PARALLEL_CALLS,
    SEVERAL_CALLS,
    Criterion,
)
from tokenmill.schemas.tools import ToolSpec

MAX_CRITERIA = 30


def check_rubric(
    rubric: Sequence[Criterion],
    tools: Sequence[ToolSpec],
    entities: str = "",
    state: dict[str, Any] | None = None,
    level: str = "",
) -> list[str]:
    """What is wrong with a rubric, one line each; empty when nothing is.

    Args:
        tools: the agent's tools.
        entities: the entity model of the world, as JSON `{kind: {"description": ..., "schema": ...}}`; empty: not known.
        state: state at the start, whose identifiers are known to exist.
        level: level of the task, which asks for certain criteria; empty: none is asked for.
    """
    faults: list[str] = []
    specs: dict[str, Spec] = {}
    for criterion in rubric:
        if criterion.id in specs:
            faults.append(f"criterion {criterion.id!r}: two criteria have this id")
        try:
            specs[criterion.id] = parse(criterion)
        except ValueError as error:
            faults.append(str(error))
        if not criterion.weight > 0:
            faults.append(f"criterion {criterion.id!r}: its weight must be above 0")
    if faults:
        return faults
    faults += _overall(rubric)
    by_name = {tool.name: tool for tool in tools}
    kinds = _kinds(entities, state)
    for name, spec in specs.items():
        faults += [f"criterion {name!r}: {fault}" for fault in _of_spec(spec, name, specs, by_name, kinds)]
    faults += _contradictions(rubric, specs, by_name)
    faults += _checkpoints(rubric, specs)
    return faults + list(_of_level(level, rubric, specs))


def _overall(rubric: Sequence[Criterion]) -> Iterator[str]:
    if not rubric:
        yield "the rubric has no criteria"
    elif len(rubric) > MAX_CRITERIA:
        yield f"the rubric has {len(rubric)} criteria, at most {MAX_CRITERIA} are allowed"
    elif not any(criterion.mandatory for criterion in rubric):
        yield "no criterion is mandatory"


def _of_spec(
    spec: Spec, name: str, specs: dict[str, Spec], tools: dict[str, ToolSpec], kinds: dict[str, Any] | None
) -> Iterator[str]:
    calls = {key for key, other in specs.items() if isinstance(other, CallSpec)}
    if isinstance(spec, CallSpec | ForbiddenSpec):
        if spec.tool and spec.tool not in tools:
            yield f"the agent has no tool {spec.tool!r}"
        elif spec.tool:
            for condition in spec.arguments:
                yield from _argument(condition, tools[spec.tool])
        for condition in spec.arguments:
            if condition.op == "from_call":
                yield from _link(condition.value, calls)
                if name in _reachable(condition.value, specs):
                    yield "its arguments come from its own result"
    elif isinstance(spec, OrderSpec):
        for call in spec.calls:
            yield from _link(call, calls)
    elif isinstance(spec, AnswerSpec):
        for result in spec.results:
            yield from _link(result.call, calls)
            source = specs.get(result.call)
            tool = tools.get(source.tool) if isinstance(source, CallSpec) else None
            schema = _schema(tool.output_schema) if tool is not None else None
            if tool is not None and schema is not None and not _leads(schema, result.path.split("/")[1:], schema):
                yield f"results of {tool.name} have nothing at {result.path}"
    elif kinds is not None:
        yield from _of_state(spec, kinds)


def _of_state(spec: StateSpec, kinds: dict[str, Any]) -> Iterator[str]:
    for condition in spec.conditions:
        steps = condition.path.split("/")[1:]
        if not steps:
            yield "a condition on the whole state decides nothing; give a path such as /Kind/identifier/field"
        elif steps[0] not in kinds:
            yield f"the state has no kind {steps[0]!r}; kinds are {', '.join(kinds)}"
        elif not _leads(kinds[steps[0]], steps[2:], kinds[steps[0]]):
            yield f"records of {steps[0]} have nothing at /{'/'.join(steps[2:])}"
    for record in spec.records:
        if record.kind not in kinds:
            yield f"the state has no kind {record.kind!r}; kinds are {', '.join(kinds)}"
            continue
        for condition in record.where:
            if not _leads(kinds[record.kind], condition.path.split("/")[1:], kinds[record.kind]):
                yield f"records of {record.kind} have nothing at {condition.path}"
    for kind in spec.unchanged:
        if kind != "*" and kind not in kinds:
            yield f"the state has no kind {kind!r}; kinds are {', '.join(kinds)}"


def _link(wanted: str, calls: set[str]) -> Iterator[str]:
    if wanted not in calls:
        yield f"there is no call criterion {wanted!r}"


def _reachable(start: str, specs: dict[str, Spec]) -> set[str]:
    """Ids of the call criteria whose results a criterion's arguments rest on, itself included."""
    seen, stack = set(), [start]
    while stack:
        name = stack.pop()
        spec = specs.get(name)
        if name not in seen and isinstance(spec, CallSpec):
            seen.add(name)
            stack += [c.value for c in spec.arguments if c.op == "from_call"]
    return seen


def _argument(condition: Condition, tool: ToolSpec) -> Iterator[str]:
    schema = _schema(tool.input_schema)
    if schema is None:
        return
    steps = condition.path.split("/")[1:]
    if not steps:
        yield f"a condition on all arguments of {tool.name}; give the path of one, such as /name"
    elif not _leads(schema, steps, schema):
        yield f"{tool.name} has no argument {condition.path}"
    elif condition.op in ("equals", "exactly") and len(steps) == 1:
        part = (schema.get("properties") or {}).get(steps[0])
        options = part.get("enum") if isinstance(part, dict) else None
        if isinstance(options, list) and not any(same(condition.value, option) for option in options):
            yield f"{tool.name} does not take {condition.value!r} for {condition.path}: {options}"[:300]


def _leads(schema: Any, steps: list[str], root: Any, depth: int = 0) -> bool:
    """Whether a value that meets a schema may have something at the path; True in doubt."""
    if not steps or not isinstance(schema, dict) or depth > 32:
        return True
    if isinstance(reference := schema.get("$ref"), str):
        return _leads(_resolve(reference, root), steps, root, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := schema.get(keyword), list):
            return any(_leads(option, steps, root, depth + 1) for option in options)
    key = steps[0].replace("~1", "/").replace("~0", "~")
    if "items" in schema and "properties" not in schema:
        return (key == "*" or key.isdecimal()) and _leads(schema["items"], steps[1:], root, depth + 1)
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema.get("type") not in ("string", "number", "integer", "boolean", "null")
    if key in properties:
        return _leads(properties[key], steps[1:], root, depth + 1)
    return key == "*" or bool(schema.get("additionalProperties") or schema.get("patternProperties"))


def _resolve(reference: str, root: Any) -> Any:
    value = root
    for step in reference.lstrip("#").split("/")[1:]:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _schema(text: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _kinds(entities: str, state: dict[str, Any] | None) -> dict[str, Any] | None:
    """Schema of the records of each kind; None when nothing is known of the state."""
    model = _schema(entities) if entities else None
    if model is None:
        return None if state is None else dict.fromkeys(state, True)
    return {kind: part.get("schema", True) if isinstance(part, dict) else True for kind, part in model.items()}


def _contradictions(rubric: Sequence[Criterion], specs: dict[str, Spec], tools: dict[str, ToolSpec]) -> Iterator[str]:
    wanted = {c.id: call for c in rubric if c.mandatory and isinstance(call := specs[c.id], CallSpec)}
    for criterion in rubric:
        spec = specs[criterion.id]
        if not isinstance(spec, ForbiddenSpec) or spec.arguments:
            continue
        for name, call in wanted.items():
            if call.at_least and (
                call.tool == spec.tool or (not spec.tool and writes(call.tool, tools.get(call.tool)))
            ):
                yield f"criterion {criterion.id!r} forbids the call that {name!r} asks for"


def _checkpoints(rubric: Sequence[Criterion], specs: dict[str, Spec]) -> Iterator[str]:
    numbers = {criterion.id: criterion.checkpoint for criterion in rubric}
    present = sorted(set(numbers.values()))
    if present != list(range(len(present))):
        yield f"checkpoints are numbered 0, 1, 2 without gaps, not {', '.join(map(str, present))}"
    for name, spec in specs.items():
        if isinstance(spec, OrderSpec) and spec.form == SEQUENCE:
            reached = [numbers[call] for call in spec.calls if call in numbers]
            if reached != sorted(reached):
                yield f"criterion {name!r}: its calls stand in checkpoints of another order"


def _of_level(level: str, rubric: Sequence[Criterion], specs: dict[str, Spec]) -> Iterator[str]:
    if not level:
        return
    mandatory = [specs[criterion.id] for criterion in rubric if criterion.mandatory]
    calls = [spec for spec in mandatory if isinstance(spec, CallSpec) and spec.at_least]
    orders = [spec for spec in mandatory if isinstance(spec, OrderSpec)]
    if level == DECLINE:
        yield from _of_decline(mandatory, calls)
        return
    needed = 2 if level in (SEVERAL_CALLS, PARALLEL_CALLS, DEPENDENT_CALLS) else 1
    if sum(call.at_least for call in calls) < needed:
        yield f"a task of level {level} needs {needed} mandatory `call` criteria or more"
    promised: dict[str, tuple[str, Callable[[], bool]]] = {
        PARALLEL_CALLS: (
            "an `order` criterion of the form same_turn",
            lambda: any(order.form == SAME_TURN for order in orders),
        ),
        DEPENDENT_CALLS: (
            "an `order` criterion of the form sequence or an argument that is from_call",
            lambda: (
                any(o.form == SEQUENCE for o in orders) or any(a.op == "from_call" for c in calls for a in c.arguments)
            ),
        ),
        MISSING_INFORMATION: (
            "an `order` criterion of the form after_user",
            lambda: any(order.form == AFTER_USER for order in orders),
        ),
    }
    if level in promised and not promised[level][1]():
        yield f"a task of level {level} needs {promised[level][0]}, mandatory"


def _of_decline(mandatory: list[Spec], calls: list[CallSpec]) -> Iterator[str]:
    if not any(isinstance(spec, AnswerSpec) and spec.declines for spec in mandatory):
        yield "a task of level decline needs a mandatory `answer` criterion with declines true"
    kept = any(isinstance(s, ForbiddenSpec) or (isinstance(s, StateSpec) and s.unchanged) for s in mandatory)
    if not kept:
        yield "a task of level decline needs a mandatory `forbidden` criterion for what must not be done"
