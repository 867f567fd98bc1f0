"""Kernels: functions over arrays that Numba compiles to machine code, where it is installed.

A module of kernels (its name ends in `kernels`) is ordinary Python over numpy arrays, each function
with its types::

    @kernel(f"int64({BYTES}, int64)")
    def zeros(data, start): ...

To import such a module is to compile it, which takes seconds, or to load it from a cache of the
user's, which takes some tenths. So nobody imports one at the top of a module. A process says once,
at its start, what it wants (`load_soon`), which happens in the background; who has work asks with
`ready` each time, and does it the interpreted way while that is None. Modules become ready in
the order in which they were named::

    kernels = compiled.ready("dueline.store.turn_kernels")
    if kernels is None:
        ...

Every kernel therefore has a twin in plain Python that gives the same result. Kernels release the
interpreter's lock, get contiguous arrays and check every index themselves: compiled code that reads
outside of an array is not told so. `NUMBA_BOUNDSCHECK=1` makes them checked, `NUMBA_DISABLE_JIT=1`
leaves them plain Python; tests run them in both ways.

The cache is `$XDG_CACHE_HOME/dueline/kernels/<digest>`, or below `~/.cache`; the digest is that of
all kernels' source and of what that imports, of Numba and of the processor. Several processes may
start at once: the first one has all of it compiled and the others wait for it, in the background. A
process of its own compiles, because the compiler keeps 150 MB for as long as its process lives.
What cannot be loaded is made anew, and without a place to write to, each process compiles for
itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from dueline.cache import cache_folder

__all__ = ["BYTES", "kernel", "load", "load_soon", "make", "ready", "switched_off"]

F = TypeVar("F", bound=Callable[..., Any])

BYTES: Final = "Array(uint8, 1, 'C', True)"
"""The type of bytes that a kernel reads and does not write."""

LOCK_S_MAX: Final = 120.0
"""How long a process waits for another one that compiles the same."""
KEPT_S_MAX: Final = 30 * 86_400.0
"""How long compiled functions are kept that nobody uses."""
_MAKE: Final = """
import pathlib, sys
from dueline import compiled
compiled.make(pathlib.Path(sys.argv[1]), sys.argv[2:])
"""
_PACKAGE: Final = Path(__file__).parent
_IMPORTED: Final = re.compile(rb"^from dueline\.([\w.]+) import", re.MULTILINE)

log = logging.getLogger(__name__)

_modules: dict[str, Any] = {}
_loading: Final = threading.Lock()
_is_cached = False


def kernel(
    signature: str, *, makes_arrays: bool = False, is_inlined: bool = False
) -> Callable[[F], F]:
    """Decorator: compile a function for arguments of these types, and these only.

    Args:
        signature: in Numba's words; `BYTES` for bytes that are only read.
        makes_arrays: it makes arrays, and leaves the work to other kernels: its references are
            counted, at every slice and call. Without this a kernel cannot make any.
        is_inlined: it becomes part of the kernels that call it, however long it is. Short ones do
            so anyway.
    """
    import numba  # only where kernels are wanted: it takes a second and 100 MB

    compiler: Any = numba.njit
    decorate: Callable[[F], F] = compiler(
        signature,
        nogil=True,
        cache=_is_cached,
        error_model="numpy",
        forceinline=is_inlined,
        _nrt=makes_arrays,
    )
    return decorate


def ready(name: str) -> Any | None:
    """A module of kernels by its full name; None: it is not compiled, or not yet."""
    return _modules.get(name)


def load_soon(names: Sequence[str], then: Callable[[], None]) -> threading.Thread:
    """Compile or load modules of kernels in the background; when they are ready, call `then`."""

    def run() -> None:
        load(names)
        then()

    thread = threading.Thread(target=run, name="kernels", daemon=True)
    thread.start()
    return thread


def load(names: Sequence[str]) -> bool:
    """The same, and wait for it. False: there will be none, and the log says why."""
    with _loading:
        missing = [name for name in names if name not in _modules]
        if not missing:
            return True
        started_s = time.monotonic()
        try:
            _import_cached(missing)
        except ImportError as error:
            log.warning(
                "Numba cannot be used (%s): everything works, but slower; "
                "install numba for this Python to change that",
                error,
            )
            return False
        except Exception:
            # The boundary of compiled code: whatever is wrong with it, there is the other way.
            log.exception("kernels could not be compiled: everything works, but slower")
            return False
        log.info("compiled functions are ready after %.1f s", time.monotonic() - started_s)
        return True


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Let `ready` say None meanwhile: for tests of the interpreted way."""
    global _modules
    kept, _modules = _modules, {}
    try:
        yield
    finally:
        _modules = kept


