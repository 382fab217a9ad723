"""What a subcommand hands to the launcher: its rows, its step, its DAG."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
from tokenmill.inference.call import Ask
from tokenmill.inference.roles import Models, Role
from tokenmill.pipelines.runs.benchmarks import Benchmarks
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.read_rows import parsed_rows
from tokenmill.pipelines.transforms.counts import write_counts
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Several
from tokenmill.pipelines.transforms.sources import Parser, Piece

PACKAGES = ("tokenmill", "apache-beam", "openai", "pyarrow", "sentence-transformers", "torch", "sentencex", "py3langid")


@dataclass(frozen=True)
class Plan:
    """Calls of one role, and the tokens they take, as estimated before they are made."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    waves: int = 0
    """Calls of these that one row makes one after the other; 0 for all of them."""

    @property
    def depth(self) -> int:
        return self.waves or self.calls

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.calls + other.calls, self.prompt + other.prompt, self.completion + other.completion)

    def then(self, other: Plan) -> Plan:
        """These calls, and when a row has had them, the others."""
        return replace(self + other, waves=self.depth + other.depth)

    def scaled(self, factor: float) -> Plan:
        return Plan(
            round(self.calls * factor), round(self.prompt * factor), round(self.completion * factor), self.waves
        )

    def with_tries(self, tries: int) -> Plan:
        """These calls, each answered so many times; whoever is asked again is shown the answer before."""
        again = Plan(self.calls, self.prompt + self.completion, self.completion)
        return self + again.scaled(tries - 1)


Counted = Callable[[str, str], dict[str, int]]


@dataclass(frozen=True)
class Job:
    """One run of one subcommand, configured."""

    name: str
    title: str
    step: Callable[[Any, Ask], Awaitable[Accepted | Rejected | Several]]
    """What a preview runs on a task."""
    parser: Parser[Any] | None
    """Reads the rows of the input; None where they are `given`."""
    roles: dict[str, Role]
    dag: Callable[[Flow], None]
    """Lays the whole job between its input and its shards."""
    max_row_bytes: int
    estimate: Callable[[Any], tuple[dict[str, Plan], dict[str, Plan]]]
    """For one task: what its calls take when nothing is refused, and when every chunk uses all its tries; by role."""
    prompts: tuple[str, ...]
    """Names of all prompts that the job may use."""
    config: dict[str, Any] = field(default_factory=dict)
    """Every setting that shapes the rows, for the manifest and its fingerprint, beside those that all jobs have."""
    sampling: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By role, the sampling parameters that the step sends where the user sets no others, for manifest and card."""
    tasks: Callable[[Any], Iterable[Any]] = lambda row: (row,)
    """The step's inputs for one parsed row."""
    tasks_per_row: int = 1
    rows_per_task: int = 1
    """Rows that a task is expected to make, for the progress line."""
    found: Inputs | None = None
    """What is read, where the job found or made that itself; None for what the options name."""
    given: Sequence[Any] | None = None
    """The rows of the input, where the job holds them already and reads no more."""
    reads: str = "rows"
    """What the rows of the input are, for people."""
    packages: tuple[str, ...] = PACKAGES
    """Whose versions shape the rows."""
    counts: Callable[[dict[str, int], Counted], dict[str, int]] = lambda counts, column: {}
    """What else the manifest counts, or counts differently: of its counts, and of `column(kind, name)`, how often each
    value of a column occurs in the rows of a kind."""
    measured: Callable[[Mapping[str, int]], dict[str, Any]] = lambda counters: {}
    """Further fields of the manifest, of the counters of the pipeline."""
    batches: bool = True
    """Whether its rows may wait for one another's answers: what is asked for one row must not depend on those of others."""
    notes: tuple[str, ...] = ()
    """Warnings to print before the run."""
    benchmarks: Benchmarks | None = None
    """What its rows must not hold, where it looks for that; workers read these files, too."""

    def rows(self, pieces: Iterable[Piece]) -> Iterable[Any]:
        """The rows that are `given`, or the readable ones of these pieces."""
        if self.given is not None:
            return self.given
        assert self.parser is not None
        return parsed_rows(pieces, self.parser, self.max_row_bytes)

    def build(self, root: beam.Pipeline, models: Models, pieces: Sequence[Piece], folder: str, shards: int) -> None:
        """Lay the job on a pipeline: shards under `folder`/{data,rejected,failed}, and the counts of their rows."""
        self.dag(Flow(root, models, pieces, self.parser, self.max_row_bytes, folder, shards))
        write_counts(root, folder)
