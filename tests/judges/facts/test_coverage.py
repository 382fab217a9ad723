"""The coverage check in both directions, through its verdicts."""

from __future__ import annotations

import pickle
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.bench.fidelity.data import pairs
from tokenmill.judges.facts.coverage import REASONS, Coverage, differing_spans

SOURCE = (
    "Robert Boulter starred in the play Herons by Simon Stephens, which was performed in 2001 at the Royal Court "
    "Theatre. On 3 March 2002 he walked 5 km (3.1 mi) with 1,204 others and twelve dogs from Chad to Germany."
)
check = Coverage()


def kinds(rewrite: str, source: str = SOURCE, context: str = "", language: str = "en") -> set[str]:
    return {finding.kind for finding in check(source, rewrite, context, language).findings}


@pytest.mark.parametrize(
    "rewrite",
    [
        SOURCE,
        "In 2001 Boulter was in Herons, Simon Stephens's play, at the Royal Court. It was on March 3rd, 2002 that he "
        "covered five kilometres on foot from Chad to Germany, with 1204 other people and 12 dogs.",
        "Q: What did Boulter do in 2001?\nA: He starred in Herons by Stephens at the Royal Court Theatre.\n"
        "Question 2: And on 3 March 2002?\nAnswer: With a dozen Chadian dogs and 1,204 others he walked "
        "5km to Germany.",
    ],
)
def test_honest_rewrites_pass(rewrite):
    verdict = check(SOURCE, rewrite)
    assert (verdict.passed, verdict.score, verdict.findings) == (True, 1.0, ())


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("1,204", "1,240", "number_added"),
        ("1,204", "many", "number_lost"),
        ("twelve", "eleven", "number_added"),
        ("2001", "2004", "date_added"),
        ("3 March", "8 March", "date_lost"),
        ("3 March", "3 May", "date_added"),
        ("5 km (3.1 mi)", "5 miles", "unit_changed"),
        ("Simon Stephens", "Alan Ayckbourn", "name_added"),
        ("Herons", "a play", "name_lost"),
        ("Chad", "Kenya", "name_added"),
        ("was performed", "was not performed", "negation_changed"),
    ],
)
def test_a_changed_fact_is_found(old, new, kind):
    rewrite = SOURCE.replace(old, new)
    verdict = check(SOURCE, rewrite)
    assert kind in {finding.kind for finding in verdict.findings}
    assert not verdict.passed
    assert verdict.reason in REASONS
    assert verdict.score < 1


def test_findings_quote_verbatim_and_say_what_to_do():
    rewrite = SOURCE.replace("1,204", "1,240")
    for finding in check(SOURCE, rewrite).findings:
        assert finding.source in SOURCE
        assert finding.rewrite in rewrite
        assert finding.detail.startswith(("Keep", "Remove"))
        assert "1,2" in finding.detail


def test_context_excuses_an_addition_but_not_a_loss():
    rewrite = SOURCE + " Born in 1970, he lived in Sunderland."
    assert {"date_added", "name_added"} <= kinds(rewrite)
    assert kinds(rewrite, context="Robert Boulter was born in Sunderland in 1970.") == set()
    assert "number_lost" in kinds(SOURCE.replace("1,204", "some"), context="1,204")


def test_a_dropped_conversion_is_no_loss_but_a_dropped_quantity_is():
    assert kinds(SOURCE.replace(" (3.1 mi)", "")) == set()
    assert "number_lost" in kinds(SOURCE.replace("5 km (3.1 mi)", "a long way"))


