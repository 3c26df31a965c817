"""OpenTelemetry: spans, links and metrics, with the SDK's own in-memory ends."""
