"""Object stores to use without a network: two of our own, and Beam's client of S3 on top of Beam's fake of S3.

`bucket://` is as Beam's client of Google's store behaves: there are no folders; `exists` and `rename` know objects only;
`delete` takes patterns, and everything under a name that ends with a slash.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, ClassVar

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata, FileSystem
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.options.pipeline_options import PipelineOptions, S3Options


class Bucket(FileSystem):
    """All objects of `bucket://`, for this process."""

    objects: ClassVar[dict[str, bytes]] = {}
    opened: Callable[[str], None] = staticmethod(lambda path: None)
    """Called with the name of every object that is opened for reading."""

    @classmethod
    def scheme(cls) -> str:
        return "bucket"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths)])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        pass

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for name in sorted(self.objects):
            if name.startswith(dir_or_prefix):
                yield self.metadata(name)

    def create(self, path: str, mime_type: str = "", compression_type: str = CompressionTypes.AUTO) -> BinaryIO:
        return _Upload(path)

    def open(self, path: str, mime_type: str = "", compression_type: str = CompressionTypes.AUTO) -> BinaryIO:
        self.opened(path)
        return io.BytesIO(self._content(path))

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, target in zip(source_file_names, destination_file_names, strict=True):
            self.objects[target] = self._content(source)

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        self.copy(source_file_names, destination_file_names)
        for source in source_file_names:
            del self.objects[source]

    def exists(self, path: str) -> bool:
        return path in self.objects

    def size(self, path: str) -> int:
        return len(self._content(path))

    def last_updated(self, path: str) -> float:
        return 0.0

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path), 0.0)

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            names = [n for n in self.objects if n.startswith(path)] if path.endswith("/") else self._matching(path)
            for name in names:
                del self.objects[name]

    def _matching(self, pattern: str) -> list[str]:
        return [found.path for found in self.match([pattern])[0].metadata_list]

    def _content(self, path: str) -> bytes:
        if path not in self.objects:
            raise BeamIOError("no such object", {path: FileNotFoundError(path)})
        return self.objects[path]


class Shared(LocalFileSystem):
    """`shared://` is a folder that only a flag tells of, as the address of a store may be."""

    def __init__(self, pipeline_options: PipelineOptions) -> None:
        super().__init__(pipeline_options)
        self._folder = pipeline_options.view_as(S3Options).s3_endpoint_url

    @classmethod
    def scheme(cls) -> str:
        return "shared"

    def open(self, path: str, mime_type: str = "", compression_type: str = CompressionTypes.AUTO) -> BinaryIO:
        return super().open(path.replace("shared:/", self._folder), mime_type, compression_type)


class _Upload(io.BytesIO):
    """An object that is there once it is closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            Bucket.objects[self._path] = self.getvalue()
        super().close()
