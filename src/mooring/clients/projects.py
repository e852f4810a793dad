"""Whether identity knows a project that an administrator names.

Source: facts/compute.md 10.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import structlog

from mooring import limits
from mooring.errors import Invalid, MooringError, NotFound

if TYPE_CHECKING:
    from mooring.clients.session import Session
    from mooring.who import Who

log = structlog.get_logger()


class Projects:
    """Asks identity about projects, in the name of whoever named them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def require(self, project_id: str, who: Who) -> None:
        """Raise Invalid for a project that identity does not know.

        One of which identity says nothing, as it does not answer or not to this caller, may be
        there: it is let pass, as by Nova.
        """
        if project_id == who.project_id:
            return
        path = f"/projects/{quote(project_id, safe='')}"
        try:
            await self._session.request("GET", path, caller=who, timeout_s=limits.IDENTITY_CALL_S)
        except NotFound as error:
            raise Invalid(
                f"Project ID {project_id} is not a valid project. Nothing was changed; "
                "`openstack project list` has the ids that are known."
            ) from error
        except MooringError as error:
            log.info("a project could not be looked up", project_id=project_id, reason=str(error))
