"""Rows to packed batches: exact repetition, mixture, isolation of documents, and resuming at any point."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.training.data.loader import Loader, ahead
from tokenmill.training.data.mixture import (
    ConversationEncoder,
    Example,
    Mixture,
    Source,
    TextEncoder,
    count_targets,
    parse_source,
)
from tokenmill.training.data.packing import PADDING, Packer, count_rows
from tokenmill.training.data.rows import InputError, ShuffledRows, find_files, iterate_rows, open_shards
from tokenmill.training.model import Model, preset
from tokenmill.training.schedules import Layout, Leg, Plan
from tokenmill.training.tokenizer import Tokenizer

from tests.training.shards import conversation, conversations, texts, write_rows


def numbers(rows):
    """Row n becomes its own number, n % 7 + 1 times, behind a 0."""
    return [
        Example(
            np.asarray([0, *[row["text"]] * (int(row["text"]) % 7)], dtype=np.int32),
            np.asarray([row["text"]] * (int(row["text"]) % 7 + 1), dtype=np.int32),
        )
        for row in rows
    ]


def numbered(folder, first, count, **layout):
    return write_rows(folder, [{"text": str(number)} for number in range(first, first + count)], **layout)


def source(folder, name="data", **how):
    return Source(name, open_shards(find_files(folder)), **how)


def taken(mixture, count=None):
    found = []
    for example, _ in mixture.iterate(mixture.start()):
        found.append(int(example.targets[0]))
        if count is not None and len(found) == count:
            break
    return found


@pytest.fixture
def tokenizer():
    from tokenmill.bench.servers.mill import documents

    return Tokenizer.train((row["text"] for row in documents(60)), 500)


def test_an_epoch_is_every_row_once_in_a_new_order_each_time(tmp_path):
    rows = ShuffledRows(open_shards(find_files(numbered(tmp_path, 0, 95, files=3))), seed=3, window=2)
    stream = rows.iterate()
    epochs = [[next(stream)["text"] for _ in range(95)] for _ in range(3)]
    assert all(sorted(map(int, epoch)) == list(range(95)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] and epochs[0] != sorted(epochs[0], key=int)
    again = ShuffledRows(rows.shards, seed=3, window=2).iterate()
    assert [next(again)["text"] for _ in range(95)] == epochs[0]
    other = ShuffledRows(rows.shards, seed=4, window=2).iterate()
    assert [next(other)["text"] for _ in range(95)] != epochs[0]


@given(position=st.integers(0, 140), window=st.integers(1, 6), group=st.integers(1, 20))
@settings(max_examples=25, deadline=None)
def test_any_position_can_be_reached_directly(tmp_path_factory, position, window, group):
    shards = open_shards(find_files(numbered(tmp_path_factory.mktemp("d"), 0, 47, files=2, group=group)))
    rows = ShuffledRows(shards, seed=1, window=window)
    whole = rows.iterate()
    expected = [next(whole) for _ in range(160)][position : position + 10]
    direct = rows.iterate(position)
    assert [next(direct) for _ in range(10)] == expected


def test_repetition_is_exact_also_for_parts_of_an_epoch(tmp_path):
    a, b = numbered(tmp_path / "a", 0, 30), numbered(tmp_path / "b", 100, 20)
    mixture = Mixture([source(a, "a", epochs=3), source(b, "b", epochs=1.5)], numbers)
    seen = Counter(taken(mixture))
    assert all(seen[n] == 3 for n in range(30))
    assert sorted(seen[n] for n in range(100, 120)) == [1] * 10 + [2] * 10
    order = taken(mixture)
    first = sum(n >= 100 for n in order[: len(order) // 2])
    assert abs(first - 15) <= 1, "sources run side by side, not one after the other"


def test_weights_are_shares_of_tokens(tmp_path):
    long = numbered(tmp_path / "long", 6, 1)  # always 7 tokens
    short = numbered(tmp_path / "short", 7, 1)  # always 1 token
    mixture = Mixture([source(long, "long", weight=0.25), source(short, "short", weight=0.75)], numbers)
    *_, (_, position) = islice(mixture.iterate(mixture.start()), 2000)
    share = position.tokens[0] / sum(position.tokens)
    assert share == pytest.approx(0.25, abs=0.01)
    assert mixture.epochs(position)["short"] == position.rows[1]


@given(length=st.integers(2, 40))
@settings(max_examples=15, deadline=None)
def test_stream_packing_gives_every_target_once_and_no_padding_but_at_the_end(tmp_path_factory, length):
    folder = numbered(tmp_path_factory.mktemp("d"), 0, 40)
    packer = Packer(Mixture([source(folder, epochs=2)], numbers), "stream")
    rows = list(iter(lambda: packer.row(length), None))
    assert not any((row.document_ids == PADDING).any() for row in rows[:-1])
    targets = Counter(int(t) for row in rows for t in row.targets if t >= 0)
    assert targets == {n: 2 * (n % 7 + 1) for n in range(40)}
    for row in rows:
        for document in set(row.document_ids.tolist()) - {PADDING}:
            assert len({int(t) for t in row.targets[row.document_ids == document]}) == 1


@given(length=st.integers(7, 40), buffer=st.integers(1, 12))
@settings(max_examples=15, deadline=None)
def test_fit_packing_keeps_documents_whole(tmp_path_factory, length, buffer):
    folder = numbered(tmp_path_factory.mktemp("d"), 0, 40)
    packer = Packer(Mixture([source(folder)], numbers), "fit", buffer=buffer)
    seen = Counter()
    for row in iter(lambda: packer.row(length), None):
        for document in set(row.document_ids.tolist()) - {PADDING}:
            (number,) = {int(t) for t in row.targets[row.document_ids == document]}
            assert (row.document_ids == document).sum() == number % 7 + 1
            seen[number] += 1
        assert (row.targets[row.document_ids == PADDING] == -1).all()
    assert seen == dict.fromkeys(range(40), 1)


@pytest.mark.parametrize("packing", ["stream", "fit"])
@pytest.mark.parametrize("stop", [1, 4, 9])
def test_batches_go_on_from_a_saved_state(tmp_path, packing, stop):
    a, b = numbered(tmp_path / "a", 0, 50), numbered(tmp_path / "b", 100, 31)
    sources = [source(a, "a", epochs=2), source(b, "b", epochs=3)]
    # A batch that grows and a row that gets longer on the way.
    plan = Plan((Leg("all", 900, 1.0, "constant"),), (Layout(0, 16, 32), Layout(200, 16, 64), Layout(500, 32, 64)))

    def loader():
        return Loader(Packer(Mixture(sources, numbers, seed=5, window=2), packing), plan, until_data_ends=True)

    whole = list(loader().batches())
    assert {tuple(batch.tokens.shape) for batch in whole} == {(2, 16), (4, 16), (2, 32)}
    saved = torch.load(_saved(whole[stop - 1].state, tmp_path / "state.pt"), weights_only=True)
    rest = list(loader().batches(saved))
    assert len(rest) == len(whole) - stop
    for one, other in zip(whole[stop:], rest, strict=True):
        assert torch.equal(one.tokens, other.tokens) and torch.equal(one.targets, other.targets)
        assert torch.equal(one.document_ids, other.document_ids)
        assert one.settings == other.settings and one.seen == other.seen and one.epochs == other.epochs


def _saved(state, path):
    torch.save(state, path)
    return path


def test_processes_share_one_batch(tmp_path):
    plan = Plan((Leg("all", 10_000, 1.0, "constant"),), (Layout(0, 16, 80),))
    packer = Packer(Mixture([source(numbered(tmp_path, 0, 50))], numbers))
    for batch in Loader(packer, plan, multiple=2).batches():
        parts = [batch.share(rank, 2) for rank in range(2)]
        assert len(parts[0][0]) == len(parts[1][0]) == 3
        together = torch.cat([parts[0][1], parts[1][1]])
        assert sorted(together.flatten().tolist()) == sorted(batch.targets.flatten().tolist())


def test_documents_do_not_see_each_other(tmp_path, tokenizer):
    """The packed rows' loss of each document is its loss alone."""
    folder = texts(tmp_path, 6)
    torch.manual_seed(0)
    model = Model(preset("tiny").replace(vocab_size=512)).eval()
    encode = TextEncoder(tokenizer)
    packer = Packer(Mixture([source(folder)], encode), "fit")
    packed = Counter()
    with torch.no_grad():
        for row in iter(lambda: packer.row(512), None):
            ids = torch.from_numpy(row.document_ids)[None]
            logits = model(torch.from_numpy(row.tokens)[None], document_ids=ids).logits[0]
            losses = torch.nn.functional.cross_entropy(
                logits, torch.from_numpy(row.targets), reduction="none", ignore_index=-1
            )
            for document in range(ids.max() + 1):
                here = row.document_ids == document
                packed[tuple(row.targets[here])] = losses[torch.from_numpy(here)].sum().item()
        assert len(packed) == 6
        for example in encode(list(iterate_rows(packer.mixture.sources[0].shards))):
            tokens, targets = (torch.from_numpy(part).long()[None] for part in (example.inputs, example.targets))
            alone = model(tokens, targets=targets, normalizer=1.0).cross_entropy.item()
            assert packed[tuple(example.targets)] == pytest.approx(alone, rel=1e-4)


