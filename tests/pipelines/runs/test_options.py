"""Sampling parameters as a command takes them."""

import argparse

import pytest
from tokenmill.pipelines.runs.options import add_arguments, sampling


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
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        sampling(text)


def test_what_servers_take_is_passed_on():
    text = '{"temperature": 0, "top_p": null, "top_k": -1, "seed": 0, "stop": "\\n", "max_tokens": 9, "dry": {"a": 1}}'
    expected = {"temperature": 0, "top_p": None, "top_k": -1, "seed": 0, "stop": "\n", "max_tokens": 9, "dry": {"a": 1}}
    assert sampling(text) == expected


def test_a_command_says_so_in_one_line(capsys):
    parser = argparse.ArgumentParser(prog="tokenmill")
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--input", "x", "--judge-sampling", '{"n": 2}'])
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == "tokenmill: error: argument --judge-sampling: n is set by the job and cannot be given here"
