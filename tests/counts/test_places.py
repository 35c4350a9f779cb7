"""Features in a database: in blocks, and in the ledger as places."""

import contextlib
import json
import random
import re
import sqlite3
import time
import zlib

import numpy as np
import pytest
from commands import streamnb_command
from hypothesis import given
from hypothesis import strategies as st
from mailboxes import HAM, SPAM, damage, exported, exported_counts, mails

import streamnb.counts.places
import streamnb.mailbox.recover
from streamnb import Mailbox
from streamnb._core import SparseRows, read_blocks, write_blocks
from streamnb.counts.places import BLOCK, LAST_DAY, features_of
from streamnb.database import FORMAT
from streamnb.errors import StateError
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import PLACED, pack_tokens, places_in, unpack_tokens
from streamnb.mailbox.rebuild import rebuild
from streamnb.mailbox.recover import recover
from streamnb.mailbox.undo import last_learned, redo, undo
from streamnb.mailbox.verdict_log import VerdictLog

COUNTS = st.one_of(
    st.integers(0, 255),
    st.integers(0, 1 << 17).map(lambda n: n / 1024),
    st.integers(0, 1 << 20),
    st.floats(0, 1e300),
)


def sparse_rows(cells):
    rows, classes = np.nonzero(cells)
    ends = np.cumsum(np.bincount(rows, minlength=len(cells))).astype(np.uint64)
    return SparseRows(ends, classes.astype(np.uint32), cells[rows, classes])


@given(st.lists(st.lists(COUNTS, min_size=1, max_size=6), min_size=1, max_size=4), st.data())
def test_blocks_come_out_as_they_went_in(columns, data):
    classes = data.draw(st.integers(1, 5))
    numbers = sorted(data.draw(st.sets(st.integers(0, 9), min_size=1, max_size=len(columns))))
    cells = np.zeros((len(numbers) * BLOCK, classes))
    for number, column in zip(range(len(numbers)), columns, strict=False):
        flat = cells[number * BLOCK : (number + 1) * BLOCK].reshape(-1)
        flat[: len(column)] = column[: len(flat)]
    draw = np.random.default_rng(len(columns))
    keys = draw.integers(0, 1 << 64, len(cells), np.uint64)
    most = data.draw(st.sampled_from([1, 255, 256, (1 << 32) - 1]))
    usage = np.full((len(cells), 2), LAST_DAY, np.uint32)
    usage[:, 0] = draw.integers(0, most + 1, len(usage))
    written = write_blocks(keys, usage, sparse_rows(cells), np.arange(len(numbers)), classes)
    # A class has come since, and an empty block.
    read_keys, read_usage, read_cells = read_blocks([*written, None], classes + 1)
    assert (read_keys == [*keys, *[0] * BLOCK]).all()
    assert (read_usage == np.concatenate((usage, np.zeros((BLOCK, 2))))).all()
    assert (read_cells.dense(classes + 1) == np.pad(cells, ((0, BLOCK), (0, 1)))).all()
    assert (features_of(written[:1]) == keys[:BLOCK]).all()


@pytest.mark.parametrize(
    ("count", "times", "size_of_times", "size_of_count"),
    [(1.0, 255, 1, 1), (1 / 1024, 255, 1, 2), (63.5, 256, 4, 4), (0.1, 1, 4, 8)],
)
@pytest.mark.parametrize("classes", [1, 2, 70_000])
def test_a_block_is_as_small_as_its_counts_allow(
    count, times, size_of_times, size_of_count, classes
):
    head = 1 + BLOCK * (8 + 2 + size_of_times)
    keys, usage = np.zeros(BLOCK, np.uint64), np.zeros((BLOCK, 2), np.uint32)
    cells = np.full((BLOCK, classes), count)
    usage[5, 0] = times
    (block,) = write_blocks(keys, usage, sparse_rows(cells), np.array([0]), classes)
    assert len(block) == head + BLOCK * classes * size_of_count
    cells[6:] = cells[:, :-1] = 0
    (block,) = write_blocks(keys, usage, sparse_rows(cells), np.array([0]), classes)
    few = 6 * (1 + 2 + size_of_count)  # with their features and classes
    dense = BLOCK * classes * size_of_count
    assert len(block) == head + (min(few, dense) if classes < 1 << 16 else dense)


