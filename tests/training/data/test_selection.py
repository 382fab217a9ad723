"""Rows of shards that a mixture selects by their columns."""

import json

import pytest
from tokenmill.training.data.mixture import Mixture, TextEncoder
from tokenmill.training.data.mixture_file import read_mixture
from tokenmill.training.data.rows import InputError, ShuffledRows, find_files, iterate_rows, open_shards
from tokenmill.training.data.selection import Selection
from tokenmill.training.tokenizer import Tokenizer

from tests.training.shards import write_rows

DOMAINS = ["web" if n % 3 else "code" for n in range(60)]
ROWS = [
    {"id": str(n), "text": f"{domain} words of row {n} " * 4, "domain": domain, "tokens": n}
    for n, domain in enumerate(DOMAINS)
]


def source(name, weight, *where):
    return {"name": name, "where": [list(one) for one in where], "weight": weight, "tokens": 100, "epochs": 2.0}


@pytest.fixture
def corpus(tmp_path):
    folder = write_rows(tmp_path, ROWS, files=2, group=10)
    phases = [
        {"name": "main", "tokens": 5000, "sources": [source("web", 0.75, ("domain", "=", "web")),
                                                     source("code", 0.25, ("domain", "=", "code"))]},
        {"name": "long", "tokens": 900, "sources": [source("web", 1.0, ("domain", "=", "web"), ("tokens", "in", [[50, None]]))]},
    ]  # fmt: skip
    (folder / "mixture.json").write_text(json.dumps({"version": 1, "phases": phases}))
    return folder


def test_a_selection_reads_its_rows_and_counts_no_others(corpus):
    where = Selection.parse([["domain", "=", "web"], ["tokens", "in", [[0, 10], [50, None]]]])
    shards = open_shards(find_files(corpus), where)
    expected = [row["text"] for row in ROWS if row["domain"] == "web" and (row["tokens"] < 10 or row["tokens"] >= 50)]
    assert [row["text"] for row in iterate_rows(shards)] == expected and shards.rows == len(expected)
    assert all(set(row) == {"text"} for row in iterate_rows(shards))
    drawn = ShuffledRows(shards, seed=1).iterate()
    assert sorted(next(drawn)["text"] for _ in expected) == sorted(expected), "an epoch is every selected row once"
    assert shards.fingerprint() != open_shards(find_files(corpus)).fingerprint()


def test_a_mixture_gives_its_shares_of_tokens_whatever_the_shards_hold(corpus):
    sources, tokens = read_mixture(corpus)
    assert tokens == 5000 and [s.weight for s in sources] == [0.75, 0.25]
    tokenizer = Tokenizer.train((row["text"] for row in ROWS), 300)
    mixture, taken = Mixture(sources, TextEncoder(tokenizer)), {"web": 0, "code": 0}
    for example, position in mixture.iterate(mixture.start()):
        taken = dict(zip(taken, position.tokens, strict=True))
        assert example is not None
        if sum(taken.values()) > tokens:
            break
    assert taken["web"] / sum(taken.values()) == pytest.approx(0.75, abs=0.005)


def test_a_phase_is_named_and_long_documents_alone_are_read(corpus):
    (web,), tokens = read_mixture(corpus / "mixture.json", "long")
    assert tokens == 900 and web.shards.rows == sum(1 for row in ROWS if row["domain"] == "web" and row["tokens"] >= 50)


def of(*where):
    return json.dumps({"version": 1, "phases": [{"name": "m", "tokens": 1, "sources": [source("a", 1.0, where)]}]})


@pytest.mark.parametrize(
    ("content", "phase", "told"),
    [
        (None, "", "No such file"),
        ("{", "", "is no mixture"),
        ('{"version": 2, "phases": []}', "", "of version 2"),
        ('{"version": 1, "phases": []}', "", "is no mixture"),
        ('{"version": 1, "phases": [{"name": "main", "sources": [], "tokens": 1}]}', "late", "has main"),
        (of("x", "=", 1), "", "no column `x`"),
        (of("x", "<", 1), "", "no condition"),
        (of("domain", "=", "x"), "", "no rows"),
    ],
)
def test_what_is_no_mixture_is_one_line(corpus, content, phase, told):
    if content is None:
        (corpus / "mixture.json").unlink()
    else:
        (corpus / "mixture.json").write_text(content)
    with pytest.raises(InputError, match=told) as error:
        read_mixture(corpus, phase)
    assert "\n" not in str(error.value)
