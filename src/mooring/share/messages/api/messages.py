"""User messages: /messages, from 2.37 on."""

from __future__ import annotations

from typing import Any

from mooring.share.messages import message_list, messages
from mooring.share.service import Share
from mooring.share.wire import views
from mooring.share.wire.api import queries
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Share]()

_ALL = "/messages"
_SINCE, _TIMES_SINCE = (2, 37), (2, 52)
_EQUAL = (
    *("resource_id", "resource_type", "action_id"),
    *("detail_id", "request_id", "message_level"),
)


@api.get(_ALL, policy="message:get_all", since=_SINCE)
async def list_messages(call: Call[Share]) -> Reply:
    """List why operations of the project failed."""
    query = _read_query(call)
    rows = await call.service.store.read(lambda tx: message_list.find(tx, query))
    answer: dict[str, Any] = {"messages": [views.message(call, row) for row in rows]}
    ids = [row.id for row in rows]
    return Reply(200, answer | paging.links(call, _ALL, query.page, ids, name="messages_links"))


@api.get("/messages/{message_id}", policy="message:get", since=_SINCE)
async def show_message(call: Call[Share]) -> Reply:
    """Show one message."""
    message_id, read = call.path["message_id"], call.service.store.read
    row = await read(lambda tx: messages.visible(tx, call.who, message_id))
    return Reply(200, {"message": views.message(call, row)})


@api.delete("/messages/{message_id}", policy="message:delete", since=_SINCE)
async def delete_message(call: Call[Share]) -> Reply:
    """Delete one message."""
    message_id, write = call.path["message_id"], call.service.store.write
    await write(lambda tx: messages.forget(tx, call.who, message_id))
    return Reply(204)


def _read_query(call: Call[Share]) -> message_list.MessageQuery:
    has_times = call.version >= _TIMES_SINCE
    return message_list.MessageQuery(
        project_id=call.who.project_id,
        page=queries.page(call, message_list.COLUMNS),
        equal={name: call.query[name] for name in _EQUAL if name in call.query},
        since=queries.moment(call, "created_since") if has_times else None,
        before=queries.moment(call, "created_before") if has_times else None,
    )
