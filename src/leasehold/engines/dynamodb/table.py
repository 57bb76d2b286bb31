"""One table: requests with plain items and expressions. No rules of jobs here."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any
from uuid import uuid4

from leasehold.engines.dynamodb.client import Answer, Client
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import Key
from leasehold.engines.dynamodb.wire import (
    MOST_IN_REQUEST,
    Item,
    body_size,
    expressions,
    item_from_wire,
    item_to_wire,
    to_wire,
    update_expression,
)

DUE, LISTING, PRUNE = "due", "listing", "prune"
"""The indexes: jobs by due time, jobs of a tenant by status, ended jobs by the end of their retention."""

MOST_IN_TRANSACTION = 100
_MOST_IN_BATCH_GET = 100
_MOST_IN_BATCH_WRITE = 25
_AT_ONCE = 32

NEW = "attribute_not_exists(#PK)"
EXISTS = "attribute_exists(#PK)"


@dataclass(frozen=True, slots=True)
class Put:
    item: Mapping[str, Any]
    condition: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """Sets attributes, and removes those whose value is None. `more` is added to the expression as it is."""

    key: Key
    sets: Mapping[str, Any]
    condition: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    more: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    condition: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    key: Key
    condition: str
    values: Mapping[str, Any] = field(default_factory=dict)


Write = Put | Update | Delete | Check


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a query. `next` is where the following page begins; None: this was the last one."""

    items: Sequence[Item]
    next: Mapping[str, Any] | None


