"""Models of the Hub, against one on a local port."""

import json

import pytest
from tokenmill.inference.servers.hub import NotFetched, fetched, pinned
from tokenmill.inference.servers.launch import embedded_model, launch_of
from tokenmill.inference.spec import parse_spec

from tests.inference.servers.model_hub import COMMIT, model_hub
from tests.outputs import manifest

REPO = "org/Small-GGUF"
FILES = {
    name: name.encode() * 50_000
    for name in ("Small-Q8_0.gguf", "Small-Q4_K_M.gguf", "mmproj-Small-Q4_K_M.gguf", "Small-IQ2_XS.gguf")
}


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def test_a_repository_means_its_file_of_four_bits_at_the_commit_of_now(monkeypatch):
    with model_hub(monkeypatch, REPO, FILES) as hub:
        spec = pinned(parse_spec(f"hf:{REPO}?ctx=4096"))
        assert spec.text == f"hf:{REPO}/Small-Q4_K_M.gguf?ctx=4096&revision={COMMIT}"
        assert spec.model == f"{REPO}/Small-Q4_K_M"
        asked = len(hub.asked)
        assert pinned(spec) == spec and len(hub.asked) == asked


def test_a_file_is_downloaded_once_and_then_needs_no_network(monkeypatch, tmp_path):
    with model_hub(monkeypatch, REPO, FILES) as hub:
        spec = pinned(parse_spec(f"hf:{REPO}"))
        path = fetched(spec)
        assert path.read_bytes() == FILES["Small-Q4_K_M.gguf"] and hub.ranges == [0]
    assert fetched(spec) == path and not list(tmp_path.rglob("*.part"))


def test_a_download_that_breaks_off_is_taken_up_where_it_ended(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 16)  # of ten megabytes, usually
    with model_hub(monkeypatch, REPO, FILES) as hub:
        hub.cut = 300_000
        assert fetched(parse_spec(f"hf:{REPO}/Small-Q8_0.gguf")).read_bytes() == FILES["Small-Q8_0.gguf"]
        assert len(hub.ranges) == 2 and 0 < hub.ranges[1] <= 300_000


def test_a_command_that_was_killed_goes_on_where_it_was(monkeypatch, tmp_path):
    with model_hub(monkeypatch, REPO, FILES) as hub:
        spec = pinned(parse_spec(f"hf:{REPO}"))
        part = tmp_path / "cache/tokenmill/models" / REPO / COMMIT / "Small-Q4_K_M.gguf.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(FILES["Small-Q4_K_M.gguf"][:123_456])
        assert fetched(spec).read_bytes() == FILES["Small-Q4_K_M.gguf"] and hub.ranges == [123_456]


def test_a_damaged_download_is_deleted_and_said(monkeypatch, tmp_path):
    with model_hub(monkeypatch, REPO, FILES) as hub:
        hub.etag = "0" * 64
        with pytest.raises(NotFetched, match="damaged and was deleted; repeat"):
            fetched(parse_spec(f"hf:{REPO}"))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_all_parts_of_a_split_model_are_fetched_and_the_first_is_served(monkeypatch):
    files = {f"q8/Big-Q8_0-0000{n}-of-00003.gguf": b"%d" % n * 1000 for n in (1, 2, 3)}
    with model_hub(monkeypatch, REPO, files):
        path = fetched(parse_spec(f"hf:{REPO}"))
    assert path.name == "Big-Q8_0-00001-of-00003.gguf"
    assert [one.read_bytes()[:1] for one in sorted(path.parent.glob("*.gguf"))] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("spec", "status", "code", "line"),
    [
        (f"hf:{REPO}/Small-Q2.gguf", 200, "", "no such file; it has Small-IQ2_XS.gguf"),
        ("hf:org/Weights", 200, "", "no such file in the repository|no such repository"),
        (f"hf:{REPO}", 404, "RepoNotFound", "no such repository on the Hub"),
        (f"hf:{REPO}", 403, "GatedRepo", "accept its terms on the Hub and set HF_TOKEN"),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(monkeypatch, spec, status, code, line):
    with model_hub(monkeypatch, REPO, FILES) as hub:
        hub.status, hub.code = status, code
        with pytest.raises(NotFetched, match=line) as raised:
            pinned(parse_spec(spec))
    assert "\n" not in str(raised.value)


def test_a_repository_of_several_files_none_of_them_usual_asks_for_a_name(monkeypatch):
    with (
        model_hub(monkeypatch, REPO, {"a.IQ1.gguf": b"1", "b.IQ2.gguf": b"2"}),
        pytest.raises(NotFetched, match="name one of the files"),
    ):
        pinned(parse_spec(f"hf:{REPO}"))
    with model_hub(monkeypatch, REPO, {}), pytest.raises(NotFetched, match=r"no \.gguf file"):
        pinned(parse_spec(f"hf:{REPO}"))


def test_without_network_the_command_says_so(run, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    corpus = tmp_path / "a.jsonl"
    corpus.write_text('{"text": "It rained."}\n')
    code, _, stderr = run("knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", f"hf:{REPO}")
    assert code == 2 and "the Hub cannot be reached" in stderr and len(stderr.strip().splitlines()) == 1


def test_every_core_works_for_a_model_of_the_hub(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3, 4, 5}, raising=False)
    with model_hub(monkeypatch, REPO, FILES):
        assert "--threads=6" in launch_of(parse_spec(f"hf:{REPO}")).argv
        assert "--threads=2" in launch_of(parse_spec(f"hf:{REPO}?threads=2")).argv


@pytest.mark.timeout(240)
def test_a_job_downloads_its_model_serves_it_and_names_it(monkeypatch, tmp_path, run):
    """The packaged model, as if it were one of the Hub."""
    monkeypatch.setenv("TOKENMILL_RUNTIME_DIR", str(tmp_path / "r"))
    corpus = tmp_path / "a.jsonl"
    corpus.write_text(json.dumps({"text": "The mill at Leeds burned down in 1812 and was rebuilt in 1815."}) + "\n")
    with model_hub(monkeypatch, REPO, {"smol-Q4_0.gguf": embedded_model().read_bytes()}) as hub:
        code, _, _ = run(
            "knowledge", "--input", corpus, "--output", tmp_path / "out", "--llm", f"hf:{REPO}?ctx=2048",
            "--rephrasings", 1, "--repairs", 0, "--no-judge", "--no-similarity", "--sampling", '{"max_tokens": 40}',
        )  # fmt: skip
        assert hub.ranges == [0]
    told = manifest(tmp_path / "out")
    assert code == 0 and told["counts"]["failed"] == 0 and told["calls"]["writer"]["paid"] == 1
    assert told["models"][0]["spec"] == f"hf:{REPO}/smol-Q4_0.gguf?ctx=2048&revision={COMMIT}"
    assert told["calls"]["writer"]["usd"] == 0.0