def test_text_is_learnt_from_its_beginning_to_its_end(tokenizer):
    (example, empty) = TextEncoder(tokenizer)([{"text": "A mill."}, {"text": ""}])
    assert example.inputs[0] == tokenizer.bos and example.targets[-1] == tokenizer.eos
    assert tokenizer.decode(example.targets[:-1].tolist()) == "A mill."
    assert empty == "empty"


def test_rows_that_cannot_be_learnt_from_are_counted_by_reason(tmp_path, tokenizer):
    rows = [conversation(0), {"messages": "oops", "tools": "[]"}, conversation(1)]
    rows.append({"messages": '[{"role": "user", "content": "hello?"}]', "tools": "[]"})
    shards = source(write_rows(tmp_path, rows), "chats")
    encode = ConversationEncoder(tokenizer, bound=4096)
    total, dropped = count_targets([shards], encode)
    mixture = Mixture([shards], encode)
    given = [pair for pair in mixture.iterate(mixture.start()) if pair[0] is not None]
    assert len(given) == 2 and sum(len(example) for example, _ in given) == total
    assert sum(dropped.values()) == 2 and dropped["no assistant turn to learn"] == 1
    packer = Packer(mixture, "fit")
    while packer.row(4096) is not None:
        pass
    assert sum(packer.position.dropped.values()) == 2 and mixture.epochs(packer.position) == {"chats": 1.0}
    short = ConversationEncoder(tokenizer, bound=50)
    assert set(short([conversation(0)])) == {"too long"}


