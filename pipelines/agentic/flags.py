"""The flags that the agentic jobs share: what is read and written, the models of each role, money."""

from __future__ import annotations

import argparse

from tokenmill.inference.roles import Role
from tokenmill.inference.spec import EMBEDDED, SpecError, parse_spec
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES

ROLES = {
    "writer": ("--llm", "plays the agent and writes what is written"),
    "user": ("--user-llm", "plays the user"),
    "tools": ("--tool-llm", "simulates the tools"),
    "judge": ("--judge-llm", "judges"),
}
"""Flag of each role, and what its model does; all but the writer default to the writer's model."""


def add_run_flags(
    parser: argparse.ArgumentParser,
    *,
    reads: str,
    what: str,
    roles: tuple[str, ...] = ("writer",),
    metavar: str = "DIR|GLOB",
    limit: str = "read only the first N rows",
) -> None:
    """The flags of the contract of a run.

    Args:
        reads: the flag that names the input, such as `--tasks`.
        what: what is read, for the help.
        metavar, limit: how the help names the input, and what it says of `--limit`.
        roles: which of `ROLES` the job has.
    """
    data = parser.add_argument_group("what is read and written")
    data.add_argument(reads, dest="input", nargs="+", metavar=metavar, help=what)
    data.add_argument(
        "--output", metavar="DIR", help="a folder for this run alone; required unless previewing or estimating"
    )
    data.add_argument("--limit", type=options.positive, metavar="N", help=limit)
    data.add_argument("--overwrite", action="store_true", help="replace a finished run of other settings in DIR")
    models = parser.add_argument_group("models")
    for role in roles:
        flag, does = ROLES[role]
        default = {"default": EMBEDDED} if role == "writer" else {}
        note = (
            "smollm2 (embedded, the default), MODEL@http://host:port/v1, openai:MODEL, vllm:MODEL, llamacpp:FILE.gguf"
        )
        models.add_argument(
            flag,
            metavar="SPEC",
            help=f"model that {does}: {note}" if role == "writer" else f"model that {does} (default: as --llm)",
            **default,
        )
    for role in roles:
        flag = ROLES[role][0].replace("--llm", "--sampling").replace("-llm", "-sampling")
        models.add_argument(
            flag,
            type=options.sampling,
            default={},
            metavar="JSON",
            help=f"parameters for the calls of the model that {ROLES[role][1]}, in place of the built-in ones",
        )
    options.add_endpoint(models)
    options.add_money(parser, "work on N rows, show them, write nothing to DIR")
    parser.set_defaults(max_document_bytes=MAX_ROW_BYTES)


def roles_of(args: argparse.Namespace, *wanted: str) -> dict[str, Role]:
    """The models of a run by role; a role without a model of its own is played by the writer's.

    Raises:
        UsageError: a SPEC is malformed, or no input is named.
    """
    if not args.input:
        raise UsageError("name the input, see --help")
    chosen = {}
    for role in wanted:
        flag = ROLES[role][0][2:].replace("-", "_")
        spec = getattr(args, flag, None) or args.llm
        given = getattr(args, flag.replace("llm", "sampling"), {})
        small = options.EMBEDDED_SAMPLING if spec.startswith(EMBEDDED) else {}
        chosen[role] = Role(spec, {**small, **given})
        try:
            parse_spec(spec)
        except SpecError as error:
            raise UsageError(str(error)) from None
    return chosen