@pytest.mark.parametrize("classes", [1, 3, 40])
def test_sparse_rows_change_as_a_matrix_does(classes):
    draw = np.random.default_rng(classes)
    cells = draw.integers(0, 3, (50, classes)).astype(float)
    rows = sparse_rows(cells)
    for k in draw.integers(0, classes, 20).tolist():
        assert (rows.column(k) == cells[:, k]).all()
        cells[:, k] = draw.integers(0, 2, 50)
        rows = rows.with_column(k, cells[:, k].copy())
        chosen = draw.permutation(50)[:9]
        part = draw.integers(0, 2, (9, classes)).astype(float)
        cells[chosen], rows = part, rows.with_rows(chosen, sparse_rows(part))
        assert (rows.dense(classes) == cells).all()
        assert (rows.is_counted == cells.any(axis=1)).all()
        assert (rows.take(chosen).dense(classes) == part).all()
    assert not rows.take(np.array([-1])).is_counted.any()
    for wrong in (lambda: rows.take(np.array([50])), lambda: rows.with_rows(np.array([50]), rows)):
        with pytest.raises(IndexError):
            wrong()


@given(st.binary(max_size=40) | st.binary(min_size=250, max_size=1200))
def test_any_bytes_are_a_block_or_none(content):
    try:
        keys, usage, cells = read_blocks([content], 2)
    except ValueError:
        return
    (written,) = write_blocks(keys, usage, cells, np.array([0]), 2)
    assert read_blocks([written], 2)[2].dense(2).tobytes() == cells.dense(2).tobytes()