def test_a_lost_negation_is_found_and_a_limiting_not_is_let_pass():
    song = "The song was not released as a single in Ireland."
    assert kinds("As a single, the song was released in Ireland.", song) == {"negation_changed"}
    assert kinds(song, "In Ireland the song was released as a single.") == {"negation_changed"}
    assert kinds("As a single, the song was never released in Ireland.", song) == set()
    assert kinds("He turned up late.", "She bribed him into not turning them in.") == set()
    assert kinds(song.replace("was not", "was"), song.replace("not", "not only")) == set()
    assert (
        kinds("For weeks, not consecutive, it led the chart.", "For non-consecutive weeks it led the chart.") == set()
    )


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("The two men met.", "The men met."),
        ("They met in Paris.", "The two met in Paris."),
        ("Both attended.", "The two attended."),
        ("The United Nations met.", "The UN met."),
        ("In France, the BBC reported it.", "The French heard it from the BBC."),
        ("He fought in World War II.", "He fought in the Second World War."),
        ("He fought in World War II.", "He fought in WWII."),
        ("The U.S. Army came.", "The American army came."),
        ("He left the United Kingdom.", "He left the British."),
        ("It cost £5.", "It cost 5 pounds."),
        ("It was 5 °C.", "It was 5 degrees."),
        ("He had a 20–0 record.", "He had 20 wins and no defeats."),
        ("He died on 9 June 68.", "He died on June 9 in the year 68."),
        ("They met in France and in Chile.", "They met in two countries, France and Chile."),
        ("The song topped the chart.", "The song was No. 1 of the chart."),
        ("He died in 54.", "He died in AD 54."),
        ("He came in the 1990s.", "He came in the nineties."),
        ("He won three gold medals and two silver medals.", "He won five medals: three gold, two silver."),
        ("The war lasted from 1914 to 1918.", "The war, from 1914 to 1918, took four years."),
        ("Half of the 90 men came.", "Of the 90 men, 50 percent came."),
        ("It cost 2.5 million pounds.", "It cost two and a half million pounds."),
        ("It flew at 96 miles per hour (154 km / h).", "It flew at 96 mph."),
        ("It fell to -5 °C (23 °F).", "It fell to minus five degrees Celsius."),
        ("On September 1, 3rd Battalion attacked.", "September 1: 3rd Battalion attacks."),
        ("The U.S. Navy came.", "The United States Navy came."),
        ("He had 37 innings pitched.", "He had 37 IP."),
        ("Karel Čapek wrote it.", "It was written by Karel Capek."),
        ("The emirate is in the United Arab Emirates.", "The emirate is Emirati."),
        ("The World Health Organization met.", "The World Health Organisation met."),
        ("They raised the fare and cut the pay.", "They raised the fare. Cut pay is a second problem."),
        ("They met in Paris.", "Two points. (1) They met. (2) It was in Paris."),
        ("Al came to Paris.", "Jo: Where did Al go?\nEd: To Paris.\nJo: Thank you, Mr. Lopez!"),
    ],
)
def test_ways_of_saying_the_same(source, rewrite):
    assert kinds(rewrite, source) == set()


@pytest.mark.parametrize(
    ("source", "rewrite", "kind"),
    [
        ("In 2000 he came, the year after he left.", "In 2000 he came, in 2003 he left.", "date_added"),
        ("It left at 5 p.m.", "It left at 18:00.", "number_added"),
        (
            "He won three gold medals and two silver medals.",
            "He won six medals: three gold, two silver.",
            "number_added",
        ),
        ("The war lasted from 1914 to 1918.", "The war, from 1914 to 1918, took five years.", "number_added"),
        ("It made 4 knots (7 km/h).", "It made 4 knots (4 km/h).", "unit_changed"),
        ("It ran 100 m, and they ran 100 m.", "It ran 104 m, and they ran 100 m.", "number_added"),
        ("The six panels hang by six doors.", "Two panels hang by six doors.", "number_added"),
        ("Three species live in Peru, and 3 here.", "3 species live in Peru, and 1 species here.", "number_added"),
        ("He pitched 37 innings.", "He pitched 37 innings for the BBC.", "name_added"),
        ("Al met Bo in Paris.", "Al met Bo in Paris. Al liked Zork.", "name_added"),
    ],
)
def test_what_is_not_implied_is_found(source, rewrite, kind):
    assert kind in kinds(rewrite, source)


def test_one_number_word_for_another_is_found():
    assert kinds("The two men met.", "The four men met.") == {"number_lost", "number_added"}
    assert kinds("The four men met.", "The two men met.") == {"number_lost", "number_added"}
    assert kinds("The four men met.", "The men met.") == {"number_added"}


