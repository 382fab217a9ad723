"""Decisions of datatrove's own filters, for `bench.corpus.filters`; run by a Python that has datatrove, with nothing of ours.

python bench/corpus/peer_filters.py < passages.jsonl > decisions.jsonl
"""

import json
import sys
import time

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)


def main() -> None:
    filters = {
        "gopher_quality": GopherQualityFilter(),
        "gopher_repetition": GopherRepetitionFilter(),
        "c4": C4QualityFilter(filter_no_terminal_punct=False),
        "fineweb": FineWebQualityFilter(),
    }
    spent = dict.fromkeys(filters, 0.0)
    for line in sys.stdin:
        row = json.loads(line)
        said = {}
        for name, one in filters.items():
            begun = time.process_time()
            made = one.filter(Document(text=row["text"], id=row["id"]))  # anew: C4's changes the text
            spent[name] += time.process_time() - begun
            said[name] = "" if made is True else made[1]
        print(json.dumps({"id": row["id"], **said}))
    print(json.dumps({"seconds": spent}))


if __name__ == "__main__":
    main()
