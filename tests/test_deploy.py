"""What `deploy/` holds: commands that the command line takes, and manifests that Kubernetes would."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from apache_beam.options.pipeline_options import PipelineOptions
from tokenmill.pipelines.runs import remote
from tokenmill.pipelines.runs.runner import _unknown_flags

from tokenmill.cli import arguments

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(DEPLOY.rglob("*.yaml"))


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


def commands():
    """The command lines of the pods and containers that submit a job."""
    pod = documents(DEPLOY / "flink" / "job.yaml")[0]["spec"]["template"]["spec"]
    yield from (container["args"] for container in pod["containers"] if container["command"] == ["tokenmill"])
    yield documents(DEPLOY / "compose.yaml")[0]["services"]["tokenmill"]["command"]


@pytest.mark.parametrize("argv", list(commands()), ids=["job.yaml", "compose.yaml"])
def test_every_command_is_one_that_the_command_line_takes(argv):
    given, beam = arguments(argv).parse_known_args(argv)
    assert given.subcommand == "knowledge" and given.max_concurrency_total
    assert _unknown_flags(beam) == []
    told = PipelineOptions(beam).get_all_options(drop_default=True)
    for name, value in remote._PORTABLE.items():
        assert str(told[name]) == value, "what --on flink fills in"
    assert "password" not in " ".join(argv) and "checkpoint" not in " ".join(argv)


def test_images_are_of_the_versions_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = "".join(path.read_text() for path in DEPLOY.rglob("*") if path.is_file())
    beam = next(re.search(r">=(2\.\d+)", one)[1] for one in project["dependencies"] if one.startswith("apache-beam"))
    assert {found for found in re.findall(r"job_server:(2\.\d+)", text)} == {beam}
    version = ".".join(project["version"].split(".")[:2])
    assert set(re.findall(r"tokenmill(?:-\w+)?:(\d+\.\d+)", text)) == {version}
    assert set(re.findall(r"python:(\d\.\d+)|--python (\d\.\d+)", text)) == {("3.11", ""), ("", "3.11")}


def test_secrets_come_from_the_secret_and_from_nowhere_else():
    for path in MANIFESTS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"(?i)(key|password|token):\s*\S", line):
                assert "secretKeyRef" in line or "TOKENMILL_" in line, f"{path.name}:{number}"


@pytest.mark.parametrize("path", [p for p in MANIFESTS if p.name != "compose.yaml"], ids=lambda p: p.name)
def test_manifests_fit_kubernetes_own_schema(path):
    for one in documents(path):
        assert {"apiVersion", "kind", "metadata", "spec"} <= set(one)
        if one["apiVersion"].startswith("flink."):
            continue  # the operator's own kind
        validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
        validate.validate(one, "1.31", strict=True)


def test_a_template_s_parameters_become_a_command_line():
    spec = importlib.util.spec_from_file_location("template", DEPLOY / "dataflow" / "template.py")
    template = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(template)
    assert template.words(["--output=gs://b/o", "--job=agentic tasks", "--runner=DataflowRunner"]) == [
        *("agentic", "tasks", "--output=gs://b/o", "--runner=DataflowRunner", "--detach")
    ]
    with pytest.raises(SystemExit, match="names the subcommand"):
        template.words(["--output=gs://b/o"])
    told = json.loads((DEPLOY / "dataflow" / "metadata.json").read_text())
    flags = [f"--{one['name']}=1" for one in told["parameters"] if one["name"] not in ("job", "llm")]
    words = ["knowledge", "--llm=m@http://h/v1", *flags]
    assert _unknown_flags(arguments(words).parse_known_args(words)[1]) == []
