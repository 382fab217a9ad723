"""The program by which a cluster starts a worker of ours: `tokenmill-worker`.

It fulfils the contract of Beam's SDK containers (sdks/python/container/boot.go): asked with `--id` and
`--provision_endpoint`, it learns the job's options and addresses from the provision service and becomes a worker. So it serves
PROCESS environments (Flink, Spark, Prism), worker pools (`worker_pool_main --container_executable=tokenmill-worker`)
and as the entry point of a container. Nothing is installed or staged at its start: what the job needs is where this is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import grpc
from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc, endpoints_pb2
from google.protobuf import json_format, text_format
from tokenmill.pipelines.runs.forkserver import work

WAIT = 60.0
"""Seconds in which the runner must answer."""


def main(argv: Sequence[str] | None = None) -> int:
    """Be a worker until the runner has no more for it; the exit code."""
    parser = argparse.ArgumentParser(prog="tokenmill-worker", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--id", required=True, help="name of the worker, as the runner calls it")
    parser.add_argument("--provision_endpoint", required=True, help="HOST:PORT that tells what the worker is for")
    for name in ("control", "logging", "artifact"):
        parser.add_argument(f"--{name}_endpoint", default="", help="where the provision endpoint does not tell it")
    parser.add_argument("--semi_persist_dir", default="", help="taken and not used: nothing is staged")
    given = parser.parse_args(argv)
    given.id = given.id.strip("'")  # Prism quotes it for a shell that is not there
    try:
        os.environ.update(_told(given))
    except grpc.RpcError as error:
        print(
            f"tokenmill-worker: {given.provision_endpoint} does not answer ({error.code().name}: {error.details()})",
            file=sys.stderr,
        )
        return 1
    work("")
    return 0


def _told(given: argparse.Namespace) -> dict[str, str]:
    """What Beam's worker wants to find in its environment.

    Raises:
        grpc.RpcError: the provision service does not answer.
    """
    with grpc.insecure_channel(given.provision_endpoint) as channel:
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        metadata = [("worker_id", given.id)]
        info = service.GetProvisionInfo(request, timeout=WAIT, wait_for_ready=True, metadata=metadata).info
    control = info.control_endpoint if info.HasField("control_endpoint") else _at(given.control_endpoint)
    logging = info.logging_endpoint if info.HasField("logging_endpoint") else _at(given.logging_endpoint)
    told = {
        "WORKER_ID": given.id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(control),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(logging),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    if info.HasField("status_endpoint"):
        told["STATUS_API_SERVICE_DESCRIPTOR"] = text_format.MessageToString(info.status_endpoint)
    return told


def _at(url: str) -> endpoints_pb2.ApiServiceDescriptor:
    return endpoints_pb2.ApiServiceDescriptor(url=url)


if __name__ == "__main__":
    sys.exit(main())
