import re

import pytest
from tokenmill.judges.form.commentary import Commentary

from tests.judges.pair import REWRITE, SOURCE

commentary = Commentary()

PREAMBLES = [
    "Here is the rewritten passage:\n\n",
    "Here's a rephrased version of the text in an encyclopedic style:\n",
    "Here is the text you asked for:\n",
    "Sure! Here is the passage. ",
    "Sure, I'll rewrite it for you. ",
    "Certainly! Below you find the new text.\n",
    "Of course!\n\n",
    "**Rewritten passage:**\n\n",
    "Rewritten text: ",
    "### Rephrased version\n",
    "Rephrased: ",
    "I have rewritten the passage as a news report. ",
    "I've rephrased it below. ",
    "As an AI language model, I can do that. ",
    "I'm sorry, but I cannot rewrite this passage. ",
    "I’m sorry, I can’t help with that. ",
    "I cannot assist with this request. ",
    "I apologize for the confusion. ",
    "Please provide the text that you want me to rewrite. ",
    "Hier ist der umgeschriebene Text:\n",
    "Natürlich! Hier ist er: ",
    "Aquí tienes el texto reescrito:\n",
    "Voici le passage réécrit :\n",
    "Ecco il testo riscritto: ",
    "Aqui está o texto reescrito: ",
    "Вот переписанный текст: ",
    "以下是改写后的段落：",
    "This passage is written in the form of a lecture. ",
    "This text explores the history of a bridge. ",
    "A section of the textbook can be reorganized as follows:\n",
]
AFTERWORDS = [
    "\n\nI hope this helps!",
    " I hope this meets your expectations.",
    "\n\nLet me know if you would like any changes.",
    " Please let me know if you need anything else.",
    " Feel free to ask if you have questions.",
    "\n\nNote: I have kept all numbers and dates.",
    "\n\n(Note: I've rewritten the passage in a lecture style.)",
    "\n\n*Note: This passage has been rewritten for clarity.*",
    "\n\nThis rewritten version keeps every fact of the original.",
    "\n\nThe rewrite preserves all facts of the source.",
    "\n\nWould you like me to continue?",
    "\n\nI have preserved all facts from the source.",
    "\n\nIch hoffe, das hilft.",
    "\n\nI made the following changes to the original text:\n- none",
    "\n\nEspero que esto te sirva.",
]
CONTENT = [
    "Here is the church of St. Mary, built in 1320, and beside it stands the school.",
    "Here is a list of the metals found: iron, tin and lead.",
    "This is the passage through which the ships sailed in 1902.",
    '"Sure!" said Anna, and took the rope.',
    "Student: Sure, but why did it burn?\nTeacher: Because a candle fell over.",
    "Certainly the most famous of the four towers is the third.",
    "Of course, the tower could not withstand the storm of 1703.",
    "Sure enough, the water came back forty minutes later.",
    "I cannot forget the night of the fire, the keeper wrote in 1755.",
    "I have no pretensions to originate anything, the machine might say.",
    "Below is the river, above is the castle.",
    "The revised text of the treaty: three articles were struck out in 1907.",
    "Revised versions of the law were passed in 1911 and 1949.",
    "This passage between the islands is 12 kilometres wide.",
    "The text of the treaty was signed in 1907.",
    "Okay is a town in Wagoner County. It had 620 inhabitants in 2010.",
    "The scientists hope that this helps to protect the birds.",
    "She noted that this version of the text was lost in 1703.",
    "Note that the depth is 24 metres and that no locks are needed.",
    "The letter ends: let me know when you arrive.",
    "Please note that the gallery closes at noon.",
    "He rephrased the law in 1821, and it was printed in 1822.",
    "I hope this letter finds you in good health, she wrote in 1842.",
    "```python\nprint(1)\n```\nprints the number 1.",
]


def test_a_clean_rewrite_passes():
    assert commentary(SOURCE, REWRITE).passed


@pytest.mark.parametrize("preamble", PREAMBLES)
def test_remarks_in_front(preamble):
    verdict = commentary(SOURCE, preamble + REWRITE)
    assert verdict.reason == "comments_on_task"
    quoted = verdict.findings[0].rewrite
    assert quoted and quoted in preamble + REWRITE


@pytest.mark.parametrize("afterword", AFTERWORDS)
def test_remarks_at_the_end(afterword):
    verdict = commentary(SOURCE, REWRITE + afterword)
    assert verdict.reason == "comments_on_task"
    assert verdict.findings[0].rewrite in afterword


@pytest.mark.parametrize("text", CONTENT)
def test_content_that_looks_like_a_remark(text):
    assert commentary(SOURCE, text).passed
    assert commentary(SOURCE, f"{REWRITE} {text}").passed


def test_what_the_source_says_itself_is_content():
    letter = "I hope this helps you to understand the matter, Rousseau wrote."
    assert not commentary(SOURCE, f"{REWRITE} {letter}").passed
    assert commentary(f"{SOURCE} {letter}", f"{REWRITE} {letter}").passed


@pytest.mark.parametrize(
    "wrapped", ["```\n{}\n```", "```markdown\n{}\n```", "<passage-0a1b2c3d>\n{}\n</passage-0a1b2c3d>"]
)
def test_fences_around_all(wrapped):
    assert commentary(SOURCE, wrapped.format(REWRITE)).reason == "comments_on_task"


def test_a_code_block_stays_a_code_block():
    code = "```\nlow + (high - low) // 2\n```"
    assert commentary(code, code).passed


@pytest.mark.parametrize(
    "thinking", ["<think>I should say it briefly.\n\n{}", "I should say it briefly.</think> {}", "{} </reasoning>"]
)
def test_thinking_left_in_the_text_is_refused_with_it(thinking):
    text = thinking.format(REWRITE)
    verdict = commentary(SOURCE, text)
    assert verdict.reason == "comments_on_task"
    assert verdict.findings[0].rewrite in text and re.search(r"</?(think|reasoning)>", verdict.findings[0].rewrite)


def test_a_source_that_speaks_of_thinking_may_be_rewritten():
    source = "The model opens with <think> and ends with </think>, then it answers."
    rewrite = "First comes <think>; the end is </think>. The answer follows."
    assert commentary(source, rewrite).passed
    assert not commentary(source, f"<think>I must name both tags.\n\n{rewrite}").passed
    assert commentary("<think> opens it.", "<think> is what opens it.").passed
    assert not commentary("It has <b>bold</b> parts.", "It has parts </think> in bold.").passed
