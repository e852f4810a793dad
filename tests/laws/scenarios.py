"""One or more scenarios for every saga of compute, volumes and shares, by their features."""

from __future__ import annotations

from tests.laws import assisted_scenarios, backup_scenarios, basics, volume_snapshot_scenarios
from tests.laws.attach_scenarios import ATTACHES
from tests.laws.attachment_scenarios import ATTACHMENTS
from tests.laws.drive_scenarios import DRIVES
from tests.laws.elsewhere_scenarios import MOVES_ELSEWHERE
from tests.laws.evacuation_scenarios import EVACUATIONS
from tests.laws.extend_events import EVENT_SCENARIOS
from tests.laws.extend_scenarios import EXTEND_SCENARIOS
from tests.laws.guest_share_scenarios import GUEST_SHARES
from tests.laws.host_scenarios import HOSTS
from tests.laws.image_scenarios import SERVER_IMAGES
from tests.laws.move_scenarios import MOVES
from tests.laws.old_call_scenarios import OLD_AND_NEW, closed_gate
from tests.laws.power_scenarios import POWER
from tests.laws.rebuild_scenarios import REBUILDS
from tests.laws.reimage_scenarios import REIMAGES
from tests.laws.rescue_scenarios import RESCUES
from tests.laws.server_scenarios import SERVERS
from tests.laws.share_scenarios import SHARES
from tests.laws.shared_move_scenarios import SHARED_MOVES
from tests.laws.shelve_scenarios import SHELVINGS
from tests.laws.standstill_scenarios import STANDSTILLS
from tests.laws.swap_scenarios import SWAPS
from tests.laws.volume_scenarios import VOLUMES

SCENARIOS = [
    *ATTACHES,
    *SERVERS,
    *POWER,
    *VOLUMES,
    *ATTACHMENTS,
    *EXTEND_SCENARIOS,
    *REIMAGES,
    *REBUILDS,
    *MOVES,
    *assisted_scenarios.scenarios(basics.a_server_with_volume),
    *EVENT_SCENARIOS,
    *volume_snapshot_scenarios.of(basics.a_volume, basics.a_server_with_volume),
    *backup_scenarios.of(basics.a_volume, basics.a_server_with_volume),
    *SHARES,
    *GUEST_SHARES,
    *SHARED_MOVES,
    *MOVES_ELSEWHERE,
    *EVACUATIONS,
    *DRIVES,
    *HOSTS,
    *STANDSTILLS,
    *SWAPS,
    *SHELVINGS,
    *RESCUES,
    *SERVER_IMAGES,
    *OLD_AND_NEW,
]
SCENARIOS.extend(closed_gate(SCENARIOS))
