"""What the delivery pipeline, bulk jobs and tables ask of a broker, whatever the protocol."""

from dueline.broker.pipeline.pipeline import Pipeline
from dueline.broker.pipeline.staging import Staging, known_schema
from dueline.broker.pipeline.status import PipelineReport, PipelineStatus
from dueline.store import Changed, Corner, Window
from dueline.store.schema import SCHEDULE_SCHEMA, STORED_SCHEMA, WAITING_SCHEMA, WINDOW_SCHEMA

__all__ = [
    "SCHEDULE_SCHEMA",
    "STORED_SCHEMA",
    "WAITING_SCHEMA",
    "WINDOW_SCHEMA",
    "Changed",
    "Corner",
    "Pipeline",
    "PipelineReport",
    "PipelineStatus",
    "Staging",
    "Window",
    "known_schema",
]
