"""Fuzz the readers of foreign bytes.

    python -m tokenmill.bench.fuzz --minutes 30                   # each target so long, one after the other
    python -m tokenmill.bench.fuzz --target rows --minutes 5
    python -m tokenmill.bench.fuzz --target rows --minutes 30 --atheris FOLDER     # guided by coverage: pip install atheris
    python -m tokenmill.bench.fuzz --target rows --keep FOLDER                     # into the corpus: what reached new code

The corpus (`corpus.jsonl`) is mutated at random, bytes and values of JSON. A crash, a hang of more than `HANG` seconds or a peak
above `MEMORY` ends a target with the input that did it, in a file, and exit code 1. Where native code ends the process, what it
was given is in the file whose name ends with `-last`, after four bytes of its length.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gc
import json
import mmap
import resource
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import orjson
from tokenmill.bench.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).with_name("corpus.jsonl")
HANG = 10.0
"""Seconds of CPU for one input. A machine that is busy is no hang."""
MEMORY = 2 << 30
"""Bytes that the process may grow to."""
LONGEST = 100_000
SMALL = 2000
"""Bytes of an input that is kept in the corpus."""
ROOT = str(Path(__file__).resolve().parents[2])
TOKENS = (
    *(
        b"\x00",
        b"\xff",
        b"\\u0000",
        b"\\ud800",
        b"[" * 500,
        b"{" * 500,
        b"1e999",
        b"-",
        b"NaN",
        b"null",
        b'""',
        b"]",
        b"}",
    ),
    *(
        b"\\frac{",
        b"^",
        b"**",
        b"(" * 300,
        b"9" * 400,
        b"0.",
        b"/0",
        b"<think>",
        b"</think>",
        b"<|im_start|>",
        b"~1",
        b"/-",
    ),
    *(
        "\u202e\u200b\u0660\u2044½¼²".encode(),
        b'"op":"copy"',
        b'"from":""',
        b'["F","1/0"]',
        b"\xef\xbb\xbf",
        b"\r\n\x1f",
    ),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1 << 62, 1.5, 1e308, -0.0, "", "x", "\x00", "0", "1e9", "null", "/", "/-", "~1", "-"),
    *(
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"b": []}},
        "[" * 300,
        "9" * 4400,
        "\u202e\u200b",
        "add",
        "function",
        "stop",
    ),
)
"""What `_altered_json` puts into places."""


class Hung(BaseException):
    """An input took too long. No `Exception`, so that what is fuzzed cannot swallow it."""


def seeds(target: str) -> list[bytes]:
    """The corpus of a target."""
    lines = map(orjson.loads, CORPUS.read_bytes().splitlines())
    return [base64.b64decode(line["base64"]) for line in lines if line["target"] == target]


def mutated(data: bytes, others: list[bytes], random: Random) -> bytes:
    """A variation of an input."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        place = random.randrange(len(made) + 1)
        end = min(len(made), place + random.choice((1, 1, 2, 8, 64)))
        if random.randrange(3) == 0 and (told := _altered_json(bytes(made), random)):
            made = bytearray(told)
            continue
        kind = random.randrange(7)
        if kind == 0 and made:
            made[place % len(made)] ^= 1 << random.randrange(8)
        elif kind == 1:
            del made[place:end]
        elif kind == 2:
            made[place:place] = random.choice(TOKENS)
        elif kind == 3:
            made[place:end] = made[place:end] * random.choice((2, 3, 50, 1000))
        elif kind == 4:
            other = random.choice(others)
            cut = random.randrange(len(other) + 1)
            made[place:] = other[cut:]
        elif kind == 5:
            made[place:end] = random.randbytes(end - place)
        else:
            made[place:place] = random.choice(others)[:200]
    return bytes(made[:LONGEST])


