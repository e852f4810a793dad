"""User messages: /messages, from 2.37 on."""

from __future__ import annotations

from mooring.share.messages import messages
from mooring.share.service import Share
from mooring.share.wire import views
from mooring.web.api import Api, Call, Reply

api = Api[Share]()

_SINCE = (2, 37)
_FILTERS = ("resource_id", "resource_type", "action_id", "detail_id", "request_id")


@api.get("/messages", policy="message:get_all", since=_SINCE)
async def list_messages(call: Call[Share]) -> Reply:
    """List why operations of the project failed."""
    rows = await call.service.store.read(lambda tx: messages.find(tx, call.who))
    wanted = {name: call.query[name] for name in _FILTERS if name in call.query}
    found = [
        row for row in rows if all(getattr(row, name) == text for name, text in wanted.items())
    ]
    level = call.query.get("message_level")
    shown = [views.message(call, row) for row in found if level in (None, row.level)]
    return Reply(200, {"messages": shown})


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
