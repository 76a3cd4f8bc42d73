"""Label Studio's side door: a small server it can ask for predictions and tell of changes.

Nothing that comes in is believed. A webhook only wakes the bridge, which reads the annotations
itself; the access token that Label Studio sends to /setup is not looked at.
"""

from __future__ import annotations

import base64
import hmac
import json
import threading
from typing import TYPE_CHECKING, Any

from goalward.core.extras import needing

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    from goalward.studio.label_studio.bridge import Bridge

__all__ = ["backend_app"]

LARGEST = 32 * 2**20
"""Bytes of a request."""


def backend_app(
    bridge: Bridge, *, wake: threading.Event, train: threading.Event, password: str | None = None
) -> Starlette:
    """Return the application: GET /health, POST /setup, /predict and /webhook.

    Parameters
    ----------
    wake, train
        Set when something changed, and when somebody pressed the training button.
    password
        If given, /setup and /predict want it (any user name); enter it in Label Studio under Basic
        authentication. Webhooks come without one, and can only wake.
    """
    with needing("The server"):
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse
        from starlette.routing import Route

    unknown = JSONResponse(
        {"detail": "a password was expected"}, 401, headers={"WWW-Authenticate": "Basic"}
    )

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "UP", "model_class": "goalward"})

    async def setup(request: Request) -> JSONResponse:
        if not _may(request, password):
            return unknown
        return JSONResponse({"model_version": await run_in_threadpool(lambda: bridge.version)})

    async def predict(request: Request) -> JSONResponse:
        if not _may(request, password):
            return unknown
        body = await _body(request)
        tasks = body.get("tasks") if isinstance(body, dict) else None
        if not isinstance(tasks, list):
            return JSONResponse({"detail": "{'tasks': [...]} was expected"}, 400)
        results = await run_in_threadpool(bridge.predictions, tasks)
        return JSONResponse({"results": results})

    async def webhook(request: Request) -> JSONResponse:
        body = await _body(request)
        action = body.get("action") if isinstance(body, dict) else None
        if not isinstance(action, str):
            return JSONResponse({"detail": "{'action': ...} was expected"}, 400)
        project = body.get("project")
        number = project.get("id") if isinstance(project, dict) else project
        if number in (None, bridge.client.number):
            if action == "START_TRAINING":
                train.set()
            wake.set()
        return JSONResponse({"status": "ok"}, 201)

    posted = {"/setup": setup, "/predict": predict, "/webhook": webhook}
    routes = [Route(path, answer, methods=["POST"]) for path, answer in posted.items()]
    return Starlette(routes=[Route("/health", health, methods=["GET"]), *routes])


def _may(request: Request, password: str | None) -> bool:
    if password is None:
        return True
    kind, _, said = request.headers.get("authorization", "").partition(" ")
    try:
        given = base64.b64decode(said, validate=True).partition(b":")[2]
    except ValueError:
        return False
    return kind.lower() == "basic" and hmac.compare_digest(given, password.encode())


async def _body(request: Request) -> Any:
    """Return the JSON of a request, or None if it is too large or none."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LARGEST:
            return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
