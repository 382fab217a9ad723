"""Runs on other machines: what Beam's runners there must be told, and what cannot work there.

    tokenmill knowledge … --on flink --flink_master=host:8081 --cache redis://host/0 --shared-filesystem

`--on` only spares typing: whatever it adds is printed, and a flag of the same name on the command line stands instead.
"""

from __future__ import annotations

import dataclasses
import shutil
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import PipelineOptions
from tokenmill.inference.roles import Models
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.transforms.files import is_local

WORKER = "tokenmill-worker"
_LOCAL_CACHES = "unix://"
DAY_MS = 86_400_000

# A rollout takes as long as its slowest dialogue, so a bundle is never ended early; a checkpoint would wait for its end, so
# there is none, and a failed part is begun anew: its answers are in the cache.
_PORTABLE = {"environment_type": "PROCESS", "max_bundle_size": "1000000", "max_bundle_time_mills": str(DAY_MS)}
PROFILES: dict[str, dict[str, str]] = {
    "flink": {
        "runner": "FlinkRunner",
        **_PORTABLE,
        "number_of_execution_retries": "3",
        "execution_retry_delay": "10000",
        "sdk_worker_parallelism": "0",
    },
    "spark": {"runner": "SparkRunner", **_PORTABLE, "sdk_worker_parallelism": "0"},
    "prism": {"runner": "PrismRunner", "environment_type": "PROCESS"},
    "dataflow": {"runner": "DataflowRunner", "sdk_location": "container", "number_of_worker_harness_threads": "2"},
}
"""Flags that each kind of cluster is given, unless the command names them."""
NEEDED = {
    "flink": ("flink_master",),
    "spark": ("spark_master_url",),
    "prism": (),
    "dataflow": ("project", "region", "temp_location", "sdk_container_image"),
}
"""Flags that only the user can know."""


class ClusterOptions(PipelineOptions):
    """Options of Beam's Java runners, which learn them from the job; Python's own classes do not know them."""

    @classmethod
    def _add_argparse_args(cls, parser: ArgumentParser) -> None:
        for name, kind, told in (
            ("max_bundle_size", int, "elements of a bundle at most"),
            ("max_bundle_time_mills", int, "milliseconds after which a bundle ends"),
            ("number_of_execution_retries", int, "times that Flink begins a failed job again"),
            ("execution_retry_delay", int, "milliseconds before it does"),
            ("checkpointing_interval", int, "milliseconds between checkpoints; leave it out for batches"),
            ("execution_mode_for_batch", str, "Flink: how data is exchanged"),
            ("flink_conf_dir", str, "folder of Flink's configuration"),
            ("object_reuse", str, "Flink: hand objects on without copying them"),
            ("faster_copy", str, "Flink: copy no elements between functions"),
            ("spark_bundle_size", int, "Spark: elements of a bundle at most"),
            ("storage_level", str, "Spark: how intermediate data is kept"),
        ):
            parser.add_argument(f"--{name}", type=kind, default=None, help=told)


def arguments(on: str | None, beam_args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Beam's flags of a command with those that `on` adds, and the added ones.

    Raises:
        UsageError: a flag is missing that only the user can give.
    """
    if on is None:
        return list(beam_args), []
    given = _named(beam_args)
    missing = [f"--{name}=…" for name in NEEDED[on] if name not in given]
    if missing:
        raise UsageError(f"--on {on} needs {' '.join(missing)}, too")
    added = {name: value for name, value in PROFILES[on].items() if name not in given}
    if added.get("environment_type") == "PROCESS" and not given & {"environment_options", "environment_config"}:
        added["environment_options"] = f"process_command={shutil.which(WORKER) or WORKER}"
    if on == "prism" and "prism_location" not in given and (prism := shutil.which("prism")):
        added["prism_location"] = prism
    words = [f"--{name}={value}" for name, value in added.items()]
    return [*beam_args, *words], words


def _named(beam_args: Sequence[str]) -> set[str]:
    return {word[2:].partition("=")[0] for word in beam_args if word.startswith("--")}


def check(models: Models, paths: Iterable[str], *, shared: bool) -> None:
    """What workers on other machines must reach, they can.

    Raises:
        UsageError: the cache is a file or socket, an address holds a password or key, or a path lies on this machine and
            nothing says that it is everywhere.
    """
    if "://" not in models.cache or models.cache.startswith(_LOCAL_CACHES):
        raise UsageError("workers on other machines need a shared cache: --cache redis://host:6379/0")
    if urlsplit(models.cache).password:
        raise UsageError(
            "--cache: the password would travel with the job; leave it out, and set TOKENMILL_REDIS_PASSWORD, or "
            "TOKENMILL_REDIS_PASSWORD_FILE, here and on the workers"
        )
    for role in models.roles.values():
        if (spec := parse_spec(role.spec)).shows_key:
            raise UsageError(
                f"{spec.text}: its key would travel with the job; leave it out, and set TOKENMILL_API_KEY, or "
                "TOKENMILL_API_KEY_FILE, here and on the workers"
            )
    here = next((path for path in paths if is_local(path)), None)
    if here is not None and not shared:
        raise UsageError(
            f"{here} lies on this machine; name a place that all workers reach (gs://, s3://, hdfs://), or add "
            "--shared-filesystem where it is mounted under the same name on all of them"
        )


def of_driver(models: Models, state: str) -> Models:
    """What the submitting machine itself needs: endpoints are asked whether they answer, models that workers start are not
    started here; what workers tell is put into the folder `state`."""
    asked = {name: role for name, role in models.roles.items() if not parse_spec(role.spec).managed}
    return dataclasses.replace(models, roles=asked, state=state)
