"""Can a task be set? Its world is valid, its solution works and is known to be right, its rubric tells it from idleness.

    faults = TaskCheck(draft, agent, siblings)()

Everything here is decided by code. Faults are phrased so that a model can mend them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import orjson
from tokenmill.judges.form.words import words
from tokenmill.judges.rubric.code_criteria import decide
from tokenmill.judges.rubric.feasible import enact, feasible
from tokenmill.judges.rubric.validate import check_rubric
from tokenmill.judges.rubric.values import tells
from tokenmill.prompts.fence import CONTROL_TOKEN, MARKER
from tokenmill.schemas.agentic import (
    DECLINE,
    DEPENDENT_CALLS,
    MISSING_INFORMATION,
    ONE_CALL,
    PARALLEL_CALLS,
    RECOVERY,
    SEVERAL_CALLS,
    Agent,
    ReferenceCall,
)
from tokenmill.tools_repo.agents.check import Fault
from tokenmill.tools_repo.tasks.form import Draft
from tokenmill.tools_repo.tasks.reference_calls import (
    canonical_calls,
    has_failed,
    identifier,
    plain,
    reads_only,
    result_fault,
    stands,
    texts_of,
)
from tokenmill.tools_repo.users.check import names_tool, tells_value
from tokenmill.tools_repo.world import ToolResult
from tokenmill.tools_repo.world.call_checks import Checks
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.patch import PatchInvalid, apply

LONGEST = {"title": 150, "situation": 1_500, "goal": 800, "opening": 800, "reply": 4_000}
"""Characters of a task's texts."""
ALIKE = 0.6
"""Share of the words of two goals in common from which two tasks are one."""
_COUNTS = {
    ONE_CALL: (1, 1), SEVERAL_CALLS: (2, 99), PARALLEL_CALLS: (2, 99), DEPENDENT_CALLS: (2, 99), RECOVERY: (2, 99),
    MISSING_INFORMATION: (1, 99),
}  # fmt: skip
"""Fewest and most calls of a solution."""


