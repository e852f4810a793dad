"""The agent's side of a PowerStore behind a share: its API for capacity, its tool for clones."""

from __future__ import annotations

from pathlib import Path

from mooring.agent import limits
from mooring.agent.arrays.requests import POWERSTORE_CALLS, POWERSTORE_MODULE, PowerstoreAccess
from mooring.agent.drivers.remote_options import PowerstoreNfsOptions
from mooring.agent.drivers.remote_space import ToldSpace
from mooring.agent.mounts import Space
from mooring.agent.run import Budget, Runner
from mooring.agent.settings import PoolSettings
from mooring.agent.worker import Worker
from mooring.errors import Invalid, Unavailable


def check_powerstore(pool: PoolSettings, options: PowerstoreNfsOptions) -> None:
    """Raise Invalid for what is only half set."""
    if options.san_ip and not (options.san_login and options.san_password):
        raise Invalid(f"Pool {pool.name} has a san_ip without san_login and san_password.")


def request_timeout_s() -> tuple[float, float]:
    """Return how long one request may take to be connected, and to be answered then.

    What all of them take together ends before the helper is: so the array's silence is told as
    that, and not as the helper's.
    """
    each_s = 0.95 * limits.AGENT_ARRAY_S / POWERSTORE_CALLS
    return each_s / 4, each_s * 3 / 4


class PowerstoreArray:
    """Implements `Array` by PowerStore's REST API and the vendor's dellfcopy."""

    clones = True

    def __init__(self, options: PowerstoreNfsOptions, export: str, runner: Runner) -> None:
        self._tool, self._runner = options.dellfcopy, runner
        self._worker = Worker(runner, POWERSTORE_MODULE)
        self._space: ToldSpace | None = None
        if options.san_ip:
            access = PowerstoreAccess(
                host=options.san_ip,
                port=options.san_api_port,
                login=options.san_login,
                password=options.san_password,
                verify=options.driver_ssl_cert_verify,
                certificates=options.driver_ssl_cert_path,
                export=export.rpartition(":/")[2],
                timeout_s=request_timeout_s(),
            )
            self._space = ToldSpace(self._worker, access)

    async def space(self) -> Space | None:
        return None if self._space is None else await self._space.read()

    async def clone(self, source: Path, target: Path, *, operation_key: str) -> None:
        argv = [self._tool, "-o", "fastclone", "-s", str(source), "-d", str(target), "-v", "1"]
        budget = Budget(timeout_s=limits.AGENT_ARRAY_S)
        output = await self._runner.run(argv, budget, operation_key=operation_key)
        if output.code:
            raise Unavailable(
                "The array's tool did not clone a file. The agent's log has what it said.",
                private=output.err.strip(),
            )

    async def close(self) -> None:
        await self._worker.close()
