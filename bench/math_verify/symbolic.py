"""Write worked problems that others made: the templates of GSM-Symbolic in `reasoning-gym`, from GSM8K's test half.

    pip install reasoning-gym==0.1.25    # in an environment of its own
    python bench/math_verify/symbolic.py 5 > symbolic.jsonl

gives five problems of each template that its maintainers hold to be right, with `id`, `question`, `answer` as GSM8K has them.
"""

from __future__ import annotations

import json
import sys
from random import Random


def main(each: int) -> None:
    """Print `each` problems of every template, drawn by template and number alone."""
    from reasoning_gym.arithmetic.gsm_symbolic import gsm_symbolic

    templates = gsm_symbolic.GSMSymbolicDataset(gsm_symbolic.GSMSymbolicDatasetConfig(size=1)).generators
    for template in gsm_symbolic.tasks_ok:
        for number in range(each):
            made = templates[template](Random(f"{template}/{number}"), 1.0)
            row = {"id": f"symbolic-{template}-{number}", "question": made["question"]}
            print(json.dumps({**row, "answer": made["metadata"]["answer_cot"]}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
