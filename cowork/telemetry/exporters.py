"""Where spans and metrics go, by the standard OTEL_* variables: an OTLP collector over HTTP, or stderr."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from cowork import __version__
from cowork.core.errors import UserError
from cowork.telemetry.spans import SpanSink

FLUSH_S = 3.0  # a collector that does not answer holds up the end of a run no longer
_KNOWN = ("otlp", "console", "none")


class TelemetryExport:
    """Spans and metrics of one run, and their way out."""

    def __init__(self, environ: Mapping[str, str], *, content: bool = False) -> None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # else it writes into the chat
        traces, metrics = _chosen(environ, "TRACES"), _chosen(environ, "METRICS")
        named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        facts = {"service.version": __version__} | ({} if named else {"service.name": "cowork"})
        resource, readers = Resource.create(facts), []
        if metrics != "none":
            console = metrics == "console"
            exporter = ConsoleMetricExporter(out=sys.stderr) if console else OTLPMetricExporter()
            readers.append(PeriodicExportingMetricReader(exporter))
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._meters = MeterProvider(readers, resource, shutdown_on_exit=False)
        if traces != "none":
            to = ConsoleSpanExporter(out=sys.stderr) if traces == "console" else OTLPSpanExporter()
            self._tracers.add_span_processor(BatchSpanProcessor(to))
        self.sink = SpanSink(self._tracers, self._meters, environ, content=content)

    def close(self) -> None:
        """End what is open and send what waits, but wait no longer than `FLUSH_S` for whoever takes it."""
        self.sink.close()
        sending = threading.Thread(target=self._shutdown, daemon=True)
        sending.start()
        sending.join(FLUSH_S)

    def _shutdown(self) -> None:
        self._tracers.shutdown()
        self._meters.shutdown()


def disabled(environ: Mapping[str, str]) -> bool:
    """Whether the standard variable switches everything off."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _chosen(environ: Mapping[str, str], signal: str) -> str:
    name = f"OTEL_{signal}_EXPORTER"
    chosen = (environ.get(name) or "otlp").strip().lower()
    if chosen not in _KNOWN:
        raise UserError(f"{name}={chosen} is not known here.", f"Use one of {', '.join(_KNOWN)}.")
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if chosen == "otlp" and (protocol := environ.get(variable)):
            if protocol != "http/protobuf":
                raise UserError(f"{variable}={protocol} is not known here.", "Use http/protobuf.")
            break
    return chosen
