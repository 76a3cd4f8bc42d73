"""The part of Label Studio's interface that a study needs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from goalward.adapters.label_studio.transport import Transport
from goalward.errors import LabelStudioError

__all__ = ["Client"]

PAGE = 500
BATCH = 500
"""Tasks or predictions sent at once; 500 of either take about a second."""


class Client:
    """A project of a Label Studio server.

    Parameters
    ----------
    url, token, sleep
        See `Transport`.
    project
        The project's number, as in its address.
    """

    def __init__(
        self, url: str, token: str, project: int, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.http = Transport(url, token, sleep)
        self.number = int(project)
        self._home = f"/api/projects/{self.number}"

    def close(self) -> None:
        """Let go of connections."""
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def project(self) -> dict[str, Any]:
        """Return the project: label_config, sampling, model_version, created_at and more."""
        project: dict[str, Any] = self.http.call("GET", f"{self._home}/")
        if not isinstance(project, dict) or "label_config" not in project:
            raise LabelStudioError(
                f"{self.http.url} answered with something else than a project; check --url."
            )
        return project

    def set_project(self, **values: Any) -> None:
        """Change settings of the project."""
        self.http.call("PATCH", f"{self._home}/", body=values)

    def mark(self) -> tuple[Any, ...]:
        """Return what changes whenever a task or an annotation is added, changed or removed.

        An annotation that is changed or deleted touches its task, so the newest task and the
        totals tell, for one small request.
        """
        page = self._page(1, 1, query=json.dumps({"ordering": ["-tasks:updated_at"]}))
        newest = page["tasks"][0] if page["tasks"] else {}
        totals = page["total"], page["total_annotations"]
        return *totals, newest.get("id"), newest.get("updated_at")

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Return the tasks with their data, in the order of their numbers."""
        return self._pages()

    def answered(self) -> Iterator[dict[str, Any]]:
        """Return the tasks that have annotations or skips, with them."""
        items = [
            {"filter": f"filter:tasks:{name}", "operator": "greater", "type": "Number", "value": 0}
            for name in ("total_annotations", "cancelled_annotations")
        ]
        query = json.dumps({"filters": {"conjunction": "or", "items": items}})
        return self._pages(query=query, fields="all")

    def task(self, number: int) -> dict[str, Any]:
        """Return one task."""
        unresolved = {"resolve_uri": "false"}
        return dict(self.http.call("GET", f"/api/tasks/{number}/", params=unresolved))

    def set_data(self, number: int, data: dict[str, Any]) -> None:
        """Replace the data of a task; Label Studio knows no smaller change."""
        self.http.call("PATCH", f"/api/tasks/{number}/", body={"data": data})

    def add_tasks(self, data: Sequence[dict[str, Any]]) -> None:
        """Add tasks."""
        for first in range(0, len(data), BATCH):
            body = [{"data": one} for one in data[first : first + BATCH]]
            self.http.call("POST", f"{self._home}/import", body=body)

    def add_predictions(self, predictions: Sequence[dict[str, Any]]) -> None:
        """Add predictions; `LabelStudioError` unless every one is stored."""
        for first in range(0, len(predictions), BATCH):
            body = list(predictions[first : first + BATCH])
            done = self.http.call("POST", f"{self._home}/import/predictions", body=body)
            # Some versions log predictions they find invalid, leave them out, and answer 201.
            created = done.get("created") if isinstance(done, dict) else None
            if created != len(body):
                raise LabelStudioError(
                    f"{self.http.url} stored {created} of {len(body)} predictions; all were expected. "
                    "Look into its log for the reason."
                )

    def versions(self) -> list[str]:
        """Return the model versions that predictions of the project have."""
        return list(self.http.call("GET", f"{self._home}/model-versions/"))

    def remove_version(self, version: str) -> None:
        """Delete the predictions of a model version."""
        self.http.call("DELETE", f"{self._home}/model-versions/", body={"model_version": version})

    def emails(self) -> dict[int, str]:
        """Return user -> email of everybody the token may see."""
        users = self.http.call("GET", "/api/users")
        listed = users.get("results", []) if isinstance(users, dict) else users
        return {int(user["id"]): str(user["email"]) for user in listed if user.get("email")}

    def add_view(self, title: str, ordering: str) -> bool:
        """Add a tab to the Data Manager unless there is one of that title; return whether."""
        views = self.http.call("GET", "/api/dm/views", params={"project": self.number})
        if any((view.get("data") or {}).get("title") == title for view in views):
            return False
        data = {"title": title, "ordering": [ordering]}
        self.http.call("POST", "/api/dm/views", body={"project": self.number, "data": data})
        return True

    def _pages(self, **params: Any) -> Iterator[dict[str, Any]]:
        number = read = 0
        while True:
            number += 1
            page = self._page(number, PAGE, **params)
            yield from page["tasks"]
            read += len(page["tasks"])
            # A page after the last is an error there. Servers may give smaller pages than asked.
            if not page["tasks"] or read >= page["total"]:
                return

    def _page(self, number: int, size: int, **params: Any) -> dict[str, Any]:
        asked = {"project": self.number, "page": number, "page_size": size, "resolve_uri": "false"}
        page = self.http.call("GET", "/api/tasks", params={**asked, **params})
        if not isinstance(page, dict) or "tasks" not in page or "total" not in page:
            raise LabelStudioError(
                f"{self.http.url} listed tasks in a form that is not known here; Label Studio 1.x was "
                "expected. Upgrade it, or goalward."
            )
        return page
