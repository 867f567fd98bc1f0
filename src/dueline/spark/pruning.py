"""Which columns of a message a transform needs, and which of them it changes.

Spark prunes the columns of a Parquet file by itself, but has no way of telling a data source that
is written in Python. So the transform is asked: called with all columns, it gives a plan, and the
plan names what is read. Called again with a source that has only those, and nulls in place of the
others, it gives the query that runs. What comes out as it went in does not go to the sink: the
broker has it.

    read       named by a filter, a join, a function: travels to the transform
    changed    in the result, but not the very column of the argument: travels to the sink
    neither    never leaves the broker

That is said of plans that are understood: one stream of messages, whose rows are filtered, joined
with tables, repeated or moved around. Anything else (a union, an aggregation, a function over whole
batches) uses all columns, and changes all of them. So does a transform that gives another plan
when it is called again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from dueline.spark import transform as transforms
from dueline.spark.schema import MESSAGE_COLUMNS, ROUTE_COLUMNS
from dueline.spark.transform import Transform

__all__ = ["Usage", "pruned", "usage_of"]

_ROW_BY_ROW: Final = frozenset(
    {
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "EventTimeWatermark",
        "Filter",
        "Generate",
        "Join",
        "Project",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SubqueryAlias",
    }
)
"""Nodes of a plan whose output row has the columns of one row that came in."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Columns of a message that a transform reads, and those that it changes."""

    read: frozenset[str]
    changed: frozenset[str]


ALL: Final = Usage(
    read=frozenset(MESSAGE_COLUMNS.names),
    changed=frozenset(MESSAGE_COLUMNS.names).difference(ROUTE_COLUMNS),
)


def pruned(transform: Transform, due: Callable[[Sequence[str]], DataFrame]) -> DataFrame:
    """What a transform makes of the due messages, without columns that nobody uses.

    Args:
        due: the due messages with (at least) these columns.
    """
    whole = due(MESSAGE_COLUMNS.names)
    result = transforms.apply(transform, whole)
    usage = usage_of(whole, result)
    if usage.read < ALL.read:
        few = _padded(due([name for name in MESSAGE_COLUMNS.names if name in usage.read]), whole)
        again = transforms.apply(transform, few)
        if usage_of(few, again) == usage:
            result = again
        else:
            log.warning("transform: it gives another plan at every call; it gets all columns")
            usage = ALL
    log.info("transform: reads %s, changes %s", sorted(usage.read), sorted(usage.changed))
    wanted = usage.changed.union(ROUTE_COLUMNS)
    return result.select(*(name for name in result.columns if name in wanted))


def _padded(few: DataFrame, whole: DataFrame) -> DataFrame:
    """The columns of `whole` in its order: those that `few` has, and null for the others."""
    return few.select(
        *(
            few[field.name]
            if field.name in few.columns
            else f.lit(None).cast(field.dataType).alias(field.name)
            for field in whole.schema
        )
    )


def usage_of(argument: DataFrame, result: DataFrame) -> Usage:
    """What a transform used of its argument, by the plan of its result."""
    plan = _plan(result)
    streams = [leaf for leaf in _each(plan.collectLeaves()) if leaf.isStreaming()]
    if len(streams) != 1:
        return ALL
    names = {_id(column): column.name() for column in _each(_plan(argument).output())}
    used: set[str] = set()
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        if not node.isStreaming() or not node.children().size():
            continue
        if node.nodeName() not in _ROW_BY_ROW or any(
            subquery.isStreaming() for subquery in _each(node.subqueries())
        ):
            return ALL
        used.update(names[number] for number in _references(node) if number in names)
        nodes += _each(node.children())
    kept = set()
    for column in _each(plan.output()):
        source = names.get(_id(column))
        if source == column.name():
            kept.add(source)
        elif source is not None:
            used.add(source)
    if not kept.issuperset({"origin", "due_ms", "shard"}):
        return ALL
    changed = set(result.columns).intersection(MESSAGE_COLUMNS.names) - kept
    return Usage(
        read=frozenset(used.union(ROUTE_COLUMNS)),
        changed=frozenset(changed.difference(ROUTE_COLUMNS)),
    )


def _references(node: Any) -> Iterator[int]:
    """The columns that a node looks at: more than a list of what passes through."""
    if node.nodeName() != "Project":
        yield from map(_id, _each(node.references().toSeq()))
        return
    for expression in _each(node.projectList()):
        if expression.getClass().getSimpleName() != "AttributeReference":
            yield from map(_id, _each(expression.references().toSeq()))


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _id(attribute: Any) -> int:
    number: int = attribute.exprId().id()
    return number


def _each(sequence: Any) -> Iterator[Any]:
    """The items of one of Scala's sequences."""
    for index in range(sequence.size()):
        yield sequence.apply(index)
