"""Files and folders by path or URL. A path on this machine is taken as it is, whatever characters are in it. An object
store knows no folders, only objects whose names begin alike: Beam's `exists` and `delete` do not see a folder there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from apache_beam.io.filesystems import FileSystems


def is_local(path: str) -> bool:
    return "://" not in path


def absolute(path: str) -> str:
    """A path of this machine from its root, links kept: where a folder is mounted is told by its name; a URL as it is."""
    return os.path.abspath(path) if is_local(path) else path  # noqa: PTH100


def whole_path(path: str) -> str:
    """The one name of a file or folder of this machine that may be given by several; a URL as it is."""
    return str(Path(path).resolve()) if is_local(path) else path


def folder_exists(folder: str) -> bool:
    """Whether a folder is there; in an object store, whether anything is in it."""
    if FileSystems.get_filesystem(folder).has_dirs():
        return FileSystems.exists(folder)
    (found,) = FileSystems.match([FileSystems.join(folder, "**")], limits=[1])
    return bool(found.metadata_list)


def files_in(folder: str, suffix: str) -> list[str]:
    """Files directly in a folder whose names end so, in order of their names; none where there is no folder."""
    if is_local(folder):
        names = (path.name for path in Path(folder).iterdir()) if Path(folder).is_dir() else ()
        return sorted(FileSystems.join(folder, name) for name in names if name.endswith(suffix))
    (found,) = FileSystems.match([FileSystems.join(folder, f"*{suffix}")])
    return sorted(file.path for file in found.metadata_list)


def delete_file(path: str) -> None:
    """Delete a file if it is there.

    Raises:
        OSError: it cannot be deleted.
    """
    if is_local(path):
        Path(path).unlink(missing_ok=True)
    elif FileSystems.exists(path):
        FileSystems.delete([path])


def delete_folder(folder: str) -> None:
    """Delete a folder, if it is there, with everything in it.

    Raises:
        OSError: something in it cannot be deleted.
    """
    if not folder_exists(folder):
        return
    if is_local(folder):
        shutil.rmtree(folder)
        return
    FileSystems.delete([f"{folder.rstrip('/')}/"])  # the slash says that objects under this name are meant
    if folder_exists(folder):  # what Google's store refuses to delete is only logged
        raise OSError(f"{folder}: not everything in it could be deleted")


def replace_file(source: str, target: str) -> None:
    """Rename a file; what stood under the new name is gone.

    Raises:
        OSError: it cannot be renamed.
    """
    if not is_local(
        target
    ):  # not every store overwrites; a local rename does, without a moment in which neither is there
        delete_file(target)
    FileSystems.rename([source], [target])