def test_speakers_and_headings_are_no_names():
    rewrite = f"# A Long Walk\n\nMaya: {SOURCE}\nOtto: Indeed, Maya?\n"
    assert kinds(rewrite) == set()


def test_some_names_may_go_from_a_long_text_and_none_from_a_short_one():
    people = [f"Xan{chr(97 + i)}{chr(97 + j)}or" for i in range(6) for j in range(5)]
    source = "There were " + ", then ".join(people) + "."
    assert check(source, source.replace(people[3], "someone")).passed
    assert check(source, source.replace(people[3], "someone")).score < 1
    assert not Coverage(names_lost=0.0)(source, source.replace(people[3], "someone")).passed
    assert not check("There were Xanaor and Xanbor.", "There was Xanaor.").passed


def test_other_languages():
    german = "Am 3. Mai 1913 kamen 1.204 Gäste in das Haus."
    assert kinds("Das Haus sah im Mai 1913, am 3., wieder 1204 Besucher.", german, language="de") == set()
    assert "number_lost" in kinds("Das Haus sah am 3. Mai 1913 Besucher.", german, language="de")
    assert "number_lost" in kinds("2014年5月", "2014年5月12日", language="zh")
    french = "En 1913, Marcel Proust publie un roman à Paris."
    assert kinds("À Paris, en 1913, un roman de Proust est publié.", french, language="fr") == set()
    assert "name_added" in kinds("À Rome, en 1913, un roman de Proust paraît.", french, language="fr")


def test_spans_mark_every_place():
    rewrite = SOURCE.replace("1,204", "1,240") + " There were 1,240."
    lost, added = differing_spans(SOURCE, rewrite)
    assert [(SOURCE[a:b], kind) for a, b, kind in lost] == [("1,204", "number_lost")]
    assert [(rewrite[a:b], kind) for a, b, kind in added] == [("1,240", "number_added")] * 2
    assert differing_spans(SOURCE, SOURCE) == ([], [])
    assert differing_spans(SOURCE, SOURCE + " Born in 1970.", "1970")[1] == []


def test_texts_without_facts_pass():
    assert check("", "").score == 1.0
    assert check("nothing here", "here is nothing").passed


def test_configuration_is_checked_and_pickles():
    with pytest.raises(ValueError, match="names_lost"):
        Coverage(names_lost=1.5)
    assert pickle.loads(pickle.dumps(check)) == check


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200), st.sampled_from(["en", "de", "ja", "und"]))
def test_any_pair_is_judged_and_quoted_verbatim(source, rewrite, language):
    verdict = check(source, rewrite, language=language)
    assert 0 <= verdict.score <= 1
    for finding in verdict.findings:
        assert finding.source in source
        assert finding.rewrite in rewrite
    for text, spans in zip((source, rewrite), differing_spans(source, rewrite, language=language), strict=True):
        assert all(0 <= start < end <= len(text) for start, end, _ in spans)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(pairs("dev")))
def test_a_text_covers_itself(pair):
    assert check(pair.source, pair.source).score == 1.0
    assert check(pair.rewrite, pair.rewrite).score == 1.0


