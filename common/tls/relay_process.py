"""Starts the program that ends TLS for a server of this machine, and watches it."""

import contextlib
import json
import select
import subprocess
import sys

from shusaku.common.tls import relay
from shusaku.common.tls.authority import Certificate
from shusaku.common.tls.relay import Target

START_SECONDS = 20.0
END_SECONDS = 5.0


class RelayProcess:
    """Listens with TLS on an address of this host, for a server that listens to this machine alone."""

    def __init__(self, certificate: Certificate, host: str, target: Target, port: int = 0) -> None:
        """Port 0: any free one.  OSError, with the reason, if it does not listen within START_SECONDS."""
        command = [sys.executable, "-I", "-S", relay.__file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         start_new_session=True)
        try:
            self.port = self._begin({"certificate": certificate.certificate, "key": certificate.key, "host": host,
                                     "port": port, "target": target})
        except BaseException:
            self._process.kill()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it serves."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends it and all its connections."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # stopped by a signal
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _begin(self, settings: dict[str, object]) -> int:
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            stdin.write(json.dumps(settings).encode() + b"\n")
            stdin.flush()
        poll = select.poll()  # select.select knows no descriptor above 1,023
        poll.register(stdout, select.POLLIN)
        if not poll.poll(1000 * START_SECONDS):
            raise OSError(f"the TLS relay was not ready within {START_SECONDS:g} s")
        line = stdout.readline()
        if not line:
            lines = stderr.read().decode(errors="replace").strip().splitlines()
            raise OSError(f"the TLS relay does not start: {lines[-1] if lines else 'no reason was given'}")
        return int(line)
