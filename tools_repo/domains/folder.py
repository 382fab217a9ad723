"""A domain as a folder: what an agent must keep to, tools that run, the data they run on, tasks (tau2-bench's idea of one).

    shop/
      policy.md         what the agent is told, word for word
      tools.py          typed functions; their signatures and docstrings are the tools' schemas
      db.json           the data, `{kind: {identifier: record}}` or any JSON object (also .toml, .yaml)
      user_tools.py     tools of the user's side, if it has any; user_db.json is their data
      tasks.json        tasks with a reference solution, in tau2's form, if there are any
      domain.json       only where the names differ, or the tools are a class of a package; see `KEYS`

A Python file alone is a domain of tools without policy and data. Nothing of it is imported here: its code runs in the sandbox.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from tokenmill.tools_repo.harvest.servers import slug

MANIFEST = "domain.json"
KEYS = {
    "name": "name of the domain (default: the folder's)",
    "policy": "file, or list of files, with the policy",
    "tools": "tools.py, tools.py:Class, or package.module:Class",
    "server": "configuration of a client with one MCP server, in place of tools; files/ are its data, seen at /data",
    "database": "file with the data",
    "user_tools": "the same for the user's side",
    "user_database": "",
    "environment": "class made with (name, policy, tools, user_tools), whose sync_tools() is called after every call",
    "tasks": "file with the tasks",
    "packages": "folder of installed packages that the tools import, such as VENV/lib/python3.11/site-packages",
    "license": "licence of the tools, as rows carry it",
}
MAX_BYTES = 64_000_000
"""Of a database."""
_NAMES = {
    "policy": ("policy.md", "policy.txt"),
    "tools": ("tools.py",),
    "database": ("db.json", "db.toml", "db.yaml", "db.yml"),
    "user_tools": ("user_tools.py",),
    "user_database": ("user_db.json", "user_db.toml", "user_db.yaml"),
    "tasks": ("tasks.json",),
}


class DomainInvalid(ValueError):
    """A folder that is no domain; one line says what is missing or wrong."""


@dataclass(frozen=True)
class DomainFolder:
    """A domain, read but not run. Picklable; its data are read where they are needed."""

    path: str
    """Of the folder, absolute."""
    name: str
    tools: str
    """`file.py`, `file.py:Class` or `package.module:Class`."""
    policy: str = ""
    database: str = ""
    """Absolute path, empty for none; so are the next two."""
    user_database: str = ""
    tasks: str = ""
    user_tools: str = ""
    environment: str = ""
    packages: tuple[str, ...] = ()
    license: str = ""
    server: str = ""
    """Absolute path of the configuration of an MCP server, which has the tools then; `database` is a folder."""
    stamp: str = field(default="", compare=False)
    """Hash of every file that it is made of, packages aside."""

    @classmethod
    def read(cls, path: Path) -> DomainFolder:
        """Look at a folder, or at a Python file.

        Raises:
            DomainInvalid: it is no domain.
        """
        path = path.absolute()
        if path.suffix == ".py" and path.is_file():
            return cls(str(path.parent), slug(path.stem), path.name, stamp=_stamp([path]))
        if not path.is_dir():
            raise DomainInvalid(f"{path}: there is no such folder or Python file")
        told = _manifest(path)
        found = {key: told.get(key) or _first(path, names) for key, names in _NAMES.items()}
        server = _file(path, told.get("server"), "server")
        if server:
            found["database"] = ""
        elif not found["tools"]:
            raise DomainInvalid(f"{path}: there is no tools.py; name the tools in {MANIFEST}")
        policies = found["policy"] if isinstance(found["policy"], list) else [found["policy"]]
        files = {key: _file(path, found[key], key) for key in ("database", "user_database", "tasks")}
        read = [_file(path, name, "policy") for name in policies if name]
        packages = tuple(str((path / p).absolute()) for p in _texts(told.get("packages", ())))
        for folder in packages:
            if not Path(folder).is_dir():
                raise DomainInvalid(f"{path / MANIFEST}: packages: there is no folder {folder}")
        made_of = sorted(
            {*path.glob("*.py"), path / MANIFEST, *map(Path, read), *map(Path, filter(None, files.values()))}
        )
        if server and (path / "files").is_dir():
            files["database"] = str(path / "files")
            made_of += sorted(file for file in (path / "files").rglob("*") if file.is_file())
        return cls(
            str(path),
            slug(str(told.get("name") or path.name)),
            str(found["tools"]),
            "\n\n".join(Path(file).read_text(encoding="utf-8").strip() for file in read),
            **files,
            user_tools=str(found["user_tools"]),
            environment=str(told.get("environment", "")),
            packages=packages,
            license=str(told.get("license", "")),
            server=server,
            stamp=_stamp([*made_of, *([Path(server)] if server else [])]),
        )

    def setup(self) -> dict[str, Any]:
        """What the guest is told to load, its data included.

        Raises:
            DomainInvalid: a database cannot be read.
        """
        return {
            "folder": self.path,
            "packages": list(self.packages),
            "tools": self.tools,
            "data": read_data(self.database),
            "user_tools": self.user_tools,
            "user_data": read_data(self.user_database),
            "environment": self.environment,
        }


def read_data(path: str) -> dict[str, Any]:
    """A database, JSON, TOML or YAML, as a JSON object; empty where there is none.

    Raises:
        DomainInvalid: it cannot be read, or is no object.
    """
    data = read_json(path) if path else {}
    if not isinstance(data, dict):
        raise DomainInvalid(f"{path}: a database is an object of kinds of record")
    return data


def read_json(path: str) -> Any:
    """A JSON, TOML or YAML file.

    Raises:
        DomainInvalid: it cannot be read.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise DomainInvalid(f"{path}: over the limit of {MAX_BYTES:,} bytes")
        text = file.read_bytes()
        if file.suffix == ".toml":
            return orjson.loads(orjson.dumps(tomllib.loads(text.decode())))
        if file.suffix in (".yaml", ".yml"):
            import yaml

            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            return orjson.loads(orjson.dumps(yaml.load(text, Loader=loader), option=orjson.OPT_NON_STR_KEYS))
        return orjson.loads(text)
    except OSError as error:
        raise DomainInvalid(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, DomainInvalid):
            raise
        raise DomainInvalid(f"{path}: {' '.join(str(error).split())[:300]}") from None
    except Exception as error:  # yaml's errors have a base of their own
        raise DomainInvalid(f"{path}: {' '.join(str(error).split())[:300]}") from None


def _manifest(folder: Path) -> dict[str, Any]:
    if not (folder / MANIFEST).exists():
        return {}
    told = read_json(str(folder / MANIFEST))
    if not isinstance(told, dict) or (unknown := sorted(told.keys() - KEYS.keys())):
        what = f"unknown key {unknown[0]!r}" if isinstance(told, dict) else "no JSON object"
        raise DomainInvalid(f"{folder / MANIFEST}: {what}; known are {', '.join(KEYS)}")
    return told


def _first(folder: Path, names: tuple[str, ...]) -> str:
    return next((name for name in names if (folder / name).is_file()), "")


def _file(folder: Path, name: Any, key: str) -> str:
    if not name:
        return ""
    file = (folder / str(name)).absolute()
    if not file.is_file():
        raise DomainInvalid(f"{folder}: {key}: there is no file {name}")
    return str(file)


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _stamp(files: list[Path]) -> str:
    sha = hashlib.sha256()
    for file in files:
        if file.is_file():
            sha.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return sha.hexdigest()
