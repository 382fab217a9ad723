"""Endpoints that repeat the key which they are sent, in every place that a run writes or prints."""

from __future__ import annotations

import base64
import html
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest
from tokenmill.inference import redaction
from tokenmill.pipelines.runs.exit import say

from tests.redteam.conftest import KEY
from tests.redteam.hostile import Endpoint, answer, everything_under, key_of, reply


def echo(status: int, spell=lambda key: key):
    """Repeats the key in the body of an error."""
    return lambda head, body: [
        reply(json.dumps({"error": {"message": f"bad key {spell(key_of(head))}"}}).encode(), status)
    ]


def escaped(key: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in key)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 429, 500, 503])
def test_key_in_an_error_body(mill, status):
    with Endpoint(echo(status)) as server:
        ended = mill(server.url)
    assert ended.code in (1, 2, 3)
    if status in (400, 401, 402):
        told = ended.err + ended.out + str(everything_under(ended.folder))
        assert "bad key ***" in told, "the rest of what it says is told"


def test_key_in_the_list_of_models(mill):
    def listing(head, body):
        return [reply(json.dumps({"data": [{"id": f"model-{key_of(head)}"}]}).encode())]

    with Endpoint(echo(400), listing) as server:
        ended = mill(server.url)
    assert ended.code == 2 and "model-***" in ended.err


def test_key_in_a_refused_list_of_models(mill):
    with Endpoint(echo(400), echo(401)) as server:
        assert mill(server.url).code == 2


def test_key_in_a_redirection(mill):
    def away(head, body):
        return [reply(b"", 307, {"Location": f"https://evil.example/?k={key_of(head)}"})]

    with Endpoint(away) as server:
        ended = mill(server.url)
    assert ended.code == 2 and "https://evil.example/?k=***" in ended.err


def test_key_in_an_answer(mill, tmp_path):
    """What a model says becomes rows, card, report and cache."""
    with Endpoint(lambda head, body: [reply(answer(f"The tide mill. {key_of(head)} " * 3))]) as server:
        ended = mill(server.url)
    assert ended.code in (0, 1)
    stored = everything_under(tmp_path / "private")["answers.sqlite"]
    assert b"The tide mill. *** " in stored


def test_key_in_an_answer_in_escapes_of_json(mill, tmp_path):
    def attack(head, body):
        return [reply(answer("KEY " * 3).replace(b"KEY", escaped(key_of(head)).encode()))]

    with Endpoint(attack) as server:
        ended = mill(server.url)
    assert ended.code in (0, 1)
    assert escaped(KEY).encode() not in everything_under(tmp_path / "private")["answers.sqlite"]


def test_key_in_a_tool_call_and_in_the_model_s_name(mill):
    def attack(head, body):
        call = {"id": "1", "type": "function", "function": {"name": key_of(head), "arguments": key_of(head)}}
        return [reply(answer("x", tool_calls=[call], model=key_of(head), finish_reason=key_of(head)))]

    with Endpoint(attack) as server:
        mill(server.url)


@pytest.mark.parametrize(
    "spell",
    [lambda k: quote(f"<{k}>"), lambda k: html.escape(k), lambda k: base64.b64encode(k.encode()).decode()],
    ids=["address", "page", "base64"],
)
def test_key_in_another_spelling(mill, spell, tmp_path):
    with Endpoint(echo(400, spell)) as server:
        mill(server.url)
    assert not any(spell(KEY).encode() in content for content in everything_under(tmp_path).values())


def test_key_from_the_address(mill, tmp_path, monkeypatch):
    monkeypatch.delenv("TOKENMILL_API_KEY")
    with Endpoint(echo(400)) as server:
        mill(f"http://user:{KEY}@127.0.0.1:{server.port}/v1")
        assert key_of(server.heads[-1]) == KEY


def test_key_in_the_preview(mill):
    with Endpoint(echo(400)) as server:
        ended = mill(server.url, "--preview", 1)
    assert "***" in ended.out


def test_key_in_a_traceback(tmp_path):
    """What nobody foresaw, and the debug log, pass the same redaction."""
    program = (
        "import sys\nfrom tokenmill import cli\n"
        "def broken(argv):\n    import logging; logging.getLogger('x').error('log %s', sys.argv[-1])\n"
        "    raise RuntimeError(f'the key is {sys.argv[-1]}')\n"
        "cli.main = broken\ncli.command()\n"
    )
    env = {"PATH": "/usr/bin:/bin", "MY_API_KEY": KEY, "TOKENMILL_DEBUG": "1", "HOME": str(tmp_path)}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program, KEY], capture_output=True, text=True, env=env, cwd=root, timeout=120
    )
    assert "RuntimeError: the key is ***" in done.stderr and "log ***" in done.stderr
    assert KEY not in done.stderr + done.stdout


def test_key_in_an_error_of_our_own(capfd, monkeypatch):
    monkeypatch.setenv("SOME_PROVIDER_TOKEN", "prov-1234567890")
    redaction.learn()
    say("the server said prov-1234567890", 2)
    assert capfd.readouterr().err == "tokenmill: the server said ***\n"


def test_words_that_people_give_as_keys_are_left_in_texts():
    redaction.learn("anything", "EMPTY", "12345678", "none", "tokenmill")
    text = "anything EMPTY 12345678 none tokenmill"
    assert redaction.redacted(text) == text


def test_a_secret_is_hidden_in_every_text_and_nothing_else_is():
    redaction.learn("redis://:p4ss-word-1@host:6379/0", 'quo"te\\12345')
    assert redaction.redacted("at p4ss-word-1, host:6379") == "at ***, host:6379"
    row = {"text": 'say quo"te\\12345 aloud', "n": 1}
    assert orjson.loads(redaction.redacted(orjson.dumps(row))) == {"text": "say *** aloud", "n": 1}
    plain = b'{"a": "caf\\u00e9 \\u0041"}'
    assert redaction.redacted_json(plain) == plain, "what holds no secret stays byte for byte"


@pytest.mark.usefixtures("ordinary_umask")
def test_the_cache_is_its_owner_s_alone(mill, tmp_path):
    with Endpoint(lambda head, body: [reply(answer("x"))]) as server:
        mill(server.url)
    private = tmp_path / "private"
    assert private.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in private.iterdir()} == {0o600}


@pytest.mark.usefixtures("ordinary_umask")
def test_a_cache_that_an_earlier_version_left_open_is_shut(mill, tmp_path):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "answers.sqlite").touch(0o644)
    with Endpoint(lambda head, body: [reply(answer("x"))]) as server:
        mill(server.url)
    assert (tmp_path / "private" / "answers.sqlite").stat().st_mode & 0o777 == 0o600
