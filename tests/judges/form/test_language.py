# ruff: noqa: E501 (sentences in a dozen languages are easier to compare on one line)
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.form import language as language_module
from tokenmill.judges.form.language import Language, code, detect

from tests.judges.pair import REWRITE, SOURCE

language = Language()

SAMPLES = {
    "en": SOURCE,
    "de": "Die Brücke wurde am 4. Mai 1902 eröffnet und trägt zwei Gleise über den Fluss, der an dieser Stelle 300 Meter "
    "breit ist. Nach dem Hochwasser von 1954 musste der nördliche Pfeiler ersetzt werden.",
    "es": "El puente fue inaugurado el 4 de mayo de 1902 y lleva dos vías de ferrocarril sobre el río, que en este punto "
    "tiene 300 metros de ancho. Después de la inundación de 1954 hubo que sustituir el pilar norte.",
    "pt": "A ponte foi inaugurada em 4 de maio de 1902 e leva duas vias férreas sobre o rio, que neste ponto tem 300 "
    "metros de largura. Depois da cheia de 1954 o pilar norte teve de ser substituído, e desde então não houve outra.",
    "fr": "Le pont a été ouvert le 4 mai 1902 et porte deux voies ferrées au-dessus du fleuve, qui est large de 300 mètres "
    "à cet endroit. Après la crue de 1954, la pile nord a dû être remplacée.",
    "it": "Il ponte fu inaugurato il 4 maggio 1902 e porta due binari sopra il fiume, che in questo punto è largo 300 "
    "metri. Dopo la piena del 1954 il pilone settentrionale dovette essere sostituito.",
    "nl": "De brug werd op 4 mei 1902 geopend en draagt twee sporen over de rivier, die hier 300 meter breed is. Na de "
    "overstroming van 1954 moest de noordelijke pijler worden vervangen.",
    "pl": "Most został otwarty 4 maja 1902 roku i prowadzi dwa tory kolejowe przez rzekę, która w tym miejscu ma 300 metrów "
    "szerokości. Po powodzi w 1954 roku trzeba było wymienić północny filar.",
    "ru": "Мост был открыт 4 мая 1902 года и несёт два железнодорожных пути через реку, ширина которой здесь 300 метров. "
    "После наводнения 1954 года северную опору пришлось заменить.",
    "zh": "这座桥于一九零二年五月四日通车，横跨三百米宽的河流，桥上铺设有两条铁路轨道。一九五四年洪水之后，北侧桥墩必须更换。",
    "ja": "この橋は1902年5月4日に開通し、幅300メートルの川に二本の線路を渡している。1954年の洪水の後、北側の橋脚を取り替えなければならなかった。",
    "el": "Η γέφυρα άνοιξε στις 4 Μαΐου 1902 και φέρει δύο σιδηροδρομικές γραμμές πάνω από το ποτάμι, που εδώ έχει πλάτος 300 μέτρα.",
}


@pytest.mark.parametrize("expected", SAMPLES)
def test_detects(expected):
    assert detect(SAMPLES[expected]) == expected


@pytest.mark.parametrize("text", ["", "   ", "1902 300 1954 40", "Hm.", "x = 3 + 4", "🙂🙂🙂"])
def test_too_little_to_tell(text):
    assert detect(text) == "und"


@pytest.mark.parametrize(
    "tag, expected", [("en-US", "en"), ("DE", "de"), ("zh_Hans", "zh"), ("eng", "und"), ("", "und")]
)
def test_language_tags(tag, expected):
    assert code(tag) == expected


@pytest.mark.parametrize("kept", SAMPLES)
@pytest.mark.parametrize("written", SAMPLES)
def test_every_change_is_refused_and_every_kept_language_passes(kept, written):
    verdict = language(SAMPLES[kept], SAMPLES[written], kept)
    assert verdict.passed == (kept == written)
    assert verdict.reason == ("" if verdict.passed else "changes_language")


def test_an_undetermined_source_language_is_detected():
    assert language(SOURCE, SAMPLES["de"], "und").reason == "changes_language"
    assert language(SOURCE, REWRITE).passed


def test_a_change_halfway_is_seen():
    half = (
        f"{REWRITE} {SAMPLES['de']} Seitdem fahren die Züge dort nicht schneller als mit 40 Kilometern in der Stunde."
    )
    assert language(SOURCE, half, "en").reason == "changes_language"


def test_names_and_short_texts_are_no_change():
    assert language(SOURCE, "Anna Keller, Wien.", "en").passed
    names = (
        "- Sebastião José de Carvalho e Melo\n- Jean-Baptiste Delambre\n- Karl von Frisch\n- Nikolaas Tinbergen\n"
        "These four are named in the article on the history of the metre and of the bees."
    )
    assert language(SOURCE, names, "en").passed


def test_a_language_the_detector_does_not_know_is_not_held_against_the_rewrite():
    assert language(SOURCE, REWRITE, "xx").passed


def test_the_detector_is_not_asked_where_function_words_settle_it(monkeypatch):
    monkeypatch.setattr(language_module, "_identifier", lambda: pytest.fail("the detector was asked"))
    assert language(SOURCE, REWRITE, "en").passed
    assert detect(SAMPLES["de"]) == "de"


@given(st.text())
def test_detect_always_answers_with_a_code(text):
    assert detect(text) == "und" or (len(detect(text)) == 2 and detect(text).isalpha())


def test_configuration_is_checked():
    with pytest.raises(ValueError, match="unlikely"):
        Language(sure=0.1, unlikely=0.2)


def test_a_language_that_the_source_is_partly_in_is_no_change():
    mixed = f"{SAMPLES['fr']} {SAMPLES['fr']}\n\n{SOURCE}"
    assert language(mixed, f"{SAMPLES['fr']} {REWRITE}", "fr").passed
    assert language(SOURCE, REWRITE, "fr").passed  # the document's language column errs
    assert not language(SAMPLES["fr"], REWRITE, "fr").passed
