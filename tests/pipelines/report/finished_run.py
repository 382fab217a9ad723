"""A finished knowledge run to look at: real row types, texts written for it, verdicts drawn by a fixed seed."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.knowledge import RefusedRephrasing, Rephrasing
from tokenmill.schemas.manifest import Manifest
from tokenmill.schemas.verdicts import Finding, Judgement

DOCUMENTS = {
    "tide-mill": (
        "The tide mill at Saltby",
        "The tide mill at Saltby was built in 1786 by Thomas Arkwell on the east bank of the River Orne. Its pond "
        "covers 3.4 hectares and is filled twice a day through two sluices, each 1.8 m wide.\n\nAt ebb the water "
        "drives a breast-shot wheel of 5.2 m diameter, which turned four pairs of stones until 1931. A storm on 12 "
        "February 1953 broke the dam; it was repaired in 1958 at a cost of £14,200.\n\nToday the mill grinds about "
        "9 tonnes of wheat a year and receives 21,000 visitors.",
        "In 1786 Thomas Arkwell put up a tide mill at Saltby, on the River Orne's east bank. Twice a day two sluices, "
        "each 1.8 m across, let the sea into a pond of 3.4 hectares.\n\nWhen the tide falls, the stored water turns a "
        "breast-shot wheel 5.2 m in diameter. It drove four pairs of stones until 1931. The dam gave way in the storm "
        "of 12 February 1953 and was mended in 1958 for £14,200.\n\nThe mill still grinds roughly 9 tonnes of wheat "
        "every year, and 21,000 people come to see it.",
    ),
    "sourdough": (
        "Sourdough fermentation",
        "Sourdough bread is leavened by wild yeasts and lactic acid bacteria. A mature starter holds about 100 "
        "bacteria for every yeast cell, and its pH falls from 6.0 to below 4.0 within 24 hours at 25 °C.\n\nThe acids "
        "slow the enzyme amylase, so that rye bread, which has little gluten, keeps its crumb. Lactobacillus "
        "sanfranciscensis was first described in 1971 by Leo Kline and T. F. Sugihara.",
        "Question: what raises a sourdough loaf? Answer: wild yeasts together with lactic acid bacteria, in a mature "
        "starter about 100 bacteria to each yeast cell.\n\nQuestion: how sour does it get? Answer: at 25 °C the pH "
        "drops from 6.0 to under 4.0 within 24 hours. The acid slows amylase, and rye bread, poor in gluten, holds its "
        "crumb. Leo Kline and T. F. Sugihara first described Lactobacillus sanfranciscensis in 1971.",
    ),
    "lighthouse": (
        "Cape Verin lighthouse",
        "The lighthouse at Cape Verin stands 62 m above sea level and was first lit on 3 October 1874. Its first-order "
        "Fresnel lens, made by Barbier & Fenestre in Paris, weighs 2,900 kg and floats on 140 litres of mercury.\n\n"
        "The light was electrified in 1927 and automated in 1989, when the last keeper, Ines Moraldi, left. It shows "
        "three white flashes every 15 seconds, visible for 24 nautical miles.",
        "Standing 62 m above the sea, the light at Cape Verin was first lit on 3 October 1874. Barbier & Fenestre of "
        "Paris made its first-order Fresnel lens: 2,900 kg of glass and brass afloat on 140 litres of mercury.\n\n"
        "Electricity came in 1927, automation in 1989; Ines Moraldi was the last keeper to leave. Ships as far off as "
        "24 nautical miles see three white flashes every 15 seconds.",
    ),
    "glacier": (
        "Measuring a glacier's mass",
        "The mass balance of a glacier is the snow it gains less the ice it loses in a year. On the Arvel glacier, "
        "surveyed since 1962, 31 stakes are drilled into the ice and read every September.\n\nBetween 2003 and 2022 "
        "it lost 0.87 m of water equivalent a year, against 0.31 m in the four decades before. Its tongue has drawn "
        "back 1,240 m since 1962, and the area has shrunk from 7.9 to 5.6 square kilometres.",
        "How does one weigh a glacier? Count the snow it gains in a year and take away the ice it loses: that is its "
        "mass balance. The Arvel glacier has been surveyed since 1962, with 31 stakes in the ice, read each September."
        "\n\nFrom 2003 to 2022 it lost 0.87 m of water equivalent a year; in the four decades before, 0.31 m. The "
        "tongue is 1,240 m shorter than in 1962, and 7.9 square kilometres have become 5.6.",
    ),
}
STYLES = ("styles/encyclopedic", "styles/textbook", "styles/question_and_answer", "styles/lecture", "styles/news")
PERSPECTIVES = ("perspectives/child", "perspectives/expert", "perspectives/practitioner")
LICENSES = ("CC BY-SA 3.0", "CC BY 4.0", "CC BY-SA 3.0")
CHECKS = ("format", "copy", "length", "coverage", "similarity", "judge")
FAULTS = {
    "number_lost": ("coverage", "Keep the number 1.8 m (width of a sluice).", "1.8 m", ""),
    "number_added": ("coverage", "Remove the number 40, which the source does not give.", "", "some 40 years later"),
    "name_lost": ("coverage", "Keep the name Thomas Arkwell.", "Thomas Arkwell", ""),
    "copies_source": ("copy", "Rewrite in your own words; 78 % of the word 8-grams are the source's.", "", ""),
    "too_short": ("length", "Keep the whole content; the rewrite has 18 % of the source's length.", "", ""),
    "unsupported_claim": ("judge", "Remove the claim that the mill was restored by volunteers.", "", "by volunteers"),
    "meaning_drift": ("similarity", "Stay closer to the source's meaning.", "", ""),
}
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)> ````\n---\nlicense: mit\n---\n"
    "</details>\n\n# Not a heading\n\n| a | b |\n{{ 7*7 }} {% raw %} [link](javascript:alert(3)) \u202egnp.exe "
    "\x00\x1b[31m"
)


def rephrasing(i: int, rng: random.Random, **changes: Any) -> Rephrasing:
    source_id, (title, source, text) = list(DOCUMENTS.items())[i % len(DOCUMENTS)]
    repaired = rng.random() < 0.3
    verdicts = []
    if repaired:
        fault = rng.choice(("number_lost", "number_added", "name_lost"))
        verdicts.append(_refusal(fault, 0, 0, rng))
    verdicts += [Judgement(c, rng.choice((-1, 0)), int(repaired), True, _high(rng), "", []) for c in CHECKS]
    row = Rephrasing(
        id=f"{source_id}-{i}/0",
        text=text,
        title=title,
        language="de" if i % 17 == 0 else "en",
        license=LICENSES[i % 3],
        source_id=f"{source_id}-{i}",
        source_file="articles.jsonl",
        source_row=i,
        source="an encyclopedia",
        url=f"https://example.org/{source_id}",
        source_text=source,
        source_kind="prose",
        source_tokens=len(source.split()),
        tokens=len(text.split()),
        length_ratio=round(len(text) / len(source), 4),
        copy_rate=round(rng.random() / 5, 4),
        sibling_similarity=round(rng.random() / 5, 4) if i % 2 else None,
        minor_faults=i % 2,
        rephrasing=0,
        style=STYLES[i % len(STYLES)],
        perspective=PERSPECTIVES[i % len(PERSPECTIVES)],
        prompts=[f"{STYLES[i % len(STYLES)]}@2", "knowledge/rewrite@3"],
        model="Qwen/Qwen3-8B",
        judge_model="Qwen/Qwen3-32B",
        seed=7,
        chunks=2,
        attempts=2 + int(repaired),
        prompt_tokens=900 + rng.randrange(300),
        completion_tokens=300 + rng.randrange(90),
        verdicts=verdicts,
    )
    return replace(row, **changes)


def refused(i: int, rng: random.Random, **changes: Any) -> RefusedRephrasing:
    reason = list(FAULTS)[i % len(FAULTS)]
    _, _, lost, added = FAULTS[reason]
    row = rephrasing(0 if lost else i, rng)
    text = row.text.replace(lost, "a few steps" if lost == "1.8 m" else "a local miller") if lost else row.text
    text = text.replace(".", f" {added}.", 1) if added else text
    if reason == "copies_source":
        text = row.source_text
    elif reason == "too_short":
        text = text[:60] + "."
    fields = {f: getattr(row, f) for f in row.__dataclass_fields__}
    fields |= {
        "id": f"{row.source_id}-{i}/0",
        "text": text,
        "attempts": 5,
        "verdicts": [_refusal(reason, 0, attempt, rng) for attempt in range(3)],
        "reason": reason,
        "refused_chunk": 0,
        "refused_source": row.source_text.split("\n\n")[0],
        "refused_text": text.split("\n\n")[0],
    }
    return RefusedRephrasing(**(fields | changes))


def failed(i: int) -> FailedRow:
    error, message = (
        ("empty_text", "the `text` column is empty"),
        ("CallRefused", "HTTP 400: this model's maximum context length is 8192 tokens"),
    )[i % 2]
    step = "read" if error == "empty_text" else "rollout"
    place = {"source_id": f"doc-{i}", "source_file": "articles.jsonl", "source_row": i}
    return failed_row(f"doc-{i}/0", step, error, message, "Beginning of document.", **place)


def _high(rng: random.Random) -> float:
    return round(1 - rng.betavariate(1.2, 14), 4)


def _refusal(reason: str, chunk: int, attempt: int, rng: random.Random) -> Judgement:
    check, detail, source, rewrite = FAULTS[reason]
    finding = Finding(reason, detail, source, rewrite)
    return Judgement(check, chunk, attempt, False, round(rng.betavariate(5, 4), 4), reason, [finding])


def build(
    out: Path,
    accepted: int = 40,
    rejected: int = 14,
    broken: int = 3,
    seed: int = 1,
    edit: dict[str, list[Any]] | None = None,
    **manifest: Any,
) -> Manifest:
    """Write shards and `manifest.json` under `out`; `edit` adds rows to a folder, `manifest` overrides its fields."""
    rng = random.Random(seed)
    rows = {
        "data": (Rephrasing, [rephrasing(i, rng) for i in range(accepted)]),
        "rejected": (RefusedRephrasing, [refused(i, rng) for i in range(rejected)]),
        "failed": (FailedRow, [failed(i) for i in range(broken)]),
    }
    files = []
    for folder, (row_type, made) in rows.items():
        made = made + list((edit or {}).get(folder, ()))
        rows[folder] = (row_type, made)
        parts = [made[: len(made) // 2], made[len(made) // 2 :]] if len(made) > 20 else [made] if made else []
        for n, part in enumerate(parts):
            path = out / folder / f"train-{n:05d}-of-{len(parts):05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(to_table(part, row_type), path, compression="zstd", row_group_size=1000)
            files.append(
                {
                    "file": f"{folder}/{path.name}",
                    "rows": len(part),
                    "bytes": path.stat().st_size,
                    "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                }
            )
    kept, no, broke = (made for _, made in rows.values())
    unreadable = sum(row.step == "read" for row in broke)
    tasks = len(kept) + len(no) + len(broke) - unreadable
    made_manifest = Manifest(
        **{
            "job": "knowledge",
            "title": "Faithful rephrasings of encyclopedia articles",
            "command": ["beam_runner.py", "knowledge", "--input", "articles.jsonl", "--output", "out/articles"],
            "config": {"rephrasings": 1, "chunk_tokens": 256, "max_repairs": 2, "checks": {"judge": True}},
            "fingerprint": hashlib.sha256(b"run").hexdigest(),
            "seed": 7,
            "started": "2026-05-04T08:00:00+00:00",
            "finished": "2026-05-04T08:14:12+00:00",
            "duration_s": 852.4,
            "versions": {"python": "3.11.9", "apache-beam": "2.77.0", "pyarrow": "25.0.1", "tokenmill": "0.1.0"},
            "models": [
                {
                    "role": "writer",
                    "spec": "vllm:Qwen/Qwen3-8B",
                    "model": "Qwen/Qwen3-8B",
                    "params": {"temperature": 0.7, "top_p": 0.95, "max_tokens": 1024},
                },
                {
                    "role": "judge",
                    "spec": "Qwen/Qwen3-32B@http://10.0.0.5:8000/v1",
                    "model": "Qwen/Qwen3-32B",
                    "params": {"temperature": 0.0},
                },
            ],
            "prompts": [
                {
                    "name": name,
                    "version": version,
                    "sha256": hashlib.sha256(name.encode()).hexdigest(),
                    "text": f"Rewrite the passage as {name}.\n\n```\n{{{{passage}}}}\n```\n\n</details> stays text.",
                }
                for name, version in [("knowledge/rewrite", 3), *((s, 2) for s in STYLES)]
            ],
            "inputs": [{"file": "articles.jsonl", "bytes": 651_994, "rows": tasks + unreadable}],
            "counts": {
                "read": tasks + unreadable,
                "unreadable": unreadable,
                "tasks": tasks,
                "accepted": len(kept),
                "rejected": len(no),
                "failed": len(broke),
            },
            "reasons": _tally(row.reason for row in no),
            "errors": _tally(row.error for row in broke),
            "languages": _tally(row.language for row in kept),
            "licenses": _tally(row.license for row in kept),
            "calls": {
                "writer": {
                    "paid": 118,
                    "cached": 12,
                    "retries": 3,
                    "refused": 1,
                    "prompt_tokens": 80_412,
                    "completion_tokens": 31_007,
                    "cached_tokens": 12_000,
                    "usd": 0.0412,
                },
                "judge": {
                    "paid": 60,
                    "cached": 0,
                    "retries": 0,
                    "refused": 0,
                    "prompt_tokens": 50_100,
                    "completion_tokens": 6_020,
                    "cached_tokens": 0,
                    "usd": 0.0301,
                },
            },
            "files": files,
            **manifest,
        }
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "manifest.json").write_text(json.dumps(made_manifest.as_dict(), indent=2))
    return made_manifest


def _tally(values: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts
