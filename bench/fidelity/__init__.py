"""Do the fidelity checks catch planted faults, and leave honest paraphrases alone?"""
