"""What the Hub reads of a dataset card: its metadata, from the manifest and the shards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tokenmill.pipelines.report import formatting
from tokenmill.pipelines.report.licenses import license_metadata
from tokenmill.pipelines.report.tally import Rows, Survey
from tokenmill.pipelines.transforms import PAIRS
from tokenmill.schemas.manifest import Manifest

if TYPE_CHECKING:
    from huggingface_hub import DatasetCardData

_SIZES = (
    "n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B", "10B<n<100B",
    "100B<n<1T", "n>1T",
)  # fmt: skip
"""The Hub's names, one for every further digit."""
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_CONFIGS = {"data": "default", "rejected": "rejected", PAIRS: PAIRS}


def size_category(rows: int) -> str:
    """The Hub's size category for a number of rows."""
    return _SIZES[min(max(len(str(rows)) - 3, 0), len(_SIZES) - 1)]


def card_metadata(manifest: Manifest, survey: Survey) -> DatasetCardData:
    """The card's YAML front matter."""
    from huggingface_hub import DatasetCardData

    configs, infos = [], []
    for rows in (*survey, survey.pairs):
        name = _CONFIGS.get(rows.folder)
        # The default is there even where no row was kept, or other files would be taken for rows.
        if name is None or not rows.files:
            continue
        default = {"default": True} if name == "default" else {}
        configs.append(
            {"config_name": name, "data_files": [{"split": "train", "path": f"{rows.folder}/*.parquet"}], **default}
        )
        infos.append({"config_name": name, **_dataset_info(rows)})
    languages = _languages(counted(survey.data, "language", manifest.languages))
    columns = set(survey.data.schema.names) if survey.data.schema else set()
    return DatasetCardData(
        language=languages or None,
        annotations_creators=["machine-generated"],
        language_creators=["machine-generated"],
        multilinguality=["multilingual" if len(languages) > 1 else "monolingual"] if languages else None,
        size_categories=[size_category(survey.data.count)],
        source_datasets=["extended"] if "source_text" in columns else None,
        task_categories=["text-generation"],
        task_ids=["language-modeling"] if "text" in columns else None,
        pretty_name=formatting.one_line(manifest.title, 120) or "Tokenmill dataset",
        tags=["synthetic", "tokenmill", formatting.one_line(manifest.job, 40).replace("_", "-")],
        **license_metadata(counted(survey.data, "license", manifest.licenses)),
        configs=configs or None,
        dataset_info=infos or None,
    )


def counted(rows: Rows, column: str, otherwise: dict[str, int]) -> dict[str, int]:
    """Rows by value of `column`, as the shards have it, or else as the manifest says."""
    return dict(rows.values[column]) if column in rows.values else dict(otherwise)


def type_name(kind: pa.DataType) -> str:
    """`list<struct<check, score>>` for an Arrow type: nested names, no nested types."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f.name for f in kind)}>"
    return "json" if isinstance(kind, pa.JsonType) else str(kind)


def features(schema: pa.Schema) -> list[dict[str, Any]]:
    """Columns as cards declare them (`datasets.Features`). That library is asked only about types that no row of ours has:
    importing it takes as long as all else that the end of a run does."""
    try:
        return [_feature(field.name, field.type) for field in schema]
    except _Unknown:
        from datasets import Features

        return Features.from_arrow_schema(schema)._to_yaml_list()


class _Unknown(Exception):
    pass


_NAMES = {pa.string(): "string", pa.int64(): "int64", pa.float64(): "float64", pa.bool_(): "bool"}


def _feature(name: str, kind: pa.DataType) -> dict[str, Any]:
    if isinstance(kind, pa.JsonType):
        return {"name": name, "dtype": "json"}
    if pa.types.is_struct(kind):
        return {"name": name, "struct": [_feature(field.name, field.type) for field in kind]}
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return {"name": name, "list": _feature("", kind.value_type)["struct"]}
    if pa.types.is_list(kind) and kind.value_type in _NAMES:
        return {"name": name, "list": _NAMES[kind.value_type]}
    if kind in _NAMES:
        return {"name": name, "dtype": _NAMES[kind]}
    raise _Unknown


def _dataset_info(rows: Rows) -> dict[str, Any]:
    return {
        "features": features(rows.schema),
        "splits": [{"name": "train", "num_bytes": rows.arrow_bytes, "num_examples": rows.count}],
        "download_size": rows.disk_bytes,
        "dataset_size": rows.arrow_bytes,
    }


def _languages(counts: dict[str, int]) -> list[str]:
    ranked = (code.lower() for code, _ in formatting.by_count(counts))
    return list(dict.fromkeys(c for c in ranked if _LANGUAGE.fullmatch(c) and c != "und"))