def _import_cached(names: Sequence[str]) -> None:
    """Import modules with a cache, or without one if there is no place for it."""
    try:
        folder = cache_folder(os.environ) / "kernels" / _digest()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.info("compiled functions are not kept for the next start: %s", error)
        _import_all(names)
        return
    with _locked(folder / "lock"):
        _use_cache(folder)
        missing = [name for name in names if not _mark(folder, name).exists()]
        if missing:
            _make_elsewhere(folder, missing)
        try:
            _import_all(names)
        except ImportError:
            raise
        except Exception:  # noqa: BLE001 - whatever a broken cache leads to
            # A file that a crash left half written, or that another version wrote.
            log.warning("compiled functions in %s cannot be loaded and are made anew", folder)
            for each in folder.iterdir():
                if each.is_dir():
                    shutil.rmtree(each, ignore_errors=True)
            _import_all(names)
        with contextlib.suppress(OSError):  # a full disk: the next process looks again
            for name in names:
                _mark(folder, name).touch()
    _sweep(folder)


def _mark(folder: Path, name: str) -> Path:
    """A file that is there once all of a module is in the cache: who compiled may have been stopped
    in the middle."""
    return folder / f"{name}.made"


def _import_all(names: Sequence[str]) -> None:
    """In this order, and each is ready as soon as it is there."""
    for name in names:
        _modules[name] = importlib.import_module(name)


def _make_elsewhere(folder: Path, names: Sequence[str]) -> None:
    """Have another process compile into the cache; if it cannot, this one does."""
    command = [sys.executable, "-c", _MAKE, str(folder), *names]
    quiet = subprocess.DEVNULL
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
        ) as process:
            try:
                process.wait(LOCK_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
    except OSError as error:
        log.info("functions are compiled in this process: %s", error)


def make(folder: Path, names: Sequence[str]) -> None:
    """Compile modules into a cache; ends with the process that asked for it (`_make_elsewhere`)."""

    def follow() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    _use_cache(folder)
    _import_all(names)


def _use_cache(folder: Path) -> None:
    global _is_cached
    import numba

    config: Any = numba.config
    config.CACHE_DIR = str(folder)
    _is_cached = True


def _digest() -> str:
    """What compiled code depends on: another one of these is another folder."""
    import llvmlite
    import llvmlite.binding
    import numba

    found = hashlib.sha256()
    for source in _sources():
        found.update(source)
    config: Any = numba.config
    parts = (_PACKAGE, sys.version, numba.__version__, llvmlite.__version__)
    machine = (llvmlite.binding.get_host_cpu_name(), config.BOUNDSCHECK, config.DISABLE_JIT)
    found.update(repr((*parts, *machine)).encode())
    return found.hexdigest()[:16]


def _sources() -> list[bytes]:
    """The source of all kernels, and of the modules whose numbers are compiled into them."""
    paths = dict.fromkeys(sorted(_PACKAGE.rglob("*kernels.py")))
    sources = []
    waiting = list(paths)
    while waiting:
        source = waiting.pop().read_bytes()
        sources.append(source)
        for name in sorted(set(_IMPORTED.findall(source))):
            path = _PACKAGE.joinpath(*name.decode().split(".")).with_suffix(".py")
            if path not in paths and path.is_file():
                paths[path] = None
                waiting.append(path)
    return sources


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Be the only one that compiles; after a while, nobody is waited for."""
    deadline_s = time.monotonic() + LOCK_S_MAX
    with path.open("ab") as file:
        while time.monotonic() < deadline_s:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        yield


def _sweep(used: Path) -> None:
    """Remove what older versions have left."""
    with contextlib.suppress(OSError):
        used.touch()
        now_s = used.stat().st_mtime
        for folder in used.parent.iterdir():
            if folder.is_dir() and now_s - folder.stat().st_mtime > KEPT_S_MAX:
                shutil.rmtree(folder, ignore_errors=True)
