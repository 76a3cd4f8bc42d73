"""A Label Studio of a few lines on loopback: the protocol of 1.23.2 as it was observed, traps included.

- the next task is the one of the lowest score among predictions of the project's model_version;
- the Data Manager's score is the mean over all versions;
- an annotation may hold a class that is not in the label config, or anything else;
- where none of several choices is chosen, the editor writes no region;
- changing or deleting an annotation touches its task; importing predictions does not;
- a page after the last is 404.
"""

import base64
import json
import threading
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import fmean
from urllib.parse import parse_qs, urlsplit

CONFIG = """<View><Text name="words" value="$text"/>
<Choices name="mood" toName="words" choice="single"><Choice value="good"/><Choice value="bad"/></Choices>
</View>"""
SEVERAL = """<View><Text name="words" value="$text"/>
<Choices name="traits" toName="words" choice="multiple"><Choice value="good"/><Choice value="early"/>
<Choice value="odd one" alias="odd"/></Choices></View>"""
NUMBER = """<View><Text name="words" value="$text"/><Number name="price" toName="words"/></View>"""
TOKEN = "0123456789abcdef"


def jwt(kind):
    """Return something that looks like a token of that type."""
    parts = [{"alg": "HS256"}, {"token_type": kind}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode() for p in parts) + ".x"


def region(control, **value):
    """Return the result of an annotation, as the editor writes it: region("price", number=3.5)."""
    (kind,) = value
    return [{"from_name": control, "to_name": "words", "type": kind, "value": value}]


class FakeLabelStudio:
    """The server's memory, and what a person would do."""

    def __init__(self, config=CONFIG):
        self.project = {
            "id": 7,
            "label_config": config,
            "created_at": "2026-01-01T00:00:00Z",
            "sampling": "Sequential sampling",
            "model_version": "",
            "maximum_annotations": 1,
        }
        self.users = {1: "ann@example.org", 2: "bo@example.org"}
        self.tasks, self.annotations, self.predictions = {}, {}, []
        self.log, self.failures, self.clock = [], deque(), 0
        self.access, self.issued, self.page_limit = jwt("access"), 0, 100
        self.lose_predictions, self.broken = False, None

    def touch(self, task):
        self.clock += 1
        self.tasks[task]["updated_at"] = f"{self.clock:08d}"

    def add_task(self, data):
        number = len(self.log) * 1000 + len(self.tasks) + 11
        self.tasks[number] = {"id": number, "data": data}
        self.touch(number)
        return number

    def annotate(self, task, *choices, user=1, cancelled=False, number=None, result=None):
        """Say something about a task, or change what was said; `result` as the editor writes it."""
        number = number or max(self.annotations, default=100) + 1
        if result is None:
            result = region("mood", choices=list(choices)) if choices else []
        self.touch(task)
        self.annotations[number] = {
            "id": number,
            "task": task,
            "completed_by": user,
            "was_cancelled": cancelled,
            "result": result,
            "updated_at": self.tasks[task]["updated_at"],
        }
        return number

    def delete(self, number):
        self.touch(self.annotations.pop(number)["task"])

    def served(self):
        """Return the task a person would get next."""
        done = {a["task"] for a in self.annotations.values()}
        if self.project["sampling"] != "Uncertainty sampling":
            return min(set(self.tasks) - done)
        version = self.project["model_version"]
        ours = [p for p in self.predictions if p["model_version"] == version]
        return min((p["score"], p["task"]) for p in ours if p["task"] not in done)[1]

    def writes(self):
        """Return the requests that changed something."""
        return [line for line in self.log if not line.startswith("GET")]

    @contextmanager
    def running(self):
        """Serve on loopback and give the address."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    # What is answered.

    def answer(self, method, path, query, body):
        parts = path.strip("/").split("/")
        if parts == ["api", "users"]:
            return 200, [{"id": k, "email": v} for k, v in self.users.items()]
        if parts == ["api", "tasks"]:
            return self.listed(query)
        if parts[:2] != ["api", "projects"] or parts[2] != "7":
            return 404, {"detail": "No Project matches the given query."}
        return self.in_project(method, parts[3:], body)

    def in_project(self, method, parts, body):
        if not parts:
            if method == "PATCH":
                self.project.update(body)
            return 200, self.project
        if parts == ["import"]:
            return 201, {"task_ids": [self.add_task(one["data"]) for one in body]}
        if parts == ["import", "predictions"]:
            unknown = [p["task"] for p in body if p["task"] not in self.tasks]
            if unknown:
                return 400, {"detail": "Validation error", "validation_errors": unknown}
            kept = body[:-1] if self.lose_predictions else body
            self.predictions.extend(kept)
            return 201, {"created": len(kept)}
        assert parts == ["model-versions"], parts
        if method == "DELETE":
            version = body["model_version"]
            self.predictions = [p for p in self.predictions if p["model_version"] != version]
            return 200, {}
        versions = [p["model_version"] for p in self.predictions]
        return 200, {version: versions.count(version) for version in versions}

    def listed(self, query):
        tasks = [self.tasks[number] for number in sorted(self.tasks)]
        wanted = json.loads(query.get("query", "{}"))
        if "filters" in wanted:
            said = {a["task"] for a in self.annotations.values()}
            tasks = [task for task in tasks if task["id"] in said]
        for field in wanted.get("ordering", []):
            name = field.lstrip("-").removeprefix("tasks:")
            tasks = self.ordered(tasks, name, field.startswith("-"))
        page = int(query["page"])
        size = min(int(query["page_size"]), self.page_limit)
        if page > max(1, -(-len(tasks) // size)):
            return 404, {"detail": "Invalid page."}
        shown = [dict(task) for task in tasks[(page - 1) * size : page * size]]
        if query.get("fields") == "all":
            for task in shown:
                mine = [a for a in self.annotations.values() if a["task"] == task["id"]]
                task["annotations"] = mine
        total = sum(not a["was_cancelled"] for a in self.annotations.values())
        return 200, {"total": len(tasks), "total_annotations": total, "tasks": shown}

    def ordered(self, tasks, name, down):
        if name == "updated_at":
            value = lambda task: task["updated_at"]
        else:
            assert name == "predictions_score", name
            scores = {}
            for p in self.predictions:
                scores.setdefault(p["task"], []).append(p["score"])
            value = lambda task: fmean(scores[task["id"]]) if task["id"] in scores else None
        there = [task for task in tasks if value(task) is not None]
        absent = [task for task in tasks if value(task) is None]
        return sorted(there, key=value, reverse=down) + absent


def _handler(fake):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self):
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(path.query).items()}
            fake.log.append(f"{self.command} {path.path}")
            code, said, headers = 0, None, {}
            if fake.failures:
                code, said, headers = fake.failures.popleft()
            elif fake.log[-1] == fake.broken:
                code, said = 500, {"detail": "broken"}
            if not code and path.path == "/api/token/refresh":
                fake.issued += 1
                code, said = (200, {"access": fake.access})
                if body != {"refresh": jwt("refresh")}:
                    code, said = 401, {"detail": "Token is invalid"}
            elif not code and self.headers.get("authorization") not in (
                f"Token {TOKEN}",
                f"Bearer {fake.access}",
            ):
                code, said = 401, {"detail": "Invalid token."}
            elif not code:
                code, said = fake.answer(self.command, path.path, query, body)
            content = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *arguments):
            pass

    return Handler
