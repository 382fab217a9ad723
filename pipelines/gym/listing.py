"""What environments there are, by topic, and which topics are under-covered.

python beam_runner.py gym list
python beam_runner.py gym list --of OUT          what the rollouts or rated tasks of a finished run cover
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from tokenmill.pipelines.runs.exit import ended, say
from tokenmill.schemas.flags import Options, UsageError, flag


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """What `gym list` may be given."""

    of: str | None = flag(
        None, metavar="DIR", help="output of `gym rollout` or `gym difficulty`: count its topics instead"
    )


def run(options: ListOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
    """`beam_runner.py gym list`; the exit code."""
    if beam_args:
        return say(f"unknown flag {beam_args[0]}", 2)
    return ended(lambda: _list(options))


COMMAND = SimpleNamespace(options=ListOptions, run=run)


def _list(options: ListOptions) -> int:
    print("\n".join(_of_run(options.of) if options.of else _of_environments()))
    return 0


def _of_environments() -> Iterator[str]:
    from tokenmill.gym.coverage import counted
    from tokenmill.gym.registry import SHIPPED
    from tokenmill.pipelines.gym.environments import WITH_ARGUMENT, find

    for name, shipped in SHIPPED.items():
        environment = find(name)
        judged = "; a judge takes part" if environment.judged else ""
        yield f"{name:<28}{shipped.about}  [{', '.join(environment.topics)}{judged}]"
    for name, shipped in WITH_ARGUMENT.items():
        yield f"{name + ':' + shipped.argument:<28}{shipped.about}"
    topics = [find(name).topics for name in SHIPPED]
    offered, why = _reasoning()
    for name in offered:
        yield f"{name:<28}[{', '.join(find(name).topics)}]"
        topics.append(find(name).topics[:1])
    if why:
        yield why
    yield ""
    yield from _table(counted(topics), "environments")


def _reasoning() -> tuple[list[str], str]:
    from tokenmill.gym import reasoning

    try:
        offered = reasoning.offered()
    except UsageError as error:
        return [], str(error)
    failed = len(reasoning.record()["environments"]) - len(offered)
    return offered, f"{failed} more generators of reasoning-gym did not pass `gym check` and are not offered"


def _of_run(folder: str) -> Iterator[str]:
    import pyarrow.parquet as pq
    from tokenmill.gym.coverage import counted

    shards = sorted(Path(folder, "data").glob("*.parquet"))
    if not shards:
        raise UsageError(f"--of {folder}: no finished run with rows is there")
    counts: Counter[str] = Counter()
    for shard in shards:
        if "topics" not in pq.read_schema(shard).names:
            raise UsageError(
                f"--of {folder}: its rows have no topics: name an output of `gym rollout` or `gym difficulty`"
            )
        counts += counted(pq.read_table(shard, columns=["topics"])["topics"].to_pylist())
    from tokenmill.gym.registry import SHIPPED
    from tokenmill.pipelines.gym.environments import find

    yield from _table(counts, "rows", {topic for name in SHIPPED for topic in find(name).topics})


def _table(counts: Counter[str], what: str, wanted: set[str] | None = None) -> Iterator[str]:
    from tokenmill.gym.coverage import under_covered

    yield f"{what} by topic: " + ", ".join(f"{topic} {count}" for topic, count in sorted(counts.items()))
    few = under_covered(counts, wanted or ())
    yield "under-covered: " + (", ".join(f"{topic} ({counts[topic]})" for topic in few) or "none")