@given(
    st.lists(
        st.dictionaries(st.integers(0, 400), st.floats(0.001, 1e6) | st.just(1), max_size=9),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([9, 200, 70_000, 20_000_000, 1 << 32]),
    st.data(),
)
def test_features_are_packed_as_places_and_come_out_again(views, highest, data):
    tokens = [TokenCounts.from_dict(view) for view in views]
    lie = [
        dict(zip(view_tokens.fingerprints.tolist(), draw, strict=True))
        for view_tokens in tokens
        for draw in [data.draw(st.permutations(range(len(view_tokens))).map(tuple))]
    ]
    lie = [
        {key: -1 if place % 3 == 2 else highest - place for key, place in view_places.items()}
        for view_places in lie
    ]

    def places_of(view, fingerprints):
        return np.array([lie[view][key] for key in fingerprints.tolist()], np.int64)

    def features_at(view, places):
        keys_by_place = {place: key for key, place in lie[view].items()}
        return np.array([keys_by_place[place] for place in places.tolist()], np.uint64)

    packed = pack_tokens(tokens, places_of)
    unpacked = unpack_tokens(packed, features_at)
    assert list(unpacked) == tokens
    lying = [sorted(place for place in view.values() if place >= 0) for view in lie]
    lying = [places if max(places, default=0) + 1 < 1 << 32 else [] for places in lying]
    packed_places = [places.tolist() for places in places_in(packed)]
    assert [sorted(places) for places in packed_places if places] == [
        places for places in lying if places
    ]
    if packed >= PLACED:
        with pytest.raises(ValueError, match="damaged"):
            unpack_tokens(packed)
    for end in range(len(packed)):
        with pytest.raises(ValueError, match=r"cut off|damaged"):
            unpack_tokens(packed[:end] if end else packed + b"x", features_at)


@pytest.mark.parametrize("flag", [0x40, 0x80])
def test_one_of_the_two_flags_of_places_is_refused(flag):
    with pytest.raises(ValueError, match="damaged"):
        unpack_tokens(bytes([flag]) + zlib.compress(b""), lambda view, places: places)


@given(st.binary(max_size=60), st.sampled_from([0, 0x40, 0x80, 0xC0]), st.booleans())
def test_any_bytes_are_refused_or_read(content, flags, is_compressed):
    packed = bytes([2 | flags]) + (zlib.compress(content) if is_compressed else content)
    with contextlib.suppress(ValueError):
        unpack_tokens(packed, lambda view, places: places.astype(np.uint64))


def placed(mailbox):
    with mailbox.reading():
        return [len(mailbox.ledger.packed(by_place)) for by_place in (True, False)]


def test_the_ledger_takes_less_than_half_of_the_fingerprints(sample, tmp_path):
    with Mailbox(tmp_path / "a.db") as single, Mailbox(tmp_path / "b.db") as together:
        for content, label in mails(sample):
            single.learn(content, label)
        together.learn_many(mails(sample))
        for box in (single, together):
            assert placed(box) == [60, 0]
            with box.reading():
                fingerprints = sum(sum(map(len, row.tokens)) for row in box.ledger.rows()) * 8
                (packed,) = box.database.connection.execute(
                    "SELECT sum(length(tokens)) FROM ledger"
                ).fetchone()
            assert packed < fingerprints / 2
        assert exported_counts(single) == exported_counts(together)


def test_features_without_counts_have_no_place(tmp_path):
    """A weight near 0 is not learned, and unlearning it is allowed."""
    with Mailbox(tmp_path / "db") as box:
        box.learn(SPAM, "spam")
        box.learn(HAM, "ham")
        with box.reading():
            row = next(box.ledger.rows("digest IS NOT NULL"))
        strange = TokenCounts.from_dict({"never": 1, "seen": 2})
        with box.writing():
            box.ledger.replace_tokens(row._replace(tokens=(strange, *row.tokens[1:])))
        with box.reading():
            (replaced,) = box.ledger.rows("id = ?", (row.id,))
        assert replaced.tokens == (strange, *row.tokens[1:])


@pytest.mark.parametrize("seed", range(4))
def test_the_ledger_has_correct_places_after_any_operations(tmp_path, sample, seed):
    """Every reader of the ledger gets the same features as from fingerprints."""
    draw = random.Random(seed)
    content = mails(sample, 30)
    with Mailbox(tmp_path / "db") as box, Mailbox(tmp_path / "db") as other:
        box.learn_many(content)
        for _ in range(25):
            act = draw.randrange(7)
            message, _ = draw.choice(content)
            if act == 0:
                draw.choice((box, other)).learn(message, draw.choice(["spam", "ham", "list"]))
            elif act == 1:
                draw.choice((box, other)).forget(message)
            elif act == 2:
                compact(box, rare_days=draw.choice([None, -1, 180]))
            elif act == 3:
                rebuild(other)
            elif act == 4:
                with other.reading():
                    rows = [row.added_at for row in other.ledger.rows()]
                other.undo(draw.choice(rows or [0.0]))
            elif act == 5:
                redo(box)
            else:
                box.learn_many(draw.sample(content, 9))
            assert box.verify() == []
        assert placed(other)[1] == 0


def test_a_compaction_moves_no_features_unless_many_places_are_empty(sample, tmp_path):
    with Mailbox(tmp_path / "db") as box:
        box.learn_many(mails(sample))
        before = exported(box)
        with box.reading():
            blocks = box.database.connection.execute("SELECT * FROM blocks_0").fetchall()
        compact(box, rare_days=None)
        with box.reading():
            blocks_again = box.database.connection.execute("SELECT * FROM blocks_0").fetchall()
        assert (blocks, before) == (blocks_again, exported(box))
        for content, _ in mails(sample)[::2]:
            box.forget(content)
        compact(box, rare_days=None)
        assert [counts.free_slots for counts in box.counts] == [0] * len(box.counts)
        # Removed rows still have features that no other row has.
        assert placed(box) == [60, 0]
        assert box.verify() == []


def test_a_block_that_holds_another_feature_is_damage(tmp_path):
    path = tmp_path / "db"
    with Mailbox(path) as box:
        box.learn(SPAM, "spam")
    damage(
        path,
        "UPDATE blocks_0 SET cells = CAST(substr(cells, 1, 1) || x'01' || substr(cells, 3) AS BLOB)"
        " WHERE block = 0",
    )
    with Mailbox(path) as box:
        assert box.verify() != []
        with pytest.raises(StateError, match="a wrong place in its block"):
            box.classify(SPAM)


def test_a_wrong_place_in_the_table_of_features_is_found(tmp_path):
    path = tmp_path / "db"
    with Mailbox(path) as box:
        box.learn(SPAM, "spam")
        scores = box.classify(SPAM)
    damage(path, "UPDATE features_0 SET place = 0 WHERE place = 1")
    with Mailbox(path) as box:
        assert box.verify() != []
        assert box.classify(SPAM) == scores  # by the fingerprints in the blocks


def test_the_places_of_features_do_not_change_the_verdict(sample, tmp_path, monkeypatch):
    every = mails(sample)
    judged = []
    for first in (0, 1, 3, 1000):
        monkeypatch.setattr(streamnb.counts.places, "_FIRST", first)
        with Mailbox(tmp_path / f"{first}.db") as box:
            box.learn_many(every[1:])
            box.learn(*every[0])
            box.forget(every[1][0])
            assert box.verify() == []
            judged.append([box.classify(content) for content, _ in every])
    assert all(other == judged[0] for other in judged)


def rows_of(box):
    with box.reading():
        return list(box.ledger.rows())


LOST = {
    "features": ["DELETE FROM features_{view}"],
    "blocks": ["DELETE FROM blocks_{view}"],
    "half of each": [
        "DELETE FROM features_{view} WHERE place % 2",
        "UPDATE blocks_{view} SET cells = x'00' WHERE block % 2",
    ],
    "what they agree on": ["UPDATE features_{view} SET place = place + 1"],
}


@pytest.mark.parametrize("lost", LOST)
def test_recover_reads_places_from_features_or_blocks(sample, tmp_path, lost):
    path, new = tmp_path / "a.db", tmp_path / "b.db"
    with Mailbox(path) as box:
        box.learn_many(mails(sample))
        views = len(box.counts)
    damage(path, *[text.format(view=view) for text in LOST[lost] for view in range(views)])
    if lost == "what they agree on":
        with pytest.raises(StateError, match="no row"):
            recover(path, new)
        return
    done = recover(path, new)
    assert done.rows_added == 60
    # With half of each table lost, a quarter of the places is lost.
    assert bool(done.losses) == (lost == "half of each")
    with Mailbox(new) as box:
        assert box.verify() == []
        assert placed(box)[0] == done.rows_added


def test_a_view_without_features_is_recovered(tmp_path):
    with Mailbox(tmp_path / "db") as box:
        box.learn(b"\n\nhello", "spam")
        assert box.counts[0].features == 0
    assert recover(tmp_path / "db", tmp_path / "new") == (1, [])


@pytest.mark.parametrize("number", [1 << 60, -1, 1 << 40])
def test_recover_reads_blocks_with_any_number(tmp_path, number):
    path = tmp_path / "db"
    with Mailbox(path) as box:
        box.learn(SPAM, "spam")
    damage(
        path,
        "INSERT INTO blocks_0 SELECT -2, cells FROM blocks_0 WHERE block = 0",
        f"UPDATE blocks_0 SET block = {number} WHERE block = -2",  # noqa: S608 (a number)
    )
    assert recover(path, tmp_path / "new").rows_added == 1


@pytest.mark.parametrize("places", ["2147483648", "1e30", "-1", "0"])
def test_places_that_cannot_be_are_damage_or_do_no_harm(tmp_path, places):
    path = tmp_path / "db"
    with Mailbox(path) as box:
        box.learn_many([(b"Subject: %d\n\nx" % n, "ham") for n in range(20)])
    connection = sqlite3.connect(path)
    (state,) = connection.execute("SELECT value FROM state WHERE name = 'classifier'").fetchone()
    now = json.loads(state)
    now["views"][0]["places"] = json.loads(places)
    connection.execute("UPDATE state SET value = ? WHERE name = 'classifier'", (json.dumps(now),))
    connection.commit()
    connection.close()
    begun = time.process_time()
    if places == "2147483648":
        with Mailbox(path) as box:
            assert box.verify() == []
            exported(box)
            box.learn(SPAM, "spam")
    else:
        with pytest.raises(StateError, match="state"):
            Mailbox(path)
    assert time.process_time() - begun < 20  # room for all of 2^31 takes longer


def test_errors_of_a_failing_database_are_not_reported_as_damage(tmp_path, monkeypatch):
    with Mailbox(tmp_path / "db") as box:
        box.learn(SPAM, "spam")

        def fails(*_):
            raise sqlite3.OperationalError("interrupted")

        monkeypatch.setattr("streamnb.counts.database.SqlCounts._read_page", fails)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            box.forget(SPAM)
        monkeypatch.undo()
        assert box.forget(SPAM).result == "forgotten"


def test_a_compaction_does_not_take_damage_into_the_ledger(sample, tmp_path):
    path = tmp_path / "db"
    with Mailbox(path) as box:
        box.learn_many(mails(sample))
        for content, _ in mails(sample)[::2]:
            box.forget(content)
    damage(
        path,
        "UPDATE blocks_2 SET cells = (SELECT cells FROM blocks_2 WHERE block = 1) WHERE block = 0",
    )
    with Mailbox(path) as box:
        with pytest.raises(StateError, match="a wrong place in its block"):
            compact(box, rare_days=None)
        assert placed(box) == [60, 0]


def test_a_compaction_that_was_stopped_is_done_by_the_next(sample, tmp_path, monkeypatch):
    with Mailbox(tmp_path / "db") as box:
        box.learn_many(mails(sample))
        for content, _ in mails(sample)[::2]:
            box.forget(content)
        monkeypatch.setattr("streamnb.mailbox.compact._lay_out", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            compact(box, rare_days=None)
        monkeypatch.undo()
        assert placed(box) == [0, 60]
        assert box.verify() == []
        compact(box, rare_days=None)
        assert placed(box) == [60, 0]
        assert box.verify() == []


@pytest.mark.parametrize("version", [FORMAT - 1, FORMAT + 1])
def test_a_database_of_another_version_is_refused(tmp_path, version):
    path = tmp_path / "db"
    Mailbox(path).close()
    damage(path, f"PRAGMA user_version = {version}")
    status, _, error = streamnb_command("status", "--db", path)
    assert (status, error.count("\n")) == (4, 1)
    assert f"the database has version {version}, but this streamnb reads version {FORMAT}" in error


def test_recover_reads_one_state_of_a_database(sample, tmp_path, monkeypatch):
    path, new = tmp_path / "db", tmp_path / "new"
    read_places = streamnb.mailbox.recover._read_places
    with Mailbox(path, wait=0.05) as box:  # the open database delays the copy of the log
        box.learn_many(mails(sample))
        for content, _ in mails(sample)[::2]:
            box.forget(content)
        before = exported(box)

        def and_then_compacted(*arguments):
            places = read_places(*arguments)
            compact(box, rare_days=None)
            return places

        monkeypatch.setattr("streamnb.mailbox.recover._read_places", and_then_compacted)
        assert recover(path, new) == (30, [])
    with Mailbox(new) as rescued:
        assert sorted(before.splitlines()) == sorted(exported(rescued).splitlines())


def test_recover_reports_a_row_that_only_the_index_has(tmp_path, monkeypatch):
    with Mailbox(tmp_path / "db") as box:
        box.learn(SPAM, "spam")
        box.learn(HAM, "ham")
    select_row = streamnb.mailbox.recover.select_row
    monkeypatch.setattr(
        "streamnb.mailbox.recover.select_row",
        lambda database, n: None if n == 1 else select_row(database, n),
    )
    done = recover(tmp_path / "db", tmp_path / "new")
    assert (done.rows_added, len(done.losses)) == (1, 1)


def test_damaged_blocks_are_not_copied(sample, tmp_path):
    path, new = tmp_path / "a.db", tmp_path / "b.db"
    with Mailbox(path) as box:
        box.learn_many(mails(sample))
        with box.reading():
            (cells,) = box.database.connection.execute(
                "SELECT cells FROM blocks_1 WHERE block = 0"
            ).fetchone()
    damage(
        path,
        f"UPDATE blocks_1 SET cells = x'{cells[:9].hex()}00{cells[10:].hex()}' WHERE block = 0",  # noqa: S608 (ours)
    )
    Mailbox(new).close()
    status, _, error = streamnb_command("merge", path, "--db", new)
    assert (status, "a.db" in error) == (4, True)
    with Mailbox(path) as box, pytest.raises(StateError, match="a wrong place in its block"):
        rebuild(box)


def test_erasing_deletes_the_words_of_erased_messages_only(sample, tmp_path):
    path = tmp_path / "db"
    secret, other = b"Subject: x\n\nquetzalcoatl axolotl", b"Subject: y\n\naxolotl again"
    with Mailbox(path) as box, Mailbox(tmp_path / "without") as without:
        for mailbox in (box, without):
            mailbox.learn_many(mails(sample))
        box.learn(secret, "spam")
        box.learn(secret, "ham")
        for mailbox in (box, without):
            mailbox.learn(other, "spam")
            mailbox.forget(other)
        record = VerdictLog(box)
        assert record.erase([digest(b"Subject: unheard-of\n\n")]) == 0
        assert record.erase([digest(secret)]) == 1
        assert box.verify() == []
        assert exported_counts(box) == exported_counts(without)
        assert box.learn(other, "spam").result == "learned"  # its features have the same places
        assert box.verify() == []
    assert b"quetzalcoatl" not in path.read_bytes()


@pytest.mark.parametrize("later", [False, True])
def test_erasing_deletes_the_words_of_undone_messages(sample, tmp_path, later):
    """Also where something was learned since."""
    path = tmp_path / "db"
    secret = b"From: q@quetzalcoatl.example\nSubject: x\n\naxolotl"
    with Mailbox(path) as box:
        box.learn_many(mails(sample))
        box.learn(secret, "spam")
        assert undo(box, last_learned(box)).unlearned == 1
        if later:
            box.learn(b"Subject: another\n\nmessage", "ham")
        assert VerdictLog(box).erase([digest(secret)]) == 1
        assert box.verify() == []
        assert redo(box) == (0, 0, 0)
    assert not re.search(rb"axolotl|quetzalcoatl", path.read_bytes())


def test_a_row_can_be_erased_beside_a_damaged_row(tmp_path):
    path = tmp_path / "db"
    with Mailbox(path) as box:
        box.learn_many([(b"Subject: %d\n\nword%d" % (n, n), "ham") for n in range(20)])
    damage(path, "UPDATE ledger SET tokens = x'8401' WHERE id = 9")
    with Mailbox(path) as box:
        assert VerdictLog(box).erase([digest(b"Subject: 3\n\nword3")]) == 1