class Table:
    """The items of one table. `shards` is what the table was created with."""

    def __init__(self, client: Client, shards: int) -> None:
        self.client = client
        self.name = client.address.table
        self.shards = shards

    # -------------------------------------------------------------------------------------------------------- read

    async def get(self, key: Key, *, only: Sequence[str] = ()) -> Item | None:
        """Returns an item as it is now; with `only`, these attributes and its key, which spares the network."""
        answer = await self.client.call(
            "GetItem", TableName=self.name, Key=_key(key), ConsistentRead=True, **_projection(only)
        )
        return item_from_wire(answer["Item"]) if answer.get("Item") else None

    async def get_many(self, keys: Iterable[Key], *, only: Sequence[str] = ()) -> dict[Key, Item]:
        """Returns the items that exist, each as it is now."""
        wanted = list(dict.fromkeys(keys))
        chunks = [wanted[n : n + _MOST_IN_BATCH_GET] for n in range(0, len(wanted), _MOST_IN_BATCH_GET)]
        found: dict[Key, Item] = {}
        for items in await asyncio.gather(*(self._get_chunk(chunk, only) for chunk in chunks)):
            found |= {(item["PK"], item["SK"]): item for item in items}
        return found

    async def _get_chunk(self, keys: Sequence[Key], only: Sequence[str]) -> list[Item]:
        if len(keys) == 1:
            found = await self.get(keys[0], only=only)
            return [found] if found else []
        wanted = {"Keys": [_key(key) for key in keys], "ConsistentRead": True, **_projection(only)}
        asked: Any = {self.name: wanted}
        items: list[Item] = []
        while asked:  # an answer holds 16 MB at most, and may leave keys out when the table is throttled
            answer = await self.client.call("BatchGetItem", RequestItems=asked)
            items += [item_from_wire(item) for item in answer.get("Responses", {}).get(self.name, ())]
            asked = answer.get("UnprocessedKeys") or None
        return items

    async def page(
        self,
        condition: str,
        values: Mapping[str, Any],
        *,
        index: str | None = None,
        limit: int | None = None,
        after: Mapping[str, Any] | None = None,
        backward: bool = False,
        only: str | None = None,
    ) -> Page:
        """Returns one page of a query. A page may be empty although others follow, if `only` filters."""
        parameters: dict[str, Any] = expressions(values, KeyConditionExpression=condition, FilterExpression=only)
        if index is None:
            parameters["ConsistentRead"] = True
        else:
            parameters["IndexName"] = index
        if limit is not None:
            parameters["Limit"] = limit
        if after is not None:
            parameters["ExclusiveStartKey"] = after
        if backward:
            parameters["ScanIndexForward"] = False
        answer = await self.client.call("Query", TableName=self.name, **parameters)
        return _page(answer)

    async def query(self, condition: str, values: Mapping[str, Any], **options: Any) -> AsyncIterator[Item]:
        """Yields all items of a query, page by page."""
        after = None
        while True:
            page = await self.page(condition, values, after=after, **options)
            for item in page.items:
                yield item
            after = page.next
            if after is None:
                return

    async def count(self, condition: str, values: Mapping[str, Any], *, index: str, cap: int) -> int:
        """Counts entries of an index, up to `cap` and no further."""
        counted, after = 0, None
        while counted < cap:
            parameters = expressions(values, KeyConditionExpression=condition)
            if after is not None:
                parameters["ExclusiveStartKey"] = after
            answer = await self.client.call(
                "Query", TableName=self.name, IndexName=index, Select="COUNT", Limit=cap - counted, **parameters
            )
            counted += answer["Count"]
            after = answer.get("LastEvaluatedKey")
            if after is None:
                break
        return counted

    async def scan(self, limit: int, after: Mapping[str, Any] | None, only: str, values: Mapping[str, Any]) -> Page:
        """Returns the next items of the whole table, of `limit` that are looked at."""
        parameters = expressions(values, FilterExpression=only)
        if after is not None:
            parameters["ExclusiveStartKey"] = after
        return _page(await self.client.call("Scan", TableName=self.name, Limit=limit, **parameters))

    # ------------------------------------------------------------------------------------------------------- write

    async def put(
        self, item: Mapping[str, Any], condition: str | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        """Writes an item. Raises ConditionFailed with the item that is there."""
        written = {**item, "written": uuid4().hex}
        try:
            await self.client.call(
                "PutItem",
                TableName=self.name,
                Item=item_to_wire(written),
                **expressions(values or {}, ConditionExpression=condition),
                **_return_old(condition),
            )
        except ConditionFailed as failed:
            _require_anothers(failed, written["written"], item.get("made"))

    async def update(self, change: Update, *, returns: str = "ALL_NEW", marks: bool = True) -> Item:
        """Changes an item, and returns it as it is then, or was before. Raises ConditionFailed with the item.

        Without `marks`, the item keeps the token of an earlier write: only for a change that may be repeated.
        """
        token = uuid4().hex
        text, values = update_expression({**change.sets, "written": token} if marks else change.sets)
        try:
            answer = await self.client.call(
                "UpdateItem",
                TableName=self.name,
                Key=_key(change.key),
                ReturnValues=returns,
                **expressions(
                    {**change.values, **values},
                    UpdateExpression=f"{text} {change.more}".strip(),
                    ConditionExpression=change.condition,
                ),
                **_return_old(change.condition),
            )
        except ConditionFailed as failed:
            return _require_anothers(failed, token)
        return item_from_wire(answer.get("Attributes", {}))

    async def delete(self, change: Delete) -> Item | None:
        """Deletes an item, and returns it as it was. Raises ConditionFailed."""
        try:
            answer = await self.client.call(
                "DeleteItem",
                TableName=self.name,
                Key=_key(change.key),
                ReturnValues="ALL_OLD",
                **expressions(change.values, ConditionExpression=change.condition),
                **_return_old(change.condition),
            )
        except ConditionFailed as failed:
            if failed.in_doubt and failed.item is None:
                return None  # deleted by the try whose reply was lost
            raise
        found = answer.get("Attributes")
        return item_from_wire(found) if found else None

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Deletes items, in any order. Repeating it changes nothing."""
        chunks = [keys[n : n + _MOST_IN_BATCH_WRITE] for n in range(0, len(keys), _MOST_IN_BATCH_WRITE)]
        await gather(self._write_chunk([{"DeleteRequest": {"Key": _key(key)}} for key in chunk]) for chunk in chunks)

    async def put_many(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Writes items without conditions, in any order. Only for items that no other code ever changes."""
        await gather(
            self._write_chunk([{"PutRequest": {"Item": item_to_wire(item)}} for item in chunk])
            for chunk in _batches(items)
        )

    async def _write_chunk(self, requests: Sequence[Mapping[str, Any]]) -> None:
        asked: Any = {self.name: requests}
        while asked:
            answer = await self.client.call("BatchWriteItem", RequestItems=asked)
            asked = answer.get("UnprocessedItems") or None

    async def transact(self, writes: Sequence[Write]) -> None:
        """Writes all or none. Raises ConditionFailed with the items of the writes that were refused.

        The service knows the request again by its token, so a repetition after a lost reply succeeds.
        """
        assert len(writes) <= MOST_IN_TRANSACTION
        if len(writes) == 1 and not isinstance(writes[0], Check):
            await self._write_one(writes[0])
            return
        await self.client.call(
            "TransactWriteItems",
            TransactItems=[self._in_transaction(write) for write in writes],
            ClientRequestToken=str(uuid4()),
        )

    async def _write_one(self, write: Put | Update | Delete) -> None:
        match write:
            case Put(item, condition, values):
                await self.put(item, condition, values)
            case Update():
                await self.update(write, returns="NONE")
            case Delete():
                await self.delete(write)

    def _in_transaction(self, write: Write) -> dict[str, Any]:
        kept: dict[str, Any] = {"TableName": self.name, **_return_old(write.condition)}
        match write:
            case Put(item, condition, values):
                return {
                    "Put": {
                        "Item": item_to_wire(item),
                        **expressions(values, ConditionExpression=condition),
                        **kept,
                    }
                }
            case Update(key, sets, condition, more_values, more):
                text, set_values = update_expression(sets)
                texts = expressions(
                    {**more_values, **set_values},
                    UpdateExpression=f"{text} {more}".strip(),
                    ConditionExpression=condition,
                )
                return {"Update": {"Key": _key(key), **texts, **kept}}
            case Delete(key, condition, values):
                return {"Delete": {"Key": _key(key), **expressions(values, ConditionExpression=condition), **kept}}
            case Check(key, condition, values):
                texts = expressions(values, ConditionExpression=condition)
                return {"ConditionCheck": {"Key": _key(key), **texts, **kept}}


def _projection(only: Sequence[str]) -> dict[str, Any]:
    return expressions(
        {}, ProjectionExpression=", ".join(f"#{name}" for name in ("PK", "SK", *only)) if only else None
    )


def _batches(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yields as many items as a request takes."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for item in items:
        length = body_size(item)
        if batch and (len(batch) == _MOST_IN_BATCH_WRITE or size + length > MOST_IN_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def _key(key: Key) -> dict[str, Any]:
    return {"PK": to_wire(key[0]), "SK": to_wire(key[1])}


def _page(answer: Answer) -> Page:
    return Page([item_from_wire(item) for item in answer.get("Items", ())], answer.get("LastEvaluatedKey") or None)


def _return_old(condition: str | None) -> dict[str, str]:
    return {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if condition else {}


def _require_anothers(failed: ConditionFailed, token: str, made: str | None = None) -> Item:
    """Returns the item if it was this very write that changed or made it, before its reply was lost; else raises."""
    found = failed.item if failed.in_doubt else None
    if found and (found.get("written") == token or (made is not None and found.get("made") == made)):
        return found
    raise failed


async def gather(calls: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Awaits all calls, a bounded number at once, and returns their answers in order."""
    limit, given = asyncio.Semaphore(_AT_ONCE), list(calls)

    async def one(call: Coroutine[Any, Any, Any]) -> Any:
        async with limit:
            return await call

    try:
        return await asyncio.gather(*(one(call) for call in given))
    except asyncio.CancelledError:
        for call in given:
            if getcoroutinestate(call) == CORO_CREATED:  # Python warns of each that is never begun
                call.close()
        raise
