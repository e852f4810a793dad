"""Every limit that has no file of its own, each with its reason; cited in the documentation."""

from __future__ import annotations

STORE_GROUP_WRITES = 64
"""Writes that one commit on SQLite may carry: the first waits for the last one's statements."""

STORE_READERS = 4
"""Threads and connections that read one service's SQLite file; they start when first needed."""

STORE_POOL_CONNECTIONS = 8
"""PostgreSQL connections of one service in one process, and the threads that use them."""

STORE_CONNECT_S = 10
"""How long PostgreSQL may leave a new connection unanswered, and its machine an open one."""

STORE_AGAIN_S = 5.0
"""How long what PostgreSQL broke off is repeated: about as long as a restart of it takes."""

STORE_LOST_RACES = 3
"""How often a write that broke a constraint looks again: somebody else may have been faster."""

STORE_SETTLE_S = 10.0
"""How long to look for the outcome of a commit that PostgreSQL did not answer."""

STORE_BUSY_TIMEOUT_S = 5.0
"""How long a write waits for another process that holds a SQLite file's write lock."""

WEB_AGAIN_S = 5
"""When to ask again for a client that is told "not now" (503, 507): most troubles pass by then."""

WEB_BODY_BYTES = 114688
"""Largest JSON body of a request: as in Nova and Cinder; image data is streamed, not counted."""

WEB_BODY_WAIT_S = 60.0
"""How long a client may take to send a JSON body."""

WEB_PARAMETERS = 200
"""Most parameters of a query: each filter makes the statement longer; SQLite takes 1000 terms."""

WEB_CONDITIONS = 100
"""Most conditions that one filter may name."""

PATTERN_LENGTH = 255
"""Longest regular expression that may filter a list: no name is longer."""

PATTERNS_KEPT = 128
"""Regular expressions that a process keeps compiled."""

WEB_PAGE_ROWS = 1000
"""Most rows of one page of a list: what Nova and Cinder give by default."""

LOOP_REST_S = 5.0
"""After how long a loop of a service that met trouble begins again."""

AGENT_CALL_S = 30.0
"""How long the control plane waits for a short answer of an agent."""

AGENT_LONG_CALL_S = 600.0
"""How long one call of a long verb (start, copy, unplug) is followed before it is made again."""

AGENT_POLL_S = 25.0
"""How long one long poll of an agent may last; below the idle limits of usual proxies."""

AGENT_CONNECT_S = 5.0
"""How long another machine may take to accept a connection and show its certificate."""

AGENT_DISKS = 26
"""Disks that one guest may have: a letter and a free PCIe port for each."""

AGENT_PATIENCE_S = 2.0
"""How long an agent works on a verb before it answers 202 and goes on."""

HOST_CALLS_AT_ONCE = 16
"""Changes that one process asks of one host at a time, and reads beside them; more wait outside."""

HOST_DOOR_WAIT_S = 20.0
"""How long a call waits at the door of a busy host before its operation rests and comes again."""

HOST_REST_S = 10.0
"""How long an operation rests that was turned away at a host's door, if the host says nothing."""

HOST_HEARD_S = 6.0
"""How old what a host said may be for who looks at its pools: it is asked for its heartbeat too."""

HOST_WORD_S = 5.0
"""From when on operators are told that a host owes an answer; a healthy one answers within 2 s."""

SLOT_CALLS = 7
"""Calls to other services that sagas may wait for, for each slot, beside those that work."""

COMPUTE_TAGS = 50
"""Most tags of one server: what Nova takes."""

COMPUTE_USER_DATA_BYTES = 65535
"""Longest user data of a server, as base64: what Nova takes."""

COMPUTE_EVENTS = 1000
"""Most events of one call to os-server-external-events: more do not come from one operation."""

COMPUTE_BUILD_HOSTS = 3
"""Hosts that are tried for a new server or a move, one after the other: as many as Nova tries."""

