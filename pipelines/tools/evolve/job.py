"""Evolve synthetic tools: categories grow application domains, domains grow entities and tools over them.

    python beam_runner.py tools evolve --categories 40 --domains 25 --tools 20 --llm SPEC --output OUT

Two stages, each a run of its own: the domains in OUT/stages/domains, the tools in OUT. A stage that is finished is not
repeated. --preview N shows the first domain of N categories with its tools; --limit N writes tools for N domains only.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.flags import add_run_flags, roles_of
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import FAILED, OK, ended, say
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.launch import launch
from tokenmill.pipelines.tools.curation import Curation, add_curation, curation
from tokenmill.pipelines.tools.evolve.dag import (
    MAX_ROW_BYTES,
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
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.schemas.agentic import Domain
from tokenmill.tools_repo.evolution import domains, operators, writing
from tokenmill.tools_repo.evolution.categories import SHIPPED, Category, read_categories, slug
from tokenmill.tools_repo.evolution.domains import Evolution
from tokenmill.tools_repo.evolution.operators import Example, Operators
from tokenmill.tools_repo.evolution.siblings import Distinct
from tokenmill.tools_repo.evolution.writing import ToolWriting
from tokenmill.tools_repo.world import design

NAME = "tools evolve"
STAGES, DOMAINS = "stages", "domains"


def add_evolve(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `evolve` and its flags."""
    parser = kinds.add_parser(
        "evolve",
        help="make synthetic tools with a model, through domains",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_run_flags(
        parser,
        reads="--categories-file",
        what="lists of categories (JSONL with name, description, examples); default: the shipped list, "
        "tools_repo/categories.jsonl",
        metavar="FILE",
        limit="write tools for the first N domains only",
    )
    size = parser.add_argument_group("how many tools: categories x domains x tools")
    size.add_argument("--categories", type=options.positive, metavar="N", help="the first N categories (default: all)")
    size.add_argument("--only", nargs="+", metavar="NAME", help="only these categories")
    size.add_argument(
        "--domains", type=options.positive, default=10, metavar="M", help="domains of each category (default 10)"
    )
    size.add_argument(
        "--tools", type=options.positive, default=20, metavar="K", help="tools of each domain (default 20)"
    )
    shape = parser.add_argument_group("how they are made")
    shape.add_argument(
        "--tools-per-call", type=options.positive, default=5, metavar="N", help="tools asked for in a call (default 5)"
    )
    shape.add_argument(
        "--repairs", type=int, default=2, metavar="N", help="further answers for what is refused (default 2)"
    )
    add_curation(parser)
    parser.set_defaults(chain=evolve)


def evolve(args: argparse.Namespace, beam_args: Sequence[str]) -> int:
    """Run both stages, or what is left of them; the exit code."""

    def run() -> int:
        plan = Settings.of(args)
        with _listed(plan.categories, args) as listed:
            if args.estimate or args.preview:
                return launch(plan.whole(), _stage(args, [listed], args.output), beam_args)
            return _chain(plan, args, beam_args, listed)

    return ended(run)


def _chain(plan: Settings, args: argparse.Namespace, beam_args: Sequence[str], listed: str) -> int:
    out = args.output.rstrip("/")
    OutputFolder(out).check_ours()
    stage = f"{out}/{STAGES}/{DOMAINS}"
    code = launch(plan.domains(), _stage(args, [listed], stage), beam_args)
    if code not in (OK, FAILED):
        return code
    finished = OutputFolder(stage).manifest()
    if finished is None:
        return code
    if not finished["counts"]["accepted"]:
        return say(f"no domain was kept, so that there is nothing to write tools for; see {stage}/report.html", FAILED)
    return launch(plan.tools(), _stage(args, [stage], out, args.limit), beam_args)


def _stage(
    args: argparse.Namespace, inputs: list[str], output: str | None, limit: int | None = None
) -> argparse.Namespace:
    """The flags of one stage; all stages draw on one budget."""
    account = ""
    if args.output:
        account = f"{NAME} {whole_path(args.output)}"
    return argparse.Namespace(**{**vars(args), "input": inputs, "output": output, "limit": limit, "account": account})


@contextlib.contextmanager
def _listed(categories: Sequence[Category], args: argparse.Namespace) -> Iterator[str]:
    """The chosen categories as a file that every worker can read."""
    content = b"".join(category.line() for category in categories)
    if args.estimate or args.preview:
        with tempfile.TemporaryDirectory(prefix="tokenmill-") as folder:
            path = Path(folder, "categories.jsonl")
            path.write_bytes(content)
            yield str(path)
        return
    if not args.output:
        raise UsageError("--output DIR is required (or --preview N, or --estimate)")
    # A name by content, so that a run of other categories does not touch the list of one that is there.
    name = f"{STAGES}/categories-{hashlib.sha256(content).hexdigest()[:8]}.jsonl"
    out = OutputFolder(args.output.rstrip("/"))
    try:
        out.write(name, content)
    except Exception as error:  # each filesystem has errors of its own
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:300]
        raise UsageError(f"--output {args.output}: cannot be written: {reason}") from None
    yield out.at(*name.split("/"))


