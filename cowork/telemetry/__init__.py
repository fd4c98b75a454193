"""OpenTelemetry: the same events as spans and metrics. Loaded only where the settings ask for it."""