def test_a_weighted_source_without_a_usable_row_is_an_error_not_a_hang(tmp_path, tokenizer):
    empty = source(write_rows(tmp_path, [{"text": ""}] * 5), "blank", weight=1.0)
    mixture = Mixture([empty], TextEncoder(tokenizer))
    with pytest.raises(InputError, match=r"no row of blank can be trained on \(5 blank: empty\)"):
        Packer(mixture).row(16)


def test_conversations_can_be_pretrained_on_without_mask(tmp_path, tokenizer):
    (example,) = TextEncoder(tokenizer)([conversation(0)])
    assert example.mask is None
    shards = open_shards(find_files(conversations(tmp_path, 10)))
    mixture = Mixture([Source("chats", shards)], ConversationEncoder(tokenizer, 4096))
    assert count_rows(mixture, "fit", 4096) < 10


def test_sources_are_written_as_paths_with_repetition_or_weight(tmp_path):
    folder = numbered(tmp_path / "wiki", 0, 5)
    assert parse_source(str(folder)).name == "wiki"
    assert parse_source(f"{folder}@2.5").epochs == 2.5
    assert parse_source(f"web:{folder}=0.3") == Source("web", open_shards(find_files(folder)), weight=0.3)
    for wrong, said in [
        (f"{folder}@zero", "could not convert"),
        (f"{folder}=0", "above 0"),
        (f"{folder}@-1", "above 0"),
        (str(tmp_path / "no"), "no such file"),
        (str(tmp_path), "no Parquet files"),
    ]:
        with pytest.raises(InputError, match=said):
            parse_source(wrong)


def test_inputs_that_do_not_fit_are_one_line(tmp_path):
    wrong = write_rows(tmp_path / "wrong", [{"title": "x"}])
    with pytest.raises(InputError, match="neither a `text` nor a `messages`"):
        open_shards(find_files(wrong))
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "a.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"a\.parquet"):
        open_shards(find_files(tmp_path / "torn"))
    good = numbered(tmp_path / "good", 0, 5)
    with pytest.raises(ValueError, match="same name"):
        Mixture([source(good), source(good)], numbers)
    with pytest.raises(ValueError, match="all sources or to none"):
        Mixture([source(good, "a"), source(good, "b", weight=1.0)], numbers)


def test_shards_that_change_under_a_run_are_noticed(tmp_path):
    shards = open_shards(find_files(numbered(tmp_path, 0, 20)))
    numbered(tmp_path, 0, 15)
    with pytest.raises(InputError, match="changed"):
        list(iterate_rows(shards))


def test_reading_ahead_keeps_order_errors_and_its_thread_to_itself():
    import threading

    def broken():
        yield 1
        yield 2
        raise RuntimeError("disk")

    stream = ahead(broken())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(RuntimeError, match="disk"):
        next(stream)
    endless = ahead(iter(range(10**9)))
    assert [next(endless) for _ in range(50)] == list(range(50))
    endless.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "loader"]