COMPUTE_UNDO_ATTEMPTS = 12
"""How often an unwinding or a late disconnect is tried before the server is in ERROR: 3 min."""

COMPUTE_VOLUME_POLL_S = 2.0
"""Pause between two looks at a volume that is not ready, where nobody says when it is."""

COMPUTE_CONTENT_WAIT_S = 86400.0
"""How long an operation waits for a volume that is still being reimaged, or copied to."""

PLACEMENT_ATTEMPTS = 4
"""Tries of a change to placement that others were faster with, before the saga's step waits."""

FENCE_KEEP_S = 14 * 24 * 3600.0
"""How long a fence keeps marks after their last use: far above the life of any request."""

NEIGHBOUR_CHUNKS = 4
"""Chunks of a body that wait between a caller and an application of the same process."""

NEIGHBOUR_CLOSE_S = 5.0
"""How long a closing process waits for calls between its own services."""

CLIENT_CONNECTIONS = 64
"""Connections of one process to other services, to each Unix socket, and to each agent."""

CLIENT_IDLE_CONNECTIONS = 8
"""How many of them are kept when nobody uses them."""

CLIENT_IDLE_S = 4.0
"""How long an unused connection to a service or an agent is kept: far shorter than they keep it."""

SERVER_IDLE_S = 75
"""How long a client's unused connection is kept: longer than clients rest between looks and than
proxies keep theirs, as a request on a connection that closes just then is lost."""

PLACEMENT_NAMES = 1000
"""Names in a query for providers: far more than an image's 128 properties and a flavor's specs."""

PLACEMENT_NAME_CHARACTERS = 255
"""Longest name of a trait or resource class."""

VOLUME_MESSAGE_LIFE_S = 2592000.0
"""How long a user message is kept: 30 days, as Cinder does."""

VOLUME_PROGRESS_S = 2.0
"""How often a host is asked how far the copy of an image is."""

VOLUME_TELL_ATTEMPTS = 8
"""How often compute is told that a volume was reimaged, before a message says that it was not."""

VOLUME_WAKE_S = 5.0
"""How long the volume service takes at most to tell compute that a new volume is ready."""

VOLUME_CHAIN_FILES = 64
"""Most snapshots that one volume of files has at a time: each is a file more to read through."""

VOLUME_SNAPSHOT_S = 600.0
"""How long compute may take to switch a guest over to a new overlay, in seconds, as in Cinder."""

VOLUME_MERGE_S = 7200.0
"""How long compute may take to merge the files of a deleted snapshot, in seconds, as in Cinder."""

VOLUME_TURN_S = 15.0
"""Longest rest between two attempts at a snapshot whose server compute is busy with, in seconds."""

VOLUME_NAME_LENGTH = 255
"""Longest name or description of a volume, and key or value of its metadata, as in Cinder."""

VOLUME_SIZE_GIB = 2**31 - 1
"""Biggest size that a request may name; what fits is a matter of quota and pools."""

AGENT_MERGE_S = 7200.0
"""How long the merge of a disk's files may take; what a volume service waits for at most."""

AGENT_CAPTURE_S = 7200.0
"""How long the copy of a guest's root disk may take, while the guest goes on writing to it."""

CAPTURE_PIECE_BYTES = 4 << 20
"""How much of a capture is asked for at once: little enough to wait for no longer than others."""

CLIENT_BODY_BYTES = 64 << 20
"""Largest answer of a service or an agent that is read into memory; image data is streamed."""

IDENTITY_CALL_S = 30.0
"""How long a login or the check of a token may take."""

DOCTOR_HOST_S = 10.0
"""How long the doctor waits for a word of a host before it goes on with the others."""

DOCTOR_CALL_S = 300.0
"""How long `mooring doctor` waits: far above two looks at a cloud with a silent host."""

OPERATOR_CALL_S = 120.0
"""How long `mooring host` waits for an answer: above what the cloud itself waits for a host."""

