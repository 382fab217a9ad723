"""Tasks whose rewards are tested: environments of mathematics, logic, instructions, grounding, code, agents and safety.

    python beam_runner.py gym list
    python beam_runner.py gym check game24 tables
    python beam_runner.py gym difficulty game24 tables --tasks 500 --samples 8 --keep 0.1:0.9 --llm SPEC --output OUT
    python beam_runner.py gym rollout game24 --tasks 500 --samples 4 --llm SPEC --output OUT
    python beam_runner.py gym export game24 --tasks 500 --for trl --output OUT

(Kimi K2 report, section 3.2.1, "verifiable rewards gym".)
"""
