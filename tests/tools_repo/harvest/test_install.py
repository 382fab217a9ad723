"""Installing packages with the real uv and npm, from registries on this machine."""

import asyncio
import base64
import hashlib
import json
import shutil
import sys

import pytest
from tokenmill.bench.tools import pin
from tokenmill.tools_repo.harvest.harvester import Harvester, HarvestFailed
from tokenmill.tools_repo.harvest.install import Installer, InstallFailed
from tokenmill.tools_repo.harvest.servers import ServerInvalid, parse_server
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap

from tests.tools_repo.harvest.registries import Registries, npm_package, sdist, wheel
from tests.tools_repo.sandboxed import needs_sandbox

pytestmark = needs_sandbox

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@pytest.fixture
def registries(monkeypatch):
    with Registries() as served:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{served.url}/simple")
        monkeypatch.setenv("npm_config_registry", f"{served.url}/npm")
        yield served


def pypi(name="tiny-mcp", **fields):
    return parse_server({"name": "tiny", "pypi": name, "version": "1.0", **fields})


def npm(name="tiny-node-mcp", **fields):
    return parse_server({"name": "tiny", "npm": name, "version": "1.0.0", **fields})


def install(server, store, **more):
    return asyncio.run(Installer(Bubblewrap(), store, **more).install(server))


def harvest(server, store):
    return asyncio.run(Harvester(Bubblewrap(), store, 90, 90).harvest(server))


def test_a_python_server_is_installed_once_and_cannot_write_to_its_place(registries, tmp_path):
    registries.add_python("tiny-mcp", *wheel())
    found = harvest(pypi(), tmp_path)
    assert [tool["name"] for tool in found.tools] == ["refused"]
    assert (found.version, found.license) == ("1.0", "MIT")
    asked = len(registries.asked)
    assert harvest(pypi(), tmp_path).tools == found.tools
    assert asked > 0 and len(registries.asked) == asked
    assert not list(tmp_path.rglob("mark"))


@needs_npm
def test_a_node_server_is_installed_and_none_of_its_scripts_run(registries, tmp_path):
    scripts = {hook: "touch ../../SCRIPT-RAN; touch SCRIPT-RAN" for hook in ("preinstall", "install", "postinstall")}
    registries.add_node(*npm_package(scripts=scripts))
    found = harvest(npm(), tmp_path)
    assert [tool["name"] for tool in found.tools] == ["n"] and found.license == "ISC"
    assert list(tmp_path.rglob("tiny-node-mcp/main.js")) and not list(tmp_path.rglob("SCRIPT-RAN"))


def test_a_package_that_must_be_built_is_refused_and_its_code_does_not_run(registries, tmp_path):
    payload = f"import urllib.request as u; u.urlopen('{registries.url}/HACKED')"
    registries.add_python("evil-mcp", *sdist(payload=payload))
    with pytest.raises(InstallFailed, match="wheels"):
        install(pypi("evil-mcp"), tmp_path)
    assert not [path for path in registries.asked if "HACKED" in path]


def test_a_package_that_is_not_there_fails_in_the_installer_s_words(registries, tmp_path):
    with pytest.raises(HarvestFailed) as raised:
        harvest(pypi("no-such-mcp"), tmp_path)
    assert (raised.value.step, raised.value.error) == ("install", "not_installable")
    assert "no-such-mcp" in str(raised.value) and "\n" not in str(raised.value)


@needs_npm
def test_a_node_package_that_is_not_there_fails_in_the_installer_s_words(registries, tmp_path):
    with pytest.raises(InstallFailed, match="no-such-mcp"):
        install(npm("no-such-mcp"), tmp_path)


@pytest.mark.parametrize(
    ("scripts", "entry", "chosen"),
    [
        (("tiny-mcp", "other"), "", "tiny-mcp"),
        (("tiny_mcp", "other"), "", "tiny_mcp"),
        (("serve",), "", "serve"),
        (("a-cli", "my-mcp-server"), "", "my-mcp-server"),
        (("a", "b"), "b", "b"),
        (("a", "b"), "", None),
        (("a",), "c", None),
        ((), "", None),
    ],
)
def test_the_script_that_starts_it_is_found_or_asked_for(scripts, entry, chosen, registries, tmp_path):
    registries.add_python("tiny-mcp", *wheel(scripts=scripts))
    if chosen is None:
        with pytest.raises(InstallFailed, match="script"):
            install(pypi(entry=entry), tmp_path)
    else:
        assert install(pypi(entry=entry), tmp_path).argv[0].endswith(f"/bin/{chosen}")


