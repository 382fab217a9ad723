"""Answer every row of a data set with a prompt of your own, in the form of a JSON Schema, checked by checks of your own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
from jsonschema import SchemaError
from tokenmill.inference.spec import parse_spec
from tokenmill.judges.own import described
from tokenmill.pipelines.generate.answer import REPAIR, Answering, GenerationParser
from tokenmill.pipelines.rollouts.candidates import Candidates
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import RunOptions, of_writing, roles
from tokenmill.pipelines.runs.own import own_candidates, own_candidates_always, own_check, own_checks
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Rollout
from tokenmill.prompts.own import read
from tokenmill.schemas.flags import UsageError, not_negative, positive, shaping
from tokenmill.schemas.generation import Generation, GenerationTask, RefusedGeneration
from tokenmill.schemas.json_schema import validator_for

from tokenmill import prompts


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(RunOptions):
    """What `generate` may be given."""

    prompt: str = of_writing(
        "", metavar="FILE", help="required: Markdown with {{column}} wherever the row's value belongs"
    )
    schema: str = of_writing("", metavar="FILE", help="JSON Schema of the answer (default: any text)")
    answer_tokens: int = of_writing(1024, metavar="N", parse=positive, shapes=True, help="longest answer")
    repairs: int = of_writing(2, metavar="N", parse=not_negative, shapes=True, help="further tries for what is refused")
    check: tuple[str, ...] = own_check()
    candidates: int = own_candidates()
    candidates_always: bool = own_candidates_always()


def _schema(path: str) -> str:
    """
    Raises:
        UsageError: the file holds no JSON Schema.
    """
    try:
        schema = orjson.loads(Path(path).read_bytes())
        if not isinstance(schema, dict):
            raise ValueError("it is no object")
        validator_for(schema).check_schema(schema)
    except (OSError, ValueError, SchemaError) as error:
        told = getattr(error, "strerror", None) or getattr(error, "message", None) or error
        raise UsageError(f"--schema {path}: {' '.join(str(told).split())[:300]}") from None
    return orjson.dumps(schema).decode()


def job(options: GenerateOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: the prompt, the schema or a check cannot be used.
    """
    if not options.prompt:
        raise UsageError("--prompt FILE is required")
    try:
        prompt = read(options.prompt)
    except prompts.PromptError as error:
        raise UsageError(f"--prompt {error}") from None
    if not prompt.placeholders:
        raise UsageError(f"--prompt {options.prompt}: it has no {{{{column}}}}, so every row would be asked the same")
    schema, checks = _schema(options.schema) if options.schema else "", own_checks(options.check)
    step = Answering(
        model=parse_spec(options.llm).model,
        prompt=prompt,
        schema=schema,
        checks=checks,
        seed=options.seed,
        repairs=options.repairs,
        answer_tokens=options.answer_tokens,
        candidates=Candidates(options.candidates, options.candidates_always),
    )
    return Job(
        name="generate",
        title=f"Rows answered with the prompt {Path(options.prompt).stem}",
        step=step,
        parser=GenerationParser(prompt.placeholders),
        roles=roles(options, "writer"),
        dag=partial(build, step),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=(prompt.name, REPAIR),
        config={
            **shaping(options),
            "schema": hashlib.sha256(schema.encode()).hexdigest() if schema else "",
            "checks": described(checks),
            **{name: getattr(step, name) for name in ("temperature", "top_p")},
        },
    )


COMMAND = Command("generate", GenerateOptions, one(job))


def build(step: Answering, flow: Flow) -> None:
    """The whole job: rows | answer, check, repair | data, rejected, failed."""
    rows, unreadable = flow.read()
    answered = rows | "Answer" >> Rollout(step, flow.models)
    flow.write_rolled(answered, unreadable, Generation, RefusedGeneration)


def estimate(step: Answering, task: GenerationTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one row: an answer is expected to take a quarter of what it may."""
    from tokenmill.pipelines.rollouts.chunking import count_tokens

    prompt = sum(count_tokens(str(message["content"])) + 4 for message in step.messages(task))
    prompt += count_tokens(step.schema)
    drawn = step.candidates
    once = Plan(1, prompt, step.answer_tokens // 4, waves=1).scaled(drawn.calls(refused=False))
    full = Plan(1, prompt, step.answer_tokens)
    tries = step.repairs + drawn.calls(refused=True)
    return {"writer": once}, {"writer": full.with_tries(tries * (3 if step.schema else 1))}
