"""`python -m tests.warming`: make once what every server that tests start would make for itself.

Two things are kept on a machine from one start to the next: compiled kernels, and an archive of
the classes that Spark's Java loads. Where they are missing, each of some hundred servers would be
slow to start, and busy with making them.
"""

import os
import sys

from dueline import compiled
from dueline.server.process import KERNELS
from dueline.spark.archiving import Archiving
from dueline.spark.java import prepare_java


def main() -> int:
    os.environ["JAVA_HOME"] = str(prepare_java(os.environ).home)
    archiving = Archiving()
    archiving.start()
    if not compiled.load(KERNELS):
        sys.stderr.write("no compiled kernels, and the log says why: tests of them are skipped\n")
    if not archiving.wait():
        sys.stderr.write("expected an archive of Java's classes, found none\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
