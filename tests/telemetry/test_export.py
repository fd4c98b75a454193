"""Spans of the installed command, at a collector that speaks OTLP over HTTP."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cowork.core.errors import UserError
from cowork.telemetry import TelemetryExport, is_disabled

COWORK = Path(sys.executable).with_name("cowork")
SCRIPT = """
- say: I look.
  call: {Bash: {command: printenv TRACEPARENT OTEL_EXPORTER_OTLP_HEADERS}}
- say: done
"""


class Collector(ThreadingHTTPServer):
    """Takes what is sent to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.spans: list = []
        self.metrics: list = []
        self.resources: list = []
        self.keys: list = []


class _Taker(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.keys.append(self.headers.get("x-key"))
        if self.path == "/v1/traces":
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.server.resources.append({a.key: a.value.string_value for a in part.resource.attributes})
                self.server.spans += [span for scope in part.scope_spans for span in scope.spans]
        else:
            for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.server.metrics += [metric.name for scope in part.scope_metrics for metric in scope.metrics]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None: ...


@pytest.fixture
def collector():
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def run(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    words = [
        "run",
        "--script",
        "script.yaml",
        "--non-interactive",
        "--allow",
        "Bash(printenv:*)",
        "--output",
        "stream-json",
        "go",
    ]
    whole = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")} | env
    return subprocess.run(
        [COWORK, *words], capture_output=True, text=True, cwd=folder, env=whole, timeout=60, check=False
    )


def test_a_collector_gets_the_spans_and_a_command_its_parent(collector, tmp_path):
    address = f"http://127.0.0.1:{collector.server_port}"
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=hush-hush"}
    done = run(tmp_path, COWORK_TELEMETRY_OTEL="true", OTEL_RESOURCE_ATTRIBUTES="team=shop", **env)
    assert done.returncode == 0, done.stderr
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"invoke_agent main", "chat scripted", "execute_tool Bash"}
    assert spans["execute_tool Bash"].parent_span_id == spans["invoke_agent main"].span_id
    bash = spans["execute_tool Bash"]
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (printed,) = [event["record"]["text"] for event in events if event["type"] == "tool.ended"]
    assert f"00-{bash.trace_id.hex()}-{bash.span_id.hex()}-" in printed
    assert "hush-hush" not in done.stdout  # the key of the collector is for cowork alone
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= set(collector.metrics)
    (resource,) = {tuple(sorted(r.items())) for r in collector.resources}
    assert ("service.name", "cowork") in resource
    assert ("team", "shop") in resource
    assert set(collector.keys) == {"hush-hush"}


def test_without_the_setting_nothing_is_sent(collector, tmp_path):
    run(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.server_port}")
    assert (collector.spans, collector.metrics) == ([], [])
    assert [is_disabled({"OTEL_SDK_DISABLED": word}) for word in ("TRUE", "false", "")] == [True, False, False]


def test_a_collector_that_is_not_there_changes_neither_answer_nor_output(tmp_path):
    done = run(tmp_path, COWORK_TELEMETRY_OTEL="true", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (done.returncode, json.loads(done.stdout.splitlines()[-1])["result"]) == (0, "done")
    assert "opentelemetry" not in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER=zipkin is not known here."),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not known here."),
    ],
)
def test_what_it_cannot_do_is_told(environ, said):
    with pytest.raises(UserError, match=said):
        TelemetryExport(environ)
