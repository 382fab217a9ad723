"""Prices: what is known is computed, what is unknown stays unknown, what is wrong is named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.inference.call import Usage
from tokenmill.inference.pricing import load_prices

MILLION = 1_000_000


@pytest.fixture
def table(tmp_path):
    def write(content):
        path = tmp_path / "prices.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


def test_prompt_cached_and_completion_tokens_have_their_own_price():
    usage = Usage(prompt=3 * MILLION, completion=2 * MILLION, cached=MILLION)
    assert load_prices(None).cost("gpt-4o-mini", usage) == pytest.approx(2 * 0.15 + 0.075 + 2 * 0.6)


@pytest.mark.parametrize(
    "name", ["openai:gpt-4o-mini", "gpt-4o-mini-2024-07-18", "GPT-4o-mini", "gpt-4o-mini@http://10.0.0.1:8000/v1"]
)
def test_specs_and_snapshots_find_their_model(name):
    prices = load_prices(None)
    assert prices.price(name) == prices.price("gpt-4o-mini") is not None


@pytest.mark.parametrize("spec", ["smollm2", "vllm:Qwen/Qwen3-8B", "llamacpp:/models/a.gguf"])
def test_local_models_are_free(spec):
    assert load_prices(None).cost(spec, Usage(1000, 1000)) == 0


@pytest.mark.parametrize("name", ["some-model", "gpt-4o-audio-preview", "some@http://localhost:8000/v1", ""])
def test_an_unknown_model_is_unknown_and_not_free(name):
    assert load_prices(None).cost(name, Usage(1000, 1000)) is None


def test_a_user_file_adds_to_and_overrides_the_shipped_table(table):
    prices = load_prices(
        table({"models": {"gpt-4o-mini": {"input": 1, "output": 2}, "kimi-k2*": {"input": 0.6, "output": 2.5}}})
    )
    assert prices.cost("gpt-4o-mini", Usage(MILLION, MILLION)) == pytest.approx(3)
    assert prices.cost("gpt-4o-mini", Usage(MILLION, 0, cached=MILLION)) == pytest.approx(1)  # cached defaults to input
    assert prices.cost("kimi-k2-0905", Usage(MILLION, MILLION)) == pytest.approx(3.1)
    assert prices.cost("gpt-4o", Usage(0, MILLION)) == pytest.approx(10)


def test_the_most_specific_name_wins(table):
    models = {name: {"input": price, "output": 0} for price, name in enumerate(["a*", "a-b*", "a-b-c", "*@http://x/*"])}
    prices = load_prices(table({"models": models}))
    cost = {name: prices.cost(name, Usage(prompt=MILLION)) for name in ["a-z", "a-b-z", "a-b-c", "a-b-c@http://x/v1"]}
    assert cost == {"a-z": 0, "a-b-z": 1, "a-b-c": 2, "a-b-c@http://x/v1": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ([], '"models"'),
        ({"models": []}, '"models"'),
        ({"models": {"m": 3}}, r"models\.m must be an object"),
        ({"models": {"m": {"input": 1}}}, r"models\.m\.output is missing"),
        ({"models": {"m": {"input": "1", "output": 1}}}, r"models\.m\.input must be USD per million"),
        ({"models": {"m": {"input": -1, "output": 1}}}, r"models\.m\.input must be"),
        ({"models": {"m": {"input": True, "output": 1}}}, r"models\.m\.input must be"),
        ({"models": {"m": {"input": 1, "output": 1, "ouput": 1}}}, r"models\.m\.ouput is not a price; use input"),
    ],
)
def test_a_wrong_table_names_the_field_and_the_fix(table, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_prices(table(content))
    assert "\n" not in str(caught.value) and "prices:" not in str(caught.value), "the flag's name goes before it"


def test_a_missing_table_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"^/.*nowhere\.json cannot be read: No such file"):
        load_prices(str(tmp_path / "nowhere.json"))


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_cost_is_additive_and_caching_never_makes_it_dearer(prompt, completion, cached):
    prices = load_prices(None)
    whole = prices.cost("gpt-5", Usage(prompt, completion, min(cached, prompt)))
    parts = [Usage(prompt, 0, min(cached, prompt)), Usage(0, completion)]
    assert whole == pytest.approx(sum(prices.cost("gpt-5", part) for part in parts))
    assert 0 <= whole <= prices.cost("gpt-5", Usage(prompt, completion)) + 1e-9


def test_a_server_of_this_machine_is_free_unless_its_model_is_priced(tmp_path):
    (tmp_path / "own.json").write_text('{"models": {"mine*": {"input": 1, "output": 2}}}')
    own, usage = load_prices(str(tmp_path / "own.json")), Usage(1_000_000, 500_000)
    assert own.charged("mine-7b", usage, local=True) == own.charged("mine-7b", usage, local=False) == 2.0
    known = next(name for name, price in load_prices().models.items() if price.input and "*" not in name)
    assert own.charged(known, usage, local=True) == 0.0 < own.charged(known, usage, local=False)
    assert own.charged("unheard-of", usage, local=True) == 0.0
    assert own.charged("unheard-of", usage, local=False) is None
