"""Log configuration of Apache's 4.x programs, which do not start without one."""

from __future__ import annotations

from pathlib import Path

_CONFIGURATION = """<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%d %-5level %logger{{0}} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


def write_logback(home: Path, name: str) -> None:
    """Let the program `name` (broker, namesrv, tools) log into a file in its home."""
    folder = home / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"logback_{name}.xml").write_text(_CONFIGURATION.format(file=home / f"{name}.log"))
