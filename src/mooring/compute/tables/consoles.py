"""Who may open the console of a server: whoever shows a token that was made for it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from mooring.compute.tables.base import Base
from mooring.store.base import UtcTime


class ConsoleToken(Base):
    """A token, of which only the digest is known here. It is good for the host it was made for."""

    __tablename__ = "console_tokens"
    __table_args__ = (Index("console_tokens_of_server", "server_id"),)

    digest: Mapped[str] = mapped_column(primary_key=True)
    """SHA-256, in hexadecimal."""
    server_id: Mapped[str]
    host: Mapped[str]
    """Where the server was: at another one the token is no good."""
    user_id: Mapped[str]
    project_id: Mapped[str]
    """Of whoever asked for it."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    expires_at: Mapped[datetime] = mapped_column(UtcTime, index=True)
