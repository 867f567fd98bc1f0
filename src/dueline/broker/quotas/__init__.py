"""Quotas: how much a user, an address or a topic may ask for, so that one does not starve others.

rules      what operators write, and which rule is whose
buckets    so much a second, with a burst; one for each of many
quotas     the one place that verbs and doors ask; who was limited, and how often
"""

from dueline.broker.quotas.quotas import Quotas
from dueline.broker.quotas.rules import Allowance, Rules, parse_rules

__all__ = ["Allowance", "Quotas", "Rules", "parse_rules"]
