"""Loader speed: from Parquet shards to packed batches, in tokens a second, against what a training step eats.

    python -m tokenmill.bench.training.loader --output DIR [--rows 20000] [--config small]

Counts tokens that are laid out, over batches as the training loop takes them (tokenizing, mixing, packing and the
thread that reads ahead included), after one untimed batch. `stream` reads documents, `fit` tool conversations. The step
is the model's own: forward, backward and MuonClip at 512 tokens, on one thread. The two are compared by seconds of CPU
that the process spent, all its threads together, so that others on the machine do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenmill.bench.training.people import background_rows, questions_of, raw_text
from tokenmill.training.data.loader import Loader, ahead
from tokenmill.training.data.mixture import ConversationEncoder, Encode, Mixture, Source, TextEncoder
from tokenmill.training.data.packing import Packer, Packing
from tokenmill.training.data.rows import find_files, iterate_rows, open_shards
from tokenmill.training.model import Model, preset
from tokenmill.training.optim import MuonClip
from tokenmill.training.schedules import Wsd
from tokenmill.training.tokenizer import Tokenizer, texts_of

SEQUENCE, BATCH, STEP_TOKENS = 1024, 16_384, 512
LOOKUP = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Find what is known of a person",
        "parameters": {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
    },
}


def text_rows(count: int) -> Iterator[dict[str, str]]:
    """Documents of about 300 words: several people told one after the other."""
    people = (row["text"] for row in background_rows(0, count * 2) if "/told/" in row["id"])
    for number in range(count):
        yield {"id": str(number), "text": "\n\n".join(text for text, _ in zip(people, range(4), strict=False))}


def conversation_rows(count: int) -> Iterator[dict[str, str]]:
    for number in range(count):
        messages: list[dict[str, Any]] = []
        for turn, asked in enumerate(questions_of(number)):
            function = {"name": "look_up", "arguments": json.dumps({"question": asked["question"]})}
            messages += [
                {"role": "user", "content": asked["question"]},
                {"role": "assistant", "tool_calls": [{"id": str(turn), "type": "function", "function": function}]},
                {"role": "tool", "tool_call_id": str(turn), "content": raw_text(number)},
                {"role": "assistant", "content": asked["answer"]},
            ]
        yield {"messages": json.dumps(messages), "tools": json.dumps([LOOKUP])}


def loader_speed(folder: Path, encode: Encode, packing: Packing) -> dict[str, int]:
    """Tokens a second by the clock and of CPU, and how many were laid out."""
    mixture = Mixture([Source("bench", open_shards(find_files(folder)))], encode)
    plan = Wsd().plan(1 << 40, 1e-3, sequence_length=SEQUENCE, batch_tokens=BATCH)
    tokens = 0
    with closing(ahead(Loader(Packer(mixture, packing), plan, until_data_ends=True).batches())) as batches:
        next(batches)
        start, cpu = time.perf_counter(), time.process_time()
        for batch in batches:
            tokens += int((batch.document_ids >= 0).sum())
        return {
            "tokens": tokens,
            "tokens_per_second": round(tokens / (time.perf_counter() - start)),
            "tokens_per_cpu_second": round(tokens / (time.process_time() - cpu)),
        }


def step_speed(name: str, rounds: int = 5) -> float:
    """Tokens of the whole training step a second of CPU."""
    torch.set_num_threads(1)
    model = Model(preset(name)).train()
    optimizer = MuonClip(model, lr=1e-6)
    tokens = torch.randint(0, model.config.vocab_size, (1, STEP_TOKENS))
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        optimizer.zero_grad()
        model(tokens, targets=tokens).loss.backward()
        optimizer.step()
        seconds.append(time.process_time() - start)
    return STEP_TOKENS / statistics.median(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.training.loader")
    parser.add_argument("--output", type=Path, help="folder for loader.json")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--config", default="small", help="whose step to compare with")
    flags = parser.parse_args()
    results: dict[str, Any] = {"cpu": platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as temporary:
        kinds: dict[Packing, Any] = {"stream": text_rows, "fit": conversation_rows}
        for packing, make in kinds.items():
            folder = Path(temporary) / packing
            folder.mkdir()
            rows = list(make(flags.rows if packing == "stream" else flags.rows // 4))
            pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet", row_group_size=1000, compression="zstd")
            shards = open_shards(find_files(folder))
            tokenizer = Tokenizer.train(texts_of(iterate_rows(shards, limit=2000)), 8192)
            encode = TextEncoder(tokenizer) if packing == "stream" else ConversationEncoder(tokenizer, SEQUENCE, "json")
            results[packing] = loader_speed(folder, encode, packing)
    results["step_tokens_per_cpu_second"] = round(step_speed(flags.config))
    for packing in kinds:
        ratio = results[packing]["tokens_per_cpu_second"] / results["step_tokens_per_cpu_second"]
        results[packing]["times_the_step"] = round(ratio, 1)
    print(json.dumps(results, indent=1))
    if flags.output:
        flags.output.mkdir(parents=True, exist_ok=True)
        (flags.output / "loader.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
