"""The main text of HTML pages, one after the other, in a process that may be killed: native code has no other end.

Run as a file, with nothing of ours on its path. It reads (charset length, page length, charset, page) and answers (title length,
text length, title, text) until its input ends; a page that cannot be parsed has the title length `BROKEN` and the error as text.
"""

import resource
import struct
import sys

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree

HEAD = struct.Struct("!II")
BROKEN = 0xFFFFFFFF
MEMORY = 3 << 30
"""Bytes of address space."""
DECLARED = 2048
"""Bytes in which a page declares its charset."""


def decoded(page: bytes, charset: str) -> str:
    """The page as text, whatever charset it claims: UTF-8 where it is that, else what it declares, else what it looks like."""
    try:
        return page.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    if not charset:
        head = page[:DECLARED].lower()
        place = head.find(b"charset=")
        if place >= 0:
            rest = head[place + 8 : place + 60].strip(b" \"'")
            charset = (
                rest.split(b'"')[0].split(b"'")[0].split(b">")[0].split(b";")[0].decode("ascii", "replace").strip()
            )
    if not charset or charset in ("utf-8", "utf8", "none"):
        charset = detect_encoding(page, html5_compatible=True) or "utf-8"
    try:
        return bytes_to_str(page, charset, errors="replace")
    except (LookupError, UnicodeError):
        return page.decode("utf-8", "replace")


def extracted(page: bytes, charset: str) -> tuple[str, str]:
    """(title, main text) of a page."""
    tree = HTMLTree.parse(decoded(page, charset))
    text = extract_plain_text(tree, preserve_formatting=True, main_content=True, alt_texts=False, comments=False)
    return " ".join((tree.title or "").split()), text


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(b"ready")
    sink.flush()
    while head := source.read(HEAD.size):
        name, size = HEAD.unpack(head)
        charset, page = source.read(name).decode("ascii", "replace"), source.read(size)
        try:
            title, text = (part.encode("utf-8", "replace") for part in extracted(page, charset))
            sink.write(HEAD.pack(len(title), len(text)) + title + text)
        except Exception as error:  # whatever a stranger's page makes of the parser
            told = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:500]
            sink.write(HEAD.pack(BROKEN, len(told)) + told)
        sink.flush()


if __name__ == "__main__":
    main()
