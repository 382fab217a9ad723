"""What a model spec means, and what a wrong one says."""

from __future__ import annotations

import pickle
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.inference.spec import FORMS, ModelSpec, SpecError, parse_spec

NAMES = st.text(string.ascii_letters + string.digits + "/._@+~", min_size=1, max_size=40).filter(
    lambda n: "@h" not in n
)
SECRETS = st.text(string.ascii_letters + string.digits, min_size=12, max_size=24).map("sEcReT".__add__)


def test_each_form_reads_as_documented() -> None:
    assert parse_spec("smollm2") == ModelSpec("embedded", "smollm2", None, (), "smollm2")
    assert parse_spec("org/m@http://Host:8000/v1/").base_url == "http://host:8000/v1"
    assert parse_spec("m@http://[::1]:80").base_url == "http://[::1]:80/v1"
    assert parse_spec("openai:gpt-5-mini").model == "gpt-5-mini"
    vllm = parse_spec("vllm:Qwen/Qwen3-8B?tensor-parallel-size=2&max_model_len=4096")
    assert (vllm.model, vllm.options) == ("Qwen/Qwen3-8B", (("max_model_len", "4096"), ("tensor_parallel_size", "2")))
    llama = parse_spec("llamacpp:models/x.Q4_K.gguf?ctx=4096&parallel=2&threads=3")
    assert (llama.model, llama.path) == ("x.Q4_K", "models/x.Q4_K.gguf")


def test_option_order_does_not_matter() -> None:
    assert parse_spec("vllm:m?b=1&a=2") == parse_spec("vllm:m?a=2&b=1")


@pytest.mark.parametrize(
    ("text", "managed", "local"),
    [
        ("smollm2", True, True),
        ("llamacpp:x.gguf", True, True),
        ("vllm:m", True, True),
        ("m@http://127.0.0.1:8000/v1", False, True),
        ("m@http://localhost:8000/v1", False, True),
        ("m@https://api.example.com/v1", False, False),
        ("openai:m", False, False),
    ],
)
def test_who_runs_it_and_who_pays(text: str, managed: bool, local: bool) -> None:
    spec = parse_spec(text)
    assert (spec.managed, spec.local) == (managed, local)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "empty"),
        ("gpt-4", "no such form"),
        ("ollama:x", "no such form"),
        ("m n@http://h/v1", "blanks"),
        ("@http://h/v1", "no name"),
        ("m@ftp://h/v1", "http:// or https://"),
        ("m@http:///v1", "name a host"),
        ("m@http://h:port/v1", "port"),
        ("m@http://h/v1?x=1", "unknown option x"),
        ("openai:", "no name"),
        ("openai:m?x=1", "unknown option x"),
        ("vllm:--api-key=x", "no name"),
        ("vllm:m?a=1&a=2", "twice"),
        ("vllm:m?a-=1&=2", "?name=value"),
        ("vllm:m?port=80", "decided by Tokenmill"),
        ("vllm:m?hf-token=hf_x", "HF_TOKEN"),
        ("llamacpp:model.bin", ".gguf"),
        ("llamacpp:x.gguf?ctx=many", "whole number"),
        ("llamacpp:x.gguf?temperature=1", "unknown option"),
        ("smollm2?threads=0", "whole number"),
    ],
)
def test_a_wrong_spec_is_one_line_that_names_the_forms(text: str, hint: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(text)
    line = str(error.value)
    assert hint in line and FORMS in line and "\n" not in line


@given(
    name=NAMES.filter(lambda n: not n.startswith("-")),
    options=st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{0,12}", fullmatch=True).filter(
            lambda n: n not in {"host", "port", "uds", "model", "grpc", "help", "config"}
        ),
        st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=12),
        max_size=4,
    ),
)
def test_canonical_text_reads_back_as_the_same_spec(name: str, options: dict[str, str]) -> None:
    from urllib.parse import quote

    text = f"vllm:{name}?" + "&".join(f"{k}={quote(v, safe='')}" for k, v in options.items())
    spec = parse_spec(text.rstrip("?"))
    assert parse_spec(spec.text) == spec
    assert dict(spec.options) == options


@given(name=NAMES.filter(lambda n: not n.startswith("-")), secret=SECRETS, user=st.sampled_from(["", "user:", ":"]))
def test_a_key_in_the_url_is_used_and_never_shown(name: str, secret: str, user: str) -> None:
    spec = parse_spec(f"{name}@https://{user}{secret}@host:1/v1")
    assert spec.api_key() == secret
    assert secret not in repr(spec) + str(spec) + spec.text + str(spec.base_url)
    assert pickle.loads(pickle.dumps(spec)).api_key() == secret


@given(
    secret=SECRETS,
    form=st.sampled_from(["m@ftp://u:{}@h", "m@http://u:{}@h:x", "m@http://u:p {}@h", "://{}@", "vllm:m?api_key={}"]),
)
def test_an_error_never_shows_a_secret(secret: str, form: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(form.format(secret))
    assert secret not in str(error.value)


@given(st.text(max_size=60))
def test_any_text_is_a_spec_or_a_spec_error(text: str) -> None:
    try:
        spec = parse_spec(text)
    except SpecError as error:
        assert "\n" not in str(error)
    else:
        assert parse_spec(spec.text).text == spec.text


def test_keys_are_read_at_the_moment_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, openai = parse_spec("m@http://h/v1"), parse_spec("openai:m")
    for name in ("TOKENMILL_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert endpoint.api_key() == openai.api_key() == ""
    monkeypatch.setenv("TOKENMILL_API_KEY", "one")
    monkeypatch.setenv("OPENAI_API_KEY", "two")
    assert (endpoint.api_key(), openai.api_key(), parse_spec("vllm:m").api_key()) == ("one", "two", "")
