"""The options that every job has: what is refused before a call, and who plays which role."""

import pytest
from tokenmill.pipelines.runs.options import EMBEDDED_SAMPLING, RunOptions, roles
from tokenmill.schemas.flags import UsageError

from tokenmill import cli


def options(**given):
    return RunOptions(**{"input": "a.jsonl", "output": "out", **given})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"n": 3}', "n is set by the job"),
        ('{"stream": true}', "stream is set by the job"),
        ('{"model": "other"}', "model is set by the job"),
        ('{"messages": []}', "messages is set by the job"),
        ('{"response_format": {"type": "text"}}', "response_format is set by the job"),
        ('{"max_tokens": "x"}', "max_tokens must be a whole number from 1 .*not 'x'"),
        ('{"max_tokens": 0}', "max_tokens must be a whole number from 1"),
        ('{"temperature": true}', "temperature must be a number from 0 "),
        ('{"temperature": NaN}', "NaN is no number"),
        ('{"top_p": 1.5}', "top_p must be a number from 0 to 1 "),
        ('{"seed": 100000000000000000000}', "seed must be a whole number "),
        ('{"seed": 1.5}', "seed must be a whole number "),
        ('{"stop": [1]}', "stop must be a text or a list of texts"),
        ('{"presence_penalty": "0"}', "presence_penalty must be a number"),
        ("[1]", "must be a JSON object"),
        ("{", "not JSON"),
    ],
)
def test_what_no_call_could_use_is_refused_before_one(text, said):
    with pytest.raises(UsageError, match=said) as refused:
        options(sampling=text)
    assert str(refused.value).startswith(f"--sampling {text}: ")


def test_what_servers_take_is_passed_on():
    text = '{"temperature": 0, "top_p": null, "top_k": -1, "seed": 0, "stop": "\\n", "max_tokens": 9, "dry": {"a": 1}}'
    expected = {"temperature": 0, "top_p": None, "top_k": -1, "seed": 0, "stop": "\n", "max_tokens": 9, "dry": {"a": 1}}
    assert options(sampling=text).sampling == expected == options(sampling=expected).sampling


@pytest.mark.parametrize("job", ["knowledge", "math", "agentic trajectories", "tools curate"])
def test_a_command_says_so_in_one_line(job, capsys):
    name = {"agentic trajectories": "--tasks"}.get(job, "--input")
    words = [*job.split(), name, "x", "--output", "y", "--judge-sampling", '{"n": 2}']
    assert cli.main(words) == 2
    said = 'tokenmill: --judge-sampling {"n": 2}: n is set by the job and cannot be given here\n'
    assert capsys.readouterr().err == said


def test_there_must_be_somewhere_to_write_to():
    with pytest.raises(UsageError, match="--output DIR is required"):
        options(output=None)
    assert options(output=None, preview=1).output is options(output=None, estimate=True).output is None
    assert options(output="a/b//").output == "a/b"


def test_a_key_in_a_spec_is_not_repeated():
    with pytest.raises(UsageError) as refused:
        options(judge_llm="m@http://user:sk-secret@host/v1?x=1")
    assert str(refused.value).startswith("--judge-llm: ") and "sk-secret" not in str(refused.value)


def test_a_role_without_a_model_of_its_own_is_played_by_the_writers():
    played = roles(
        options(llm="a@http://h/v1", judge_llm="b@http://h/v1", judge_sampling={"seed": 1}), "writer", "judge"
    )
    assert (played["writer"].spec, played["writer"].params) == ("a@http://h/v1", {})
    assert (played["judge"].spec, played["judge"].params) == ("b@http://h/v1", {"seed": 1})
    assert roles(options(llm="a@http://h/v1"), "judge")["judge"].spec == "a@http://h/v1"


def test_whatever_the_embedded_model_plays_it_is_kept_from_going_round_in_circles():
    given = {"judge_sampling": {"temperature": 0.0}}
    played = roles(options(**given), "writer", "judge")
    assert played["writer"].params == EMBEDDED_SAMPLING
    assert played["judge"].params == {**EMBEDDED_SAMPLING, "temperature": 0.0}
    assert roles(options(llm="smollm2@http://h/v1"), "writer")["writer"].params == {}, "one of that name elsewhere"