@pytest.mark.parametrize(
    "unit",
    [
        *("not kept 7. ", "Ab cd. ", "1-", "Ab: \n", "9 sq km "),
        *(
            "NY 7 ",
            "\n2. ",
            "3 km (4 mi) ",
            "two A: B, C and D. ",
            '. "Bell" knew Bell\'s two, two',
            "3/4 VI both second ",
        ),
    ],
)
def test_hostile_pairs_take_linear_time(unit):
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        start = time.process_time()
        check(text, text[:-50] + " 77 Zork")
        return time.process_time() - start

    small = max(min(seconds(40_000) for _ in range(3)), 1e-3)
    assert min(seconds(320_000) for _ in range(2)) < 8 * small * 4


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("It won at the Academy Awards.", "It won at the Oscars."),
        ("It was a medieval town near York.", "It was a town of the Middle Ages near York."),
        ("He served with the British Royal Air Force.", "He served with the RAF of Britain."),
        ("The singer is Puerto Rican, says Ada.", "The singer is from Puerto Rico, says Ada."),
        ("She won the national championship for Leeds.", "She was National Champion for Leeds."),
        ("The office is in Toronto, Ontario. Ann works there.", "Ann works in the office in Toronto."),
        ("Critics on television liked Ann.", "Most TV critics liked Ann."),
        ("The ships had guns and no masts.", "Did they have masts? No. Vessels had guns."),
        ("Ann rode to London.", "Dear Uncle Tom, Ann rode to London. Love, Pam"),
        ("The storm moved east-southeast.", "The storm moved ESE."),
        ("Ann did not come, and Bo slept.", "Bo: Did Ann come?\nAnn: I slept, Bo. I didn't."),
    ],
)
def test_names_told_otherwise(source, rewrite):
    assert kinds(rewrite, source) == set()


def test_a_name_of_the_title_may_be_left_out_and_no_other():
    source = "In May Zoltan Kovacs met Bo Brown."
    assert check(source, "In May he met Bo Brown.", context="Zoltan Kovacs").passed
    assert check(source, "In May he met Bo Brown.", context="Lee Gold").reason == "name_lost"


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("It took two decades.", "It took twenty years."),
        ("About 80% lost power.", "About four in five lost power."),
        ("It got three and a half stars.", "It got 3½ stars."),
        ("The poll was on 12 February 1958.", "Date of the poll: 12/2/1958."),
        ("One raid was on 4 June, one on 6 June.", "In June there were raids, on the 4th and on the 6th."),
        ("It closed in 1920 and opened in 1933.", "It closed in 1920 and opened thirteen years later, in 1933."),
        ("Of 58 men 17 died.", "Of 58 men 17 died and 41 survived."),
        ("It was the third largest brewery.", "Only two breweries were larger."),
        (
            "It arrived on 2 July and hit land on 5 July.",
            "It hit land on 5 July, three days after its arrival on 2 July.",
        ),
        ("The gunboats Morgan, Gaines and Selma fled.", "Three gunboats, Selma, Gaines and Morgan, fled."),
    ],
)
def test_quantities_told_otherwise(source, rewrite):
    assert kinds(rewrite, source) == set()


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("It took two decades.", "It took thirty years."),
        ("About 80% lost power.", "About two in five lost power."),
        ("The poll was on 12 February 1958.", "Date of the poll: 13/2/1958."),
        ("It was the fourth largest brewery.", "Only two breweries were larger."),
        ("It closed in 1920 and opened in 1933.", "It closed in 1920 and opened fifteen years later, in 1933."),
    ],
)
def test_quantities_that_are_not_the_same(source, rewrite):
    assert kinds(rewrite, source) & {"number_added", "number_lost", "date_added", "date_lost"}


def test_a_list_number_out_of_its_turn_is_a_number():
    assert kinds("1. Ann came.\n2. Bo left.", "Ann came, then Bo left.") == set()
    assert "number_added" in kinds("1. Ann came.\n7. Bo left.", "Ann came, then Bo left.")


def test_a_denial_in_other_words_is_none():
    source = "The path was described in 1966 by Marshall Hatch in a paper."
    assert kinds("In a paper by Marshall Hatch the path was not described until 1966.", source) == set()
    assert kinds("In a paper in 1966 by Marshall Hatch the path was not described.", source) == {"negation_changed"}


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("Al's second run at the top took three weeks.", "Al's third run at the top took three weeks."),
        ("The 2nd Battalion met the 2nd Division.", "The 1st Battalion met the 2nd Division."),
        ("They met in both Rome and Oslo.", "They met in three cities, Rome and Oslo."),
        ("He was seventh, and faced seven others.", "He was second, and faced seven others."),
        ("She is a 2.0 point player in a team.", "She is a 5.0 point player in a team."),
    ],
)
def test_a_number_that_takes_the_place_of_another_is_found(source, rewrite):
    assert kinds(rewrite, source) & {"number_added", "number_lost"}


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("He was the third man to do so.", "Only two men did so before him."),
        ("Nos. 11 and 20 Squadrons left for Rome.", "No. 11 Squadron and No. 20 left for Rome."),
        ("Three of the four years went well.", "Of four years three went well. The four were long."),
        ("He met two popes, Adrian and Urban.", "He met Popes Adrian and Urban."),
        ("In February 1942 they left.", "- Feb 1942: they left."),
        ("He was in heat eight, against seven others.", "He was in the eighth heat, with seven others."),
    ],
)
def test_a_number_in_its_place_is_let_pass(source, rewrite):
    assert kinds(rewrite, source) == set()


