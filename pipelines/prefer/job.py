"""Draw several answers to each prompt, have a critic rank them, and keep the best and the worst as a preference pair.

    python beam_runner.py prefer --input prompts.jsonl --output out/pairs --llm MODEL@http://localhost:8000/v1 --samples 4

prompts | draw answers | compare in pairs, both orders | data (pairs), rejected (no preference), failed
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations

from tokenmill.inference.spec import parse_spec
from tokenmill.judges.critic.compare import PROMPT, REPAIR
from tokenmill.judges.critic.rank import ALL_PAIRS, PIVOTS
from tokenmill.judges.critic.rubrics import CORE, PRESCRIPTIVE, Rubric, core, prescriptive
from tokenmill.pipelines.prefer.ranking import Prefer, PromptParser, messages_of
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import RunOptions, of_checking, of_writing, roles
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Rollout
from tokenmill.schemas.flags import UsageError, must, positive, shaping
from tokenmill.schemas.preferences import Preference, PreferenceTask, RefusedPreference

from tokenmill import prompts

SETS = {"core": (core, CORE), "prescriptive": (prescriptive, PRESCRIPTIVE)}
_several = must("at least 2", lambda value: value >= 2)
_share = must("from 0 to 1", lambda value: 0 <= value <= 1)


@dataclass(frozen=True, kw_only=True)
class PreferOptions(RunOptions):
    """What `prefer` may be given."""

    samples: int = of_writing(4, metavar="N", parse=_several, shapes=True, help="answers drawn for each prompt")
    answer_tokens: int = of_writing(1024, metavar="N", parse=positive, shapes=True, help="longest answer")
    rubrics: str = of_checking(
        "core,prescriptive",
        metavar="NAME,…",
        shapes=True,
        help="rubrics of all prompts: core, prescriptive; those in the columns `rubrics` and `must` are added",
    )
    least_margin: float = of_checking(
        0.25, metavar="X", parse=_share, shapes=True, help="difference of scores from which two answers are a pair"
    )
    verifiable: bool = of_checking(False, help="also take prompts whose answer a program could check")

    def chosen(self) -> tuple[Rubric, ...]:
        """The rubrics named.

        Raises:
            UsageError: there is no such set.
        """
        names = [name for name in (part.strip() for part in self.rubrics.split(",")) if name]
        if wrong := next((name for name in names if name not in SETS), None):
            raise UsageError(f"--rubrics {wrong}: known are {', '.join(SETS)}")
        return tuple(rubric for name in dict.fromkeys(names) for rubric in SETS[name][0]())


def job(options: PreferOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there are no such rubrics.
    """
    step = Prefer(
        model=parse_spec(options.llm).model,
        samples=options.samples,
        rubrics=options.chosen(),
        seed=options.seed,
        answer_tokens=options.answer_tokens,
        least=options.least_margin,
    )
    sets = [name for name in SETS if name in options.rubrics.split(",")]
    return Job(
        name="prefer",
        title="Preference pairs, ranked by a critic",
        step=step,
        parser=PromptParser(options.verifiable),
        roles=roles(options, "writer", "judge"),
        dag=partial(build, step),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=(PROMPT, REPAIR, *(name for chosen in sets for name in SETS[chosen][1])),
        config={**shaping(options), **{name: getattr(step, name) for name in ("temperature", "top_p")}},
    )


COMMAND = Command("prefer", PreferOptions, one(job))


def build(step: Prefer, flow: Flow) -> None:
    """The whole job."""
    rows, unreadable = flow.read()
    ranked = rows | "Rank answers" >> Rollout(step, flow.models)
    flow.write_rolled(ranked, unreadable, Preference, RefusedPreference)


def estimate(step: Prefer, task: PreferenceTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one prompt: an answer is expected to take a third of what it may, a comparison 150 tokens."""
    from tokenmill.pipelines.rollouts.chunking import count_tokens

    asked = sum(count_tokens(str(message["content"])) + 4 for message in messages_of(task))
    count = step.samples
    few = count <= ALL_PAIRS
    pairs = (
        len(list(combinations(range(count), 2)))
        if few
        else PIVOTS * (count - PIVOTS) + len(list(combinations(range(PIVOTS), 2)))
    )
    told = sum(count_tokens(rubric.text) for rubric in step.rubrics)
    fixed = sum(count_tokens(text) for _, text in prompts.load(PROMPT).parts) + told
    answer = step.answer_tokens // 3
    writer = Plan(1, asked, answer, waves=1).scaled(count)
    judge = Plan(1, fixed + asked + 2 * answer, 150, waves=1).scaled(2 * pairs)
    longest = Plan(1, fixed + asked + 2 * step.answer_tokens, 1000).scaled(2 * pairs)
    return {"writer": writer, "judge": judge}, {
        "writer": Plan(1, asked, step.answer_tokens).scaled(count),
        "judge": longest.with_tries(3),
    }
