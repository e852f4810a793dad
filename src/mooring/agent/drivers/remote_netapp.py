"""The agent's side of an ONTAP cluster behind a share."""

from __future__ import annotations

from pathlib import Path

from mooring import limits
from mooring.agent.arrays.requests import NETAPP_MODULE, NetappAccess, NetappClone
from mooring.agent.drivers.remote_options import NetappNfsOptions
from mooring.agent.drivers.remote_space import ToldSpace
from mooring.agent.limits import AGENT_ARRAY_S
from mooring.agent.mounts import Space
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent.worker import Worker
from mooring.errors import Invalid


def check_netapp(pool: PoolSettings, options: NetappNfsOptions) -> None:
    """Raise Invalid for what Mooring cannot do."""
    if options.netapp_use_legacy_client:
        raise Invalid(
            f"Pool {pool.name} has netapp_use_legacy_client, and Mooring speaks ONTAP's REST API "
            "only. Set it to false."
        )
    if not 60 <= options.netapp_async_rest_timeout <= limits.AGENT_LONG_CALL_S:
        raise Invalid(
            f"Pool {pool.name} has a netapp_async_rest_timeout that is not between 60 and "
            f"{limits.AGENT_LONG_CALL_S:g} s."
        )


class NetappArray:
    """Implements `Array` by ONTAP's REST API."""

    clones = True

    def __init__(self, options: NetappNfsOptions, export: str, runner: Runner) -> None:
        usual = 443 if options.netapp_transport_type == "https" else 80
        self._access = NetappAccess(
            host=options.netapp_server_hostname,
            port=options.netapp_server_port or usual,
            scheme=options.netapp_transport_type,
            login=options.netapp_login,
            password=options.netapp_password,
            certificates=options.netapp_ssl_cert_path,
            vserver=options.netapp_vserver,
            path=export.rpartition(":")[2],
            timeout_s=options.netapp_async_rest_timeout,
        )
        # A helper of its own: behind clones, which take their time, the pool would seem silent.
        self._telling, self._cloning = (Worker(runner, NETAPP_MODULE) for _ in range(2))
        self._space = ToldSpace(self._telling, self._access)

    async def space(self) -> Space | None:
        return await self._space.read()

    async def clone(self, source: Path, target: Path, *, operation_key: str) -> None:
        request = NetappClone(access=self._access, source=source.name, target=target.name)
        timeout_s = self._access.timeout_s + AGENT_ARRAY_S
        await self._cloning.ask("clone", request, timeout_s=timeout_s)

    async def close(self) -> None:
        for worker in (self._telling, self._cloning):
            await worker.close()