@dataclass(frozen=True)
class TaskCheck:
    """The checks of one task."""

    draft: Draft
    agent: Agent
    siblings: Sequence[Draft] = ()
    """Tasks that the agent has already."""
    threshold: float = 0.8

    def __call__(self) -> list[Fault]:
        """All that is wrong, what lies deepest first; what rests on something broken is not looked at."""
        if self.draft.faults:
            return [Fault(*fault) for fault in self.draft.faults]
        if faults := [*self._texts(), *self._repeats()]:
            return faults
        if isinstance(self.start, str):
            return [Fault("invalid_state", self.start)]
        if faults := [*self._calls(self.draft.solution, "solution"), *self._calls(self.draft.violation, "violation")]:
            return faults
        if faults := [*self._of_level(), *self._knowable()]:
            return faults
        found = check_rubric(self.draft.rubric, self.agent.tools, self.agent.entities, self.start, self.level)
        if found:
            return [Fault("invalid_rubric", line) for line in found]
        return [*self._feasible(), *self._violated()]

    @property
    def level(self) -> str:
        return self.draft.level

    @cached_property
    def model(self) -> EntityModel:
        return EntityModel.parse(self.agent.entities)

    @cached_property
    def start(self) -> State | str:
        """The state at the start, or what is wrong with it."""
        try:
            return apply(orjson.loads(self.agent.state), orjson.loads(self.draft.changes), self.model)
        except PatchInvalid as error:
            return f"changes: {error}"

    def _texts(self) -> Iterator[Fault]:
        draft = self.draft
        for name, most in LONGEST.items():
            text = getattr(draft, name)
            if not text or len(text) > most:
                yield Fault("text_length", f'"{name}" has {len(text)} characters; give 1 to {most}')
            for pattern in (CONTROL_TOKEN, MARKER):
                if found := pattern.search(text):
                    yield Fault("control_tokens", f'"{name}": write plain text, without {found[0][:40]!r}')
        if len({fact.name.lower() for fact in draft.facts}) < len(draft.facts):
            yield Fault("invalid_facts", "two facts have the same name")
        seen = {"situation": draft.situation, "goal": draft.goal, "opening": draft.opening}
        seen |= {f"fact {fact.name}": f"{fact.name}: {fact.value}" for fact in draft.facts}
        for name, text in seen.items():
            if tool := next((tool.name for tool in self.agent.tools if names_tool(tool.name, text)), ""):
                yield Fault("leaks", f'"{name}" names the tool {tool}, which the user cannot know')
        told = " ".join([draft.situation, draft.opening, *(f.value for f in draft.facts if f.volunteered)])
        for fact in draft.facts:
            if not fact.volunteered and tells_value(told, fact.value):
                yield Fault(
                    "leaks",
                    f'the fact "{fact.name}" is to be told only when asked for, but it stands in "situation", "opening" '
                    "or a fact that is volunteered: leave it out there, or volunteer it",
                )

    def _repeats(self) -> Iterator[Fault]:
        mine = set(words(self.draft.goal))
        for other in self.siblings:
            theirs = set(words(other.goal))
            alike = len(mine & theirs) / max(1, len(mine | theirs))
            if self.draft.title.lower() == other.title.lower() or alike >= ALIKE:
                yield Fault(
                    "repeats_sibling", f'this is too much like the task "{other.title}": ask for something else'
                )
                return
            same_calls = self.level == other.level and canonical_calls(self.draft.solution) == canonical_calls(
                other.solution
            )
            if self.draft.solution and same_calls:
                yield Fault(
                    "repeats_sibling", f'the calls are those of the task "{other.title}": ask for something else'
                )
                return

    def _calls(self, calls: Sequence[ReferenceCall], where: str) -> Iterator[Fault]:
        """What is wrong with the first call that cannot be made like this."""
        assert not isinstance(self.start, str)
        tools = {tool.name: tool for tool in self.agent.tools}
        checks, state = Checks(self.agent.tools, self.model), self.start
        for number, call in enumerate(calls, start=1):
            here = f"{where} {number} ({call.tool})"
            spec, failed = tools[call.tool], has_failed(call)
            patch = orjson.loads(call.patch)
            allowed = checks(call.tool, call.arguments, state)
            if isinstance(allowed, ToolResult) and not failed:
                said = orjson.loads(allowed.content)["error"]["message"]
                yield Fault("invalid_solution", f"{here}: {said}")
                return
            if patch and failed:
                yield Fault("invalid_solution", f"{here}: a call whose result is an error changes nothing")
                return
            if patch and reads_only(spec):
                yield Fault("invalid_solution", f"{here}: this tool only reads, so it changes nothing")
                return
            if not failed and (fault := result_fault(call, spec)):
                yield Fault("invalid_solution", f"{here}: its result does not meet the output schema: {fault}")
                return
            allowed_kinds = set(spec.semantics.writes) & set(self.model.kinds)
            touched = {
                str(operation.get("path", "")).split("/")[1:2][0] for operation in patch if "/" in operation["path"]
            }
            if allowed_kinds and touched - allowed_kinds:
                kinds = ", ".join(sorted(allowed_kinds))
                yield Fault("invalid_solution", f"{here}: this tool changes only {kinds}")
                return
            try:
                state = apply(state, patch, self.model)
            except PatchInvalid as error:
                yield Fault("invalid_solution", f"{here}: changes: {error}")
                return

    def _of_level(self) -> Iterator[Fault]:
        draft, level = self.draft, self.level
        least, most = _COUNTS.get(level, (0, 99))
        if not least <= len(draft.solution) <= most:
            needed = f"{least}" if least == most else f"{least} or more"
            yield Fault(
                "wrong_level", f'a task of this level has {needed} calls in "solution", not {len(draft.solution)}'
            )
            return
        failed = [has_failed(call) for call in draft.solution]
        if level == RECOVERY:
            if True not in failed or failed[-1] or not failed[0]:
                yield Fault("wrong_level", 'the first call of "solution" fails with an error, and the last succeeds')
        elif any(failed):
            yield Fault("wrong_level", 'no call of "solution" fails in a task of this level')
        if level == DEPENDENT_CALLS and not self._depends():
            yield Fault(
                "wrong_level",
                "no argument takes what only an earlier result tells: let a later call need a value that neither the "
                "user nor the system prompt gives",
            )
        if level in (SEVERAL_CALLS, PARALLEL_CALLS) and self._depends():
            yield Fault("wrong_level", "a call needs the result of an earlier one: let each stand on its own")
        if level == MISSING_INFORMATION:
            asked = [fact.value for fact in draft.facts if not fact.volunteered]
            given = [v for call in draft.solution for v in texts_of(orjson.loads(call.arguments))]
            if not any(tells(answer, value) for answer in asked for value in given):
                yield Fault("wrong_level", "no argument holds the value of a fact that is not volunteered")
        if level == DECLINE:
            tools = {tool.name: tool for tool in self.agent.tools}
            if any(orjson.loads(call.patch) or tools[call.tool].semantics.writes for call in draft.solution):
                yield Fault("wrong_level", 'in a task to be declined "solution" only reads')
            if all(has_failed(call) for call in draft.violation):
                yield Fault("wrong_level", 'a call of "violation" succeeds: it is what must not be done')

    def _told(self) -> str:
        """What the agent can learn without a call."""
        draft = self.draft
        facts = (f"{fact.name} {fact.value}" for fact in draft.facts)
        tools = (f"{tool.description} {tool.input_schema}" for tool in self.agent.tools)
        return " ".join((self.agent.system, draft.situation, draft.goal, draft.opening, *facts, *tools))

    def _depends(self) -> bool:
        """Whether an argument holds a value that only an earlier result tells."""
        told, results = self._told(), ""
        for call in self.draft.solution:
            values = texts_of(orjson.loads(call.arguments))
            if any(stands(value, results) and not stands(value, told) for value in values):
                return True
            results += f" {call.result}"
        return False

    def _knowable(self) -> Iterator[Fault]:
        """Identifiers in the solution's arguments that nobody has told the agent."""
        known = plain(self._told())
        for number, call in enumerate(self.draft.solution, start=1):
            for value in texts_of(orjson.loads(call.arguments)):
                mark = plain(value)
                if identifier(value) and mark not in known:
                    yield Fault(
                        "unknowable",
                        f"solution {number} ({call.tool}): nobody has told the assistant {value[:60]!r}; make it a fact, or "
                        "let an earlier call's result tell it",
                    )
                    return
            known += plain(call.result)

    def _feasible(self) -> Iterator[Fault]:
        assert not isinstance(self.start, str)
        verdict = feasible(
            self.draft.rubric,
            tools=self.agent.tools,
            state=self.start,
            solution=self.draft.solution,
            reply=self.draft.reply,
            level=self.level,
            threshold=self.threshold,
        )
        if not verdict.passed:
            yield Fault(verdict.reason, "; ".join(finding.detail for finding in verdict.findings[:6]))

    def _violated(self) -> Iterator[Fault]:
        """A trajectory that does what must be declined has to miss a mandatory criterion, whatever it says."""
        if not self.draft.violation:
            return
        assert not isinstance(self.start, str)
        rubric = self.draft.rubric
        evidence = enact(
            rubric, tools=self.agent.tools, state=self.start, solution=self.draft.violation, reply=self.draft.reply
        )
        verdicts = [decide(criterion, evidence, rubric) for criterion in rubric if criterion.mandatory]
        if all(verdict is None or verdict.passed for verdict in verdicts):
            yield Fault("permits_violation", 'the calls of "violation" break no mandatory criterion: forbid them')
