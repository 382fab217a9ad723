"""Evolve synthetic tools: categories grow application domains, domains grow entities and tools over them.

    python beam_runner.py tools evolve --categories 40 --domains 25 --tools 20 --llm SPEC --output OUT

Two stages, each a run of its own: the domains in OUT/stages/domains, the tools in OUT. A stage that is finished is not
repeated. --preview N shows the first domain of N categories with its tools; --limit N writes tools for N domains only.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs.errors import UsageError, line_of
from tokenmill.pipelines.runs.exit import FAILED, OK, say
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, launch
from tokenmill.pipelines.runs.options import longest_row, of_data, roles, too_small
from tokenmill.pipelines.tools.curation import Curation, CurationOptions, curation
from tokenmill.pipelines.tools.evolve.dag import (
    CategoryParser,
    DesignDomain,
    EvolveDomains,
    EvolveTools,
    WriteTools,
    build_domains,
    build_tools,
)
from tokenmill.pipelines.tools.evolve.estimate import estimate
from tokenmill.pipelines.transforms.files import whole_path
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES, RecordParser
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.flags import flag, not_negative, positive
from tokenmill.tools_repo.evolution import operators, writing
from tokenmill.tools_repo.evolution.categories import SHIPPED, Category, read_categories, slug
from tokenmill.tools_repo.evolution.domains import Evolution
from tokenmill.tools_repo.evolution.operators import Example, Operators
from tokenmill.tools_repo.evolution.siblings import Distinct
from tokenmill.tools_repo.evolution.writing import ToolWriting
from tokenmill.tools_repo.world import design

NAME = "tools evolve"
STAGES, DOMAINS = "stages", "domains"


_size = partial(flag, metavar="N", parse=positive, group="how many tools: categories x domains x tools")
_how = partial(flag, metavar="N", group="how they are made")


@dataclass(frozen=True, kw_only=True)
class EvolveOptions(CurationOptions):
    """What `tools evolve` may be given."""

    input: tuple[str, ...] = of_data(
        (str(SHIPPED),),
        name="--categories-file",
        metavar="FILE",
        help="lists of categories (JSONL with name, description, examples); default: the shipped list, "
        "tools_repo/categories.jsonl",
    )
    limit: int | None = of_data(
        None, metavar="N", parse=positive, shapes=True, help="write tools for the first N domains only"
    )
    max_document_bytes: int = longest_row(MAX_ROW_BYTES)
    categories: int | None = _size(None, help="the first N categories (default: all)")
    only: tuple[str, ...] = _size((), metavar="NAME", parse=None, help="only these categories")
    domains: int = _size(10, metavar="M", help="domains of each category")
    tools: int = _size(20, metavar="K", help="tools of each domain")
    tools_per_call: int = _how(5, parse=positive, help="tools asked for in a call")
    repairs: int = _how(2, parse=not_negative, help="further answers for what is refused")


def evolve(options: EvolveOptions, beam_args: Sequence[str]) -> int:
    """Run both stages, or what is left of them; the exit code.

    Raises:
        UsageError: the categories cannot be read, or the output is another's.
    """
    plan = Settings.of(options)
    # All stages draw on one budget.
    account = f"{NAME} {whole_path(options.output)}" if options.output else ""
    with _listed(plan.categories, options) as listed:
        first = replace(options, input=(listed,), limit=None, account=account)
        if options.estimate or options.preview:
            return launch(plan.whole(), first, beam_args)
        OutputFolder(options.folder).check_ours()
        stage = f"{options.output}/{STAGES}/{DOMAINS}"
        code = launch(plan.domains(), replace(first, output=stage), beam_args)
        finished = OutputFolder(stage).manifest() if code in (OK, FAILED) else None
        if finished is None:
            return code
        if not finished["counts"]["accepted"]:
            why = f"no domain was kept, so that there is nothing to write tools for; see {stage}/report.html"
            return say(why, FAILED)
        return launch(plan.tools(), replace(options, input=(stage,), account=account), beam_args)


COMMAND = Command(NAME, EvolveOptions, evolve)


@contextlib.contextmanager
def _listed(categories: Sequence[Category], options: EvolveOptions) -> Iterator[str]:
    """The chosen categories as a file that every worker can read."""
    content = b"".join(category.line() for category in categories)
    if options.estimate or options.preview:
        with tempfile.TemporaryDirectory(prefix="tokenmill-") as folder:
            path = Path(folder, "categories.jsonl")
            path.write_bytes(content)
            yield str(path)
        return
    # A name by content, so that a run of other categories does not touch the list of one that is there.
    name = f"{STAGES}/categories-{hashlib.sha256(content).hexdigest()[:8]}.jsonl"
    out = OutputFolder(options.folder)
    try:
        out.write(name, content)
    except Exception as error:  # each filesystem has errors of its own
        reason = getattr(error, "strerror", None) or line_of(error)
        raise UsageError(f"--output {options.output}: cannot be written: {reason}") from None
    yield out.at(*name.split("/"))


@dataclass(frozen=True)
class Settings:
    """What the options say."""

    options: EvolveOptions
    categories: list[Category]
    curated: Curation
    evolve: EvolveDomains
    design: DesignDomain
    write: WriteTools

    @classmethod
    def of(cls, options: EvolveOptions) -> Settings:
        """
        Raises:
            UsageError: the categories cannot be read, or there is no such embedding model.
        """
        known = _read(options.input)
        curated = curation(options)
        elsewhere = tuple(Example(category.name, name) for category in known for name in category.examples)
        embedder = curated.likeness.embedder if curated.likeness else None
        evolution = Evolution(
            seed=options.seed,
            model=parse_spec(options.llm).model,
            operators=Operators(elsewhere),
            distinct=Distinct(embedder),
            repairs=options.repairs,
        )
        tools = ToolWriting(
            seed=options.seed, per_call=options.tools_per_call, repairs=options.repairs, likeness=curated.likeness
        )
        return cls(
            options,
            _chosen(known, options),
            curated,
            EvolveDomains(options.domains, evolution),
            DesignDomain(options.repairs + 1),
            WriteTools(options.tools, tools),
        )

    def domains(self) -> Job:
        """The first stage."""
        evolution = self.evolve.evolution
        return Job(
            name=f"{NAME}: domains",
            title="Application domains with entities and sample states, evolved by a model",
            step=self.evolve,
            parser=CategoryParser(),
            roles=roles(self.options, "writer"),
            rows_per_task=self.options.domains,
            batches=False,
            dag=partial(build_domains, self.evolve, self.design),
            max_row_bytes=self.options.max_document_bytes,
            estimate=self._estimate,
            prompts=(*operators.PROMPTS, *design.PROMPTS),
            config={
                "domains": self.options.domains,
                "operators": evolution.operators.weights,
                "elsewhere": hashlib.sha256(repr(evolution.operators.elsewhere).encode()).hexdigest(),
                "embedding_model": self.curated.config["embedding_model"],
                "design": {name: getattr(self.design, name) for name in ("tries", "temperature", "max_tokens")},
                **{name: getattr(evolution.distinct, name) for name in ("words", "meaning")},
                **{name: getattr(evolution, name) for name in ("repairs", "temperature", "top_p", "max_tokens")},
            },
            notes=self._notes,
        )

    def tools(self) -> Job:
        """The second stage."""
        writing_ = self.write.writing
        return Job(
            name=NAME,
            title="Synthetic tool specifications, evolved through application domains",
            step=self.write,
            parser=RecordParser(Domain),
            roles=roles(self.options, "writer") | self.curated.roles,
            rows_per_task=self.options.tools,
            batches=False,
            dag=partial(build_tools, self.write, self.curated, self.options.seed),
            max_row_bytes=self.options.max_document_bytes,
            estimate=self._estimate,
            prompts=(*writing.PROMPTS, *self.curated.prompts),
            config={
                "tools": self.options.tools,
                **self.curated.config,
                **{name: getattr(writing_, name) for name in ("per_call", "repairs", "temperature", "top_p")},
                "tokens_per_tool": writing_.tokens_per_tool,
            },
        )

    def whole(self) -> Job:
        """Both at once, for an estimate and a preview."""
        step = EvolveTools(self.evolve, self.design, self.write)
        return replace(self.tools(), step=step, parser=CategoryParser(), notes=self._notes)

    @property
    def _estimate(self) -> Callable[[Any], tuple[dict[str, Plan], dict[str, Plan]]]:
        return partial(estimate, self.evolve, self.design, self.write, self.curated.judge)

    @property
    def _notes(self) -> tuple[str, ...]:
        return too_small(self.options.llm, "design tools")


def _read(paths: Sequence[str]) -> list[Category]:
    try:
        known = read_categories([Path(path) for path in paths])
    except OSError as error:
        raise UsageError(f"--categories-file {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--categories-file {error}") from None
    if not known:
        raise UsageError(f"--categories-file {' '.join(paths)}: there are no categories")
    return known


def _chosen(known: Sequence[Category], options: EvolveOptions) -> list[Category]:
    wanted = {slug(name): name for name in options.only}
    for id, name in wanted.items():
        if id not in {category.id for category in known}:
            raise UsageError(f"--only {name}: no such category in {' '.join(options.input)}")
    chosen = [category for category in known if not wanted or category.id in wanted]
    if options.categories and options.categories > len(chosen):
        raise UsageError(
            f"--categories {options.categories}: there are only {len(chosen)} in {' '.join(options.input)}"
        )
    return chosen[: options.categories]
