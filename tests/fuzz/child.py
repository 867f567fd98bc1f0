"""One target under atheris: `python -m tests.fuzz.child TARGET [libFuzzer's flags] [CORPUS]`.

To repeat a finding, name its file instead of a corpus.
"""

from __future__ import annotations

import sys

import atheris


def main() -> None:
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["dueline"]):
        from tests.fuzz.targets import TARGETS
    atheris.Setup(sys.argv, TARGETS[name].run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
