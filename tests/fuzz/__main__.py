"""Fuzz the decoders, guided by coverage: `python -m tests.fuzz [TARGET …] [--seconds 180]`.

Each target has a process of its own, in which atheris (libFuzzer) runs it: an input may take 5 s
and the process 1 GiB. A finding is kept as a file and printed with the way to repeat it; so is
memory that goes on growing. `--save` keeps the inputs that reached something new, the short ones
first, in `saved/`, which `test_replay.py` runs with all other tests.

atheris needs Linux on x86-64 and Python 3.11 to 3.13; `make fuzz` installs it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.corpus import saved, write
from tests.fuzz.targets import TARGETS

INPUT_SECONDS_MAX = 5
INPUT_SIZE_BYTES_MAX = 4_096
MEMORY_MIB_MAX = 1_024
MEMORY_GROWTH_MIB_MAX = 64
SAVED_SIZE_BYTES_MAX = 16 << 10
_STATUS = re.compile(r"^#(\d+)\s.*?cov: (\d+).*rss: (\d+)Mb", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one target."""

    code: int
    output: str
    statuses: list[tuple[int, int, int]]

    @property
    def growth_mib(self) -> int:
        """From the middle of the run on: what is loaded and collected first is no leak."""
        sizes = [size for _, _, size in self.statuses]
        return sizes[-1] - sizes[len(sizes) // 2] if sizes else 0


def main() -> int:
    """Fuzz; 1 if something was found, 2 if it cannot be done."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=180, help="for all of them (default: 180)")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), metavar="DIR")
    parser.add_argument("--save", action="store_true", help="keep what reached something new")
    args = parser.parse_args()
    try:
        import atheris  # noqa: F401
    except ImportError as error:
        sys.stderr.write(
            "fuzz: expected the package atheris, which needs Linux on x86-64 and Python 3.11 to "
            f"3.13, found: {error}\n"
        )
        return 2
    names = args.targets or list(TARGETS)
    found_count = 0
    for name in names:
        found_count += not _fuzz(name, max(args.seconds // len(names), 1), args)
    return 1 if found_count else 0


def _fuzz(name: str, seconds: int, args: argparse.Namespace) -> bool:
    """One target; prints a line. Whether it is well."""
    findings = args.findings / name
    findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dueline-fuzz-") as folder:
        corpus = Path(folder) / "all"
        corpus.mkdir()
        for number, data in enumerate([*TARGETS[name].seeds(), *saved(name)]):
            (corpus / f"{number}").write_bytes(data[:INPUT_SIZE_BYTES_MAX])
        outcome = _run(
            name,
            f"-max_total_time={seconds}",
            f"-max_len={INPUT_SIZE_BYTES_MAX}",
            f"-artifact_prefix={findings}/",
            str(corpus),
        )
        is_well = outcome.code == 0 and outcome.growth_mib <= MEMORY_GROWTH_MIB_MAX
        _tell(name, outcome, is_well=is_well)
        if is_well and args.save:
            # libFuzzer names by its hash what has reached something new, and keeps the shortest.
            new = [path.read_bytes() for path in corpus.iterdir() if len(path.name) == 40]
            write(name, {*new, *saved(name)}, SAVED_SIZE_BYTES_MAX)
    if is_well:
        findings.rmdir()
    return is_well


def _run(name: str, *words: str) -> Outcome:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.child", name),
            f"-timeout={INPUT_SECONDS_MAX}",
            f"-rss_limit_mb={MEMORY_MIB_MAX}",
            *words,
        ],
        capture_output=True,
        check=False,
    )
    output = (ran.stdout + ran.stderr).decode("utf-8", "backslashreplace")
    statuses = [tuple(map(int, found)) for found in _STATUS.findall(output)]
    return Outcome(code=ran.returncode, output=output, statuses=statuses)  # type: ignore[arg-type]


def _tell(name: str, outcome: Outcome, *, is_well: bool) -> None:
    count, coverage, size_mib = outcome.statuses[-1] if outcome.statuses else (0, 0, 0)
    sys.stdout.write(
        f"{name:<14} {count:>9,} inputs, {coverage:>5,} branches, {size_mib} MiB "
        f"({outcome.growth_mib:+} since half-time): {'well' if is_well else 'FOUND'}\n"
    )
    if not is_well:
        sys.stdout.write(outcome.output[-6_000:] + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
