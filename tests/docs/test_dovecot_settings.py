"""The guides have the same configurations for both versions of Dovecot, with each version's names."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "dovecot.md").read_text(encoding="utf-8")
# `doveconf -n` of Dovecot 2.4.1 accepts these names; it refuses unknown ones.
SETTINGS_OF_2_4 = {
    "protocol", "lda_mailbox_autosubscribe", "mail_plugins", "sieve", "imap_sieve",
    "sieve_plugins", "sieve_imapsieve", "sieve_extprograms",
    "sieve_global_extensions", "vnd.dovecot.pipe", "vnd.dovecot.filter",
    "sieve_filter_bin_dir", "sieve_filter_exec_timeout",
    "sieve_pipe_bin_dir", "sieve_pipe_exec_timeout",
    "sieve_script", "type", "cause", "path",
    "service", "executable", "user", "unix_listener", "mode", "group", "mail_access_groups",
    "sieve_pipe_socket_dir",
}  # fmt: skip


def configurations(version):
    """Return the text of each configuration of a version, by name."""
    pattern = rf"<!-- ([\w-]+)-configuration-{re.escape(version)} -->\n```ini\n(.*?)```"
    texts = dict(re.findall(pattern, GUIDE, re.S))
    for name, file in (("moves", "90-streamnb"), ("owners", "92-streamnb-system-users")):
        path = DOCS / "dovecot" / f"{file}{'-2.4' if version == '2.4' else ''}.conf"
        texts[name] = path.read_text(encoding="utf-8")
    return texts


def test_both_versions_have_the_same_configurations():
    names = {"sieve-filter", "sieve-folders", "moves", "owners"}
    assert configurations("2.3").keys() == configurations("2.4").keys() == names


@pytest.mark.parametrize("name", configurations("2.4"))
def test_settings_are_those_of_the_version(name):
    names = re.findall(r"^ *([\w.]+)(?= )", configurations("2.4")[name], re.M)
    assert names
    assert set(names) <= SETTINGS_OF_2_4
    assert "plugin {" in configurations("2.3")[name]


@pytest.mark.parametrize("name", configurations("2.4"))
def test_both_versions_name_the_same_files(name):
    files = [
        set(re.findall(r"/(?:etc|usr)/[\w./-]+", text))
        for text in (configurations("2.3")[name], configurations("2.4")[name])
    ]
    assert files[0] == files[1]
