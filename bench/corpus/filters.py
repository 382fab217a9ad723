"""Our published filters against datatrove's own on the same passages: decisions, differences, speed.

python -m bench.corpus.filters --pages '/usr/share/doc/**/*.html' --peer /tmp/peer/bin/python

The peer is a Python that has `datatrove[processing]` and `spacy`, in an environment of its own:
`uv venv /tmp/peer && uv pip install --python /tmp/peer/bin/python datatrove spacy nltk regex tldextract`. Without it the script
says so in one line and ends. Pages are by whoever wrote them; the text of each is cut into passages of about 3,000 characters.
"""

from __future__ import annotations

import argparse
import glob
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenmill.judges.corpus.c4 import C4
from tokenmill.judges.corpus.fineweb import FineWeb
from tokenmill.judges.corpus.gopher import GopherQuality, GopherRepetition
from tokenmill.judges.corpus.words import Words
from tokenmill.judges.form.language import detect
from tokenmill.pipelines.corpus.extraction import NotExtracted, extract
from tokenmill.pipelines.corpus.parse import CorpusParser
from tokenmill.pipelines.corpus.screen import Check
from tokenmill.schemas.corpus import CorpusDocument

CHECKS: dict[str, Check] = {
    "gopher_quality": GopherQuality(),
    "gopher_repetition": GopherRepetition(),
    "c4": C4(),
    "fineweb": FineWeb(),
}
CHARACTERS = 3000
_SHOWN = 5


def passages(paths: Sequence[str], count: int) -> Iterator[CorpusDocument]:
    """English passages of the main texts of HTML files, cut at paragraphs."""
    made = 0
    for path in paths:
        if path.endswith((".jsonl", ".txt")):
            texts = [json.loads(line)["text"] for line in Path(path).read_text(encoding="utf-8").splitlines()]
        else:
            try:
                texts = [extract(Path(path).read_bytes())[1]]
            except (NotExtracted, OSError):
                continue
        for text in texts:
            for number, passage in enumerate(_cut(text)):
                if detect(passage) == "en":
                    yield CorpusParser()({"text": passage, "language": "en"}, f"web/{path}", number).document
                    made += 1
                    if made == count:
                        return
                if number == 3:  # no page shall have most of them
                    break


def _cut(text: str) -> Iterator[str]:
    held = ""
    for paragraph in text.split("\n\n"):
        held += ("\n\n" if held else "") + paragraph
        if len(held) >= CHARACTERS:
            yield held
            held = ""
    if held.strip():
        yield held


def ours(documents: Sequence[CorpusDocument]) -> tuple[list[dict[str, str]], dict[str, float]]:
    """Reasons by check of every document, and CPU seconds by check; `words` is the tokenisation that all share."""
    spent = dict.fromkeys(("words", *CHECKS), 0.0)
    said = []
    for document in documents:
        begun = time.process_time()
        words = Words(document.text)
        _ = words.tokens.grams(5)
        spent["words"] += time.process_time() - begun
        row = {}
        for name, check in CHECKS.items():
            begun = time.process_time()
            row[name] = check(document, words).reason
            spent[name] += time.process_time() - begun
        said.append(row)
    return said, spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pages", nargs="+", required=True, metavar="GLOB", help="HTML files, or JSONL with `text`")
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with datatrove")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not given.peer or not Path(given.peer).exists():
        print("no --peer PYTHON with datatrove: nothing to compare with; see the first lines of this file")
        return 0
    paths = sorted({path for pattern in given.pages for path in glob.glob(pattern, recursive=True)})  # noqa: PTH207
    random.Random(given.seed).shuffle(paths)
    documents = list(passages(paths, given.passages))
    said, spent = ours(documents)
    lines = "".join(json.dumps({"id": document.id, "text": document.text}) + "\n" for document in documents)
    script = Path(__file__).with_name("peer_filters.py")
    answer = subprocess.run([given.peer, "-I", str(script)], input=lines, text=True, stdout=subprocess.PIPE, check=True)
    *theirs, last = map(json.loads, answer.stdout.splitlines())
    characters = sum(len(document.text) for document in documents) / max(1, len(documents))
    print(f"{len(documents)} passages of {characters:,.0f} characters from {len(paths)} files")
    for name in CHECKS:
        differ = [i for i, (a, b) in enumerate(zip(said, theirs, strict=True)) if bool(a[name]) != bool(b[name])]
        kept = sum(not row[name] for row in theirs)
        rate, other = len(documents) / spent[name], len(documents) / last["seconds"][name]
        print(
            f"{name:18} theirs keeps {kept}; {len(differ)} decided differently; {rate:,.0f} documents/s against {other:,.0f}"
        )
        told = Counter((said[i][name] or "kept", theirs[i][name] or "kept") for i in differ)
        for (mine, peer), times in told.most_common(_SHOWN):
            print(f"  {times:4} ours {mine}, theirs {peer}")
    print(f"tokenisation, shared by all: {len(documents) / spent['words']:,.0f} documents/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
