"""`--mixture`: what a training run is to read of a finished corpus. Asked again with other shares, it takes a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from tokenmill.pipelines.corpus.mixture import FILE, MixtureImpossible, Phase, parse_shares, parse_tokens, plan
from tokenmill.pipelines.corpus.weigh import LENGTHS
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import OK
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.options import RunOptions
from tokenmill.schemas.flags import checked, flag, more_than_zero, must

_mixed = partial(flag, group="the mixture")
_tokens = partial(_mixed, "", metavar="N", parse=checked(lambda text: text and parse_tokens(text)))
_shares = partial(_mixed, "", metavar="DOMAIN=SHARE,…", parse=checked(parse_shares))


@dataclass(frozen=True, kw_only=True)
class MixingOptions(RunOptions):
    """Of the job whose output a training run reads by shares."""

    mixture: str = _shares(help="write mixture.json for a training run: shares of its tokens, web=.5,code=.25,…")
    tokens: str = _tokens(help="of the run: 300000, 1.5M, 10B")
    annealing: str = _shares(help="shares of a second phase")
    annealing_tokens: str = _tokens(help="of that phase")
    long_context: str = _shares(help="shares of a last phase, of long documents alone")
    long_tokens: str = _tokens(help="of that phase")
    long_length: int = _mixed(
        8192,
        metavar="N",
        parse=must(f"one of {', '.join(map(str, LENGTHS[1:]))}", lambda value: value in LENGTHS[1:]),
        help="tokens that a document of that phase has at least",
    )
    exposures: float = _mixed(
        4.0,
        metavar="N",
        parse=more_than_zero,
        help="how often a source may be seen in all phases, epochs and rephrasings counted",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for shares, tokens in (
            ("mixture", "tokens"),
            ("annealing", "annealing_tokens"),
            ("long_context", "long_tokens"),
        ):
            if bool(getattr(self, shares)) != bool(getattr(self, tokens)):
                raise UsageError(f"--{shares.replace('_', '-')} and --{tokens.replace('_', '-')} go together")
        if (self.annealing or self.long_context) and not self.mixture:
            raise UsageError("--annealing and --long-context are phases after --mixture")

    def phases(self) -> list[Phase]:
        """The phases asked for, in order."""
        given = (
            ("main", self.mixture, self.tokens, 0),
            ("annealing", self.annealing, self.annealing_tokens, 0),
            ("long_context", self.long_context, self.long_tokens, self.long_length),
        )
        return [
            Phase(name, parse_shares(shares), parse_tokens(tokens), least)
            for name, shares, tokens, least in given
            if shares
        ]


def mix(options: MixingOptions) -> int:
    """Write `mixture.json` beside a finished corpus; the exit code.

    Raises:
        UsageError: the corpus does not hold what is asked for.
    """
    out = OutputFolder(options.folder)
    manifest = out.manifest()
    strata = manifest and manifest.get("strata")
    if not strata:
        raise UsageError(f"--mixture: {out.path} has no rows to mix")
    try:
        made = plan(strata, options.phases(), options.exposures)
    except MixtureImpossible as error:
        raise UsageError(f"--mixture {error}") from None
    out.write(FILE, orjson.dumps(made, option=orjson.OPT_INDENT_2))
    table = Table(title=f"{out.at(FILE)}: a source is seen {made['most_exposed']:g} times at most", box=box.SIMPLE)
    for name in ("phase", "source"):
        table.add_column(name)
    for name in ("of the corpus", "epochs", "of the phase"):
        table.add_column(name, justify="right")
    for phase in made["phases"]:
        for source in phase["sources"]:
            row = (phase["name"], source["name"], f"{source['tokens']:,}", f"{source['epochs']:.2f}")
            table.add_row(*row, f"{source['weight'] * phase['tokens']:,.0f}")
    Console().print(table)
    return OK
