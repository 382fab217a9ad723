"""The simulated user of a trajectory (Kimi K2 report, section 3.1.1, "user simulation").

    user = SimulatedUser(task, draw_persona(seed, task.id, sample), seed)
    turn = await user.say(messages, ask)

The user knows its situation, its goal and its facts; it sees what the agent writes to it and never the calls, their
results, the rubric or the solution. What it writes is checked: it does not play the agent, and makes nothing up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenmill.inference.call import Ask, Message
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.user_role import user_fault
from tokenmill.prompts.fence import fence
from tokenmill.prompts.own import OwnPrompt
from tokenmill.schemas.agentic import AgentTask, ChatMessage, Fact, Persona
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, choice, record
from tokenmill.schemas.draws import digest, pick
from tokenmill.tools_repo.users.acts import UserActs
from tokenmill.tools_repo.users.check import Knowledge, UserCheck
from tokenmill.tools_repo.world.ask_checked import REPAIR, CheckFailed, ask_checked

from tokenmill import prompts

USER = "agentic/user"
PERSONAS = "personas"
PROMPTS = (USER, REPAIR)
"""The prompts that a user is played by, beside its persona's."""

GO_ON, DONE, GAVE_UP = "go_on", "done", "gave_up"


def schema(*statuses: str) -> dict[str, Any]:
    """What a turn is answered with, where it may have these statuses."""
    return record(helped=BOOLEAN, message=TEXT, status=choice(statuses))


OPENING, REPLY = schema(GO_ON), schema(GO_ON, DONE, GAVE_UP)
"""Of the first turn, which cannot end what has not begun, and of the others."""
_NOTHING = "-"


@dataclass(frozen=True)
class UserTurn:
    """What a user says, and whether the conversation goes on."""

    text: str
    done: bool = False
    """The user has what it wanted, or has been told why not. Its text may be empty then."""
    gave_up: bool = False
    """The user's patience is at its end."""
    problem: str = ""
    """Why the turn cannot be used, one line: no answer kept to the user's part. Empty when it can."""


@dataclass(frozen=True)
class Personas:
    """Who may be the user of a try, by the names of the prompts: all that are shipped, or those that a run names."""

    names: tuple[str, ...] = field(default_factory=lambda: tuple(prompts.names(PERSONAS)))
    own: tuple[OwnPrompt, ...] = ()
    """Those of them that the user brings."""

    def prompt_of(self, persona: Persona) -> str:
        """The name of a drawn persona's prompt."""
        return next(name for name in self.names if name.rpartition("/")[2] == persona.name)


def persona_fault(prompt: prompts.Prompt) -> str:
    """What is wrong with a persona of the user's; empty where nothing is."""
    patience = prompt.meta.get("patience")
    if not isinstance(patience, int) or isinstance(patience, bool) or not 1 <= patience <= 100:
        return (
            "its front matter needs `patience`: after how many replies without help the user gives up, a number from 1"
        )
    if not all(isinstance(prompt.meta.get(name), str) for name in ("knowledge", "preferences")):
        return "its front matter needs `knowledge` and `preferences`, a sentence each: what the user knows and wants"
    return ""


def draw_persona(seed: int, task_id: str, sample: int, among: Personas | None = None) -> Persona:
    """The persona of one try at a task; its patience varies by one around what the persona says."""
    prompt = prompts.load(pick((among or Personas()).names, seed, task_id, sample, "persona"))
    moved = digest(seed, task_id, sample, "patience") % 3 - 1
    return Persona(
        name=prompt.name.rpartition("/")[2],
        style=prompt.text,
        patience=max(1, prompt.meta["patience"] + moved),
        knowledge=prompt.meta["knowledge"],
        preferences=prompt.meta["preferences"],
    )


