"""Which of several answers is kept, and how many are asked for."""

import asyncio
import json

import pytest
from tokenmill.bench.servers.mill import documents, passage, rewrite
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.rollouts.candidates import APART, Candidates, best
from tokenmill.schemas.verdicts import Finding, Verdict

from tests.outputs import rows
from tests.test_batch_cli import command, run

GOOD, FAIR, BAD, WORSE = "good", "fair", "bad", "worse"


def verdicts(text):
    findings = {BAD: 1, WORSE: 2}.get(text, 0)
    score = {GOOD: 1.0, FAIR: 0.5}.get(text, 0.0)
    found = tuple(Finding("f", "d") for _ in range(findings))
    return [Verdict("c", not findings, score, "f" if findings else "", found)]


@pytest.mark.parametrize(
    ("answers", "always", "kept", "asked"),
    [
        ([FAIR, GOOD, GOOD], False, (0, FAIR), 1),
        ([FAIR, BAD, GOOD], True, (2, GOOD), 3),
        ([GOOD, GOOD, GOOD], True, (0, GOOD), 3),
        ([BAD, FAIR, GOOD], False, (2, GOOD), 3),
        ([WORSE, BAD, BAD], False, (1, BAD), 3),
        ([BAD, WORSE, BAD], False, (0, BAD), 3),
    ],
)
def test_the_best_by_the_checks_is_kept_and_the_earlier_of_equals(answers, always, kept, asked):
    seen = []

    async def draw(params):
        number, _ = divmod(params["attempt"], APART)
        assert params["seed"] == 5 + APART * number
        seen.append(number)
        return answers[number]

    async def verify(text):
        return verdicts(text)

    first = answers[0]
    params = {"attempt": 0, "seed": 5}
    found = asyncio.run(best(draw, verify, first, verdicts(first), params, Candidates(3, always)))
    assert found[:2] == kept and len(seen) + 1 == asked


def test_a_run_draws_them_where_the_first_is_refused_and_prices_them(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(6, 2)))

    def answer(body):
        text = passage(body)
        # The first answer to half of the passages copies them; others, of other seeds, are honest.
        return text if body["seed"] < APART and len(text) % 2 else rewrite(text)

    with ScriptedServer(answer) as server:
        flags = ("--no-judge", "--rephrasings", "1", "--repairs", "0", "--chunk-tokens", "400")
        code, said, errors = run(
            [*command(tmp_path, server.spec, "out", *flags, "--candidates", "3"), "--estimate"], tmp_path
        )
        assert code == 0 and "  6 " in said.split("expected")[1].split("at most")[0], said
        assert " 18 " in said.split("at most")[1], said
        code, _, errors = run(command(tmp_path, server.spec, "plain", *flags, cache="plain.sqlite"), tmp_path)
        assert code == 0, errors
        refused = len(rows(tmp_path / "plain", "rejected"))
        assert 0 < refused < 6
        server.log.requests = 0
        code, _, errors = run(command(tmp_path, server.spec, "out", *flags, "--candidates", "3"), tmp_path)
        assert code == 0, errors
        assert server.log.requests == 6 + 2 * refused
    kept = rows(tmp_path / "out")
    assert len(kept) == 6 and {row["attempts"] for row in kept} == {1, 3}
    drawn = next(row for row in kept if row["attempts"] == 3)
    assert [v["attempt"] for v in drawn["verdicts"] if not v["passed"]] == [0]
