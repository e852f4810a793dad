"""How long `mooring up` takes to be ready, and what memory it holds when it idles."""

from __future__ import annotations

import time

from bench.machine import median, scratch
from bench.process import start_up
from bench.rows import Row, tell

STARTS = 5
IDLE_S = 5.0


def main() -> None:
    """Start a cloud once anew and some times again."""
    with scratch() as directory:
        first = start_up(directory)
        first_s = first.ready_s
        first.end()
        again: list[float] = []
        cpu: list[float] = []
        for _ in range(STARTS):
            process = start_up(directory)
            again.append(process.ready_s)
            cpu.append(process.cpu_s())
            process.end()
        idle = start_up(directory)
        time.sleep(IDLE_S)
        memory = idle.pss_mib()
        idle.end()
    note = f"CPU {median(cpu):.2f} s, median of {STARTS}"
    tell(
        Row(what="ready, first start", measured=first_s, unit="s", note="makes all databases"),
        Row(what="ready, second start", measured=median(again), unit="s", budget=1.5, note=note),
        Row(what="idle memory (PSS)", measured=memory, unit="MiB", budget=85),
    )


if __name__ == "__main__":
    main()