@pytest.mark.parametrize(
    "rewrite",
    [
        "Ann met Bo in Rome, for the Giants.",
        "- Ann met Bo in Rome\n- She then rejoined Eighth Army there after many days",
    ],
)
def test_a_strange_name_among_common_words_is_found(rewrite):
    assert kinds(rewrite, "Ann met Bo in Rome, and then went home.") >= {"name_added"}


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("Ann met Bo in Rome.", "Ann met Bo in Rome. Nobody was there. Construction had begun. Earlier it was better."),
        ("It fell to 2.5%. Additionally, Ann won.", "It fell to 2.5%. Ann won, too."),
        ("Ann made a student ID.", "Ann made student IDs."),
        ("Ann met Bo.", "Dear Bo,\nI am Ann, and we met.\nDrive safely, Uncle"),
    ],
)
def test_common_words_with_a_capital_are_no_names(source, rewrite):
    assert kinds(rewrite, source) == set()


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("NY 93 meets CR 83 near NY 104.", "Near NY 104, NY 83 and CR 83 meet."),
        ("He used the F-5 on three men.", "He used the F-3 on three men."),
        ("It reached the Final Four after four games.", "It reached the Final Two after four games, two of them long."),
        ("1. Ann came.\n2. Bo left.\n3. Al slept.", "1. Ann came.\n2. Bo left.\n2. Al slept."),
        ("They had six cats and three dogs.", "They had six cats and five dogs, all in 3 houses and 5 rooms."),
        ("Oregon, Clemson and Wake met.", "Two schools, Oregon, Clemson and Wake, met."),
        ("He liked both; the case had eight parts.", "He liked both; the case had two parts."),
        ("Pius VI had a cat and three dogs.", "Pius VI had a cat and six dogs."),
        ("On 9 May they met three men.", "On 9 May they met nine men."),
        ("It is 2 km (1.2 mi) long, as 3 men said.", "It is 3 km (1.2 mi) long, as 3 men said."),
        ("His nephews Huey, Dewey and Louie came.", "His four nephews, Huey, Dewey and Louie, and others came."),
        ("Five states own it: Peru has 1%.", "Five states own it: Peru has 5%."),
        ("It covers the eight parts of speech.", "It covers the 1 parts of speech."),
        ("There were 58 men and 17 women. Rome fell.", "There were 58 men and 17 women. Rome fell to 41 dogs."),
        ("Ann ran three miles in two days and ate four pies.", "Ann ran nine miles in two days and ate four pies."),
    ],
)
def test_a_number_of_the_source_does_not_excuse_another(source, rewrite):
    assert kinds(rewrite, source) & {"number_added", "number_lost", "unit_changed"}


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("Nos. 11 and 20 Squadrons met near NY 93 and 104.", "No. 20 and No. 11 Squadron met near NY 104 and NY 93."),
        ("He won 2 gold and 3 silver medals.", "Medals: five in all, 2 gold and 3 silver."),
        ("Of 58 men 17 died.", "Of the 58 men 17 died, so 41 survived."),
        ("They saw guns of 12, 25 and finally 81 tons.", "They saw guns of 12 tons, 25 tons and 81 tons."),
        ("It is 12 in (305 mm) long.", "It is 12 inches (305 mm) long."),
        ("He threw it 46 feet 11 inches (14.30 m).", "It flew 46 feet 11 inches (14.30 m) when he threw."),
        ("The field has 2,000 hectares (200 km2).", "2,000 hectares (200 km2) are in the field."),
        ("At the age of 68 he died; 37 of them were good.", "He died at 68 years old; 37 of them were good."),
        (
            "Striking out 10 men, he beat an 11-strikeout record.",
            "With 10 strikeouts he beat a record of 11 strikeouts.",
        ),
        ("Of two men both came in a first race.", "The two men came in the 1st race."),
        ("In the flat, Ann had a twin.", "One of two twins, Ann was in the flat."),
    ],
)
def test_a_number_may_still_be_told_otherwise(source, rewrite):
    assert kinds(rewrite, source) == set()


