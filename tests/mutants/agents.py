"""Faults seeded in the agents; none touches how programs are ended, which could end too many."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PLUGGING, IMAGES = "tests/contract/test_plugging.py", "tests/agent/test_images.py"
FENCE = "tests/agent/test_fence.py"
MOVING, CERTIFIED = "tests/agent/test_moves.py", "tests/fleet/test_move_certificates.py"

MUTANTS = [
    Mutant(
        "a guest is sent plainly to a host that wants it encrypted",
        "agent/move_checks.py",
        "    if is_wanted != bool(arrival.tls):\n",
        "    if is_wanted and not arrival.tls:\n",
        MOVING,
        "as_both_hosts_want_it",
    ),
    Mutant(
        "a host takes guests with a certificate that has ended",
        "agent/move_identity.py",
        "        if held is None or min(ends) <= now:\n",
        "        if held is None or max(ends) <= now:\n",
        CERTIFIED,
        "without_valid_ones",
    ),
    Mutant(
        "a certificate to ask daemons with is renewed when it has ended",
        "fleet/joining.py",
        "    left = certificates.expiry(client) - now\n",
        "    left = certificates.expiry(server) - now\n",
        CERTIFIED,
        "renewed_in_time",
    ),
    Mutant(
        "a host asks others with what it is asked with",
        "certificates.py",
        "_names_of_host(wish, enrolment, address), _ASKS if asks else _SERVES\n",
        "_names_of_host(wish, enrolment, address), _SERVES if asks else _SERVES\n",
        CERTIFIED,
        "wants_them_gets_them",
    ),
    Mutant(
        "an unplugged disk stays connected",
        "agent/disks.py",
        "            await agent.connections.disconnect(attachment_id)\n",
        "            pass\n",
        PLUGGING,
        "simulated and brings_its_connection",
    ),
    Mutant(
        "a connection goes that another guest uses",
        "agent/disks.py",
        "    if not await _find_user(agent, attachment_id):\n",
        "    if attachment_id:\n",
        PLUGGING,
        "simulated and another_guest_uses",
    ),
    Mutant(
        "an older attachment takes the present disk",
        "agent/simulated.py",
        'known is None or attachment_id not in {"", known.attachment_id}:',
        "known is None:",
        PLUGGING,
        "simulated and an_older_attachment",
    ),
    Mutant(
        "a disk is plugged anew by another attachment",
        "agent/hypervisor.py",
        "    if has != wanted:\n",
        "    if not has:\n",
        PLUGGING,
        "simulated and an_older_attachment",
    ),
    Mutant(
        "an agent of the release before is not told to disconnect",
        "agent_api/disk_calls.py",
        "if attachment_id and answer.status == 204:",
        "if not attachment_id:",
        "tests/agent/test_plugging.py",
        "release_before_is_told",
    ),
    Mutant(
        "an order that comes late makes a disk smaller",
        "agent/hypervisor.py",
        "    return max(size_bytes, image_bytes)\n",
        "    return size_bytes\n",
        "tests/contract/test_hypervisor.py",
        "simulated and disk_grows_under_its_guest",
    ),
    Mutant(
        "a running guest holds nothing",
        "agent/drivers/simulated.py",
        "        if not simulated_pool.is_open(self._db, volume_id):\n            return Holders(",
        "        if volume_id:\n            return Holders(",
        "tests/contract/test_holders.py",
        "simulated",
    ),
    Mutant(
        "an image on the network is grown as a file",
        "agent/sources.py",
        "    if isinstance(source, FileSource):\n        return source\n",
        '    if source:\n        return FileSource("", "raw")\n',
        "tests/contract/test_network_images.py",
        "simulated",
    ),
    Mutant(
        "an encrypted image is taken",
        "qcow2.py",
        "    if encryption != _ENCRYPTION_NONE:\n",
        "    if encryption < _ENCRYPTION_NONE:\n",
        IMAGES,
    ),
    Mutant(
        "an image brings a file of its own",
        "qcow2.py",
        "        if version > 2:\n",
        "        if version > 3:\n",
        IMAGES,
    ),
    Mutant(
        "the hash of an image is not compared",
        "agent/images.py",
        "    if spec.os_hash_value and digest.hexdigest() != spec.os_hash_value.lower():\n",
        "    if not digest.hexdigest():\n",
        IMAGES,
    ),
    Mutant(
        "a call for another incarnation is let in",
        "agent/serving.py",
        "    if named and named != ours:\n",
        "    if named and not ours:\n",
        FENCE,
        "set_up_anew",
    ),
    Mutant(
        "answers are believed after a reboot",
        "agent/app.py",
        "        await journal.forget_answers()\n",
        "        log.info(str(boot_file))\n",
        FENCE,
        "after_a_reboot",
    ),
    Mutant(
        "a debt loses its query",
        "agent_api/verbs.py",
        "    return found[0], found[1] | dict(parse_qsl(query))\n",
        "    return found if query == path else found\n",
        "tests/agent/test_verbs.py",
        "owed_with_its_attachment",
    ),
]
