"""The yardstick: nothing but an HTTP loop. Reads documents, posts them, writes what comes back, N in flight.

    python -m tokenmill.bench.throughput.bare_loop INPUT.jsonl OUTPUT.jsonl URL --in-flight 256

No cache, no checks, no retries, no resume: what is left is what the network and the server allow.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import aiohttp
import orjson
import uvloop


async def run(source: Path, target: Path, url: str, in_flight: int) -> None:
    """Post every document once and write the answers in the order in which they come."""
    rows = iter(source.read_bytes().splitlines())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        with target.open("wb") as out:

            async def worker() -> None:
                for line in rows:
                    row = orjson.loads(line)
                    content = f"Rewrite this passage in your own words.\n{row['title']}\n{row['text']}"
                    body = {"model": "scripted", "max_tokens": 512, "messages": [{"role": "user", "content": content}]}
                    async with session.post(
                        f"{url}/chat/completions",
                        data=orjson.dumps(body),
                        headers={"Content-Type": "application/json"},
                    ) as answer:
                        text = orjson.loads(await answer.read())["choices"][0]["message"]["content"]
                    out.write(orjson.dumps({"id": row["id"], "text": text}) + b"\n")

            await asyncio.gather(*(worker() for _ in range(in_flight)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("url")
    parser.add_argument("--in-flight", type=int, default=256)
    args = parser.parse_args()
    uvloop.run(run(args.input, args.output, args.url, args.in_flight))


if __name__ == "__main__":
    main()
