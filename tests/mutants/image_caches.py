"""Faults seeded in the caches of images that hosts have."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CACHE, STREAMS = "agent/images.py", "agent/streams.py"
ROOM, ARRIVING = "tests/agent/test_image_room.py", "tests/agent/test_arriving.py"

MUTANTS = [
    Mutant(
        "nobody looks for images that nobody uses",
        "agent/app.py",
        "    sweeping = asyncio.create_task(images.keep_small())\n",
        "    sweeping = asyncio.create_task(asyncio.sleep(0))\n",
        ROOM,
        "from_its_start",
    ),
    Mutant(
        "an image goes that a guest's disk is made of",
        CACHE,
        "            if record is None or record.for_operation or self._is_linked(name):\n",
        "            if record is None or record.for_operation:\n",
        ROOM,
        "disk_is_made_of",
    ),
    Mutant(
        "an image goes that an operation brought",
        CACHE,
        "            if record is None or record.for_operation or self._is_linked(name):\n",
        "            if record is None or self._is_linked(name):\n",
        ROOM,
        "brought_for_itself",
    ),
    Mutant(
        "an image that is used grows old",
        CACHE,
        "            os.utime(self._record_path(image_id))\n",
        "            self._record_path(image_id)\n",
        ROOM,
        "used_for_a_day",
    ),
    Mutant(
        "images take from the reserve of their host",
        "agent/app.py",
        "    images = ImageCache(directory, check, reserve_bytes=reserve_bytes)\n",
        "    images = ImageCache(directory, check)\n",
        ROOM,
        "the_setting_says",
    ),
    Mutant(
        "the host of mooring up knows of no reserve",
        "up.py",
        "        image_reserve_mib=settings.image_reserve_mib,\n",
        "",
        ROOM,
        "the_setting_says",
    ),
    Mutant(
        "the host of mooring agent knows of no reserve",
        "agent_process.py",
        "        image_reserve_mib=settings.image_reserve_mib,\n",
        "",
        ROOM,
        "the_setting_says",
    ),
    Mutant(
        "a stream takes from the reserve",
        STREAMS,
        "        if data and space.f_bavail * space.f_frsize < len(data) + reserve_bytes:\n",
        "        if data and space.f_bavail * space.f_frsize < len(data):\n",
        ROOM,
        "no_stream_takes",
    ),
    Mutant(
        "what is used goes for the sake of another",
        CACHE,
        "            if used > now - AGENT_IMAGE_LEAST_S:\n",
        "            if not image_id:\n",
        ROOM,
        "within_an_hour",
    ),
    Mutant(
        "what has come is thrown away when the stream breaks off",
        CACHE,
        "            goes_on = spec.for_operation\n",
        "            goes_on = False\n",
        ARRIVING,
        "goes_on_where_it_was",
    ),
    Mutant(
        "what has come is believed",
        STREAMS,
        "    digest = None if spec.begins_at else _digest_of(spec)\n",
        "    digest = _digest_of(spec)\n",
        ARRIVING,
    ),
    Mutant(
        "a migrated volume is carried from its beginning",
        "volume/migration/carrying.py",
        "        begins_at=await target.arrived_bytes(move.copy_id),\n",
        "        begins_at=0,\n",
        "tests/volume/test_migrated_bytes.py",
        "broken_off and sqlite",
    ),
    Mutant(
        "an image that an ended operation brought is nobody's",
        "doctor/agreement.py",
        "        yield from _brought(books, inventory)\n",
        "        _brought(books, inventory)\n",
        "tests/doctor/test_brought_images.py",
    ),
]
