"""What the delivery pipeline asks of a broker, whatever the protocol."""

from dueline.broker.pipeline.status import PipelineReport, PipelineStatus

__all__ = ["PipelineReport", "PipelineStatus"]