@dataclass
class SimulatedUser:
    """Plays the user of one trajectory by the model of the role `user`."""

    task: AgentTask
    persona: Persona
    seed: int
    temperature: float | None = 0.7
    tries: int = 4
    """Answers to one turn, those included that were not in the user's part."""
    acts: UserActs | None = None
    """What it does with tools of its own, where it has any."""
    unhelped: int = field(default=0, init=False)
    """Replies in a row that did not help; at the persona's patience the user gives up."""

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"a user's turn has at least one try, not {self.tries}")

    async def say(self, messages: list[ChatMessage], ask: Ask) -> UserTurn:
        """The user's next turn in a conversation of which it reads the visible text alone.

        Raises:
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        visible = [m for m in messages if m.role in ("user", "assistant") and (m.content or "").strip()]
        drawn = digest(self.seed, len(visible), "user") >> 33
        if self.acts is not None and (problem := await self.acts.before(visible, len(messages), ask)):
            return UserTurn("", problem=problem)
        check = UserCheck(
            self.knowledge,
            tuple(tool.name for tool in self.task.agent.tools),
            tuple((m.role, m.content or "") for m in visible),
        )
        try:
            text, status, helped = await ask_checked(
                ask,
                self.messages(visible),
                REPLY if visible else OPENING,
                lambda answer: self._checked(answer, check, visible),
                to="user",
                tries=self.tries,
                attempt=drawn,
                seed=drawn,
                temperature=self.temperature,
                max_tokens=800,
            )
        except CheckFailed as failed:
            return UserTurn("", problem=str(failed))
        self.unhelped = 0 if helped or check.first else self.unhelped + 1
        gave_up = status == GAVE_UP or (status == GO_ON and self.unhelped >= self.persona.patience)
        return UserTurn(text, status == DONE, gave_up)

    def _checked(
        self, answer: dict[str, Any], check: UserCheck, visible: Sequence[ChatMessage]
    ) -> tuple[str, str, bool]:
        """(text, status, whether it was helped) of an answer that keeps to the user's part; ValueError otherwise."""
        text = answer["message"].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()
        check(text, ends=answer["status"] != GO_ON)
        # What the trajectory's judge would refuse later is mended now.
        heard = [*visible, ChatMessage(role="user", content=text)]
        if fault := user_fault(Evidence(heard, (), {}, {}, self.task.agent.tools), self.task):
            raise ValueError(f"a user would not write {fault[1][:80]!r} here: say it as the user, or leave it out")
        return text, answer["status"], answer["helped"]

    @property
    def knowledge(self) -> Knowledge:
        """All that the user can speak of without making it up."""
        task = self.task
        open_, kept = _parted(task.facts)
        seen = (self.acts.told,) if self.acts is not None else ()
        told = (task.situation, task.opening, *(f"{fact.name}: {fact.value}" for fact in open_), *seen)
        return Knowledge(told=told, hidden=tuple((fact.name, fact.value) for fact in kept), goal=task.goal)

    def messages(self, visible: Sequence[ChatMessage]) -> list[Message]:
        """The prompt of a turn. What the task and the agent wrote is fenced, message by message."""
        open_, kept = _parted(self.task.facts)
        said = [fence(m.content or "", "you" if m.role == "user" else "assistant") for m in visible]
        situation = self.task.situation
        if self.acts is not None and self.acts.calls:
            situation = f"{situation}\n\nWhat they have done and seen since, oldest first:\n{self.acts.told}"
        return prompts.load(USER).render(
            style=self.persona.style,
            knowledge=self.persona.knowledge,
            preferences=self.persona.preferences,
            situation=fence(situation, "situation"),
            opening=fence(self.task.opening, "opening"),
            goal=fence(self.task.goal, "goal"),
            volunteered=fence(_listed(open_), "told"),
            facts=fence(_listed(kept), "facts"),
            transcript="\n".join(said) or _NOTHING,
        )


def _parted(facts: Sequence[Fact]) -> tuple[list[Fact], list[Fact]]:
    return [fact for fact in facts if fact.volunteered], [fact for fact in facts if not fact.volunteered]


def _listed(facts: Sequence[Fact]) -> str:
    return "\n".join(f"- {fact.name}: {fact.value}" for fact in facts) or _NOTHING
