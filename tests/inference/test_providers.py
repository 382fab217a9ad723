"""What goes over the wire to each vendor, against servers as strict as theirs."""

import orjson
import pytest
from tokenmill.inference import runtime as runtimes
from tokenmill.inference.anthropic import Anthropic
from tokenmill.inference.call import Answer, Call
from tokenmill.inference.providers import PROVIDERS
from tokenmill.inference.roles import Models
from tokenmill.inference.servers.acquire import ServerFailed
from tokenmill.inference.spec import SpecError, parse_spec
from tokenmill.inference.wire import codec_of
from tokenmill.pipelines.knowledge.job import KnowledgeOptions
from tokenmill.pipelines.runs.options import roles

from tests.servers.vendors import MessagesServer, StrictServer, problem

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
USUAL = {"temperature": 0.7, "top_p": 0.95, "seed": 3, "max_tokens": 50}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


def asked(tmp_path, spec, *calls, **more):
    """The answers to calls of the writer of `spec`, each (messages, parameters)."""
    options = KnowledgeOptions(input=("x",), output="out", llm=spec, **more)
    models = Models(roles(options, "writer"), str(tmp_path / "a.sqlite"), "test", patience=2, tries=1)
    runtime = runtimes.obtain(models)
    try:
        return [runtime.run(runtime.client.ask(messages, **params)) for messages, params in calls]
    finally:
        runtimes.release(runtime)


def user(text):
    return [{"role": "system", "content": "Be short."}, {"role": "user", "content": text}]


