"""The options of `agentic agents`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.options import RecordOptions, of_data
from tokenmill.schemas.flags import flag, positive
from tokenmill.tools_repo.agents.toolsets import Sampling

_how = partial(flag, group="how agents are made")
tools_read = partial(
    of_data,
    name="--tools",
    metavar="DIR|GLOB",
    help="runs of `tools harvest`, `evolve` or `curate`, or files of such rows",
)


def read_policy(path: str | None) -> str:
    """The text of a policy; empty where none is named.

    Raises:
        UsageError: it cannot be read, or is empty.
    """
    if not path:
        return ""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--policy {path}: {getattr(error, 'strerror', None) or error}") from None
    if not text:
        raise UsageError(f"--policy {path}: the file is empty")
    return text


@dataclass(frozen=True, kw_only=True)
class AgentsOptions(RecordOptions):
    """What `agentic agents` may be given."""

    input: tuple[str, ...] = tools_read()
    agents: int = _how(10, metavar="N", parse=positive, shapes=True, help="tool-sets drawn, an agent for each")
    domains: tuple[str, ...] = _how(
        (),
        metavar="DIR|GLOB",
        help="domains that the tools were evolved in, or worlds of servers by their names (default: a world is designed for "
        "each agent)",
    )
    policy: str | None = _how(
        None, metavar="FILE", help="the system prompt of every agent, word for word (default: one is written for each)"
    )
    toolset_size: str = _how(
        f"{Sampling.least}-{Sampling.most}",
        metavar="MIN-MAX",
        help="tools of an agent without distractors, drawn log-uniformly",
    )
    within: float = _how(
        Sampling.within,
        metavar="SHARE",
        help="share of the tool-sets from one domain or server; the others are of neighbouring tools",
    )
    distracted: float = _how(Sampling.distracted, metavar="SHARE", help="share of the tool-sets that get distractors")
    distractor_tools: int = _how(
        0,
        metavar="N",
        help="distractors of each of these, such as 50 (default: one to five, at most a third of the set)",
    )
    embedding_model: str = _how(
        "minilm",
        metavar="NAME",
        shapes=True,
        help="finds neighbours: minilm (packaged), a sentence-transformers name, or none: those of the same category",
    )
    keep_duplicates: bool = _how(False, help="keep agents that are nearly the same")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.draws()
        self.given_policy()

    def given_policy(self) -> str:
        """The text of `--policy`, empty where there is none.

        Raises:
            UsageError: it cannot be read, or is empty.
        """
        return read_policy(self.policy)

    def draws(self) -> Sampling:
        """How tool-sets are drawn.

        Raises:
            UsageError: there is no such size or share.
        """
        least, dash, most = self.toolset_size.partition("-")
        try:
            return Sampling(
                int(least), int(most if dash else least), self.within, self.distracted, crowd=self.distractor_tools
            )
        except ValueError as error:
            raise UsageError(
                f"--toolset-size {self.toolset_size} --within {self.within} --distractor-tools {self.distractor_tools}: {error}"
            ) from None