TOKEN_CACHE_S = 60.0
"""How long a token that another identity service called valid is taken for valid."""

TOKEN_CACHE_ENTRIES = 1000
"""Tokens that are remembered; the one that was checked longest ago goes first."""

COMPUTE_SNAPSHOT_POLL_S = 30.0
"""How often, at least, compute asks how far a snapshot is that takes long at the volume service."""

COMPUTE_SNAPSHOT_RECORD_S = 600.0
"""How long the volume service may take to accept it; then the guest gets its former file."""

COMPUTE_MERGE_TRIES_S = 1800.0
"""For how long compute asks again for a merge that a host does not do, or does not finish."""

COMPUTE_SERVERS_AT_ONCE = 100
"""Most servers of one POST: they are written in one transaction, which holds up other writes."""

OPERATIONS_LISTED = 1000
"""Operations in one answer of `/mooring/operations`."""

IDENTITY_HASHES = 2
"""Passwords that are hashed at once: each takes a processor for 50 ms."""

IDENTITY_LOGINS_WAITING = 32
"""Logins from one address that wait for that."""

IDENTITY_FREE_FAILURES = 5
"""Failed logins of a user from an address that cost no time; then the next waits 1 s, 2, 4 ..."""

IDENTITY_FAILURE_WAIT_S = 60.0
"""Longest such wait."""

IDENTITY_FAILURES_S = 900.0
"""How long a failed login is remembered."""

IDENTITY_FAILURES_KEPT = 10000
"""Users and addresses of whom failed logins are remembered; the oldest go first."""

IDENTITY_PASSWORD_CHARS = 4096
"""Longest password; what Keystone takes."""

IDENTITY_EXPIRED_S = 172800
"""How long an expired token is accepted with a service token beside it: Keystone's two days."""

IDENTITY_CACHE_S = 5.0
"""How long a token's meaning is remembered where another process may have changed it."""

IDENTITY_CACHE_ENTRIES = 1000
"""Tokens whose meaning is remembered; the oldest goes first."""

IDENTITY_PAGE_ROWS = 1000
"""Most rows of one page of an identity list; the answer says when there are more."""

SHUTDOWN_S = 5
"""How long open requests may go on once a process was told to stop, in seconds."""

IMAGE_BYTES = 1 << 40
"""Largest image that may be uploaded, unless the operator says otherwise: Glance's default."""

IMAGE_CHUNK_BYTES = 1 << 20
"""How much of an image is in memory at a time, for each upload and download."""

IMAGE_IDLE_S = 60.0
"""How long an upload may send nothing before it is given up."""

IMAGE_BEAT_S = 5.0
"""How often a process says that it still receives its uploads, and looks for dead ones."""

IMAGE_LEASE_S = 30.0
"""How long another process waits for such a sign before it gives an upload up."""

IMAGE_PAGE_ROWS = 25
"""Images of one page when the client does not say: Glance's default."""

IMAGE_TAGS = 128
"""Tags of one image."""

IMAGE_PROPERTIES = 128
"""Properties of one image beside Glance's own attributes."""

IMAGE_MEMBERS = 128
"""Projects that one image may be shared with."""

IMAGE_NAME_CHARACTERS = 255
"""Longest name of an image, a tag or a property."""

IMAGE_VALUE_CHARACTERS = 65535
"""Longest value of a property."""

AGENT_STOP_S = 5
"""How long a stopping agent waits for open requests; their work goes on after the next start."""

POLICY_CALLERS = 256
"""Callers, told apart by their roles and projects, whose policy answers a service remembers."""

POLICY_ANSWERS = 1024
"""Policy answers that are remembered for each of them."""

NOTIFY_KEEP_S = 7 * 24 * 3600.0
"""How long a notification waits for a target that is down, or is kept for readers: a week."""

VOLUME_EVENT_ATTEMPTS = 8
"""How often compute is told of a volume that grows before it counts as silent: half a minute."""

