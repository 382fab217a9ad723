"""Domain evolution: categories grow application domains, domains grow tools (Kimi K2 report, section 3.1.1 and figure 8a).

    categories -> domains (`domains.py`, by the operators of `operators.py`) -> entity model and sample state
    (`tools_repo.world.design`) -> tools over these entities (`writing.py`)

Each step sees what its siblings already made and must differ from it (`siblings.py`).
"""
