"""The dataset card: what the Hub and `datasets` read from it, and what hostile rows cannot do to it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tokenmill.pipelines.report import formatting
from tokenmill.pipelines.report.card import write_card
from tokenmill.pipelines.report.card_metadata import features, size_category
from tokenmill.pipelines.report.licenses import HUB_LICENSES, hub_license, license_metadata, obligations
from tokenmill.pipelines.report.masking import masked, masked_command, masked_text
from tokenmill.pipelines.report.survey import survey_run
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas import agentic, gym
from tokenmill.schemas.columns import arrow_schema, column, to_table
from tokenmill.schemas.knowledge import RefusedRephrasing, Rephrasing

from tests.pipelines.report import finished_run


@dataclass(frozen=True)
class Turn:
    role: str = column("who speaks")
    content: str = column("what")


@dataclass(frozen=True)
class Trajectory:
    id: str = column("identifier")
    messages: list[Turn] = column("the dialogue")
    turns: int = column("how many")


MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("run") / "out"
    manifest = finished_run.build(out)
    write_card(out, manifest)
    return out, manifest


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import datasets

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()
    return datasets


def front_matter(out: Path) -> dict:
    from huggingface_hub import DatasetCard

    return DatasetCard.load(out / "README.md").data.to_dict()


def body(out: Path) -> str:
    return (out / "README.md").read_text().split("\n---\n", 1)[1]


class TestLoading:
    def test_datasets_reads_the_folder(self, run, datasets):
        out, _ = run
        kept = datasets.load_dataset(str(out), split="train")
        assert kept.num_rows == 40
        assert kept.column_names == [f.name for f in pq.read_schema(next((out / "data").iterdir()))]
        refused = datasets.load_dataset(str(out), "rejected", split="train")
        assert refused.num_rows == 14
        assert set(refused["reason"]) == set(finished_run.FAULTS)

    def test_the_declared_features_are_those_of_the_shards(self, run, datasets):
        out, _ = run
        for info, folder in zip(front_matter(out)["dataset_info"], ("data", "rejected"), strict=True):
            schema = pq.read_schema(next((out / folder).iterdir()))
            assert datasets.Features._from_yaml_list(info["features"]) == datasets.Features.from_arrow_schema(schema)

    def test_columns_are_declared_as_datasets_would(self, datasets):
        odd = pa.struct([("many", pa.list_(pa.list_(pa.int64()))), ("when", pa.timestamp("s"))])
        schemas = [
            *map(arrow_schema, (Rephrasing, agentic.Trajectory, agentic.AgentTask, gym.RatedTask)),
            pa.schema([("odd", odd)]),
        ]
        for schema in schemas:
            assert features(schema) == datasets.Features.from_arrow_schema(schema)._to_yaml_list()

    def test_the_declared_sizes_are_those_of_the_shards(self, run):
        out, _ = run
        info = front_matter(out)["dataset_info"][0]
        shards = sorted((out / "data").iterdir())
        assert len(shards) == 2
        assert info["download_size"] == sum(s.stat().st_size for s in shards)
        assert info["splits"] == [{"name": "train", "num_bytes": info["dataset_size"], "num_examples": 40}]
        assert info["dataset_size"] == sum(pq.read_table(s).nbytes for s in shards) == pytest.approx(58_000, rel=0.2)

    def test_no_accepted_row(self, tmp_path, datasets):
        manifest = finished_run.build(tmp_path / "run", accepted=0)
        write_card(tmp_path / "run", manifest)
        metadata = front_matter(tmp_path / "run")
        assert [c["config_name"] for c in metadata["configs"]] == ["rejected"]
        assert metadata["size_categories"] == ["n<1K"]
        assert "No row was accepted" in body(tmp_path / "run")
        assert datasets.load_dataset(str(tmp_path / "run"), "rejected", split="train").num_rows == 14

    def test_a_shard_without_rows_is_the_default_configuration(self, tmp_path, datasets):
        manifest = finished_run.build(tmp_path / "run", accepted=0)
        (tmp_path / "run/data").mkdir()
        write_parquet(to_table([], Rephrasing), str(tmp_path / "run/data/train-00000-of-00001.parquet"))
        write_card(tmp_path / "run", manifest)
        assert [c["config_name"] for c in front_matter(tmp_path / "run")["configs"]] == ["default", "rejected"]
        assert list(datasets.load_dataset(str(tmp_path / "run"), split="train", streaming=True)) == []
        assert datasets.load_dataset(str(tmp_path / "run"), "rejected", split="train").num_rows == 14

    def test_no_row_at_all(self, tmp_path):
        manifest = finished_run.build(tmp_path / "run", accepted=0, rejected=0, broken=0)
        write_card(tmp_path / "run", manifest)
        assert "configs" not in front_matter(tmp_path / "run")

    def test_rows_of_another_job(self, tmp_path, datasets):
        out = tmp_path / "run"
        manifest = finished_run.build(out, accepted=0, rejected=0, broken=0, licenses={}, languages={})
        (out / "data").mkdir()
        rows = [Trajectory(f"t{i}", [Turn("user", "Hello"), Turn("assistant", "```")], 2) for i in range(3)]
        pq.write_table(to_table(rows, Trajectory), out / "data/train-00000-of-00001.parquet")
        write_card(out, manifest)
        assert datasets.load_dataset(str(out), split="train")[0]["messages"][0]["content"] == "Hello"
        metadata = front_matter(out)
        assert metadata["license"] == "unknown" and "task_ids" not in metadata and "source_datasets" not in metadata
        assert "| `messages` | `list<struct<role, content>>` | the dialogue |" in body(out)


class TestMetadata:
    def test_says_what_the_rows_say(self, run):
        metadata = front_matter(run[0])
        assert metadata["language"] == ["en", "de"]
        assert metadata["license"] == ["cc-by-sa-3.0", "cc-by-4.0"]
        assert metadata["multilinguality"] == ["multilingual"]
        assert metadata["annotations_creators"] == metadata["language_creators"] == ["machine-generated"]
        assert "synthetic" in metadata["tags"]
        assert metadata["pretty_name"] == "Faithful rephrasings of encyclopedia articles"
        default, rejected = metadata["configs"]
        assert default == {
            "config_name": "default",
            "data_files": [{"split": "train", "path": "data/*.parquet"}],
            "default": True,
        }
        assert rejected["data_files"] == [{"split": "train", "path": "rejected/*.parquet"}]

    def test_uses_values_that_the_hub_knows(self, run):
        import json
        from importlib import resources

        from datasets.utils.metadata import known_task_ids

        known = resources.files("datasets.utils.resources")
        metadata = front_matter(run[0])
        assert set(metadata["task_categories"]) <= known_task_ids.keys()
        assert set(metadata["size_categories"]) <= set(json.loads(known.joinpath("size_categories.json").read_text()))
        assert set(metadata["language"]) <= set(json.loads(known.joinpath("languages.json").read_text()))
        assert set(metadata["license"]) <= HUB_LICENSES
        creators = json.loads(known.joinpath("creators.json").read_text())
        assert set(metadata["annotations_creators"]) <= set(creators["annotations"])
        assert (
            set(metadata["multilinguality"]) <= json.loads(known.joinpath("multilingualities.json").read_text()).keys()
        )

    @pytest.mark.parametrize(
        ("rows", "category"),
        [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (2_500_000, "1M<n<10M"), (10**12, "n>1T")],
    )
    def test_size_category(self, rows, category):
        assert size_category(rows) == category

    def test_undetermined_languages_are_left_out(self, tmp_path):
        rng = random.Random(0)
        odd = [finished_run.rephrasing(900 + i, rng, language=code) for i, code in enumerate(("und", "", "not a code"))]
        manifest = finished_run.build(tmp_path / "run", accepted=3, edit={"data": odd})
        write_card(tmp_path / "run", manifest)
        assert front_matter(tmp_path / "run")["language"] == ["en", "de"]


class TestLicenses:
    @pytest.mark.parametrize(
        ("stated", "hub"),
        [
            ("CC BY-SA 3.0", "cc-by-sa-3.0"),
            ("cc-by-sa-4.0", "cc-by-sa-4.0"),
            ("CC-BY-NC-SA 4.0 International", "cc-by-nc-sa-4.0"),
            ("Creative Commons Attribution-ShareAlike 3.0 Unported", "cc-by-sa-3.0"),
            ("https://creativecommons.org/licenses/by-nc/4.0/", "cc-by-nc-4.0"),
            ("CC0", "cc0-1.0"),
            ("Apache License 2.0", "apache-2.0"),
            ("MIT License", "mit"),
            ("GPL-3.0-or-later", "gpl-3.0"),
            ("", "unknown"),
            ("CC BY", None),
            ("CC BY-SA 9.9", None),
            ("Public domain", None),
            ("All rights reserved", None),
        ],
    )
    def test_spellings(self, stated, hub):
        assert hub_license(stated) == hub

    @given(st.text(max_size=40))
    @settings(max_examples=200, deadline=None)
    def test_never_an_identifier_that_the_hub_does_not_know(self, stated):
        assert hub_license(stated) in HUB_LICENSES | {None}

    def test_one(self):
        assert license_metadata({"MIT": 3}) == {"license": "mit"}

    def test_one_that_the_hub_does_not_know(self):
        found = license_metadata({"House Rules v2": 3})
        details = "House Rules v2: 3 rows"
        assert found == {"license": "other", "license_name": "house-rules-v2", "license_details": details}

    def test_several_of_which_one_is_unknown_to_the_hub(self):
        found = license_metadata({"House Rules": 1, "MIT": 5})
        assert found["license"] == "other"
        assert found["license_details"] == "MIT: 5 rows; House Rules: 1 row"

    def test_obligations(self):
        assert any("Share-alike" in note for note in obligations({"CC BY-SA 3.0": 1}))
        assert any("must not be published" in note for note in obligations({"CC BY-ND 4.0": 1}))
        assert any("states no licence" in note for note in obligations({"": 1}))
        assert obligations({"MIT": 1}) == []


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    out = tmp_path_factory.mktemp("hostile") / "run"
    rng = random.Random(0)
    text = finished_run.HOSTILE
    rows = [
        finished_run.rephrasing(i, rng, id=f"{text}{i}", text=text, source_text=text, title=text, license=text)
        for i in range(4)
    ]
    manifest = finished_run.build(
        out,
        accepted=0,
        rejected=0,
        edit={"data": rows},
        title=text,
        job="knowledge",
        reasons={text: 3},
        inputs=[{"file": text, "rows": 1, "bytes": 1}],
        versions={text: text},
        command=["run", text],
        config={text: text},
    )
    write_card(out, manifest)
    return out


class TestHostileRows:
    def test_metadata_stays_ours(self, hostile):
        assert front_matter(hostile)["license"] == "other"
        assert front_matter(hostile)["tags"][:2] == ["synthetic", "tokenmill"]

    def test_nothing_becomes_markup(self, hostile):
        tokens = MARKDOWN.parse(body(hostile))
        inline = [child for token in tokens for child in token.children or ()]
        html = "".join(t.content for t in [*tokens, *inline] if t.type in ("html_block", "html_inline"))
        assert "script" not in html.replace("&lt;", "") and "<img" not in html
        assert not [t for t in inline if t.type in ("link_open", "image")]
        headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
        assert "Not a heading" not in headings
        assert {"How it was made", "Sources and licences", "Limits", "Reproduce"} <= set(headings)

    def test_the_sample_stands_in_a_code_block_as_it_is(self, hostile):
        fences = [t.content for t in MARKDOWN.parse(body(hostile)) if t.type == "fence"]
        assert formatting.visible(finished_run.HOSTILE) + "\n" in fences

    def test_nothing_invisible_is_left(self, hostile):
        text = (hostile / "README.md").read_text()
        assert not set(text) & {"\x00", "\x1b", "\u202e"}


ANY_TEXT = st.text(alphabet=st.sampled_from("`~|*_[]()<>!&\\#-+$:/ ax\n\r\t\u202e\x00"), max_size=60) | st.text(
    max_size=60
)


class TestQuoting:
    @given(ANY_TEXT)
    @settings(max_examples=300, deadline=None)
    def test_a_fence_holds_any_text(self, text):
        tokens = MARKDOWN.parse(f"before\n\n{formatting.fenced(text)}\n\nafter")
        assert [t.type for t in tokens].count("fence") == 1
        (fence,) = (t for t in tokens if t.type == "fence")
        assert fence.content == formatting.visible(text) + "\n"
        assert tokens[-2].content == "after"

    @given(ANY_TEXT)
    @settings(max_examples=300, deadline=None)
    def test_a_code_span_holds_any_line_in_a_table_cell(self, text):
        tokens = MARKDOWN.parse(f"| a | b |\n|---|---|\n| x{formatting.code(text)} | end |\n")
        cells = [t for t in tokens if t.type == "inline"][2:]
        assert len(cells) == 2 and cells[1].content == "end"
        assert {c.type for c in cells[0].children} <= {"text", "code_inline"}

    @given(ANY_TEXT)
    @settings(max_examples=300, deadline=None)
    def test_prose_is_only_text(self, text):
        (inline,) = (t for t in MARKDOWN.parse(f"said: {formatting.prose(text)}") if t.type == "inline")
        assert {c.type for c in inline.children} <= {"text", "text_special"}


class TestSecrets:
    def test_none_reaches_the_card(self, tmp_path):
        key = "sk-proj-abcdefghijklmnop1234"
        manifest = finished_run.build(
            tmp_path / "run",
            accepted=2,
            config={"api_key": "plain-but-secret", "nested": {"base_url": f"https://me:{key}@host/v1?api_key=zzz9"}},
            command=["beam_runner.py", "--hf-token", "abc123", "--llm=m@http://u:pw@h/v1", "--max-tokens", "500"],
            models=[{"role": "writer", "model": "m", "spec": f"m@http://u:{key}@h/v1", "params": {"api_key": key}}],
        )
        card = write_card(tmp_path / "run", manifest).read_text()
        for secret in (key, "plain-but-secret", "zzz9", "abc123", "u:pw"):
            assert secret not in card
        assert "--max-tokens 500" in card

    @pytest.mark.parametrize(
        "text", ["a" * 40, "Bearer of bad news", "sk-learn", "token_count", "http://host:8000/v1", "hf_short"]
    )
    def test_leaves_what_is_no_secret(self, text):
        assert masked_text(text) == text

    def test_counts_of_tokens_are_no_tokens(self):
        config = {"max_tokens": 5, "chunk_tokens": "256", "token": "x", "auth": "y", "author": "Ann", "keys": ["id"]}
        assert masked(config) == {**config, "token": "***", "auth": "***"}

    def test_flags(self):
        assert masked_command(["--api-key=x", "--token", "y", "--seed", "3"]) == [
            "--api-key=***",
            "--token",
            "***",
            "--seed",
            "3",
        ]


class TestContent:
    def test_funnel_scores_prompts_and_columns(self, run):
        out, manifest = run
        text = body(out)
        assert "| accepted | 40 |" in text and "| rejected | 14 |" in text and "| failed | 3 |" in text
        assert "| `number_lost` | 2 | 14.3 % |" in text
        coverage = next(line for line in text.splitlines() if line.startswith("| `coverage` |"))
        refused = sum(
            not v["passed"] and v["check"] == "coverage"
            for folder in ("data", "rejected")
            for path in (out / folder).iterdir()
            for row in pq.read_table(path, columns=["verdicts"]).to_pylist()
            for v in row["verdicts"]
        )
        assert coverage.split("|")[3].strip() == str(refused)
        for prompt in manifest.prompts:
            assert prompt["sha256"] in text
        documented = dict((f.name, f.metadata["doc"]) for f in Rephrasing.__dataclass_fields__.values())
        assert documented["source_text"] == "the source document"
        assert "| `source_text` | `string` | the source document |" in text
        assert "beam_runner.py knowledge --input articles.jsonl" in text

    def test_sampling_is_told_and_what_is_left_to_the_endpoint(self, tmp_path):
        params = {"temperature": 0.7, "top_p": None}
        models = [{"role": "writer", "model": "m", "spec": "m@http://h/v1", "params": params}]
        manifest = finished_run.build(tmp_path / "run", accepted=2, models=models)
        card = write_card(tmp_path / "run", manifest).read_text()
        assert "| `temperature=0.7` `top_p=the endpoint's default` " in card
        manifest.models[0]["params"] = {}
        assert "| as each step sets it, under Settings |" in write_card(tmp_path / "run", manifest).read_text()

    def test_diversity_stands_beside_that_of_the_sources(self, run):
        section = body(run[0]).partition("### Diversity")[2].partition("\n## ")[0]
        assert "Over 40 texts" in section
        rows = [
            line.split("|")[2:4]
            for line in section.splitlines()
            if (line.startswith("| ") and "n-gram" in line) or "-gram" in line
        ]
        figures = [[float(cell) for cell in row] for row in rows if len(row) == 2]
        assert len(figures) == 3 and all(0 <= value <= 1 for row in figures for value in row)
        assert "Likeness of a text to the likest other rephrasing" in section and "copied from the source" in section

    def test_minor_faults_are_told(self, run):
        assert "In 20 of the rows kept the judge found minor faults" in body(run[0])

    def test_says_when_no_judge_was_used(self, tmp_path):
        rng = random.Random(0)
        rows = [finished_run.rephrasing(i, rng, judge_model="") for i in range(3)]
        manifest = finished_run.build(tmp_path / "run", accepted=0, edit={"data": rows})
        assert "No judge model was used" in write_card(tmp_path / "run", manifest).read_text()

    def test_says_so_only_then(self, run):
        assert "No judge model was used" not in body(run[0])

    def test_leaves_no_half_file(self, run):
        assert not [p for p in run[0].iterdir() if p.name.endswith(".part")]
        assert yaml.safe_load((run[0] / "README.md").read_text().split("---\n")[1])


class TestSurvey:
    def test_same_rows_whatever_the_order_of_shards(self, tmp_path):
        rng = random.Random(5)
        rows = [finished_run.refused(i, rng) for i in range(60)]
        surveys = []
        for name, order in (("a", rows), ("b", rows[::-1])):
            (tmp_path / name / "rejected").mkdir(parents=True)
            for n in range(3):
                table = to_table(order[n * 20 : n * 20 + 20], RefusedRephrasing)
                pq.write_table(table, tmp_path / name / f"rejected/train-{n:05d}-of-00003.parquet")
            surveys.append(survey_run(tmp_path / name, samples=15).rejected)
        a, b = surveys
        assert [s.row["id"] for s in a.samples] == [s.row["id"] for s in b.samples]
        assert len(a.samples) == 15
        assert {s.row["reason"] for s in a.samples} == set(finished_run.FAULTS)
        assert a.values == b.values and a.values["reason"].total() == 60
        assert all((a.scores[c].refused == b.scores[c].refused).all() for c in a.scores)

    def test_long_texts_are_clipped_and_free_text_is_bounded(self, tmp_path):
        rng = random.Random(5)
        rows = [finished_run.rephrasing(i, rng, text="x" * 250_000, style=f"style {i}") for i in range(1200)]
        finished_run.build(tmp_path / "run", accepted=0, rejected=0, edit={"data": rows})
        data = survey_run(tmp_path / "run", samples=5).data
        assert data.characters == 1200 * 250_000
        assert [len(s.row["text"]) for s in data.samples] == [200_000] * 5
        assert data.samples[0].lengths == {"text": 250_000}
        assert len(data.values["style"]) == 1001 and data.values["style"].total() == 1200