@pytest.mark.parametrize(
    "rewrite",
    [
        "Pete's hat was on the table.",
        "On the table was a hat. Bell knew it.",
        'The hat on the table was called "Variety".',
        "On the table was the hat. Mendes was not.",
    ],
)
def test_a_word_that_serves_as_a_name_is_one(rewrite):
    assert kinds(rewrite, "The hat was on the table, or not, it was called and known.") == {"name_added"}


@pytest.mark.parametrize(
    "rewrite",
    [
        "| Item | Detail |\n|---|---|\n| Hotter towns | boil at 100 °C |",
        "It boils at 100 °C. Go up and the heat is less.",
    ],
)
def test_cells_of_a_table_begin_sentences_and_degrees_end_them(rewrite):
    assert "name_added" not in kinds(rewrite, "In towns that are hot, it boils at 100 °C.")


@pytest.mark.parametrize(
    "rewrite",
    [
        "Critics knew that the hat was there.",
        "Nobody's hat was there. Someone said so.",
        "Singing did not help the hat.",
    ],
)
def test_a_common_word_that_begins_a_sentence_is_no_name(rewrite):
    assert "name_added" not in kinds(rewrite, "The hat was there.")


@pytest.mark.parametrize(
    ("source", "rewrite"),
    [
        ("**May I add meat or bread?** Not in a heap: they draw rats.", "Meat and bread draw rats, so not in a heap."),
        ("4.4 Either party may end this at once.", "4.4 Each party may end this at once."),
        ("(b) Notwithstanding this, fees are due.", "(b) Even so, fees are due."),
        (
            "The rear screw is 10 mm longer. Run it at 500 rpm for two minutes, then at 2,500 rpm for ten.",
            "The rear screw is 10 mm longer. Let it run for two minutes at 500 rpm and ten minutes at 2,500 rpm.",
        ),
        (
            "Slide the motor to the left, lift the belt off, then fit the new one.",
            "There are three steps:\n\n1. Slide the motor to the left.\n2. Lift the belt off.\n3. Fit the new one.",
        ),
        (
            "Helium has the number 2, neon 10, argon 18, krypton 36 and xenon 54.",
            "The five are:\n\n| Gas | Number |\n|---|---|\n| Helium | 2 |\n| Neon | 10 |\n| Argon | 18 |\n| Krypton | 36 |\n"
            "| Xenon | 54 |",
        ),
    ],
)
def test_what_technical_texts_say_otherwise_is_kept(source, rewrite):
    assert Coverage()(source, rewrite).passed


@pytest.mark.parametrize(
    ("source", "rewrite", "reason"),
    [
        ("The fair is in May. May we come? asked Tom.", "The fair is in June. May we come? asked Tom.", "date_added"),
        ("The team lost on Monday.", "The team won zero games, as Monday showed.", "number_added"),
        ("The 2012 Giants won.", "The 2012 champions won.", "name_lost"),
        (
            "The screw is 10 mm longer. Run it for two minutes.",
            "The screw is 10 min longer. Run it for two minutes.",
            "unit_changed",
        ),
        (
            "Slide the motor to the left, lift the belt off, then fit the new one.",
            "There are four steps:\n\n1. Slide the motor to the left.\n2. Lift the belt off.\n3. Fit the new one.",
            "number_added",
        ),
    ],
)
def test_and_what_they_change_is_not(source, rewrite, reason):
    assert Coverage()(source, rewrite).reason == reason
