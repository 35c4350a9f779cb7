"""Fixtures of the tests of watched accounts: a mail server."""

import pytest
from servers import Dovecot


@pytest.fixture(scope="module")
def server():
    server = Dovecot()
    yield server
    server.close()
