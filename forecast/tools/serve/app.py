"""The web application: routes, limits and metrics. Imports no torch: worker processes forecast."""

import asyncio
import time
from html import escape
from importlib import resources
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from forecast import __version__
from forecast.tools.serve.processes import Overloaded, WorkerPool, WorkersLost
from forecast.tools.serve.request import ForecastRequest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # upper bounds of the histogram of latencies

CLIENT_CLOSED = 499
"""Status, as in nginx, under which a request is counted whose client closed the connection before its body arrived."""


class Limits(NamedTuple):
    """Limits of a request: bytes of its body, its rows, and seconds until the server gives up."""

    max_body: int
    max_rows: int
    timeout: int


def create_app(pool: WorkerPool, limits: Limits) -> FastAPI:
    """Create the application of a pool of workers."""
    app = FastAPI(title="Forecast", version=__version__, docs_url=None, redoc_url=None)
    metrics = CollectorRegistry()  # of Prometheus
    answers = Counter("forecast_requests", "Requests for forecasts", ["model", "status"], registry=metrics)
    times = Histogram("forecast_request_seconds", "Time to an answer", ["model"], buckets=SECONDS, registry=metrics)
    Gauge("forecast_unanswered_requests", "Pending requests", registry=metrics).set_function(lambda: pool.unanswered)
    add_information_routes(app, pool, metrics, limits)

    @app.post(
        "/v1/models/{name}/forecast",
        summary="Forecast the steps after the newest rows",
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {
            "schema": ForecastRequest.model_json_schema(),
            "example": {"rows": [{"date": "2026-01-01T00:00", "load": 17.5}], "horizon": 24, "levels": [80]},
        }}}},
    )  # fmt: skip
    async def forecast(name: str, request: Request) -> Response:
        began, label = time.perf_counter(), name if name in pool.models else ""
        status = 500
        try:
            check_name(pool, name)
            body = await read_body(request, limits)
            answer = await call(pool, limits, name, "forecast", body, limits.max_rows)
            status = answer.status_code
            return answer
        except HTTPException as error:
            status = error.status_code
            raise
        finally:
            answers.labels(label, status).inc()
            times.labels(label).observe(time.perf_counter() - began)

    @app.exception_handler(HTTPException)
    async def show_error(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    return app


def add_information_routes(app: FastAPI, pool: WorkerPool, metrics: CollectorRegistry, limits: Limits) -> None:
    """Add the routes that describe the server and its models."""
    page = resources.files("forecast.tools.serve").joinpath("page.html").read_text("utf-8")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def show_page() -> str:
        return page.replace("{version}", escape(__version__))

    @app.get("/health", summary="Whether the server answers requests")
    async def show_health() -> dict[str, Any]:
        return {"status": "ready", **list_names(pool), "unanswered": pool.unanswered}

    @app.get("/metrics", summary="Metrics for Prometheus")
    async def show_metrics() -> Response:
        return Response(generate_latest(metrics), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models", summary="The names of the models, and why the others are unavailable")
    async def list_models() -> dict[str, Any]:
        return list_names(pool)

    @app.get("/v1/models/{name}", summary="What a model reads and forecasts")
    async def describe_model(name: str) -> Response:
        check_name(pool, name)
        return await call(pool, limits, name, "describe")

    @app.get("/v1/models/{name}/example", summary="A request that the model can answer, with made-up rows")
    async def show_example(name: str) -> Response:
        check_name(pool, name)
        return await call(pool, limits, name, "example")


def list_names(pool: WorkerPool) -> dict[str, Any]:
    """The models that answer, and by name the reason why each of the others does not."""
    models = [name for name in pool.models if name not in pool.unavailable]
    return {"models": models, "unavailable": dict(pool.unavailable)}


def check_name(pool: WorkerPool, name: str) -> None:
    """Raise status 404 unless there is a model of this name."""
    if name not in pool.models:
        raise HTTPException(404, f"there is no model {name!r}; there are {', '.join(pool.models)}")


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read the body of a request. Raises status 413 if it is too large, and 408 or 499 if it does not arrive."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > limits.max_body:
                    raise HTTPException(413, f"the body is larger than {limits.max_body:,} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {limits.timeout} s") from None
    except ClientDisconnect:
        raise HTTPException(CLIENT_CLOSED, "the client closed the connection") from None
    return b"".join(parts)


async def call(pool: WorkerPool, limits: Limits, name: str, *task: Any) -> Response:
    """Answer with a task of a model in a worker: a method of `ServedModel`, and its arguments.

    Raises status 503 or 504 if none answers. The limit includes the wait.
    """
    try:
        async with asyncio.timeout(limits.timeout):
            status, body, unavailable = await pool.call(name, *task)
    except Overloaded:
        raise HTTPException(
            503, f"{pool.max_waiting} requests are unanswered: try again later", {"Retry-After": "1"}
        ) from None
    except WorkersLost:
        raise HTTPException(503, "a worker process ended: try again", {"Retry-After": "5"}) from None
    except TimeoutError:
        raise HTTPException(504, f"no answer within {limits.timeout} s") from None
    if unavailable or status == 200:
        pool.note(name, unavailable)
    return Response(body, status, media_type="application/json")
