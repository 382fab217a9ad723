"""Tasks whose rewards are tested: environments behind one protocol, and the attacks that each must withstand.

    from tokenmill.gym.registry import find

    environment = find("game24")
    task = next(iter(environment.tasks(seed=0)))
    episode = await environment.rollout(task, ask)
    episode.reward, episode.parts

No trainer, no torch and no Beam here: whoever trains, filters or evaluates takes what it needs (Kimi K2 report, section 3.2.1).
"""
