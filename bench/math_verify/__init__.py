"""How many right solutions the symbolic checks pass, how many planted faults they catch, and how fast."""
