"""The rows that card and report show: the same ones, however the rows are spread over shards."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
from tokenmill.pipelines.report.survey import survey_run


def spread(folder, rows, shards):
    (folder / "data").mkdir(parents=True)
    for number in range(shards):
        table = pa.Table.from_pylist(rows[number::shards])
        pq.write_table(table, folder / "data" / f"train-{number:05d}-of-{shards:05d}.parquet", row_group_size=10)


def test_the_drawn_rows_do_not_depend_on_the_shards(tmp_path):
    dice = random.Random(5)
    styles = ["news", "lecture", "dialogue", *(f"rare {n}" for n in range(4))]
    rows = [{"id": f"r{n}", "style": dice.choices(styles, (60, 30, 10, 1, 1, 1, 1))[0]} for n in range(600)]
    drawn = []
    for shards, wanted in ((1, 20), (9, 20), (40, 20), (9, 3)):
        dice.shuffle(rows)
        folder = tmp_path / f"{shards}-{wanted}"
        spread(folder, rows, shards)
        drawn.append([sample.row["id"] for sample in survey_run(folder, wanted).data.samples])
    first = drawn[0]
    assert drawn == [first, first, first, first[:3]] and len(set(first)) == 20
    assert len({row["style"] for row in rows if row["id"] in first}) == len({row["style"] for row in rows})
