from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.pipelines.knowledge import style_pairs
from tokenmill.pipelines.knowledge.content import KINDS
from tokenmill.pipelines.knowledge.dag import Knowledge
from tokenmill.pipelines.knowledge.rephrase import Rephrase
from tokenmill.pipelines.knowledge.style_pairs import draw_pairs, pairs, styles
from tokenmill.schemas.documents import Document

from tokenmill import prompts

GENRE = {style.name: style.genre for style in styles()}
KIND = st.sampled_from(list(KINDS))


def test_there_are_at_least_twelve_styles_and_all_load():
    names = {style for style, _ in pairs()}
    assert len(names) >= 12
    texts = [prompts.load(name).text for pair in pairs() for name in pair]
    assert all(len(text) > 100 for text in texts)
    assert len({prompts.load(style).text for style in names}) == len(names)


@given(st.integers(1, 30), st.integers(), st.text(max_size=20), KIND, st.integers(1, 20_000))
def test_a_longer_draw_goes_on_from_a_shorter_one_and_repeats_no_pair(count, seed, id, kind, tokens):
    drawn = draw_pairs(count, seed, id, kind, tokens)
    assert len(set(drawn)) == count
    assert drawn == draw_pairs(count, seed, id, kind, tokens)
    assert draw_pairs(count + 1, seed, id, kind, tokens)[:count] == drawn


@given(st.integers(), st.text(max_size=20), KIND, st.integers(1, 20_000))
def test_no_genre_comes_twice_while_others_that_suit_are_left(seed, id, kind, tokens):
    suiting = [style for style in styles() if style.suits(kind, tokens)]
    genres = {style.genre for style in suiting}
    drawn = draw_pairs(len(suiting), seed, id, kind, tokens)
    assert {style for style, _ in drawn} == {style.name for style in suiting}, "each once before any again"
    assert len({GENRE[style] for style, _ in drawn[: len(genres)]}) == len(genres)


@pytest.mark.parametrize("kind", KINDS)
def test_every_document_has_styles_of_several_genres(kind):
    for tokens, least in ((1, 2), (30, 2), (100, 3), (1000, 3), (50_000, 3)):
        assert len({style.genre for style in styles() if style.suits(kind, tokens)}) >= least, tokens


def test_a_short_text_becomes_no_podcast_and_one_without_dates_no_timeline():
    drawn = {style for i in range(300) for style, _ in draw_pairs(2, 0, f"d{i}", "prose", 90)}
    assert drawn and not drawn & {"styles/podcast", "styles/lecture", "styles/essay", "styles/timeline"}
    assert "styles/timeline" in {style for i in range(300) for style, _ in draw_pairs(2, 0, f"d{i}", "dated", 300)}
    spoken = [sum(GENRE[s] == "spoken" for s, _ in draw_pairs(3, 0, f"d{i}", "prose", 900)) for i in range(300)]
    assert max(spoken) == 1


def test_the_job_draws_by_what_the_document_is():
    text = "Mix the flour.\n\n" + "\n".join(f"{n}. Fold the dough once more and let it rest." for n in range(1, 9))
    tasks = list(Knowledge(Rephrase("m"), 5).tasks(Document("a", "", text, "en", "", "f", 0)))
    suiting = {style.name for style in styles() if style.suits("steps", 110)}
    assert {task.kind for task in tasks} == {"steps"} and {task.style for task in tasks} <= suiting


def test_when_all_that_suit_are_used_up_the_others_come():
    every = draw_pairs(len(pairs()), 0, "a", "code", 30)
    assert sorted(every) == sorted(pairs())
    suiting = sum(len(style.perspectives) for style in styles() if style.suits("code", 30))
    assert {style.name for style in styles() if style.suits("code", 30)} == {style for style, _ in every[:suiting]}


def test_excluded_pairs_are_never_drawn():
    for style, perspective in pairs():
        assert style.removeprefix("styles/") not in (prompts.load(perspective).meta.get("excludes") or ())


def test_of_the_styles_that_suit_each_is_as_likely():
    counts = Counter(draw_pairs(1, 0, f"doc-{i}", "prose", 1000)[0][0] for i in range(3000))
    assert len(counts) == sum(style.suits("prose", 1000) for style in styles())
    mean = 3000 / len(counts)
    assert all(0.7 * mean < n < 1.4 * mean for n in counts.values())


def test_more_pairs_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="style-perspective pairs"):
        draw_pairs(10_000, 0, "a")


@pytest.mark.parametrize(
    ("field", "told"), [("suits: [prose, poem]", "suits poem; known kinds are code"), ("tokens: 20", "must be")]
)
def test_a_style_that_says_what_cannot_be_is_an_error_that_names_it(monkeypatch, field, told):
    text = f"---\nname: styles/odd\nversion: 1\nbrief: 'as an odd thing'\n{field}\n---\nWrite oddly."
    load = prompts.load
    monkeypatch.setattr(
        prompts,
        "load",
        lambda name: prompts.parse(text, "prompts/styles/odd.md") if name == "styles/odd" else load(name),
    )
    with pytest.raises(prompts.PromptError, match=r"prompts/styles/odd\.md: .*" + told):
        style_pairs._style("styles/odd")
