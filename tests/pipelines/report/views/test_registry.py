"""Every row type that a job writes finds its view, by its class and by the columns of its shards alike."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pytest
from rich.console import Console
from rich.text import Text
from tokenmill.pipelines.report.views.registry import ANY, VIEWS, view_of, view_of_columns
from tokenmill.schemas.agentic import RefusedTrajectory
from tokenmill.schemas.columns import arrow_schema
from tokenmill.schemas.documents import FailedRow
from tokenmill.schemas.tools import MCP, RefusedTool, from_openai, refuse

from tests.pipelines.agentic import scripted_trajectories
from tests.pipelines.report import finished_run


def shown(row) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(view_of(type(row)).preview(row, Text("refused: why")))
    return console.file.getvalue()


@pytest.mark.parametrize("row_type", VIEWS)
def test_the_columns_tell_the_row_type(row_type):
    refused = next((kind for kind in row_type.__subclasses__() if kind.__name__.startswith("Refused")), None)
    assert refused is not None, "the rows of `rejected/` are of a subclass"
    for kind in (row_type, refused):
        assert view_of(kind) is view_of_columns(arrow_schema(kind)) is VIEWS[row_type]


def test_rows_of_no_known_type_are_shown_as_they_are():
    assert view_of(FailedRow) is view_of_columns(arrow_schema(FailedRow)) is ANY
    assert view_of_columns(pa.schema([("id", pa.string())])) is view_of_columns(None) is ANY


def test_a_preview_of_texts_has_both_sides_and_what_refuses():
    row = finished_run.refused(0, random.Random(0))
    text = shown(row)
    assert row.id in text and "refused: why" in text and "encyclopedic" in text
    assert "coverage (chunk 1, try 1): number_lost" in text and "Keep the number 1.8 m (width of a sluice)." in text


def test_a_preview_of_a_trajectory_has_calls_results_and_verdicts():
    row = scripted_trajectories.refused(1, 0)
    assert isinstance(row, RefusedTrajectory)
    text = shown(row)
    assert 'functions.get_weather:0 {"city": "Oslo"}' in text and '{"sky": "rain"}' in text
    assert "✗" in text and "Rain in both places." in text


def test_a_preview_of_a_tool_has_its_declaration_and_what_is_wrong():
    function = {"name": "get_city", "description": "Finds a city.", "parameters": {"type": "object", "properties": {}}}
    row = refuse(from_openai(function, origin=MCP, server="s"), "vague", "says nothing of what it returns")
    assert isinstance(row, RefusedTool)
    assert "type get_city" in shown(row) and "says nothing of what it returns" in shown(row)
