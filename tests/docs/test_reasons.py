"""The catalogue of reasons holds every reason that the code can give, and no other."""

import shutil
from fnmatch import fnmatchcase

import pytest
from tokenmill.pipelines.report.reasons import catalogue, meanings

from tests.docs import reasons_in_code
from tests.docs.reasons_in_code import Collector


@pytest.fixture(scope="module")
def code() -> Collector:
    return Collector()


@pytest.fixture(scope="module")
def known() -> set[tuple[str, str]]:
    return {(group.folder, reason.name) for group in catalogue() for reason in group.reasons}


def test_every_reason_in_the_code_is_in_the_catalogue(code, known):
    missing = {
        f"{folder}: {name} ({', '.join(sorted(where))})"
        for (folder, name), where in code.found.items()
        if not any(folder == other and fnmatchcase(entry, name) for other, entry in known)
    }
    assert not missing, "describe in pipelines/report/reasons.yaml: " + "; ".join(sorted(missing))


def test_every_reason_in_the_catalogue_is_in_the_code(code, known):
    gone = {
        f"{folder}: {name}"
        for folder, name in known - {("failed", "ValueError")}  # any exception may fail a row; this one is expected
        if not any(folder == other and fnmatchcase(name, pattern) for other, pattern in code.found)
    }
    assert not gone, "strike from pipelines/report/reasons.yaml: " + "; ".join(sorted(gone))


def test_it_can_be_told_which_reasons_reach_a_verdict(code):
    assert not code.unknown, f"tests/docs/reasons_in_code.py cannot read {code.unknown}"


def test_a_new_reason_would_be_noticed(tmp_path, monkeypatch):
    for room in reasons_in_code.ROOMS:
        shutil.copytree(reasons_in_code.ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    check = tmp_path / "judges" / "form" / "length.py"
    check.write_text(check.read_text().replace('"collapses"', '"shrivels"'))
    monkeypatch.setattr(reasons_in_code, "ROOT", tmp_path)
    reasons_in_code.modules.cache_clear()
    try:
        assert ("rejected", "shrivels") in Collector().found
    finally:
        monkeypatch.undo()
        reasons_in_code.modules.cache_clear()


def test_no_name_stands_twice_in_a_folder():
    names = [(group.folder, reason.name) for group in catalogue() for reason in group.reasons]
    assert len(names) == len(set(names))
    assert sum(len(meanings(folder)) for folder in ("rejected", "failed")) == len(names)
