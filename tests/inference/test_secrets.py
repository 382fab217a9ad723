"""Keys from the environment or from mounted files, never from a job."""

import pytest
from tokenmill.inference.errors import RunStopped
from tokenmill.inference.secrets import secret
from tokenmill.inference.spec import parse_spec


def test_a_variable_stands_before_the_file_that_another_names(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("from the file\n")
    monkeypatch.delenv("MY_KEY", raising=False)
    assert secret("MY_KEY") == ""
    monkeypatch.setenv("MY_KEY_FILE", str(tmp_path / "key"))
    assert secret("MY_KEY") == "from the file"
    monkeypatch.setenv("MY_KEY", "from the environment")
    assert secret("MY_KEY") == "from the environment"


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_stops_the_run_in_one_line(monkeypatch, tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    monkeypatch.setenv("MY_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(RunStopped, match=r"MY_KEY_FILE=.*key cannot be read \(.*; mount the secret there"):
        secret("MY_KEY")


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ("openai:gpt", "OPENAI_API_KEY"),
        ("gemini:flash", "GEMINI_API_KEY"),
        ("m@http://host/v1", "TOKENMILL_API_KEY"),
        ("m@http://host/v1?key=THEIRS", "THEIRS"),
    ],
)
def test_every_kind_of_endpoint_may_have_its_key_in_a_file(monkeypatch, tmp_path, spec, variable):
    (tmp_path / "key").write_text("abc\n")
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(f"{variable}_FILE", str(tmp_path / "key"))
    assert parse_spec(spec).api_key() == "abc"
