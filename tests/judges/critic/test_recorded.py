"""A capable model's comparisons, recorded: both orders agree, and the better answer wins however sure the worse one is."""

import asyncio

from tokenmill.bench.prefer.__main__ import compared, figures, recorded
from tokenmill.judges.critic.compare import PROMPT
from tokenmill.judges.critic.rubrics import CORE, PRESCRIPTIVE

from tokenmill import prompts


def test_the_order_turns_no_verdict_and_the_better_answer_wins():
    found = figures(asyncio.run(compared(recorded())))
    assert found["pairs"] == 54 and found["flipped"] <= 2
    assert found["quality"]["better_won"] >= 40 and found["hedged"]["better_won"] == 12


def test_what_is_recorded_was_said_to_the_prompts_of_today():
    assert {prompts.load(name).version for name in (PROMPT, *CORE, *PRESCRIPTIVE)} == {1}
