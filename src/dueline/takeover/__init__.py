"""Taking over the store of an Apache RocketMQ broker."""

from dueline.takeover.moving import Moved, Options, take_over
from dueline.takeover.source import Source
from dueline.takeover.survey import Survey, survey

__all__ = ["Moved", "Options", "Source", "Survey", "survey", "take_over"]
