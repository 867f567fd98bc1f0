"""Stack traces as Spark gives them, and the one line that a person is told."""

import pytest
from pyspark.errors import PySparkException

from dueline.errors import InvalidRequest
from dueline.spark.failure import one_line

IN_A_TASK = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Lost
task 0.0 (TID 3): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/v/lib/python3.12/site-packages/pyspark/worker.py", line 2044, in main
    process()
    ~~~~~~~^^
  File "/home/ann/shop/mytx.py", line 12, in half
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:1583)
SQLSTATE: XXKST
"""
IN_SQL = """\
[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0. SQLSTATE: 22012
== DataFrame ==
"divide" was called from
/home/ann/shop/mytx.py:7
"""
OF_THE_BROKER = """\
[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
  File "/home/ann/.venv/lib/python3.12/site-packages/dueline/flight/client.py", line 90, in call
    raise from_flight(error, self.address) from error
dueline.errors.Unavailable: broker 127.0.0.1:8815: nobody answers
\tat java.base/java.lang.Thread.run(Thread.java:1583)
"""


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            IN_A_TASK,
            "ZeroDivisionError: division by zero, at mytx.py:12 in half (return 1 / 0)",
        ),
        (
            IN_SQL,
            "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0. "
            "SQLSTATE: 22012, at mytx.py:7",
        ),
        (OF_THE_BROKER, "dueline.errors.Unavailable: broker 127.0.0.1:8815: nobody answers"),
        ("[OTHER] something\nelse", "[OTHER] something"),
    ],
)
def test_a_trace_of_spark_becomes_one_line(trace: str, said: str) -> None:
    assert one_line(PySparkException(trace)) == said


def test_what_is_refused_in_words_stays_as_it_is() -> None:
    assert one_line(InvalidRequest("transform: expected a function")) == (
        "transform: expected a function"
    )


def test_an_error_in_the_driver_names_the_line_that_raised_it() -> None:
    def broken() -> None:
        raise KeyError("paid")

    try:
        broken()
    except KeyError as error:
        said = one_line(error)

    assert said.startswith("KeyError: 'paid', at test_failure.py:")
    assert said.endswith("""in broken (raise KeyError("paid"))""")
