"""A run whose endpoint does not say what it bills tells that its figures are estimates."""

from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.manifest import tell

from tests.pipelines.report import finished_run


def test_estimated_figures_are_called_so(tmp_path, capsys):
    calls = {"writer": {"paid": 1200, "estimated": 1200}, "judge": {"paid": 60, "estimated": 0}}
    tell(finished_run.build(tmp_path, 3, 0, 0, calls=calls), OutputFolder(str(tmp_path)))
    assert [line for line in capsys.readouterr().out.splitlines() if "usage" in line] == [
        "writer: the endpoint does not report usage; tokens of 1,200 answers are estimates"
    ]