def test_a_package_that_is_too_large_is_removed_again(registries, tmp_path):
    registries.add_python("tiny-mcp", *wheel())
    with pytest.raises(InstallFailed, match="over the limit"):
        install(pypi(), tmp_path, max_bytes=1000)
    assert not list((tmp_path / "pypi").rglob("tiny_mcp.py"))


def test_an_installation_cut_short_is_begun_anew(registries, tmp_path):
    registries.add_python("tiny-mcp", *wheel())
    install(pypi(), tmp_path)
    (folder,) = (tmp_path / "pypi" / "tiny-mcp").glob("1.0")
    (folder / ".installed.json").unlink()
    next(folder.rglob("tiny_mcp.py")).unlink()
    assert [tool["name"] for tool in harvest(pypi(), tmp_path).tools] == ["refused"]


def test_a_package_is_installed_whose_hash_is_the_pinned_one(registries, tmp_path):
    name, content = wheel()
    registries.add_python("tiny-mcp", name, content)
    assert install(pypi(sha256=hashlib.sha256(content).hexdigest()), tmp_path).version == "1.0"


def test_a_package_has_one_of_the_pinned_hashes(registries, tmp_path):
    name, content = wheel()
    registries.add_python("tiny-mcp", name, content)
    both = f"{'0' * 64} {hashlib.sha256(content).hexdigest()}"
    assert install(pypi(sha256=both), tmp_path / "a").version == "1.0"
    with pytest.raises(InstallFailed, match=r"[Hh]ash mismatch"):
        install(pypi(sha256=f"{'0' * 64} {'1' * 64}"), tmp_path / "b")


@needs_npm
def test_hashes_are_looked_up_written_and_compared(registries, tmp_path, monkeypatch, capsys):
    name, content = wheel()
    registries.add_python("tiny-mcp", name, content)
    registries.add_node(*npm_package())
    lines = [
        {"name": "a", "pypi": "tiny-mcp", "version": "1.0"},
        {"name": "b", "npm": "tiny-node-mcp", "version": "1.0.0", "category": "x"},
        {"name": "gone", "pypi": "tiny-mcp", "version": "9.9"},
        {"name": "c", "url": "https://example.org/mcp"},
    ]
    path = tmp_path / "list.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(sys, "argv", ["pin", "--list", str(path)])
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    assert pin.main() == 1
    told = capsys.readouterr().out
    assert "gone: " in told and "2 of 4 lines have a hash" in told
    a, b, gone, c = [json.loads(line) for line in path.read_text().splitlines()]
    assert a == {**lines[0], "sha256": hashlib.sha256(content).hexdigest()}
    assert b["integrity"].startswith("sha512-") and (gone, c) == (lines[2], lines[3])
    install(parse_server(a), tmp_path / "store")
    path.write_text(json.dumps({**a, "sha256": "0" * 64}) + "\n")
    monkeypatch.setattr(sys, "argv", ["pin", "--list", str(path), "--again"])
    assert pin.main() == 1 and "the list 000" in capsys.readouterr().out


def test_another_file_under_the_pinned_version_is_not_installed(registries, tmp_path):
    registries.add_python("tiny-mcp", *wheel(license="EVIL"))
    with pytest.raises(InstallFailed, match=r"[Hh]ash mismatch"):
        install(pypi(sha256=hashlib.sha256(wheel()[1]).hexdigest()), tmp_path)
    assert not list(tmp_path.rglob("tiny_mcp.py"))


@needs_npm
def test_another_archive_under_the_pinned_version_is_removed(registries, tmp_path):
    package, content = npm_package()
    registries.add_node(package, content)
    pinned = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    assert install(npm(integrity=pinned), tmp_path / "a").version == "1.0.0"
    registries.add_node(*npm_package(scripts={"start": "evil"}))
    with pytest.raises(InstallFailed, match="not the pinned one"):
        install(npm(integrity=pinned), tmp_path / "b")
    assert not list((tmp_path / "b" / "npm").rglob("main.js"))


def test_a_package_changed_after_its_installation_is_not_started(registries, tmp_path):
    registries.add_python("tiny-mcp", *wheel())
    install(pypi(), tmp_path)
    with next(tmp_path.rglob("tiny_mcp.py")).open("a") as file:
        file.write("import os\n")
    with pytest.raises(InstallFailed, match="was changed after the installation"):
        install(pypi(), tmp_path)


@pytest.mark.parametrize(
    "fields",
    [{"sha256": "abc"}, {"sha256": "A" * 64}, {"integrity": "sha1-abc"}, {"integrity": f"sha512-{'A' * 86}=="}],
)
def test_a_pin_that_is_none_is_refused(fields):
    with pytest.raises(ServerInvalid, match=r"sha256|integrity"):
        pypi(**fields)
