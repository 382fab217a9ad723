"""A disk with little room."""

import contextlib
import shutil
import subprocess

import pytest


@contextlib.contextmanager
def small_disk(path, size):
    """Mount a file system of so many bytes at `path`; skip the test where that is not permitted. Gives what makes it larger."""
    path.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True).returncode
    ):
        pytest.skip("no small file system can be mounted here")
    try:
        yield lambda larger: subprocess.run([mount, "-o", f"remount,size={larger}", path], check=True)
    finally:
        subprocess.run(["umount", path], check=True)
