"""Byte-level BPE with Kimi K2's special tokens, trained on the shards.
Run as `python -m tokenmill.training.tokenizer --data DIR ... --vocab-size N --output DIR`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers
from tokenmill.training.data.rows import InputError, find_files, iterate_rows, open_shards
from tokenmill.training.template import declaration, normalize_row, render

BOS, EOS, PAD = "[BOS]", "[EOS]", "[PAD]"
SPECIAL_TOKENS = (
    BOS,
    EOS,
    PAD,
    "<|im_end|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_system|>",
    "<|im_middle|>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
"""The spelling of the released tokenizer; the numbers are our own, from 0."""
FILE = "tokenizer.json"
SMALLEST = 256 + len(SPECIAL_TOKENS)
# Runs of digits are cut in threes from the left, letters keep their leading space, contractions stay apart.
_PIECES = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}[\p{L}\p{M}]*|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


class Tokenizer:
    """Text to numbers and back. Text never becomes a special token, whatever it spells: no document can end a turn."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        missing = [token for token in SPECIAL_TOKENS if backend.token_to_id(token) is None]
        if missing:
            raise ValueError(f"the tokenizer lacks {', '.join(missing)}")
        backend.encode_special_tokens = True

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Deterministic for the same texts in the same order. Raises `ValueError` on a vocabulary below `SMALLEST`."""
        if vocab_size < SMALLEST:
            raise ValueError(f"vocab_size: {vocab_size} leaves no room for bytes and special tokens; give {SMALLEST}+")
        from tokenizers import Regex

        backend = Backend(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        backend.train_from_iterator(texts, trainer)
        return cls(backend)

    @classmethod
    def load(cls, path: Path | str) -> Tokenizer:
        """From a directory (a checkpoint, a run, or a step of one) or a `tokenizer.json`. Raises `InputError`."""
        path = Path(path)
        places = [path] if path.is_file() else [path / FILE, path.parent / FILE, path.parent.parent / FILE]
        for place in places:
            if place.is_file():
                try:
                    return cls(Backend.from_file(str(place)))
                except Exception as error:  # the library raises bare Exception
                    raise InputError(f"{place}: {error}") from error
        raise InputError(f"{path}: holds no {FILE}")

    def save(self, folder: Path) -> None:
        """`tokenizer.json`, and what transformers and vLLM need to load it with its chat template."""
        folder.mkdir(parents=True, exist_ok=True)
        self.backend.save(str(folder / FILE))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS,
            "eos_token": EOS,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": False,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
        template = Path(__file__).with_name("chat_template.jinja").read_text()
        (folder / "chat_template.jinja").write_text(template)

    def encode(self, text: str) -> list[int]:
        return self.backend.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """int32 arrays; runs on all cores unless TOKENIZERS_PARALLELISM says otherwise."""
        encoded = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.asarray(one.ids, dtype=np.int32) for one in encoded]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def special(self, token: str) -> int:
        """The number of a special token. Raises `KeyError` for any other text."""
        return self._special[token]

    @cached_property
    def _special(self) -> dict[str, int]:
        found = ((token, self.backend.token_to_id(token)) for token in SPECIAL_TOKENS)
        return {token: number for token, number in found if number is not None}

    @property
    def bos(self) -> int:
        return self._special[BOS]

    @property
    def eos(self) -> int:
        return self._special[EOS]

    def __len__(self) -> int:
        return self.backend.get_vocab_size()


def texts_of(rows: Iterable[dict[str, Any]]) -> Iterable[str]:
    """What a tokenizer should learn from rows of either kind: documents, or every turn and the tools' declarations."""
    for row in rows:
        if row.get("text") is not None:
            yield row["text"]
        else:
            messages, tools = normalize_row(row)
            yield from (
                segment.text for segment in render(messages, declaration(tools, "mixed")) if not segment.special
            )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.tokenizer", description="Train a byte-level BPE."
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--vocab-size", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--limit", type=int, help="learn from the first so many rows only")
    flags = parser.parse_args(argv)
    try:
        shards = open_shards([file for path in flags.data for file in find_files(path)])
        tokenizer = Tokenizer.train(texts_of(iterate_rows(shards, limit=flags.limit)), flags.vocab_size)
    except (InputError, ValueError) as error:
        parser.error(str(error))
    tokenizer.save(flags.output)
    print(json.dumps({"vocabulary": len(tokenizer)}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