@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-4-5-20250929", "claude-haiku-4-5?effort=low"])
def test_anthropic_answers_texts_and_forms_and_takes_its_parameters(tmp_path, monkeypatch, model):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")

    def answer(body):
        in_words = "JSON Schema" in body["messages"][0]["content"]
        return '{"n": 7}' if "response_format" in body or in_words else "hello"

    with MessagesServer(answer, key="secret", models=(model.partition("?")[0],)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        text, form = asked(tmp_path, f"anthropic:{model}", (user("a"), USUAL), (user("b"), {**USUAL, "schema": SCHEMA}))
        again = asked(tmp_path, f"anthropic:{model}", (user("a"), USUAL))[0]
    assert (text.text, text.finish_reason, orjson.loads(form.text)) == ("hello", "stop", {"n": 7})
    assert (text.usage.prompt, text.usage.cached, text.usage.completion) == (100, 30, 1)
    assert again.from_cache and again.text == "hello" and server.log.kinds == {"200": 2}
    assert orjson.loads(text.raw)["original"]["stop_reason"] == "end_turn"
    first = orjson.loads(next(iter(server.log.bodies)))
    assert first["system"] == "Be short." and ("temperature" in first) == ("sonnet" in model)
    # What the model thinks counts as part of its answer there.
    assert first["max_tokens"] == (2050 if "effort" in model else 50)


def test_a_conversation_with_tools_keeps_its_order_and_its_ids():
    call = {"id": "call:1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    broken = {"id": "call:2", "type": "function", "function": {"name": "f", "arguments": "{oops"}}
    messages = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "What do you want? "},
        {"role": "user", "content": "f"},
        {"role": "assistant", "content": "", "tool_calls": [call, broken]},
        {"role": "tool", "tool_call_id": "call:1", "content": "1"},
        {"role": "tool", "tool_call_id": "call:2", "content": "2"},
        {"role": "user", "content": "and?"},
    ]
    body = Call("claude-sonnet-4-5", tuple(messages), USUAL, tools=(TOOL,)).body
    sent = orjson.loads(Anthropic().encode(body))
    assert problem(sent) == ""
    assert [[block["type"] for block in turn["content"]] for turn in sent["messages"]] == [
        ["text"], ["text"], ["text"], ["tool_use", "tool_use"], ["tool_result", "tool_result", "text"],
    ]  # fmt: skip
    assert sent["tools"] == [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]
    told = {"content": [{"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}], "stop_reason": "tool_use"}
    answer = Answer.parse(Anthropic().decode(orjson.dumps(told)))
    assert answer.tool_calls[0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert Anthropic().decode(b"<html>") == b"<html>"


@pytest.mark.parametrize(
    ("provider", "refused", "header", "variables"),
    [
        (
            "gemini",
            {"seed", "frequency_penalty", "top_k"},
            "authorization: bearer secret",
            {"GEMINI_API_KEY": "secret"},
        ),
        ("mistral", {"seed", "max_completion_tokens"}, "authorization: bearer secret", {"MISTRAL_API_KEY": "secret"}),
        ("groq", {"max_tokens", "top_k"}, "authorization: bearer secret", {"GROQ_API_KEY": "secret"}),
        ("azure", {"max_tokens"}, "api-key: secret", {"AZURE_OPENAI_API_KEY": "secret"}),
    ],
)
def test_what_a_vendor_does_not_know_is_left_out(tmp_path, monkeypatch, provider, refused, header, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with StrictServer(lambda body: "hello", refused=frozenset(refused), header=header, models=("m",)) as server:
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", server.url)
        (answer,) = asked(
            tmp_path,
            f"{provider}:m",
            (user("a"), {**USUAL, "top_k": 3, "frequency_penalty": 0.1} if provider == "gemini" else USUAL),
        )
    sent = orjson.loads(next(iter(server.log.bodies)))
    assert answer.text == "hello" and server.log.kinds["400"] == 0
    assert sent.get("max_tokens", sent.get("max_completion_tokens")) == 50
    assert sent.get("random_seed") == (3 if provider == "mistral" else None)


def test_azure_is_found_by_its_resource_and_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "secret")
    with pytest.raises(ServerFailed, match="AZURE_OPENAI_ENDPOINT"):
        asked(tmp_path, "azure:deployed")
    with StrictServer(lambda body: "hello", refused=frozenset(), header="api-key: secret") as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url.removesuffix("/v1"))
        assert asked(tmp_path, "azure:deployed", (user("a"), USUAL))[0].text == "hello"


def test_a_schema_is_told_in_words_where_it_cannot_be_given():
    call = Call("deepseek-chat", tuple(user("a")), USUAL, SCHEMA)
    sent = orjson.loads(codec_of("deepseek").encode(call.body))
    assert sent["response_format"] == {"type": "json_object"} and "seed" not in sent
    assert sent["messages"][-1]["content"].startswith("a\n\nAnswer with one JSON value")
    assert '"required":["n"]' in sent["messages"][-1]["content"]
    assert codec_of("").encode(call.body) is call.body


def test_each_endpoint_has_its_own_key(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "first")
    monkeypatch.setenv("THEIRS", "second")
    with StrictServer(lambda body: "hello", refused=frozenset(), header="bearer first") as server:
        assert asked(tmp_path, f"{server.spec}?key=MINE", (user("a"), USUAL))[0].text == "hello"
        options = KnowledgeOptions(
            input=("x",), output="out", llm=f"{server.spec}?key=MINE", judge_llm=f"{server.spec}?key=THEIRS"
        )
        models = Models(roles(options, "writer", "judge"), str(tmp_path / "b.sqlite"), "test")
        runtime = runtimes.obtain(models)
        keys = {name: player.endpoint.client.api_key for name, player in runtime.client.players.items()}
        runtimes.release(runtime)
    assert keys == {"writer": "first", "judge": "second"}


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_missing_key_is_one_line_before_anything_is_asked(tmp_path, monkeypatch, name):
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv(PROVIDERS[name].key, raising=False)
    with pytest.raises(ServerFailed, match=f"set {PROVIDERS[name].key}"):
        asked(tmp_path, f"{name}:m")


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("openai:m?key=sk-abcdefghijklmnop", "not the key itself"),
        ("openai:m?effort=huge", "effort is one of"),
        ("openai:m?batch&poll=0", "above 0"),
        ("openai:m?batch=yes", "takes no value"),
        ("vllm:m?batch&poll=x", "above 0"),
    ],
)
def test_a_wrong_option_is_said_and_no_secret_shown(spec, hint):
    with pytest.raises(SpecError) as error:
        parse_spec(spec)
    assert hint in str(error.value) and "sk-abc" not in str(error.value)


def test_models_that_think_get_room_for_it_and_no_temperature():
    def params(spec, **more):
        return roles(KnowledgeOptions(input=("x",), output="out", llm=spec, **more), "writer")["writer"].params

    off = {"temperature": None, "top_p": None}
    assert params("openai:gpt-5-mini") == off and params("openai:o3?effort=high") == {"reasoning_effort": "high", **off}
    assert params("openai:gpt-4.1") == params("gemini:m") == params("m@http://h/v1") == {}
    assert params("m@http://h/v1?effort=low") == {"reasoning_effort": "low"}
    assert params("anthropic:claude-opus-4-8") == off and params("anthropic:claude-opus-4-20250514") == {}
    assert params("openai:gpt-5-mini", sampling={"temperature": 1}) == {"temperature": 1, "top_p": None}
