"""The dataset card of a finished run: `OUT/README.md`, which the Hub and `datasets.load_dataset(OUT)` read.

write_card(Path("out/wiki"), manifest)
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
from tokenmill.pipelines.report import formatting, templates
from tokenmill.pipelines.report.card_metadata import card_metadata, counted, type_name
from tokenmill.pipelines.report.diversity import quantile_of
from tokenmill.pipelines.report.licenses import hub_license, obligations
from tokenmill.pipelines.report.masking import masked, masked_command, masked_text
from tokenmill.pipelines.report.stages import stage_line
from tokenmill.pipelines.report.survey import survey_run
from tokenmill.pipelines.report.tally import RATIO_MAX, Survey, quantile
from tokenmill.pipelines.report.views.registry import view_of_columns
from tokenmill.schemas.manifest import Manifest

_SAMPLES = 3


def write_card(out: Path, manifest: Manifest, survey: Survey | None = None) -> Path:
    """Write `OUT/README.md` from the manifest and the shards.

    Args:
        survey: what `survey_run(out)` returned, where the caller has it already.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read, or the card not written.
    """
    survey = survey or survey_run(out)
    view = view_of_columns(survey.schema)
    metadata = card_metadata(manifest, survey)
    view.describe(metadata, survey)
    licenses = counted(survey.data, "license", manifest.licenses)
    body = templates.render(
        view.card,
        m=manifest,
        survey=survey,
        command=shlex.join(masked_command(manifest.command)),
        config=_settings(manifest.config),
        models=[
            {**model, "params": _sampling(model.get("params") or {}), "spec": masked_text(str(model.get("spec", "")))}
            for model in manifest.models
        ],
        diversity=_diversity(survey),
        entailment_model=manifest.config.get("entailment_model"),
        funnel=funnel(manifest, survey),
        stages=[stage_line(run) for run in manifest.stages],
        reasons=formatting.by_count(manifest.reasons),
        errors=formatting.by_count(manifest.errors),
        quantile=quantile,
        ratio=[quantile(survey.data.ratios[:-1], q, RATIO_MAX) for q in (0.05, 0.5, 0.95)]
        if survey.data.ratios[:-1].any()
        else None,
        licenses=[(stated, hub_license(stated), rows) for stated, rows in formatting.by_count(licenses)],
        obligations=obligations(licenses),
        columns=_columns(survey.schema),
        figures=survey.figures,
        samples=[view.record(sample) for sample in survey.data.samples[:_SAMPLES]],
        judged=any(survey.data.values.get("judge_model", {}).keys() - {""}),
        share=formatting.share,
    )
    return templates.write_whole(Path(out) / "README.md", f"---\n{metadata.to_yaml()}\n---\n{body}")


def funnel(manifest: Manifest, survey: Survey) -> list[tuple[str, int, str]]:
    """(stage, rows, meaning) from what was read to what was kept."""
    counts = manifest.counts
    accepted = counts.get("accepted", survey.data.count)
    stages = [
        ("read", counts.get("read"), "input rows read"),
        ("unreadable", counts.get("unreadable"), "of these, unusable before any work"),
        ("lost", counts.get("lost"), "further rows of broken input files, which could not be read"),
        ("tasks", counts.get("tasks"), "pieces of work made of the rest"),
        ("extra", counts.get("extra"), "further rows that came of these"),
        ("accepted", accepted, "passed every check: `data/`"),
        ("repaired", survey.data.repaired, "of these, accepted after a refused answer was written again"),
        ("rejected", counts.get("rejected", survey.rejected.count), "refused by a check after every try: `rejected/`"),
        ("failed", counts.get("failed", survey.failed.count), "could not be processed, unusable inputs included"),
    ]
    return [(name, n, meaning) for name, n, meaning in stages if n is not None]


def _settings(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Settings as (name, value), nested names dotted, credentials masked."""

    def flat(value: Any, name: str) -> list[tuple[str, str]]:
        if isinstance(value, dict) and value:
            return [pair for k, v in value.items() for pair in flat(v, f"{name}.{k}" if name else str(k))]
        if isinstance(value, (list, tuple)):
            return [(name, ", ".join(str(v) for v in value))]
        return [(name, "" if value is None else str(value))]

    return flat(masked(config), "") if config else []


def _sampling(params: dict[str, Any]) -> list[tuple[str, str]]:
    """Sampling parameters as (name, value); what the user left out is the endpoint's to choose."""
    return _settings({name: "the endpoint's default" if value is None else value for name, value in params.items()})


def _diversity(survey: Survey) -> dict[str, Any] | None:
    """What the card's section on diversity says; None where there are too few texts."""
    of = survey.data.diversity
    texts, sources = of.texts, of.sources
    if texts is None:
        return None
    rows = [
        ("different word 2-grams per 2-gram", "distinct_2"),
        ("different word 4-grams per 4-gram", "distinct_4"),
        ("compression ratio (DEFLATE)", "compression"),
        ("word 4-grams that another document's text has, too", "self_repetition"),
    ]
    return {
        "texts": texts.texts,
        "rows": [(told, getattr(texts, name), getattr(sources, name) if sources else None) for told, name in rows],
        "similarity": [quantile_of(of.similarity, share) for share in (0.5, 0.95)] if of.similarity else None,
        "copied": [quantile_of(of.copied, share) for share in (0.5, 0.95)] if of.copied else None,
    }


def _columns(schema: pa.Schema | None) -> list[tuple[str, str, str]]:
    """(name, type, documentation), the documentation as `schemas.columns` put it into the shards."""
    if schema is None:
        return []
    return [(f.name, type_name(f.type), (f.metadata or {}).get(b"doc", b"").decode("utf-8", "replace")) for f in schema]
