"""What a submission to Dataflow sends: to a stand-in for its API, since there is no Dataflow here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer

from tests.google_cloud import GoogleCloud
from tests.inference.redis_server import redis_server

pytest.importorskip("google.cloud.dataflow", reason="pip install 'tokenmill[gcp]'")

IMAGE = "europe-docker.pkg.dev/project/repo/tokenmill:0.1"


def test_the_job_names_the_image_and_holds_neither_local_paths_nor_secrets(tmp_path, run, monkeypatch):
    anonymous = pytest.importorskip("google.auth.credentials").AnonymousCredentials()
    monkeypatch.setattr("google.auth.default", lambda *args, **kwargs: (anonymous, "project"))
    redis = redis_server("--port", "0", "--appendonly", "no")
    monkeypatch.setattr("tokenmill.pipelines.runs.remote._LOCAL_CACHES", ())  # this Redis listens on a socket only
    secrets = {"TOKENMILL_API_KEY": "sk-swordfish", "TOKENMILL_REDIS_PASSWORD": ""}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    try:
        with GoogleCloud() as cloud, ScriptedServer(Writer(), key="sk-swordfish") as server:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.url)
            corpus = "".join(json.dumps(row) + "\n" for row in documents(5, 4))
            cloud.objects["shelf/corpus.jsonl"] = corpus.encode()
            monkeypatch.chdir(tmp_path)
            code, _, err = run(
                *("knowledge", "--input", "gs://shelf/corpus.jsonl", "--output", "gs://shelf/out"),
                *("--llm", server.spec, "--no-similarity", "--cache", redis.url, "--on", "dataflow"),
                *("--project=project", "--region=europe-west4", "--temp_location=gs://shelf/tmp"),
                *(f"--sdk_container_image={IMAGE}", "--no_auth", f"--dataflow_endpoint={cloud.url}", "--detach"),
            )
            assert code == 0 and not cloud.unknown, f"{err}\n{cloud.unknown}"
            assert server.log.answered == 0, "nothing is asked before there is a worker"
    finally:
        redis.remove()
    (job,) = cloud.jobs
    told = json.dumps(job)
    assert IMAGE in told and '"sdk_location": "container"' in told.replace("\\", "")
    staged = {key for key in cloud.objects if key.startswith("shelf/tmp/")}
    assert any(key.endswith("pipeline.pb") for key in staged)
    assert not [key for key in staged if key.endswith((".tar.gz", ".whl", ".pickled"))], "all code is in the image"
    assert cloud.objects["shelf/out/.unfinished/job.json"]
    everything = b"".join([told.encode(), *(cloud.objects[key] for key in cloud.objects)])
    for kept_here in (b"sk-swordfish", str(tmp_path).encode(), str(Path.home() / ".cache").encode()):
        assert kept_here not in everything
    assert "finish gs://shelf/out" in err
