"""Was the data worth it? The report's table 1 at small scale. Run as

    python -m tokenmill.training.utility --rephrased DIR --raw FILE --questions FILE --background DIR --output DIR

From one start, a model is trained on equally many tokens of the same documents in three forms: the raw text over ten
epochs, one rephrasing over ten, ten rephrasings over one; then it is asked about the facts. Several seeds draw the
order of the data and the one rephrasing. `--background` is ordinary text that the start is trained on and that goes on
being mixed in, alike for all. The same command resumes; see training/README.md for the files' formats.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenmill.schemas.draws import shuffled
from tokenmill.training.checkpoint import CheckpointError, load_model, save_checkpoint
from tokenmill.training.data.loader import Loader
from tokenmill.training.data.mixture import Encode, Mixture, Source, TextEncoder, count_targets
from tokenmill.training.data.packing import Packer
from tokenmill.training.data.rows import InputError, Shards, find_files, iterate_rows, open_shards
from tokenmill.training.distributed import Context
from tokenmill.training.loop import LoopSettings, TrainingError, check_identity, train
from tokenmill.training.model import PRESETS, Model, ModelConfig, preset
from tokenmill.training.questions import Question, read_questions, score
from tokenmill.training.schedules import Wsd
from tokenmill.training.tokenizer import Tokenizer, texts_of

ARMS = ("raw", "one rephrasing", "many rephrasings")
START = "start"
"""The untouched start, asked as well: what is known without the documents."""


@dataclass(frozen=True)
class Study:
    """Raises `ValueError` with one line that names the field."""

    config: ModelConfig
    epochs: int = 10
    """Of the raw text and of one rephrasing; and the number of rephrasings."""
    seeds: int = 3
    start_tokens: int = 1_000_000
    start_lr: float = 5e-3
    lr: float = 3e-3
    replay: float = 0.5
    """Share of the tokens in each arm that is background."""
    sequence_length: int = 256
    batch_tokens: int = 2048
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("epochs", "seeds", "start_tokens", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: give at least 1, not {getattr(self, name)}")
        if not 0 <= self.replay < 1:
            raise ValueError(f"replay: give a share of at least 0 and below 1, not {self.replay}")
        if not 2 <= self.sequence_length <= self.config.max_position_embeddings:
            raise ValueError(f"sequence_length: the model takes 2 to {self.config.max_position_embeddings}")


@dataclass(frozen=True)
class Corpus:
    """The same documents in two forms."""

    raw: dict[str, str]
    rephrased: dict[str, list[str]]
    """At least `epochs` rephrasings of each."""
    left_out: int
    """Documents with fewer accepted rephrasings: no arm gets them."""

    def rows(self, arm: str, epochs: int, seed: int) -> list[dict[str, str]]:
        """What the arm's shard holds. The one rephrasing of a document is drawn by the seed."""
        if arm == "raw":
            return [{"id": id, "text": text} for id, text in self.raw.items()]
        count = 1 if arm == "one rephrasing" else epochs
        return [
            {"id": f"{id}/{number}", "text": text}
            for id, texts in self.rephrased.items()
            for number, text in enumerate(shuffled(texts, seed, id)[:count])
        ]


def read_corpus(raw: Path, rephrased: Path, epochs: int) -> Corpus:
    """Raises `InputError` when no document has enough rephrasings."""
    texts = {str(row["id"]): row["text"] for row in _documents(raw)}
    found: dict[str, list[str]] = defaultdict(list)
    for file in find_files(rephrased):
        try:
            rows = pq.read_table(file, columns=["source_id", "text"]).to_pylist()
        except (KeyError, OSError, pa.ArrowException) as error:
            raise InputError(f"{file}: {error}") from error
        for row in rows:
            found[row["source_id"]].append(row["text"])
    enough = {id: found[id] for id in texts if len(found[id]) >= epochs}
    if not enough:
        most = max((len(found[id]) for id in texts), default=0)
        raise InputError(f"{rephrased}: no document of {raw} has {epochs} rephrasings (at most {most})")
    return Corpus({id: texts[id] for id in enough}, enough, len(texts) - len(enough))


def _documents(path: Path) -> Iterable[dict[str, Any]]:
    """Rows with `id` and `text` from JSON lines or Parquet."""
    try:
        if path.suffix == ".parquet" or path.is_dir():
            rows = [row for file in find_files(path) for row in pq.read_table(file, columns=["id", "text"]).to_pylist()]
        else:
            rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        if not all(isinstance(row["text"], str) and "id" in row for row in rows):
            raise KeyError("text")
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(f"{path}: needs rows with id and text ({error})") from error
    return rows


