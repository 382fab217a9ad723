"""Tool-use trajectories from a tool repository: agents, tasks with rubrics, simulated users, tools that run, judges.

    python beam_runner.py agentic --tools TOOLS --output OUT --agents 100 --tasks-per-agent 4 --samples 4 --llm SPEC

runs the whole chain (Kimi K2 report, section 3.1.1 and figure 8); `agentic agents`, `agentic tasks` and
`agentic trajectories` run one stage of it, `agentic code` works on coding tasks from files.
"""
