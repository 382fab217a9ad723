"""What all jobs have in common: the same flags, one declaration for Python and the command line, one line for what cannot be."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.agentic.chain import ChainOptions
from tokenmill.pipelines.knowledge import job as knowledge
from tokenmill.pipelines.knowledge.job import KnowledgeOptions
from tokenmill.pipelines.math import job as math
from tokenmill.pipelines.math.job import MathOptions
from tokenmill.pipelines.runs.launch import Command, launch
from tokenmill.pipelines.runs.options import EMBEDDED_SAMPLING, RunOptions
from tokenmill.pipelines.tools.curate import job as curate
from tokenmill.pipelines.tools.curate.job import CurateOptions
from tokenmill.schemas.flags import UsageError, as_flags, describe, from_namespace

from tests.outputs import manifest, rows
from tokenmill import cli


def runs_a_job(name):
    command = getattr(cli._module(name), "COMMAND", None)  # of a group, and of what runs nothing, there is none
    return isinstance(command, Command) and issubclass(command.options, RunOptions)


JOBS = [name for name in cli.COMMANDS if runs_a_job(name)]
COMMON = {one.name for one in describe(RunOptions)} - {"--input"}
"""How the input is called depends on what it is."""
SPEC = "m@http://127.0.0.1:9/v1"
SAMPLES = {
    bool: [(True, [])],
    int: [(7, ["7"]), (1_001, ["1_001"])],
    float: [(0.25, ["0.25"]), (1.0, ["1"])],
    str: [("x", ["x"]), ("a b", ["a b"])],
    tuple: [(("a",), ["a"]), (("a", "b"), ["a", "b"])],
    dict: [({"temperature": 0.5, "stop": ["\\n"]}, ['{"temperature": 0.5, "stop": ["\\\\n"]}'])],
}
"""Values with the words that say them, by type; and by field where not every value of the type can be."""
FIELDS = {
    **{name: [(SPEC, [SPEC]), ("smollm2", ["smollm2"])] for name in ("llm", "judge_llm", "user_llm", "tool_llm")},
    "seed": [(-3, ["-3"]), (9, ["9"])],
    "rephrasings": [(1, ["1"])],
    "notes": [(2, ["2"])],
    "votes": [(5, ["5"])],
    "prompt": [],  # one thing to one job, another to another
    "prices": [],  # a file must be there
    "columns": [("id=url", ["id=url"])],
    "languages": [("en,de", ["en,de"])],
    "agent_protocol": [("json", ["json"])],
    "on": [("spark", ["spark"])],
    "sandbox": [("gvisor", ["gvisor"])],
    "engine": [],  # goes with engines
    "engines": [],
    "outcomes": [("timeout=0.05", ["timeout=0.05"])],
    "licenses": [("by", ["by"])],
    **{name: [] for name in ("mixture", "annealing", "long_context")},  # each goes with a number of tokens
    **{name: [] for name in ("tokens", "annealing_tokens", "long_tokens")},
    "long_length": [(4096, ["4096"])],
    "quality": [("a.npz:0.5", ["a.npz:0.5"])],
    "near_duplicate": [(0.8, ["0.8"])],
    "levels": [("decline=0.5", ["decline=0.5"])],
    "toolset_size": [("2-5", ["2-5"])],
    "keep": [("0.1:0.9", ["0.1:0.9"])],
    "distractor_tools": [(3, ["3"])],
    **{name: [] for name in ("pairs", "keep_per_task", "give_up_after")},  # go with several samples
    **{name: [] for name in ("domain", "policy")},  # a file must be there
}


def options_of(job):
    return cli.load(job).options


def parsed(job, words):
    return from_namespace(options_of(job), cli.arguments(job.split()).parse_args([*job.split(), *words]))


def samples(flag):
    return FIELDS.get(flag.field, SAMPLES[flag.type])


@st.composite
def some_options(draw, job):
    """(keywords, words of a command line) that say the same of some options, all that are required among them."""
    keywords, words = {}, []
    for flag in draw(st.permutations(describe(options_of(job)))):
        if samples(flag) and (flag.field in ("input", "output", "domains") or draw(st.booleans())):
            value, said = draw(st.sampled_from(samples(flag)))
            keywords[flag.field] = value
            words += [flag.name, *said] if flag.name.startswith("-") else said
    return keywords, words


@pytest.mark.parametrize("job", JOBS)
def test_options_made_in_python_equal_those_of_the_command_line(job):
    @given(some_options(job))
    def check(both):
        keywords, words = both
        options = options_of(job)(**keywords)
        assert parsed(job, words) == options
        assert parsed(job, as_flags(options)) == options, "and so do the words that they are turned into"

    check()


@pytest.mark.parametrize("job", JOBS)
def test_every_job_has_the_common_flags_and_all_are_explained(job):
    flags = describe(options_of(job))
    assert {flag.name for flag in flags} >= COMMON
    assert "input" in {flag.field for flag in flags}
    assert len({flag.name for flag in flags}) == len(flags)
    assert all(flag.help and "\n" not in flag.help for flag in flags)


@pytest.mark.parametrize("job", [*JOBS, "publish"])
def test_the_help_shows_every_flag(job, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        cli.main([*job.split(), "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for flag in describe(options_of(job)):
        assert (flag.name if flag.name.startswith("-") else flag.metavar) in shown and flag.described in shown


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("field", "given", "said"),
    [
        ("limit", "0", "must be at least 1"),
        ("preview", "few", "must be a whole number"),
        ("seed", str(2**63), "must be within 64 bits"),
        ("patience", "-1", "must be more than 0"),
        ("sampling", '{"top_p": 2}', "top_p must be a number from 0 to 1 "),
        ("llm", "nonsense:m", "no such form"),
        ("max_tokens", "1.5", "must be a whole number"),
    ],
)
def test_what_cannot_be_is_one_line_that_names_the_flag(job, field, given, said, capsys):
    named = {flag.field: flag for flag in describe(options_of(job))}
    required = [flag for flag in named.values() if flag.field in ("input", "domains")]
    words = [word for flag in required for word in (flag.name, "x")]
    assert cli.main([*job.split(), *words, "--output", "out", named[field].name, given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tokenmill: {named[field].name}") and said in line
    with pytest.raises(UsageError, match=f"^{named[field].name}"):
        options_of(job)(**{flag.field: "x" for flag in required}, output="out", **{field: given})


@pytest.mark.parametrize("job", JOBS)
def test_what_is_missing_is_one_line(job, capsys):
    assert cli.main(job.split()) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_nobody_knows_goes_to_beam(capsys):
    words = ["knowledge", "--input", "x", "--output", "y", "--runner=FlinkRunner", "--flink_master", "h:1"]
    assert cli.arguments(words).parse_known_args(words)[1] == ["--runner=FlinkRunner", "--flink_master", "h:1"]


def test_the_chain_has_the_flags_of_its_stages():
    chained = {flag.field: flag for flag in describe(ChainOptions)}
    for stage in ("agents", "tasks", "trajectories"):
        for flag in describe(options_of(f"agentic {stage}")):
            assert flag.field == "input" or chained[flag.field] == flag
    assert chained["input"].name == "--tools"


def test_a_stage_reads_longer_rows_than_documents_are():
    longest = {
        job: next(f.default for f in describe(options_of(job)) if f.field == "max_document_bytes") for job in JOBS
    }
    short = {"knowledge", "generate", "prefer", "math", "tools harvest", "tools curate", "corpus run", "corpus label"}
    assert {job for job, most in longest.items() if most == 5_000_000} == short
    assert {longest[job] for job in longest.keys() - short} == {20_000_000}


@pytest.mark.parametrize(
    ("module", "options"), [(knowledge, KnowledgeOptions), (math, MathOptions), (curate, CurateOptions)]
)
def test_the_embedded_model_judges_with_the_parameters_that_it_writes_with(module, options):
    job = module.job(options(input="a.jsonl", estimate=True, llm="smollm2"))
    assert {name: role.params for name, role in job.roles.items()} == {name: EMBEDDED_SAMPLING for name in job.roles}
    assert "judge" in job.roles


def test_a_job_runs_from_options_made_in_python_and_writes_what_its_command_writes(tmp_path, run):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(4, 6)))
    with ScriptedServer(Writer()) as server:
        options = KnowledgeOptions(
            input=[corpus],
            output=tmp_path / "python",
            llm=server.spec,
            no_similarity=True,
            rephrasings=1,
            cache=str(tmp_path / "answers.sqlite"),
        )
        assert launch(knowledge.job(options), options) == 0
        words = ("knowledge", "--input", corpus, "--llm", server.spec, "--no-similarity", "--rephrasings", 1)
        assert run(*words, "--output", tmp_path / "command")[0] == 0
        sent = server.log.requests
        again = KnowledgeOptions(**{**vars(options), "output": tmp_path / "again"})
        assert knowledge.COMMAND.run(again) == 0 and server.log.requests == sent
    assert rows(tmp_path / "python") == rows(tmp_path / "command") == rows(tmp_path / "again")
    told = manifest(tmp_path / "again")
    assert told["config"] == manifest(tmp_path / "command")["config"]
    assert told["command"][2:] == ["knowledge", *as_flags(again)]
