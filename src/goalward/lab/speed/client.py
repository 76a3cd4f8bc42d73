"""The labelling page as a person starts it, and what asks it for things."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from goalward.errors import GoalwardError

__all__ = ["CLASSES", "running"]

CLASSES = ("good", "bad")


@contextmanager
def running(table: Path, *options: str) -> Iterator[Callable[..., Callable[..., Any]]]:
    """Give what makes clients of the command, started and ended as a person would."""
    token = secrets.token_urlsafe(32)
    command = [sys.executable, "-m", "goalward", "label", str(table), *options]
    command += ["--no-browser", "--port", "0", "--token", token]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/start", process.stdout.readline())
        if found is None:
            said = process.communicate()[1]
            raise GoalwardError(f"The page did not start: {said.strip()[-500:]}")
        with ExitStack() as opened:

            def connect(who: int = 0) -> Callable[..., Any]:
                # One connection that stays open, as a browser's does, from an address of its own.
                own = (f"127.0.0.{1 + who}", 0) if sys.platform == "linux" else None
                there = http.client.HTTPConnection(
                    "127.0.0.1", int(found[1]), timeout=60, source_address=own
                )
                return partial(_call, opened.enter_context(closing(there)), token)

            yield connect
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _call(
    connection: http.client.HTTPConnection, token: str, method: str, path: str, body: Any = None
) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    said = json.loads(content) if "json" in answer.headers["content-type"] else content.decode()
    if answer.status >= 400:
        raise GoalwardError(f"{method} {path} answered {answer.status}: {said}")
    return said
