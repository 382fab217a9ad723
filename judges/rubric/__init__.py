"""Judging trajectories by rubrics (Kimi K2 report, section 3.1.1, "quality evaluation and filtering").

| module | what it does |
|---|---|
| `criteria` | what the `spec` of each kind of criterion holds; parses it |
| `conditions` | conditions on JSON values: arguments, records, the state |
| `validate` | faults of a rubric that can be seen without running anything |
| `feasible` | shows with the reference solution that a rubric can be met, and not by doing nothing |
| `code_criteria` | criteria that code decides, from the calls (`calls`), the state, and what was said (`values`) |
| `claimed_actions`, `fabrication` | claims that no call supports, values without a source |
| `user_role` | has the simulated user stayed the user? |
| `judge` | the model that decides the rest, with quotations from the `transcript` |
| `grade` | all of it, for one trajectory |
"""
