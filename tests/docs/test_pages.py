"""What the documentation says can be followed: links lead somewhere, commands parse, files are there, tables fill, the tour
is what the code prints."""

import asyncio
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
import unicodedata
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer

import tokenmill
from tokenmill import cli

ROOT = Path(tokenmill.IMPORT_ROOT)


def loaded(name, path):
    """A module by its file: neither `docs` nor `examples` is a package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = loaded("docs_generate", ROOT / "docs" / "generate.py")
PAGES = sorted({*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / name for name in generate.INCLUDED)})
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
_FENCE = re.compile(r"^( *)```[^\n]*\n.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_COMMAND = re.compile(
    r"^(?:\$ )?(?:    )?((?:\.venv/bin/)?python (?:beam_runner\.py|-m tokenmill\.\S+)(?:[^\n#\\]|\\\n)*)", re.MULTILINE
)
_PATH = re.compile(
    r"(?:bench|docs|examples|inference|judges|pipelines|prompts|schemas|tests|tokenmill|tools_repo|training)/[\w./-]*"
)


def filled(page):
    return generate.filled(page.read_text(encoding="utf-8"))


def anchors(text):
    """Ids of a page's headings, as the site makes them, and those given by hand."""
    found = set(re.findall(r"\{ ?#([\w-]+) ?\}", text))
    for title in re.findall(r"^#+ +(.+?)(?: *\{ ?#[\w-]+ ?\})?$", _FENCE.sub("", text), re.MULTILINE):
        plain = (
            unicodedata.normalize("NFKD", re.sub(r"[`*]|\]\([^)]*\)|\[", "", title)).encode("ascii", "ignore").decode()
        )
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    for target in _LINK.findall(_FENCE.sub("", filled(page))):
        if re.match(r"(https?|mailto):", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.is_relative_to(ROOT) and to.exists(), f"{name}: {target}: there is no such file"
        assert to.is_file(), f"{name}: {target}: a folder is no page"
        if anchor:
            assert anchor in anchors(filled(to)), f"{name}: {target}: there is no such heading"


@pytest.mark.parametrize("name", NAMES)
def test_files_that_are_named_are_there(name):
    if name in ("CHANGELOG.md", "docs/log.md", "docs/develop/extend.md"):
        return  # they tell of what was, or is to be added
    for text in _CODE.findall(_FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))):
        if _PATH.fullmatch(text):
            assert (ROOT / text).exists(), f"{name}: {text}"


@pytest.mark.parametrize("name", NAMES)
def test_commands_parse(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for command in _COMMAND.findall(text):
        _, program, *words = shlex.split(command.replace("\\\n", " ").split("…")[0])
        if program == "-m":
            module, *words = words
            assert importlib.util.find_spec(module), f"{name}: {command}"
            continue
        if "JOB" in words or not words:
            continue
        spelled = (
            [words[0], "run", *words[1:]] if words[0] in ("agentic", "corpus") and words[1].startswith("-") else words
        )
        _, unknown = cli.arguments(spelled).parse_known_args([word for word in spelled if word not in ("[--dry-run]",)])
        assert not unknown or any(word.startswith("--runner") for word in unknown), f"{name}: {command}: {unknown}"


def test_every_command_has_a_recipe():
    told = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "jobs").glob("*.md"))
    for name in generate.commands():
        assert f"beam_runner.py {name.removesuffix(' run')} " in told, name
        assert f"<!-- generate: flags {name} -->" in told or name in (
            "agentic agents",
            "agentic tasks",
            "agentic trajectories",
        )


def test_every_generated_table_fills():
    asked = 0
    for page in PAGES:
        for _ in generate.DIRECTIVE.finditer(page.read_text(encoding="utf-8")):
            asked += 1
        assert "<!-- generate" not in filled(page)
    assert asked > 50
    with pytest.raises(generate.Unknown, match="RephrasingX"):
        generate.filled("<!-- generate: columns schemas.knowledge:RephrasingX -->")


def test_every_setting_in_a_table_is_explained():
    tuning = filled(ROOT / "docs" / "guide" / "tuning.md")
    blank = re.findall(r"^\| `([A-Z]\w+\.\w+)` \| [^|]*\|  \|$", tuning, re.MULTILINE)
    assert not blank, "docstrings are missing below these fields"


def test_the_tour_is_what_the_code_prints():
    tour = loaded("tour", ROOT / "examples" / "tour.py")
    page = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    shown = asyncio.run(tour.tour())
    assert set(re.findall(r"<!-- tour: (\w+) -->", page)) == set(shown)
    assert tour.fill(page, shown) == page, "run: python examples/tour.py --write"


def test_thresholds_can_be_set_as_the_guide_shows(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "guide" / "tuning.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    import orjson

    Path("corpus.jsonl").write_bytes(b"\n".join(map(orjson.dumps, documents(3))))
    with ScriptedServer(Writer()) as server:
        block = block.replace("MODEL@http://localhost:8000/v1", server.spec)
        exec(compile(block, "tuning.md", "exec"), {"__name__": "tuning"})
    assert Path("out/lenient/manifest.json").is_file()


def test_the_lock_names_no_other_index():
    urls = re.findall(r'"(https?://[^/"]+)', (ROOT / "uv.lock").read_text(encoding="utf-8"))
    assert set(urls) == {"https://pypi.org", "https://files.pythonhosted.org"}


def test_the_lock_holds_what_the_project_depends_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    names = {re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-").replace(".", "-") for requirement in asked}
    (ours,) = (
        p for p in tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"] if p["name"] == "tokenmill"
    )
    locked = {requirement["name"] for requirement in ours["metadata"]["requires-dist"]}
    assert locked - {"tokenmill"} == names - {"tokenmill"}, "run: uv lock"


class Loaded(HTMLParser):
    """Addresses from which a page loads something."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "img", "iframe", "source") or (tag == "link" and given.get("rel") != "canonical"):
            self.found += [given[name] for name in ("src", "href", "srcset") if given.get(name)]


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="mkdocs is not installed (extra docs)")
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr[-3000:]
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        elsewhere = [address for address in Loaded(page.read_text()).found if re.match(r"(https?:)?//", address)]
        assert not elsewhere, f"{page.name}: {elsewhere}"