def run(
    study: Study,
    corpus: Corpus,
    questions: Sequence[Question],
    background: Sequence[Path],
    output: Path,
    *,
    init: Path | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Everything that is not yet there under `output`; returns what `utility.json` holds."""
    questions = [q for q in questions if q.source_id is None or q.source_id in corpus.raw]
    if not questions:
        raise InputError("no question is about a document that all arms hold")
    context = Context(torch.device(study.device))
    shards = {(arm, seed): _shard(study, corpus, arm, seed, output) for seed in range(study.seeds) for arm in ARMS}
    context_source = [Source("background", open_shards([f for p in background for f in find_files(p)]), weight=1.0)]
    check_identity(
        output,
        {
            "study": dataclasses.asdict(study),
            "documents": sorted(corpus.raw),
            "background": context_source[0].shards.fingerprint(),
            "init": None if init is None else str(init.resolve()),
        },
        context,
    )
    start, tokenizer = _start(study, context_source, init, output, context)
    encode = TextEncoder(tokenizer)
    totals = {
        key: count_targets([Source("corpus", shard, epochs=1 if key[0] == ARMS[2] else study.epochs)], encode)[0]
        for key, shard in shards.items()
    }
    budget = min(totals.values())
    results = [{"arm": START, "seed": None, **_asked(load_model(start, device=study.device), tokenizer, questions)}]
    log(json.dumps(results[0]))
    for (arm, seed), shard in shards.items():
        place = output / "arms" / f"{arm.replace(' ', '-')}-{seed}"
        if not (place / "result.json").exists():
            sources = [Source("corpus", shard, weight=1 - study.replay)]
            if study.replay:
                sources.append(dataclasses.replace(context_source[0], weight=study.replay))
            model = load_model(start, device=study.device)
            tokens = round(budget / (1 - study.replay))
            last = _train(study, model, sources, encode, tokens, study.lr, seed, place, context)
            result = {"arm": arm, "seed": seed, "epochs": last["epochs"]["corpus"], "loss": last["cross_entropy"]}
            (place / "result.json").write_text(json.dumps(result | _asked(model, tokenizer, questions)) + "\n")
        results.append(json.loads((place / "result.json").read_text()))
        log(json.dumps(results[-1]))
    summary = summarize(results)
    report = {
        "documents": len(corpus.raw),
        "documents_left_out": corpus.left_out,
        "questions": len(questions),
        "guessing": statistics.mean(1 / (len(q.alternatives) + 1) for q in questions),
        "tokens_of_documents_each_arm": budget,
        "tokens_once": {arm: totals[arm, 0] for arm in ARMS},
        "summary": summary,
        "runs": results,
    }
    (output / "utility.json").write_text(json.dumps(report, indent=1) + "\n")
    draw(summary, output / "utility.png")
    return report


def _shard(study: Study, corpus: Corpus, arm: str, seed: int, output: Path) -> Shards:
    rows = corpus.rows(arm, study.epochs, seed)
    file = output / "data" / f"{arm.replace(' ', '-')}-{seed}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=1000)
    return open_shards([file])


def _start(
    study: Study, background: list[Source], init: Path | None, output: Path, context: Context
) -> tuple[Path, Tokenizer]:
    """The checkpoint that every arm starts from: the one given, or one trained on the background."""
    if init is not None:
        return init, Tokenizer.load(init)
    place = output / START
    if not (place / "config.json").exists():
        # The arms' own documents stay unseen, by the tokenizer too.
        tokenizer = Tokenizer.train(texts_of(iterate_rows(background[0].shards)), study.config.vocab_size)
        size = -(-len(tokenizer) // 64) * 64
        torch.manual_seed(0)
        model = Model(study.config.replace(vocab_size=size)).to(context.device)
        encode = TextEncoder(tokenizer)
        runs = output / "start-run"
        _train(study, model, background, encode, study.start_tokens, study.start_lr, 0, runs, context)
        save_checkpoint(place, model)
        tokenizer.save(place)
    return place, Tokenizer.load(place)


def _train(
    study: Study,
    model: Model,
    sources: Sequence[Source],
    encode: Encode,
    tokens: int,
    lr: float,
    seed: int,
    folder: Path,
    context: Context,
) -> dict[str, Any]:
    plan = Wsd(warmup=0.05, decay=0.5, final=0.05).plan(
        tokens, lr, sequence_length=study.sequence_length, batch_tokens=study.batch_tokens
    )
    loader = Loader(Packer(Mixture(sources, encode, seed=seed)), plan)
    return train(model, loader, LoopSettings(save_every=0), folder, context)


def _asked(model: Model, tokenizer: Tokenizer, questions: Sequence[Question]) -> dict[str, float]:
    return dataclasses.asdict(score(model, tokenizer, questions))


def summarize(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each arm's mean, standard deviation over seeds and, seed by seed, its lead over raw text."""
    measures = ("exact_match", "choice_accuracy", "answer_loss")
    by_arm = {arm: [r for r in results if r["arm"] == arm] for arm in (START, *ARMS)}
    summary: dict[str, dict[str, Any]] = {}
    for arm, runs in by_arm.items():
        summary[arm] = {"runs": len(runs)}
        for measure in measures:
            values = [run[measure] for run in runs]
            entry = {"mean": statistics.mean(values), "sd": statistics.stdev(values) if len(values) > 1 else None}
            if arm in ARMS[1:]:
                leads = [run[measure] - raw[measure] for run, raw in zip(runs, by_arm["raw"], strict=True)]
                entry["over_raw"] = {
                    "mean": statistics.mean(leads),
                    "sd": statistics.stdev(leads) if len(leads) > 1 else None,
                }
            summary[arm][measure] = entry
    return summary


def draw(summary: dict[str, dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axis, measure in zip(figure.subplots(1, 2), ("exact_match", "choice_accuracy"), strict=True):
        means = [summary[arm][measure]["mean"] for arm in summary]
        spread = [summary[arm][measure]["sd"] or 0 for arm in summary]
        axis.bar(list(summary), means, yerr=spread, capsize=4, color=["0.7", "tab:gray", "tab:blue", "tab:orange"])
        axis.set(title=measure.replace("_", " "), ylim=(0, None))
        axis.tick_params(axis="x", labelrotation=15)
    figure.savefig(path, dpi=110)


def table(report: dict[str, Any]) -> str:
    lines = ["| training data | exact match | right answer likeliest | nats an answer |", "|---|---|---|---|"]
    for arm, entry in report["summary"].items():
        cells = []
        for measure, scale in (("exact_match", 100), ("choice_accuracy", 100), ("answer_loss", 1)):
            sd = entry[measure]["sd"]
            spread = "" if sd is None else f" ± {sd * scale:.2f}"
            cells.append(f"{entry[measure]['mean'] * scale:.2f}{spread}")
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.utility", description="Measure what data is worth."
    )
    parser.add_argument("--rephrased", type=Path, required=True, metavar="DIR", help="run of the knowledge pipeline")
    parser.add_argument("--raw", type=Path, required=True, metavar="FILE", help="its input: id and text")
    parser.add_argument("--questions", type=Path, required=True, metavar="FILE", help="JSON lines")
    parser.add_argument("--background", type=Path, nargs="+", required=True, metavar="DIR", help="shards of other text")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--init", type=Path, metavar="CKPT", help="start; default: a new model trained on the background"
    )
    parser.add_argument("--config", default="small", metavar="NAME|FILE.json", help=f"{', '.join(PRESETS)}, or a file")
    for field in dataclasses.fields(Study):
        if field.name not in ("config", "device"):
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    flags = parser.parse_args(argv)
    try:
        values = {f.name: getattr(flags, f.name) for f in dataclasses.fields(Study) if f.name != "config"}
        study = Study(_config(flags.config), **values)
        corpus = read_corpus(flags.raw, flags.rephrased, study.epochs)
        questions = read_questions(flags.questions)
        report = run(
            study,
            corpus,
            questions,
            flags.background,
            flags.output,
            init=flags.init,
            log=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except (CheckpointError, InputError, TrainingError, ValueError, OSError) as error:
        parser.error(str(error))
    print(table(report))
    return 0


def _config(name: str) -> ModelConfig:
    if not name.endswith(".json"):
        return preset(name)
    given = json.loads(Path(name).read_text())
    return preset(given["preset"]).replace(**given.get("model", {}))


if __name__ == "__main__":
    raise SystemExit(main())
