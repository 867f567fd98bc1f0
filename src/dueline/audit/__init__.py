"""Reading a whole store and saying what is damaged, missing or inconsistent (`dueline check`)."""

from dueline.audit.audit import Audit, Progress, audit
from dueline.audit.findings import Finding, Findings, Severity

__all__ = ["Audit", "Finding", "Findings", "Progress", "Severity", "audit"]
