"""What stands for a document where documents are compared: a hash of its text and address, MinHash values, fingerprints of
its passages. Arrays of a few hundred bytes, the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from tokenmill.judges.corpus.words import Hashes, Words, mixed

SHINGLE = 5
"""Words in the runs by which documents are compared (Lee et al. 2022)."""
BANDS, ROWS = 16, 8
"""Keys from the MinHash values of a document, and values in each: a pair of Jaccard similarity .8 shares one with p = .95."""
PERMUTATIONS = BANDS * ROWS
GRAM, WINDOW = 25, 26
"""Words in the runs that passages are told by, and runs of which the lowest is taken."""
PASSAGE = GRAM + WINDOW - 1
"""Words from which a passage that two documents share is found, whatever stands around it."""
VERSION = 1
"""Of all that is here: signatures of two versions must not be compared."""

_DRAWN = np.random.Generator(np.random.PCG64(0x746F6B656E6D696C6C))  # its stream is the same in every version of numpy
_FACTORS, _ADDENDS = (_DRAWN.integers(0, 1 << 32, PERMUTATIONS, np.uint64).astype(np.uint32) for _ in range(2))
_FACTORS |= np.uint32(1)
_TRACKING = re.compile(r"(?:^|&)(?:utm_\w+|fbclid|gclid|msclkid|mc_[ce]id|igshid|ref_src)=[^&]*")
_PORTS = {"http": ":80", "https": ":443"}


def minhash(words: Words) -> NDArray[np.uint32]:
    """(`PERMUTATIONS`,) lowest values of a document's shingles under as many permutations (Broder 1997); all ones for none."""
    if not words.count:
        return np.full(PERMUTATIONS, 0xFFFFFFFF, np.uint32)
    shingles = (mixed(words.grams(min(SHINGLE, words.count))) >> np.uint64(32)).astype(np.uint32)
    values = np.multiply.outer(_FACTORS, shingles)
    values += _ADDENDS[:, None]
    return values.min(axis=1)


def bands(values: NDArray[np.uint32]) -> Hashes:
    """(n, `BANDS`) keys from (n, `PERMUTATIONS`) MinHash values."""
    cut = values.reshape(len(values), BANDS, ROWS)
    keys = np.zeros((len(values), BANDS), np.uint64)
    for row in range(ROWS):
        keys = mixed(keys ^ cut[:, :, row].astype(np.uint64)) + np.uint64(row)
    return keys


def sketch(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """(n, `PERMUTATIONS`) the lowest byte of each MinHash value."""
    return (values & np.uint32(0xFF)).astype(np.uint8)


def similarity(same: int | NDArray[np.uint16]) -> NDArray[np.float64]:
    """The Jaccard similarity that so many equal bytes of two sketches tell, those that are equal by chance taken out."""
    return np.maximum(0.0, (np.asarray(same) / PERMUTATIONS - 1 / 256) / (1 - 1 / 256))


def fingerprints(words: Words) -> tuple[Hashes, NDArray[np.uint32]]:
    """(hashes, first words) of the runs of `GRAM` words that stand for a text: of each `WINDOW` of them the lowest
    (winnowing, Schleimer et al. 2003). Two texts that share `PASSAGE` words in a row share one of them."""
    grams = mixed(words.grams(GRAM))
    if len(grams) < WINDOW:
        return np.empty(0, np.uint64), np.empty(0, np.uint32)
    chosen = np.unique(sliding_window_view(grams, WINDOW).argmin(axis=1) + np.arange(len(grams) - WINDOW + 1))
    return grams[chosen], chosen.astype(np.uint32)


def content(text: str) -> tuple[int, int]:
    """128 bits of a text, whatever its white space."""
    return _halves(" ".join(text.split()))


def address(url: str) -> tuple[int, int]:
    """128 bits of a web address, whatever its spelling: scheme, `www.`, tracking parameters and fragment do not count. Zeros for
    none."""
    bare = url.strip().partition("#")[0]
    scheme, separator, rest = bare.partition("://")
    if not separator or not rest:
        return 0, 0
    rest, _, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2].lower().removesuffix(_PORTS.get(scheme.lower(), "\0")).removeprefix("www.")
    query = _TRACKING.sub("", query).lstrip("&")
    return _halves(f"{host}{slash}{path}".rstrip("/") + (f"?{query}" if query else ""))


def _halves(text: str) -> tuple[int, int]:
    made = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(made[:8], "little"), int.from_bytes(made[8:], "little")