def _altered_json(data: bytes, random: Random) -> bytes:
    """JSON with another value, a double or a gap in one place, since most other changes end in the JSON parser. Empty for
    what is no JSON."""
    try:
        root = [orjson.loads(data)]
    except orjson.JSONDecodeError:
        return b""
    places: list[tuple[Any, Any]] = []
    todo: list[Any] = [root]
    while todo and len(places) < 1000:
        node = todo.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        places += ((node, key) for key in keys)
        todo += (node[key] for key in keys if isinstance(node[key], (dict, list)))
    node, key = random.choice(places)
    other, place = random.choice(places)
    kind = random.randrange(4)
    if kind == 0 and node is not root:
        del node[key]
    elif kind == 1:
        node[key] = orjson.loads(orjson.dumps(other[place]))  # a copy, so that nothing contains itself
    elif kind == 2 and isinstance(node, list):
        node.insert(key, random.choice(VALUES))
    else:
        node[key] = random.choice(VALUES)
    try:
        return orjson.dumps(root[0])
    except (orjson.JSONEncodeError, TypeError):
        return b""


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def hung(*_: Any) -> None:
        raise Hung(f"more than {HANG:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, hung)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def tried(target: Target, data: bytes) -> str:
    """What is wrong with how a target took an input; empty for nothing."""
    try:
        with _alarm():
            target.run(data)
    except target.expected:
        pass
    except (Exception, Hung) as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return f"the process has grown to {grown >> 20} MiB" if grown > MEMORY else ""


def fuzz(name: str, seconds: float, seed: int, last: Path | None = None) -> tuple[int, bytes, str]:
    """(inputs tried, the last one, what is wrong with it) of a target. What is tried stands in the file `last`, which outlives
    this process where native code ends it."""
    random, corpus, count = Random(seed), seeds(name), 0
    with last.open("w+b") if last else tempfile.TemporaryFile() as file:
        file.truncate(LONGEST + 4)
        with mmap.mmap(file.fileno(), LONGEST + 4) as shown:

            def problem_of(data: bytes) -> str:
                shown[: 4 + len(data)] = len(data).to_bytes(4, "big") + data
                return tried(TARGETS[name], data)

            for data in corpus:
                if problem := problem_of(data):
                    return count, data, problem
            pool, end = list(corpus), time.monotonic() + seconds
            while time.monotonic() < end:
                data = mutated(random.choice(pool), pool, random)
                count += 1
                if problem := problem_of(data):
                    return count, data, problem
                if count % 50 == 0:  # walk further from where the corpus is
                    pool[len(corpus) :] = [*pool[len(corpus) :][-200:], data]
    return count, b"", ""


def reached(target: Target, data: bytes) -> set[tuple[str, int, int]]:
    """The steps from line to line within our files that an input takes."""
    steps: set[tuple[str, int, int]] = set()

    def entered(frame: types.FrameType, *_: Any) -> Any:
        name, line = frame.f_code.co_filename, frame.f_lineno
        if not name.startswith(ROOT):
            return None

        def moved(frame: types.FrameType, *_: Any) -> Any:
            nonlocal line
            steps.add((name, line, frame.f_lineno))
            line = frame.f_lineno
            return moved

        return moved

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        tried(target, data)
    finally:
        sys.settrace(before)
    return steps


def grown(name: str, found: Iterable[bytes]) -> list[bytes]:
    """Those of the inputs found, the shortest first, that take steps which nothing in the corpus does."""
    known: set[tuple[str, int, int]] = set()
    for data in seeds(name):
        known |= reached(TARGETS[name], data)
    more = []
    for data in sorted({d for d in found if len(d) <= SMALL}, key=lambda data: (len(data), data)):
        steps = reached(TARGETS[name], data)
        if steps - known:
            known |= steps
            more.append(data)
    return more


def with_atheris(name: str, seconds: float, kept: Path) -> None:
    """The same, guided by which of our code an input reaches; inputs that reach more are written to a folder. Ends the
    process: 0, or another code for a finding."""
    import atheris  # type: ignore[import-untyped]

    target, corpus, tries, began, said = TARGETS[name], seeds(name), 0, time.monotonic(), 0.0

    def told() -> None:
        print(
            f"{name}: {tries:,} inputs, {time.process_time():.0f} s of CPU, {time.monotonic() - began:.0f} s",
            flush=True,
        )

    def one(data: bytes) -> None:
        nonlocal tries, said
        tries += 1
        if time.monotonic() > said + 60:
            said = time.monotonic()
            told()
        if problem := tried(target, data):
            told()
            raise RuntimeError(problem)

    def another(data: bytes, longest: int, seed: int) -> bytes:
        random = Random(seed)
        if random.randrange(2):
            return bytes(atheris.Mutate(data, longest))
        return mutated(data, corpus, random)[:longest]

    for number, data in enumerate(corpus):
        (kept / f"seed-{number}").write_bytes(data)
    for function in _ours():
        with contextlib.suppress(Exception):  # some of them cannot be rewritten
            atheris.instrument_func(function)
    limits = [f"-max_total_time={seconds:.0f}", f"-max_len={LONGEST}", "-rss_limit_mb=4096", "-timeout=60"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={kept}/", "-print_final_stats=1", str(kept)],
        one,
        custom_mutator=another,
    )
    atheris.Fuzz()


def _ours() -> list[types.FunctionType]:
    """The functions of this package that are loaded. Those of libraries are too many to be instrumented in minutes."""
    found = [o for o in gc.get_objects() if isinstance(o, types.FunctionType)]
    return [o for o in found if str(o.__module__).startswith("tokenmill.") and "fuzz" not in o.__module__]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="default: all of them")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--atheris", type=Path, metavar="FOLDER", help="guided by coverage; one target; what it keeps")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="add to the corpus what reaches more; one target")
    flags = parser.parse_args()
    names = flags.target or sorted(TARGETS)
    if (flags.atheris or flags.keep) and len(names) != 1:
        parser.error("--atheris and --keep take one --target")
    if flags.keep:
        more = grown(names[0], (path.read_bytes() for path in flags.keep.iterdir()))
        lines = [{"target": names[0], "base64": base64.b64encode(data).decode()} for data in more]
        with CORPUS.open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        print(f"{names[0]}: {len(more):,} inputs more in the corpus")
        return 0
    if flags.atheris:
        flags.atheris.mkdir(parents=True, exist_ok=True)
        with_atheris(names[0], flags.minutes * 60, flags.atheris)
    found = 0
    for name in names:
        last = Path(tempfile.gettempdir(), f"fuzz-{name}-{flags.seed}-last")
        count, data, problem = fuzz(name, flags.minutes * 60, flags.seed, last)
        last.unlink()
        print(f"{name}: {count:,} inputs, {problem or 'nothing found'}", flush=True)
        if problem:
            found += 1
            kept = Path(tempfile.gettempdir(), f"fuzz-{name}-{flags.seed}")
            kept.write_bytes(data)
            print(f"  the input is in {kept}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
