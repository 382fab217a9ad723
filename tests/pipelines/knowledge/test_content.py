import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.pipelines.knowledge.content import KINDS, kind_of
from tokenmill.pipelines.rollouts.chunking import count_tokens

CODE = "Call the program so:\n\n```\nmill --in a.txt\nmill --out b.txt\n```\n\nIt prints what it did."
TABLE = "| lamp | price |\n|---|---|\n| red | 12 |\n| blue | 14 |\n\nPrices are those of spring."
STEPS = "물을 끓입니다.\n\n1. 냄비에 물을 붓는다.\n2. 소금을 넣는다.\n3. 뚜껑을 덮는다.\n4. 십 분 기다린다."
BULLETS = "What belongs in the bag:\n\n- a rope\n- two lamps\n- bread\n- a map"
QUESTIONS = "何時に開きますか？九時です。子供も入れますか？はい。犬は？入れません。"
QUOTING = "Die Wirtin sagte: „Wir haben seit dem Sturm keinen Gast mehr gesehen, und das Dach ist noch offen.“ Der Rat schwieg."
DATED = "Founded in 1852, the mill burned in 1871, was sold in 1890 and has stood empty since 1923."
FIGURES = "Of 84 patients 41 got 20 mg and 43 got 40 mg; 12 and 7 fell ill, at 1.4 and 0.9 days."
PROSE = "A crater is a bowl in the ground. Wind wears it down, and rain fills it with mud, until only the rim is left."


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("code", CODE), ("table", TABLE), ("steps", STEPS), ("list", BULLETS), ("questions", QUESTIONS)),
        *(("quoting", QUOTING), ("dated", DATED), ("figures", FIGURES), ("prose", PROSE)),
    ],
)
def test_kinds_are_told_by_marks_alone_in_whatever_language(kind, text):
    assert kind_of(text, count_tokens(text)) == kind


def test_every_kind_is_tried_above():
    assert set(KINDS) == {"code", "table", "steps", "list", "questions", "quoting", "dated", "figures", "prose"}


def test_code_in_the_middle_of_a_line_and_a_pair_of_numbers_are_no_kind():
    assert kind_of(f"{PROSE} Use `rm` there. See 12 and 14.", 40) == "prose"
    assert kind_of(f"{PROSE}\n\n1. {PROSE}\n2. {PROSE}", 80) == "prose", "two lines are no instructions"


def test_a_long_document_is_told_by_its_beginning():
    assert kind_of(DATED + f" {PROSE}" * 3, 100) == "dated"
    long = f"{CODE}\n\n" * 2000
    assert kind_of(long, count_tokens(long)) == "code"


@given(st.text(max_size=300))
def test_any_text_has_a_kind(text):
    assert kind_of(text, count_tokens(text)) in KINDS
