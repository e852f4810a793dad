"""Faults of what is built and not put in its place: a loop, a reading, a setting."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LOOPS = "tests/test_loops.py"

MUTANTS = [
    Mutant(
        "a running cloud takes no old rows away",
        "cloud.py",
        "        work += [self._keep_up(keep_pruned, *each) for each in self._growing()]\n",
        "",
        LOOPS,
        "needed_no_more",
    ),
    Mutant(
        "a running agent keeps old marks",
        "agent/app.py",
        "        sweeping = asyncio.create_task(journal.keep_small())\n",
        "        sweeping = asyncio.create_task(asyncio.sleep(3600))\n",
        LOOPS,
        "sweeps_its_journal",
    ),
    Mutant(
        "a surprise ends the sweeping of a journal",
        "fence/journal.py",
        "            except Exception:\n                # Nobody waits",
        "            except MemoryError:\n                # Nobody waits",
        LOOPS,
        "not_its_last",
    ),
    Mutant(
        "timers that break leave their engine as it is",
        "saga/schedule.py",
        "would ever go on)\n            self._break(error)\n",
        "would ever go on)\n            del error\n",
        LOOPS,
        "timers_break",
    ),
    Mutant(
        "an agent that watches nothing any more ends without a word",
        "agent/main.py",
        "        if isinstance(error, Exception):\n",
        "        if isinstance(error, Unavailable):\n",
        LOOPS,
        "watch_its_directory",
    ),
    Mutant(
        "a look at guests that breaks is not told",
        "agent/late_disks.py",
        "        task.add_done_callback(self._leave)\n",
        "        task.add_done_callback(self._tasks.discard)\n",
        LOOPS,
        "breaks_is_told",
    ),
    Mutant(
        "a door for copies that fails once is closed",
        "agent/door.py",
        "            except Exception as error:",
        "            except OSError as error:",
        LOOPS,
        "lets_the_next_one_in",
    ),
    Mutant(
        "a lab without a listener starts no host again",
        "lab/processes.py",
        '        _tell(say, f"host {command.name}: process',
        '        say(f"host {command.name}: process',
        LOOPS,
        "started_again",
    ),
    Mutant(
        "a host of a lab that says too much is not started again",
        "lab/processes.py",
        "(again := await _begin_again(command))",
        "(again := await _begin(command))",
        LOOPS,
        "started_again",
    ),
    Mutant(
        "one failure ends the hearing of libvirt's events",
        "agent/libvirt/connection.py",
        "        except libvirt.libvirtError as error:\n            log.warning(\"libvirt's events",
        "        except MemoryError as error:\n            log.warning(\"libvirt's events",
        LOOPS,
        "heard_again",
    ),
]