@dataclass(frozen=True)
class Settings:
    """What the flags say."""

    args: argparse.Namespace
    categories: list[Category]
    curated: Curation
    evolve: EvolveDomains
    design: DesignDomain
    write: WriteTools

    @classmethod
    def of(cls, args: argparse.Namespace) -> Settings:
        """
        Raises:
            UsageError: a flag's value makes no sense.
        """
        args.input = args.input or [str(SHIPPED)]
        roles_of(args, "writer")
        if args.repairs < 0:
            raise UsageError("--repairs must be 0 or more")
        known = _read(args.input)
        curated = curation(args)
        elsewhere = tuple(Example(category.name, name) for category in known for name in category.examples)
        embedder = curated.likeness.embedder if curated.likeness else None
        evolution = Evolution(
            seed=args.seed,
            model=parse_spec(args.llm).model,
            operators=Operators(elsewhere),
            distinct=Distinct(embedder),
            repairs=args.repairs,
        )
        tools = ToolWriting(
            seed=args.seed, per_call=args.tools_per_call, repairs=args.repairs, likeness=curated.likeness
        )
        return cls(
            args,
            _chosen(known, args),
            curated,
            EvolveDomains(args.domains, evolution),
            DesignDomain(args.repairs + 1),
            WriteTools(args.tools, tools),
        )

    def domains(self) -> Job:
        """The first stage."""
        evolution = self.evolve.evolution
        return Job(
            name=f"{NAME}: domains",
            title="Application domains with entities and sample states, evolved by a model",
            step=self.evolve,
            parser=CategoryParser(),
            roles=roles_of(self.args, "writer"),
            rows_per_task=self.args.domains,
            build=partial(build_domains, self.evolve, self.design),
            estimate=self._estimate,
            prompts=(*operators.PROMPTS, *design.PROMPTS),
            config={
                "domains": self.args.domains,
                "operators": evolution.operators.weights,
                "elsewhere": hashlib.sha256(repr(evolution.operators.elsewhere).encode()).hexdigest(),
                "embedding_model": self._embedding_model,
                "design": {name: getattr(self.design, name) for name in ("tries", "temperature", "max_tokens")},
                **{name: getattr(evolution.distinct, name) for name in ("words", "meaning")},
                **{name: getattr(evolution, name) for name in ("repairs", "temperature", "top_p", "max_tokens")},
            },
            max_row_bytes=MAX_ROW_BYTES,
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
            roles=roles_of(self.args, "writer") | self.curated.roles,
            rows_per_task=self.args.tools,
            build=partial(build_tools, self.write, self.curated, self.args.seed),
            estimate=self._estimate,
            prompts=(*writing.PROMPTS, *self.curated.prompts),
            config={
                "tools": self.args.tools,
                **self.curated.config,
                **{name: getattr(writing_, name) for name in ("per_call", "repairs", "temperature", "top_p")},
                "tokens_per_tool": writing_.tokens_per_tool,
            },
            max_row_bytes=MAX_ROW_BYTES,
        )

    def whole(self) -> Job:
        """Both at once, for an estimate and a preview."""
        step = EvolveTools(self.evolve, self.design, self.write)
        return Job(
            name=NAME,
            title="",
            step=step,
            parser=CategoryParser(),
            roles=roles_of(self.args, "writer") | self.curated.roles,
            build=_not_built,
            estimate=self._estimate,
            prompts=(domains.REPAIR, *operators.PROMPTS, *design.PROMPTS, *writing.PROMPTS, *self.curated.prompts),
            notes=self._notes,
        )

    @property
    def _estimate(self):
        return partial(estimate, self.evolve, self.design, self.write, self.curated.judge)

    @property
    def _embedding_model(self) -> str | None:
        return self.curated.config["embedding_model"]

    @property
    def _notes(self) -> tuple[str, ...]:
        return options.too_small(self.args.llm, "design tools")


def _not_built(*_: object) -> None:
    raise UsageError("an estimate or a preview builds no pipeline")


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


def _chosen(known: Sequence[Category], args: argparse.Namespace) -> list[Category]:
    wanted = {slug(name): name for name in args.only or ()}
    for id, name in wanted.items():
        if id not in {category.id for category in known}:
            raise UsageError(f"--only {name}: no such category in {' '.join(args.input)}")
    chosen = [category for category in known if not wanted or category.id in wanted]
    if args.categories and args.categories > len(chosen):
        raise UsageError(f"--categories {args.categories}: there are only {len(chosen)} in {' '.join(args.input)}")
    return chosen[: args.categories]
