"""A local stand-in for the W&B server: it answers the requests that the tests cause and records them."""

import base64
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.commands import ROOT

API_KEY = "0123456789abcdef" * 2 + "76543210"
ENTITY = "someone"
WHEN = "2026-01-01T00:00:00Z"
LAST_PAGE = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}


class WandbServer(ThreadingHTTPServer):
    """A server with one user, `someone`, and their projects (name: number of runs)."""

    daemon_threads = True

    def __init__(self, projects: dict[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.projects = projects
        self.views: list[dict[str, Any]] = []  # each that was saved

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        match operation:
            case "Viewer" | "GetDefaultEntity":
                viewer = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}"}
                return {"viewer": viewer | {"teams": {"edges": []}}}
            case "GetProjects":
                node = {"__typename": "Project", "entityName": ENTITY, "user": None, "isBenchmark": False}
                edges = [{"node": node | {"id": n, "name": n, "createdAt": WHEN}} for n in self.projects]
                return {"models": {"pageInfo": LAST_PAGE, "edges": edges}}
            case "Runs":
                if given["entity"] != ENTITY or given["project"] not in self.projects:
                    return {"project": None}
                count = self.projects[given["project"]]
                runs = {"edges": [], "pageInfo": LAST_PAGE}
                return {"project": {"internalId": "17", "readOnly": False, "runCount": count, "runs": runs}}
            case "ProjectInternalId":
                return {"project": {"id": given["projectName"], "internalId": "17"}}
            case "UpsertView2" | "upsertView":
                self.views.append(given)
                view = {key: given[key] for key in ("type", "name", "displayName", "description", "spec")}
                project = {"id": "1", "name": given["projectName"], "entityName": given["entityName"]}
                view |= {"id": f"view{len(self.views)}", "project": project, "updatedAt": WHEN}
                return {"upsertView": {"view": view, "inserted": True}}
        raise AssertionError(f"a request that this server does not know: {operation}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WandbServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/graphql":
            return self.send(404 if "otel" in self.path else 200, {})  # telemetry, or the upload of a file
        if self.headers["Authorization"] != "Basic " + base64.b64encode(f"api:{API_KEY}".encode()).decode():
            return self.send(401, {"errors": [{"message": "user is not logged in"}]})
        request = json.loads(body)
        operation = re.search(r"(?:query|mutation)\s+(\w+)", request["query"])
        assert operation, request
        return self.send(200, {"data": self.server.answer(operation[1], request.get("variables") or {})})

    do_PUT = do_POST

    def send(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def wandb_server(**projects: int) -> Iterator[WandbServer]:
    server = WandbServer(projects)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def environment(folder: Path, server: WandbServer | None = None, api_key: str = API_KEY) -> dict[str, str]:
    """For a process of a user whose home lies in `folder`: without an account, or with one on this server."""
    (folder / "home").mkdir(exist_ok=True)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    plain |= {"PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    plain |= {"HOME": str(folder / "home"), "NETRC": str(folder / "netrc"), "OMP_NUM_THREADS": "1"}
    if server is None:
        return plain
    return {**plain, "WANDB_BASE_URL": server.url, "WANDB_API_KEY": api_key, "WANDB_HTTP_TIMEOUT": "5"}
