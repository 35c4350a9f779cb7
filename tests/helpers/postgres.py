"""A PostgreSQL server for tests, which can be killed and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path


class Server:
    """A separate cluster in a folder, at a Unix socket."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.data = self.folder / "data"
        self.programs = max(
            Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name)
        )
        shutil.chown(self.folder, "postgres")
        os.chmod(self.folder, 0o755)  # noqa: S103 (commands of another user get there)
        self._run("initdb", "-D", self.data, "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()
        self._run("createdb", "-h", self.folder, "mail")

    @property
    def url(self):
        return f"postgresql://postgres@/mail?host={self.folder}"

    def schema(self, name):
        return f"{self.url}&options=-csearch_path%3D{name}"

    def _run(self, program, *arguments):
        command = ["runuser", "-u", "postgres", "--", self.programs / program, *arguments]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        options = f"-k {self.folder} -c listen_addresses= -c max_connections=60"
        self._run(
            "pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "-o", options, "start"
        )

    def signal(self, number):
        """Send a signal to the server and its children."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(first)], capture_output=True, text=True)
        for process in (first, *map(int, children.stdout.split())):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue

    def kill(self):
        """End the server as a power failure does; its children end when they notice."""
        self.signal(signal.SIGKILL)
        while subprocess.run(["pgrep", "-f", f"postgres.*{self.data}"], capture_output=True).stdout:
            time.sleep(0.05)
        # Without a process that reaps them, ended servers seem to run.
        for lock in (self.data / "postmaster.pid", self.folder / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)

    def stop(self):
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")


@contextmanager
def served(wanted=True):
    """A separate server, if the tests need one."""
    if not wanted:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="streamnb-postgres-") as folder:
        server = Server(folder)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def pooled(server, *options):
    """The URL of a PgBouncer that gives each transaction another of four connections."""
    (server.folder / "users").write_text('"postgres" ""\n')
    settings = [
        "[databases]",
        f"mail = host={server.folder} user=postgres",
        "[pgbouncer]",
        "listen_addr =",
        "listen_port = 6432",
        f"unix_socket_dir = {server.folder}",
        "auth_type = any",
        f"auth_file = {server.folder}/users",
        "pool_mode = transaction",
        "default_pool_size = 4",
        *options,
    ]
    (server.folder / "pooler.ini").write_text("\n".join(settings))
    pooler = subprocess.Popen(
        [
            "setpriv",
            "--reuid=postgres",
            "--clear-groups",
            "pgbouncer",
            server.folder / "pooler.ini",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        while not (server.folder / ".s.PGSQL.6432").exists():
            assert pooler.poll() is None
            time.sleep(0.05)
        yield f"postgresql://postgres@:6432/mail?host={server.folder}"
    finally:
        pooler.terminate()
        pooler.wait()
