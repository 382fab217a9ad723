"""The main text of pages, from a process that may be killed."""

from __future__ import annotations

import os
import time

import pytest
from tokenmill.pipelines.corpus import extraction
from tokenmill.pipelines.corpus.extraction import NotExtracted, extract

ARTICLE = """<html><head><title> A  title </title></head><body>
<nav><ul><li><a href=/>Home</a></li><li><a href=/b>Products</a></li><li><a href=/c>Contact us</a></li></ul></nav>
<article><h1>Heading</h1><p>%s</p><pre>x = 1
  y = 2</pre></article>
<footer>Copyright 2024. All rights reserved. <a href=/p>Privacy</a></footer></body></html>"""


def test_the_main_text_is_taken_and_menus_are_left():
    title, text = extract((ARTICLE % ("The first sentence. " * 20)).encode())
    assert title == "A title"
    assert "Heading" in text and "The first sentence." in text and "x = 1\n  y = 2" in text
    assert "Products" not in text and "Privacy" not in text


@pytest.mark.parametrize(
    ("charset", "said", "told"),
    [
        ("latin-1", "", "Grüße aus Köln, schöne Straße"),
        ("latin-1", "utf-8", "Grüße aus Köln, schöne Straße"),
        ("utf-8", "latin-1", "Grüße aus Köln, schöne Straße"),
        ("cp1251", "windows-1251", "Привет мир, это русский текст"),
        ("shift_jis", "", "これはテストです。日本語の文章がここにあります。"),
        ("utf-8", "no-such-charset", "Grüße"),
    ],
)
def test_a_wrong_charset_is_seen_through(charset, said, told):
    assert told in extract((ARTICLE % (told * 5)).encode(charset), said)[1]


HOSTILE = {
    "nested tags": b"<div>" * 200_000 + b"x",
    "attributes": b"<p " + b" ".join(b"a%d=1" % n for n in range(32_000)) + b">x</p>",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_page_that_takes_too_long_is_given_up_and_the_next_is_read(kind):
    begun = time.monotonic()
    with pytest.raises(NotExtracted) as raised:
        extract(HOSTILE[kind], seconds=0.4)
    assert raised.value.error == "extraction_timeout" and time.monotonic() - begun < 3
    assert "The end." in extract((ARTICLE % "The end. " * 9).encode())[1]


def test_a_parser_that_dies_costs_one_page():
    extract(b"<p>warm</p>")
    assert extraction._helper is not None
    os.kill(extraction._helper._child.pid, 9)
    with pytest.raises(NotExtracted, match="broke the parser") as raised:
        extract(b"<p>one</p>")
    assert raised.value.error == "extraction_crashed"
    assert extract(b"<p>two</p>")[1].strip() == "two"


@pytest.mark.parametrize(
    "page", [b"", b"\0" * 1000, b"<", b"<!--", "<p>\ud800".encode("utf-8", "surrogatepass"), b"\xff\xfe<p>"]
)
def test_odd_pages_give_whatever_text_there_is(page):
    title, text = extract(page)
    (title + text).encode()