VOLUME_LOOK_ATTEMPTS = 6
"""How often storage is asked what a failed growth has left before the volume is in error."""

NOTIFY_SWEEP_S = 60.0
"""How often the outbox is brought back to these bounds."""

NOTIFY_AT_ONCE = 100
"""Notifications that are read at a time, and that a crash may have delivered again."""

NOTIFY_CALL_S = 10.0
"""How long a target may take for one notification; below a third of the lease."""

NOTIFY_LEASE_S = 30.0
"""How long a process that died keeps the others from delivering to its targets."""

NOTIFY_POLL_S = 1.0
"""How often a process looks for notifications that another process wrote."""

NOTIFY_LONGEST_PAUSE_S = 60.0
"""Longest pause between two tries to reach a target that is down."""

AUTHORITY_LIFETIME_S = 20 * 365 * 86400.0
"""How long the authority that certifies hosts is valid: longer than machines last."""

CERTIFICATE_LIFETIME_S = 90 * 86400.0
"""How long the certificate of a host, or of a process of the control plane, is valid."""

CERTIFICATE_RENEW_S = 30 * 86400.0
"""How long before its end a certificate is renewed: a host may be off for a month."""

CERTIFICATE_LOOK_S = 300.0
"""How often a process of the control plane looks which certificates are missing, or end soon."""

CERTIFICATE_BACKDATE_S = 600.0
"""How far the clocks of two machines may be apart: certificates are valid from so long ago."""

JOIN_TOKEN_S = 3600.0
"""How long a token lets a host join; after it the operator makes another one."""

JOIN_TOKEN_CHARACTERS = 1024
"""Longest text that is read as a token."""

JOIN_BODY_BYTES = 16384
"""Largest request of a host that joins: a request for a certificate has 500 bytes."""

JOIN_WAIT_S = 20.0
"""How long each side of a joining waits for the other."""

JOIN_CALLERS = 16
"""Hosts that one process lets join at a time; more are told to come again."""

JOIN_CONNECTIONS = 256
"""Most connections where hosts join, and at most an eighth as many as there may be files open."""

FLEET_HOSTS = 1000
"""Hosts on other machines that one cloud knows, those that were invited counted."""

FLEET_POLL_S = 2.0
"""How often each process of the control plane looks which hosts the others have let in."""

COMPUTE_SHARE_FIRST_POLL_S = 0.05
"""After how long an access rule that is being made or denied is looked at for the first time."""

COMPUTE_SHARE_POLL_S = 0.5
"""How often, at least, one that takes longer is looked at."""

COMPUTE_SHARE_LEAVES_S = 86400.0
"""How long a server that lets go of a share waits for its access rule to be gone."""

COMPUTE_SHARE_PATIENCE_S = 15.0
"""How long a move waits for a host to let go of a share; then that goes on by itself."""

COMPUTE_SHARE_SWEEP_S = 60.0
"""How often compute looks for access rules of its own, and for mounts, that no server needs."""

FENCES_AT_ONCE = 16
"""Fence commands that a process runs at a time: the others wait, when a whole rack has died."""

FENCE_OUTPUT_BYTES = 16384
"""How much of what a fence command says is kept, from its end: the reason of a failure is there."""

FENCE_TOLD_LINES = 5
"""How many of its last lines an operator is told."""

FENCE_TOLD_LENGTH = 600
"""Most characters of them, and of the command's words, that are told and recorded."""

FENCE_ANSWER_S = 20.0
"""How long a request waits for a fence command; then it is answered, and the command goes on."""

FENCE_POLL_S = 5.0
"""How often it is seen whether a host has been silent for so long that it is to be fenced."""

FENCE_AGAIN_S = 60.0
"""After how long a fence that failed is tried again by itself; twice as long each time."""

FENCE_AGAIN_MOST_S = 3600.0
"""The longest such pause: what a fence needs may be mended in the meantime."""
