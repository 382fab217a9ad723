"""Verdicts kept beside answers: recalled for the very same question, never for another."""

import asyncio
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.inference.call import Answer, Note, Usage
from tokenmill.judges import memory
from tokenmill.judges.embedding.similarity import Embedder, Similarity
from tokenmill.judges.facts.coverage import Coverage
from tokenmill.judges.form.checks import FormChecks
from tokenmill.judges.form.length import Length
from tokenmill.judges.math import NumbersUsed
from tokenmill.judges.memory import fingerprint_of, recalled
from tokenmill.judges.notes.checks import NoteChecks
from tokenmill.judges.notes.form import NoteForm
from tokenmill.judges.notes.translation import TranslationChecks
from tokenmill.schemas.verdicts import Finding, Verdict

TEXTS = ("The ship sank in 1912.", "In 1912 the ship sank.", "title", "en", "stop", "our wording")
PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def answer(value=b""):
    notes = []
    return Answer("text", "stop", Usage(), "m", note=Note(value, notes.append)), notes


class Bench:
    """Asks for verdicts, and counts how often the checks had to be asked."""

    def __init__(self, verdicts=None):
        self.verdicts = [Verdict("length", True, 0.75)] if verdicts is None else verdicts
        self.judged = 0

    async def judge(self):
        self.judged += 1
        return list(self.verdicts)

    def __call__(self, one, fingerprint=b"checks", texts=TEXTS):
        return asyncio.run(recalled(one, fingerprint, texts, self.judge))


findings = st.builds(Finding, PLAIN, PLAIN, PLAIN, PLAIN)
scores = st.floats(0, 1)
verdicts = st.lists(
    st.builds(Verdict, st.sampled_from(["coverage", "length"]), st.just(True), scores, st.just(""))
    | st.builds(Verdict, PLAIN, st.just(False), scores, st.just("lost"), st.lists(findings).map(tuple))
)


@given(verdicts)
def test_what_is_recalled_is_what_was_judged(said):
    bench, (first, notes) = Bench(said), answer()
    assert bench(first) == said
    later, unwritten = answer(notes[-1])
    assert bench(later) == said
    assert bench.judged == 1 and not unwritten


@given(st.integers(0, len(TEXTS) - 1), PLAIN)
def test_any_other_text_is_judged_anew(place, other):
    bench, (first, notes) = Bench(), answer()
    bench(first)
    texts = (*TEXTS[:place], other, *TEXTS[place + 1 :])
    bench(answer(notes[-1])[0], texts=texts)
    assert bench.judged == 1 + (texts != TEXTS)


def test_words_that_move_from_one_text_to_the_next_are_another_question():
    bench, (first, notes) = Bench(), answer()
    bench(first, texts=("ab", "c"))
    for texts in (("a", "bc"), ("ab\0c",), ("ab", "c", "")):
        bench(answer(notes[-1])[0], texts=texts)
    assert bench.judged == 4


def test_a_note_holds_the_verdicts_of_a_passage_and_of_its_document():
    bench, (one, notes) = Bench(), answer()
    bench(one, texts=("passage",))
    bench(one, texts=("document",))
    later = answer(notes[-1])[0]
    bench(later, texts=("passage",))
    bench(later, texts=("document",))
    assert bench.judged == 2


def test_a_note_does_not_grow_without_end():
    bench, (one, notes) = Bench(), answer()
    for number in range(300):
        bench(one, texts=(str(number),))
    assert max(map(len, notes)) < 5000
    bench(one, texts=("299",))
    assert bench.judged == 300


def test_an_answer_that_came_through_no_cache_and_foreign_checks_are_always_judged():
    bench, (first, notes) = Bench(), answer()
    bare = Answer("text", "stop", Usage(), "m")
    for one in (bare, bare, None, None):
        bench(one)
    bench(first, fingerprint=b"")
    bench(first, fingerprint=b"")
    assert bench.judged == 6 and not notes


@dataclasses.dataclass(frozen=True)
class Lenient(FormChecks):
    """A user's own checks, whose code nobody here knows."""


@dataclasses.dataclass(frozen=True)
class Loose(NoteForm):
    """The same within checks of ours."""


def test_a_fingerprint_stands_for_checks_thresholds_and_code(monkeypatch):
    plain = fingerprint_of(FormChecks(), Coverage(), None)
    assert plain and plain == fingerprint_of(FormChecks(), Coverage(), None)
    others = {
        fingerprint_of(FormChecks(length=Length(maximum=9.0)), Coverage(), None),
        fingerprint_of(FormChecks(), Coverage(names_lost=0.1), None),
        fingerprint_of(FormChecks(), None, None),
        fingerprint_of(FormChecks(), Coverage(), Similarity()),
        fingerprint_of(FormChecks(), Coverage(), Similarity(minimum=0.7)),
    }
    assert len(others | {plain}) == 6
    assert fingerprint_of(Lenient(), Coverage(), None) == b""
    assert NoteChecks().fingerprint and TranslationChecks().fingerprint
    assert NoteChecks(form=Loose()).fingerprint == b"", "a check of ours that rests on a foreign one"
    assert NoteChecks().fingerprint != NoteChecks(numbers=NumbersUsed(words=True)).fingerprint
    monkeypatch.setattr(memory, "_code", lambda: b"another release")
    assert fingerprint_of(FormChecks(), Coverage(), None) not in others | {plain}


def test_an_embedding_model_trained_further_in_its_folder_is_another(tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"1")
    check = Similarity(Embedder(str(tmp_path)))
    before = fingerprint_of(check)
    assert before == fingerprint_of(check)
    weights.write_bytes(b"22")
    assert fingerprint_of(check) != before


@pytest.mark.parametrize("changed", ["coverage.py", "injection.txt"])
def test_the_code_of_the_checks_is_read(changed, tmp_path, monkeypatch):
    for name in ("coverage.py", "injection.txt"):
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(memory.judges, "__file__", str(tmp_path / "__init__.py"))
    seen = []
    for text in ("one", "two"):
        (tmp_path / changed).write_text(text)
        memory._code.cache_clear()
        seen.append(fingerprint_of(Coverage()))
    memory._code.cache_clear()
    assert seen[0] != seen[1]
