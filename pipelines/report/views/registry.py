"""Which view shows the rows of which type."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa
from tokenmill.pipelines.report.views.agentic import AgentView, DomainView, EngineView, TaskView
from tokenmill.pipelines.report.views.base import View
from tokenmill.pipelines.report.views.corpus import CorpusView
from tokenmill.pipelines.report.views.texts import TextView
from tokenmill.pipelines.report.views.tools import ToolView
from tokenmill.pipelines.report.views.trajectories import TrajectoryView
from tokenmill.schemas.agentic import Agent, AgentTask, Domain, Trajectory
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.engines import Engine
from tokenmill.schemas.generation import Generation
from tokenmill.schemas.knowledge import Rephrasing
from tokenmill.schemas.math import LearningNote
from tokenmill.schemas.tools import ToolSpec

VIEWS: dict[type, View] = {
    Rephrasing: TextView(),
    LearningNote: TextView(),
    Generation: TextView(),
    CorpusDocument: CorpusView(),
    ToolSpec: ToolView(),
    Domain: DomainView(),
    Engine: EngineView(),
    Agent: AgentView(),
    AgentTask: TaskView(),
    Trajectory: TrajectoryView(),
}
"""By the type of the rows in `data/`, of which that of refused rows is a subclass."""
ANY = View()


def view_of(row_type: type) -> View:
    """The view of a row type, or of the first of its bases that has one."""
    return next((VIEWS[base] for base in row_type.__mro__ if base in VIEWS), ANY)


def view_of_columns(schema: pa.Schema | None) -> View:
    """The view of the rows of a shard, told by its columns."""
    names = set(schema.names) if schema else set()
    return next((view for kind, view in VIEWS.items() if {field.name for field in fields(kind)} <= names), ANY)
