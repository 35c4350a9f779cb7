"""Files that are replaced whole or not at all."""

import os
import stat

import pytest

from streamnb import storage as files
from streamnb.errors import OutputError
from streamnb.storage import replace_file


def write(path, data=b"new", **options):
    with replace_file(path, "the model", **options) as file:
        file.write(data)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_have_the_mode_that_others_have(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write(tmp_path / "a")
    write(tmp_path / "b", private=True)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert mode(tmp_path / "a") == mode(tmp_path / "plain")
    assert mode(tmp_path / "b") == 0o600


@pytest.mark.parametrize("before", [0o600, 0o640, 0o444, 0o4755])
def test_a_replaced_file_keeps_its_mode(tmp_path, before):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(before)
    write(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert mode(tmp_path / "a") == before & 0o777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_replaced_file_keeps_its_owner(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    os.chown(tmp_path / "a", 1234, 1235)
    write(tmp_path / "a")
    assert ((tmp_path / "a").stat().st_uid, (tmp_path / "a").stat().st_gid) == (1234, 1235)


def test_links_are_followed(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("a")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


def test_places_that_no_file_can_take(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"old")
    for place in ("pipe", "loop", "file/", "file/x", "no/such", "a\0b", "n" * 300, "."):
        with pytest.raises(OutputError, match="the model cannot be written: "):
            write(f"{tmp_path}/{place}")
    assert sorted(os.listdir(tmp_path)) == ["file", "loop", "pipe"]
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_nothing_happens_where_writing_fails(tmp_path, error):
    (tmp_path / "a").write_bytes(b"old")

    def fail():
        with replace_file(tmp_path / "a", "the model") as file:
            file.write(b"half")
            raise error

    with pytest.raises(OutputError if error is OSError else error):
        fail()
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_folder_that_cannot_be_synced(tmp_path, monkeypatch):
    def refuse(folder):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(files, "_sync_folder", refuse)
    write(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"
