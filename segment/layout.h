// SPDX-License-Identifier: BSD-3-Clause
//
// Layout of the segment: the two memory areas that weir-dataplane and weir-control share.
//
//   statistics  written only by the dataplane: header, counters, heartbeats, samples, responses.
//               The memory is sealed, so that control can only read it.
//   tables      written only by control: tables, identities, requests. The dataplane maps it
//               read-only.
//
// The dataplane creates both memory areas (sealed memfds that cannot shrink), fills in the header
// and passes the memfds to the control process over a unix socket (handover.h). Positions are
// offsets from the start of their memory area; fields have a fixed width and the host's byte order
// (little endian); there are no pointers. The writer of a structure or field is marked:
//   [dp]      the dataplane, once, before the segment is handed over
//   [worker]  one worker, its own cache line, relaxed stores
//   [control] the control process
//
// There are two kinds of tables:
//   *Blobs* are the service table and one selection per service. A blob is in the heap and is
//   immutable once a root refers to it. One release-store of the root replaces the whole blob.
//   Each backend has two copies of its *row* at a fixed position: a change is written to the
//   unused copy, and one release-store of the version switches to the changed copy. Therefore the
//   cost of changing one backend does not depend on the number of backends.
// After each store control appends an entry to the *update log*. Workers read the log in order, a
// few entries per iteration, and copy the changes into private memory (reader.h).
//
// Guarantees kept by this folder:
//   S2 A worker reads either the whole old or the whole new version of a table or row.
//   S3 Control can be killed at any instruction: only complete tables are ever referenced, and a
//      new control process reads all state that it needs to continue from the tables and the
//      identities.
//   S5 The memory of a blob is reused only after every worker has reported a quiescent state
//      (grace.h). A worker reports a quiescent state only after it has applied all earlier
//      publications.
//
// Order of publication (control) and of loading (workers): identities -> rows -> selections ->
// services. Therefore a worker that has a selection also has the selection's backends. A row that
// closes its backend to new flows is published after the selections, so that each selection always
// has an open candidate. Withdrawal has the reverse order, with a grace period before ids or memory
// are reused.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "counters.h"
#include "drop_reasons.h"
#include "health_state.h"
#include "policy.h"

#define WEIR_SEGMENT_MAGIC 0x3247455352494557ull // "WEIRSEG2" in memory
// Version of the layout, shown to users. A change of the layout without a new version is detected
// by the fingerprint (fingerprint.h).
#define WEIR_SEGMENT_ABI 16

#define WEIR_WORKERS_MAX 64
#define WEIR_PORTS_MAX 16
#define WEIR_SERVICES_MAX 4096
#define WEIR_BACKENDS_MAX 65535 // the ids of backends are 0..65534
#define WEIR_BACKEND_NONE 0xffffu // value of a backend id: "no backend"
#define WEIR_SERVICE_NONE 0xffffu
#define WEIR_NAME_BYTES 64 // names of services, backends and ports, with the final NUL
#define WEIR_TABLE_SLOTS_MAX 16777213u // the largest prime below 2^24

// A reference to a published blob. The upper 32 bits contain the lower half of the blob's
// generation, and the lower 32 bits contain the blob's offset / 64. 0 = nothing published. The
// generation is unique per publication: equal generations mean the same blob even when memory is
// reused. A generation has 64 bits and never wraps; the lower half in the reference is used only to
// check that the reference and the blob belong together.
typedef uint64_t weir_ref;

enum weir_blob_kind {
	WEIR_BLOB_SERVICES = 1, // struct weir_service_table
	WEIR_BLOB_SELECTION, // struct weir_selection
};

// The header at the start of every blob. A blob is 64-byte aligned, and immutable once a root
// refers to it.
struct weir_blob { // [control]
	uint64_t generation; // the lower half is also in the reference
	uint32_t kind; // enum weir_blob_kind
	uint32_t lines; // size of the whole blob with its header, in units of 64 bytes
};

// --- services -----------------------------------------------------------------------------

// The kinds of keys in the service table. One open-addressing hash table contains all three kinds.
enum weir_bind_kind {
	WEIR_BIND_EXACT = 1, // address, protocol, port -> service
	WEIR_BIND_RANGES, // address, protocol -> ranges[first .. first + count)
	// address -> marks the address as a VIP (for ICMP, and for packets that match no port)
	WEIR_BIND_ADDRESS,
};

// The action of workers for packets to a VIP if no bind of the VIP has the destination port.
// X(NAME)
#define WEIR_CLOSED_PORTS(X) X(KERNEL) X(DROP) X(REJECT)

enum weir_closed_ports {
#define X(name) WEIR_CLOSED_PORTS_##name,
	WEIR_CLOSED_PORTS(X)
#undef X
};

// Flags in the service id of a bind or of a range. Read these flags only with the functions of
// service_table.h, because the same bits are also set in WEIR_SERVICE_NONE.

// The bind accepts no new flows: workers refuse first packets of flows
#define WEIR_BIND_DRAINED 0x8000u
// Set with DRAINED: workers treat existing flows of the bind as ended
#define WEIR_BIND_ENDED 0x4000u
// Set with DRAINED, TCP only: the bind is no longer in the configuration. If ENDED is also set,
// workers end the flows of the bind.
#define WEIR_BIND_REMOVED 0x2000u
#define WEIR_BIND_FLAGS (WEIR_BIND_DRAINED | WEIR_BIND_ENDED | WEIR_BIND_REMOVED)
_Static_assert(WEIR_SERVICES_MAX <= WEIR_BIND_REMOVED, "flags must be above all service ids");

// A key of the service table and its value. An IPv4 address is in the first 4 bytes of `address`;
// the remaining bytes are 0.
struct weir_bind { // 32 bytes, [control]
	uint8_t address[16];
	uint8_t family; // 4 or 6; 0 = free bucket
	uint8_t protocol; // IPPROTO_TCP, IPPROTO_UDP; 0 with WEIR_BIND_ADDRESS
	uint8_t kind; // enum weir_bind_kind
	uint8_t closed; // enum weir_closed_ports, WEIR_BIND_ADDRESS only
	uint16_t port; // host order, WEIR_BIND_EXACT only
	uint16_t service; // WEIR_BIND_EXACT: service id
	uint32_t first; // WEIR_BIND_RANGES: index of the first element in ranges[]
	uint32_t count; // WEIR_BIND_RANGES: number of elements
};
_Static_assert(sizeof(struct weir_bind) == 32, "segment ABI");

// A range of ports (0..65535 = every port); the ranges of a key are sorted and disjoint.
struct weir_bind_range {
	uint16_t first; // host order
	uint16_t last; // inclusive
	uint16_t service;
	uint16_t reserved;
};
_Static_assert(sizeof(struct weir_bind_range) == 8, "segment ABI");

struct weir_service_table { // blob, [control]
	struct weir_blob blob;
	uint32_t buckets; // power of two; at most half of the buckets are in use
	uint32_t ranges;
	uint64_t buckets_off; // from the start of the blob: struct weir_bind[buckets]
	uint64_t ranges_off; // from the start of the blob: struct weir_bind_range[ranges]
	uint64_t hash_seed;
	uint32_t ended; // number of binds with REMOVED and ENDED; since ABI 13
	uint32_t reserved[3];
};
_Static_assert(sizeof(struct weir_service_table) == 64, "segment ABI");

// --- backends -----------------------------------------------------------------------------

enum weir_backend_flag {
	WEIR_BACKEND_PRESENT = 1u << 0, // the id is in use; flows may refer to it
	WEIR_BACKEND_RESOLVED = 1u << 1, // header[] holds the next hop's MAC address
	// The backend accepts no new flows. A selection that was published before this flag was
	// set may still contain the backend: workers skip it there. If a client sends a new SYN for
	// an existing flow, workers choose another backend, unless the flow is established and the
	// backend is not DOWN.
	WEIR_BACKEND_CLOSED = 1u << 2,
	// Set with CLOSED if the backend is in maintenance or removed, if it is refusing and panic
	// mode does not use it, or if the deadline of a drain of all binds has ended the flows of
	// its service. Workers then choose another backend for a UDP flow at its next datagram.
	WEIR_BACKEND_DOWN = 1u << 3,
	// The action for the TCP flows of a backend that is DOWN. Without REHASH and RESET, the
	// flows stay on the backend.
	WEIR_BACKEND_REHASH = 1u << 4, // flows move to another backend
	WEIR_BACKEND_RESET = 1u << 5, // clients of the flows get an RST
	// The accept queue of the backend is full. Workers treat the backend as if it were at its
	// limit of active flows, regardless of its number of flows.
	WEIR_BACKEND_AT_LIMIT = 1u << 6,
	// The backend is usable, but in no subset of this instance. Workers send no new flows to
	// it, even if an affinity entry contains the backend.
	WEIR_BACKEND_OUTSIDE = 1u << 7,
};

#define WEIR_OUTER_IPV4_BYTES 20u // length of an outer IPv4 header
#define WEIR_OUTER_IPV6_BYTES 40u
// Ethernet 14, VLAN tag 4, IPv6 40, and at most 12 bytes between the outer IP header and the packet
// (forwarding.h); a multiple of 8.
#define WEIR_OUTER_HEADER_BYTES 72
#define WEIR_SOURCE_BITS_MAX 16 // maximum number of variable bits of an IPv4 source prefix: a /16

// The data of one backend for workers, with a prebuilt header that workers copy in front of
// packets. The worker fills in only the fields that depend on the packet. In an outer IP header,
// these are length, DSCP/ECN, flow label, IPv4 checksum, the low bits of the source address, and
// the protocol if it is 4 or 41. The fields at inner_at and udp_at also depend on the packet.
// Control publishes health and administrative state as selections and as flags; the flags also
// determine what happens to existing flows.
struct weir_backend_row { // 96 bytes, [control]
	uint8_t flags; // enum weir_backend_flag
	uint8_t port; // index of the port to send on
	uint8_t outer_family; // 4 or 6: family of the outer IP header; 0 = there is none
	uint8_t l2_bytes; // length of the Ethernet header and VLAN tag: 14 or 18
	uint8_t header_bytes; // l2_bytes + 0, 20 or 40 + tail_bytes
	// IPv4: number of low bits of the source address taken from the flow hash, 0..16
	uint8_t source_bits;
	uint16_t mtu; // path MTU: largest IP packet to the backend, with its outer headers
	uint16_t service; // the service that the backend belongs to
	uint16_t checksum_base; // IPv4: ones' complement sum of the constant fields of header[]
	// Limit of the backend's active flows, for all workers together; 0 = no limit.
	uint32_t max_active_flows;
	uint8_t forwarding; // enum weir_forwarding_mode; not read by workers
	uint8_t tail_bytes; // number of bytes between the outer IP header and the packet
	// Position of a 16-bit field, in bytes before the packet. The field is inner4 for an IPv4
	// packet, and inner6 for an IPv6 packet. 0 = no such field: then the protocol of the outer
	// IP header is 4 or 41.
	uint8_t inner_at;
	// Position of a UDP header, in bytes before the packet. The source port is derived from the
	// hash of the flow. 0 = no UDP header.
	uint8_t udp_at;
	uint16_t inner4, inner6; // network order
	uint8_t header[WEIR_OUTER_HEADER_BYTES]; // the first header_bytes are valid
};
_Static_assert(sizeof(struct weir_backend_row) == 96, "segment ABI");
_Static_assert(offsetof(struct weir_backend_row, header) == 24, "segment ABI");

// The two copies of a backend's row. row[version % 2] is in use; the other copy is unused. If the
// version is the same before and after a reader has copied the row, the reader has a consistent
// copy.
struct weir_row_pair { // 256 bytes, [control]; indexed by backend id
	uint64_t version; // 0 = never written: the row in use is all zeroes
	// Slow start of the backend. Control publishes a change with one store and one entry in the
	// update log.
	struct weir_policy_share share __attribute__((aligned(4)));
	uint32_t reserved0;
	uint64_t reserved[2];
	struct weir_backend_row row[2];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_row_pair) == 256, "segment ABI");

// --- selection, one per service -----------------------------------------------------------

// The candidates that a worker chooses from. Offsets are from the start of the blob.
struct weir_selection_subset { // 24 bytes, [control]
	uint16_t candidates; // number of eligible backends; 0 = workers drop packets as no_backend
	uint16_t rounds; // 0 if WEIR_NEEDS_ROUNDS is not set or candidates is 0
	uint32_t slots; // number of slots of the Maglev table; 0 only if candidates is 0
	uint32_t affinity_ms; // timeout of affinity entries; the same in all subsets
	uint32_t candidates_off; // position of the array struct weir_candidate[candidates]
	// position of the array uint16_t[slots], whose elements are indexes into candidates[]
	uint32_t slots_off;
	uint32_t rounds_off; // position of the array struct weir_round[rounds]
};
_Static_assert(sizeof(struct weir_selection_subset) == 24, "segment ABI");

// A selection has one subset for all workers, or several subsets. With several subsets, worker w
// uses subset w % subsets.
struct weir_selection { // blob, [control]
	struct weir_blob blob;
	uint16_t service;
	uint16_t subsets; // number of subsets, 1..WEIR_WORKERS_MAX
	uint32_t
		others_off; // from the start of the blob: struct weir_selection_subset[subsets - 1]
	struct weir_policy_settings settings;
	struct weir_selection_subset first; // subset 0; other subsets follow at others_off
};
_Static_assert(sizeof(struct weir_selection) == 64, "segment ABI");

// --- identity: which backend has which id; written and read by control only ----------------------
//
// All data that control must keep across a restart: which backend has which id, administrative
// and health states, weights. Workers never read identities. Indexed by id. Names and addresses
// are written while the id is free, and are constant while the id is in use. One store of
// `state` allocates or frees the id. Each change of a state or of a weight is also one store.
// Therefore a reader never finds a partial change.

#define WEIR_IDENTITY_USED 1u // value of `state` while the id is in use; a free id has state 0

struct weir_identity_service { // 128 bytes, [control]
	uint32_t state; // WEIR_IDENTITY_USED and a bit of control/tables/identity.c
	// the configured policy, and the run-time policy << 8 (control/tables/identity.c)
	uint32_t policies;
	uint32_t error_window_ms; // automatic error window; 0 = not computed yet
	// The action for flows of a backend that is down: WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET,
	// or 0
	uint32_t down_flags;
	// CLOCK_MONOTONIC; 0 = no deadline. Set only during a drain of binds
	uint64_t drain_until_ns;
	uint32_t drain; // enum weir_drain_phase; the drained binds are marked in the service table
	// The next three fields describe the removal of binds or of the service; since ABI 13. The
	// removed binds are marked in the service table.
	uint32_t removed_ms; // `drain.removed_ms` of the configuration; 0 = no drain
	// CLOCK_MONOTONIC: end of the phase; lowest bit set: the phase is DROPPED
	uint64_t removal_until_ns;
	uint32_t removal; // enum weir_drain_phase: NONE, DRAINING, or DROPPED
	uint32_t reserved[5];
	char name[WEIR_NAME_BYTES];
};
_Static_assert(sizeof(struct weir_identity_service) == 128, "segment ABI");
#define WEIR_POLICY_UNSET 0xffu

struct weir_identity_backend { // 128 bytes, [control]
	uint32_t state; // WEIR_IDENTITY_USED and bits of control/tables/identity.c
	uint32_t configured_weight;
	uint32_t runtime_weight; // set by an operator; WEIR_WEIGHT_UNSET = none
	uint32_t reported_weight; // reported by the backend; 0 = none
	uint8_t address[16];
	uint8_t family; // 4 or 6
	uint8_t reserved0;
	uint16_t service;
	uint32_t reserved1;
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline. Set only during a drain
	uint64_t slow_start_ms; // CLOCK_MONOTONIC when slow start began; 0 = no slow start
	uint32_t reserved2[2];
	char name[WEIR_NAME_BYTES];
};
_Static_assert(sizeof(struct weir_identity_backend) == 128, "segment ABI");
#define WEIR_WEIGHT_UNSET 0xffffffffu

// Administrative states. X(NAME, "name")
#define WEIR_ADMIN_STATES(X) X(READY, "ready") X(DRAIN, "drain") X(MAINTENANCE, "maintenance")

enum weir_admin_state {
#define X(name, key) WEIR_ADMIN_##name,
	WEIR_ADMIN_STATES(X)
#undef X
};

// The progress of a drain that an operator has started, or of a removal. X(NAME, "name")
#define WEIR_DRAIN_PHASES(X) \
	X(NONE, "none") /* no drain, or a drain that needs no action by control */ \
	X(DRAINING, "draining") /* there are open flows, and the deadline has not passed */ \
	X(DRAINED, "drained") /* no open flow was left */ \
	X(KEPT, "kept") /* flows were left at the deadline: these flows continue */ \
	X(DROPPED, "dropped") /* flows were left at the deadline: clients of TCP flows get RSTs */

enum weir_drain_phase {
#define X(name, key) WEIR_DRAIN_##name,
	WEIR_DRAIN_PHASES(X)
#undef X
};

// --- roots and news -------------------------------------------------------------------------

struct weir_roots { // [control]; 64-aligned, selection[] follows with max_services elements
	weir_ref services;
	uint64_t reserved[7];
	weir_ref selection[]; // indexed by service id
};

// The data that a worker reads in every iteration, in one cache line that control writes only for a
// publication, a grace period, a capture order, or a change of `stealing`.
struct weir_news { // [control]
	// Position of the next entry in the update log. A new control process advances the
	// position by more entries than the log has, which makes workers read all tables.
	uint64_t updates;
	uint64_t token; // token of the newest grace period (grace.h); odd
	uint64_t stealing; // enum weir_stealing: whether workers are allowed to steal buckets now
	uint64_t capture; // number of the active order (capture.h), 0 = none
	uint64_t reserved[4];
} __attribute__((aligned(64)));

// Values that control keeps for the next control process. Workers read only `backend_ids`, for a
// full scan; the dataplane's main thread also reads `heap_used`, to map the written part.
struct weir_notes { // [control]
	uint64_t control_pid; // 0 = none attached
	uint64_t publications; // total number of publications, for statistics only
	uint64_t generation; // generation of the newest blob
	// The heap beyond this offset from its start has never been written
	uint64_t heap_used;
	uint32_t service_ids; // all service ids in use are below this number
	uint32_t backend_ids;
	uint64_t stealing; // enum weir_stealing: set by an operator; UNSET = not set
	uint64_t reserved[2];
} __attribute__((aligned(64)));

enum weir_update_kind {
	WEIR_UPDATE_SERVICES, // the service table
	WEIR_UPDATE_SELECTION, // the selection of the service whose id is in the lower half
	WEIR_UPDATE_ROW, // the row of the backend whose id is in the lower half
};

#define WEIR_UPDATES 4096u // number of entries in the log, a power of two

struct weir_update_log { // [control]; entry n, counted from 0, is at n % WEIR_UPDATES
	uint32_t update[WEIR_UPDATES]; // kind << 16 | id
};

static inline uint32_t weir_update(enum weir_update_kind kind, uint16_t id) {
	return (uint32_t)kind << 16 | id;
}

// A worker's report for grace periods (grace.h).
struct weir_quiescence { // [worker]
	uint64_t token; // last reported token; 0 = offline: the worker uses no table
} __attribute__((aligned(64)));

// Counts of the tables and rows that a worker has refused, because an offset or a number is out of
// bounds, or a value is unknown. The worker keeps using the previous table or row. Until control
// has replaced a refused table (not a row), the worker reports no token, so that no grace period
// ends.
struct weir_refusals { // [worker]
	uint64_t services; // total number of refused service tables
	uint64_t selections;
	uint64_t rows;
	uint64_t refused; // number of roots whose current table is refused
	uint32_t change; // the last refused root or row, encoded as in the update log
	uint32_t reserved0;
	weir_ref ref; // the refused reference; 0 for rows
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct weir_refusals) == 64, "one writer per cache line");

// --- counters (counters.h) ----------------------------------------------------------------

struct weir_worker_counters { // [worker]
#define X(field, unit, metric, text) uint64_t field;
	WEIR_PIPELINE_COUNTERS_5(X)
	WEIR_DIRECT_COUNTERS_5(X)
	WEIR_WORKER_GAUGES(X)
	uint64_t heartbeat_ns; // CLOCK_MONOTONIC; updated about every millisecond
	uint64_t drops[WEIR_DROP_REASON_SLOTS]; // index: enum weir_drop_reason
	WEIR_PIPELINE_COUNTERS_6(X)
	WEIR_DIRECT_COUNTERS_6(X)
#undef X
	uint64_t reserved[6];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_worker_counters) == 768, "segment ABI");

// Counters per worker and service, and counters per worker and backend.
struct weir_share_counters { // [worker]
#define X(field, unit, metric, text) uint64_t field;
	WEIR_SHARE_FIGURES(X)
#undef X
	// Number of flows whose backend has answered the SYN, so that they can no longer count in
	// `errors`; counted only with WEIR_NEEDS_RESULTS. Not shown to users.
	uint64_t established;
	// Flows of the backend that are half-open now; counted only with WEIR_NEEDS_HALF_OPEN. Not
	// shown to users.
	uint64_t half_open;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_share_counters) == 128, "two cache lines");
_Static_assert(offsetof(struct weir_share_counters, timed_out) == 56,
	"timed_out must end the first cache line");

// Maximum number of DPDK xstats of a device, without the xstats of its queues.
#define WEIR_PORT_XSTATS 128

struct weir_port_xstat { // [dp]
	char name[56]; // name in DPDK; written before the segment is handed over
	uint64_t value;
};

// Link state of a port's device, as reported by its driver. Since ABI 15.
enum weir_device_link { WEIR_DEVICE_LINK_UNKNOWN, WEIR_DEVICE_LINK_DOWN, WEIR_DEVICE_LINK_UP };

// Counters of a port, written by the dataplane's main thread about every 500 ms with relaxed
// stores.
struct weir_port_counters { // [dp]
#define X(field, unit, metric, text) uint64_t field;
	WEIR_PORT_COUNTERS(X)
#undef X
	uint64_t read_ns; // CLOCK_MONOTONIC when the counters were last read, 0 = never
	uint64_t xstats; // elements of xstat[] in use; constant
	uint64_t link; // enum weir_device_link
	uint64_t reserved[9];
	struct weir_port_xstat xstat[WEIR_PORT_XSTATS];
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct weir_port_counters, xstat) == 192, "segment ABI");

// --- buckets of flows: the unit in which workers steal flows -------------------------------
//
// If the header's `bucketing` is YES, each flow belongs to one of WEIR_BUCKETS buckets. Each bucket
// belongs to one worker, its owner. Control determines which workers are overloaded and sends them
// requests to move buckets to other workers (WEIR_MESSAGE_STEAL in mailbox.h).

#define WEIR_BUCKETS 1024u // power of two

// Whether flows are in buckets that can move between workers and, if not, the reason.
// X(NAME, "reason")
#define WEIR_BUCKETING(X) \
	X(UNKNOWN, "this weir-dataplane does not move flows between workers") \
	X(YES, "") \
	X(ONE_WORKER, "there is only one worker") \
	X(DEVICE_RSS, "the device of a port assigns flows to the workers by RSS") \
	X(RSS_HASH, "the device of a port assigns flows by RSS, but does not report the hash of " \
		    "packets") \
	X(RSS_TABLE, \
		"the device of a port assigns flows by RSS, and its redirection table (RETA) " \
		"cannot be updated") \
	X(RSS_KEYS, "the devices of the ports use different RSS keys")

enum weir_bucketing {
#define X(name, text) WEIR_BUCKETING_##name,
	WEIR_BUCKETING(X)
#undef X
		WEIR_BUCKETING_COUNT
};

// Whether workers are allowed to steal buckets. UNSET: no value was set by control or an operator,
// so the configuration applies. X(NAME, "name")
#define WEIR_STEALING(X) X(UNSET, "unset") X(ON, "on") X(OFF, "off")

enum weir_stealing {
#define X(name, text) WEIR_STEALING_##name,
	WEIR_STEALING(X)
#undef X
};

// Answers of a worker to a request for a bucket. X(NAME, "key", "text")
#define WEIR_BUCKET_ANSWERS(X) \
	X(NONE, "none", "no answer") \
	X(CONFIRMED, "confirmed", "accepted: the two workers complete the move of the bucket") \
	X(NOT_BUCKETED, "not_bucketed", "flows are not in buckets") \
	X(OFF, "off", "stealing is switched off") \
	X(OUT_OF_RANGE, "out_of_range", "no such bucket or worker") \
	X(SELF, "self", "the thief already has the bucket") \
	X(NOT_OWNER, "not_owner", "the bucket belongs to a worker other than the victim") \
	X(BUSY, "busy", "the victim or the thief is already moving a bucket") \
	X(LATE, "late", "the request arrived after its deadline")

enum weir_bucket_answer {
#define X(name, key, text) WEIR_BUCKET_##name,
	WEIR_BUCKET_ANSWERS(X)
#undef X
		WEIR_BUCKET_ANSWER_COUNT
};

#define WEIR_BUCKET_ANSWER_SLOTS 16 // counters per worker, indexed by enum weir_bucket_answer
_Static_assert((int)WEIR_BUCKET_ANSWER_COUNT <= WEIR_BUCKET_ANSWER_SLOTS, "segment ABI");

// For each bucket: the number of packets that this worker has received from queues and assigned
// to the bucket.
struct weir_bucket_packets { // [worker]
	uint64_t packets[WEIR_BUCKETS];
} __attribute__((aligned(64)));

// The owner of each bucket. Written by the worker that has taken over the bucket, and by the
// dataplane before workers start.
struct weir_bucket_owners { // [worker], relaxed stores by any worker
	uint8_t owner[WEIR_BUCKETS];
} __attribute__((aligned(64)));
_Static_assert(WEIR_WORKERS_MAX <= 256, "the index of a worker fits in a byte");

struct weir_steal_counters { // [worker]
#define X(field, unit, metric, text) uint64_t field;
	WEIR_STEAL_COUNTERS(X)
#undef X
	uint64_t answers[WEIR_BUCKET_ANSWER_SLOTS]; // answers to control and to other workers
	uint64_t reserved[3];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_steal_counters) == 192, "segment ABI");

// --- limits of active flows ---------------------------------------------------------------
//
// Each backend has one struct weir_limit_word (policy.h). All workers write struct weir_limit_word
// and struct weir_bucket_owners; all other cache lines in statistics have one writer.

// --- service times: single producer, single consumer --------------------------------------
//
// A worker writes one sample per completed flow of services with WEIR_NEEDS_TIMES, if it measured
// the flow from its first packet. If control does not read in time, samples are lost and counted;
// workers never wait.

#define WEIR_SAMPLES 16384 // power of two, per worker

#define WEIR_SAMPLE_TICK_NS 1024u

struct weir_sample { // 16 bytes, [worker]
	// Time from the first packet of the flow to its FIN or RST, or to the last packet of a UDP
	// flow.
	uint64_t service_ns;
	uint16_t backend;
	uint16_t reserved;
	// Time when service_ns ended: lower 32 bits of CLOCK_MONOTONIC / WEIR_SAMPLE_TICK_NS.
	uint32_t end;
};
_Static_assert(sizeof(struct weir_sample) == 16, "segment ABI");

struct weir_sample_ring { // [worker]
	uint64_t tail __attribute__((aligned(64))); // total number of samples written
	uint64_t lost; // number of samples lost because the ring was full
	struct weir_sample sample[WEIR_SAMPLES] __attribute__((aligned(64)));
};

// The read position in a ring that another process fills.
struct weir_ring_position {
	uint64_t head __attribute__((aligned(64))); // total number of elements read
};

// --- mailboxes: single producer, single consumer, see mailbox.h ----------------------------

#define WEIR_MAILBOX_MESSAGES 64 // power of two
#define WEIR_MESSAGE_BYTES 128

// A ring is split between the two memory areas: fields written by the producer are in the memory
// area of the producer; fields written by the consumer (struct weir_ring_position) are in the
// memory area of the consumer.
struct weir_mailbox_ring { // [producer]
	uint64_t tail __attribute__((aligned(64))); // index of the next message to write
	uint8_t message[WEIR_MAILBOX_MESSAGES][WEIR_MESSAGE_BYTES] __attribute__((aligned(64)));
};

// --- lists of flows and of affinity entries, which do not fit into a message ----------------
// See WEIR_MESSAGE_FLOW_LIST and WEIR_MESSAGE_SOURCE_WALK.

#define WEIR_FLOW_PAGES 8u // pages per worker: maximum number of responses at a time
#define WEIR_FLOW_PAGE_FLOWS 64u

struct weir_listed_flow { // 48 bytes, [worker]; addresses and ports in network order
	uint8_t source[16]; // IPv4: in the first 4 bytes, remaining bytes 0
	uint8_t destination[16];
	uint16_t source_port;
	uint16_t destination_port;
	uint32_t idle_ms; // time since the last packet
	uint16_t backend;
	uint8_t family; // 4 or 6
	uint8_t protocol;
	uint8_t state; // enum weir_flow_state
	uint8_t reserved[3];
};
_Static_assert(sizeof(struct weir_listed_flow) == 48, "segment ABI");

#define WEIR_SOURCE_LINE 8u // affinity entries in a line of the affinity table
#define WEIR_SOURCE_PAGE 1536u // maximum number of affinity entries on a page

// The worker writes a page before the response, which contains the number of flows, or of affinity
// entries, on the page. The page does not change until the next request for this page.
struct weir_flow_pages { // [worker]
	union {
		struct weir_listed_flow flow[WEIR_FLOW_PAGES][WEIR_FLOW_PAGE_FLOWS];
		// backends of affinity entries, see WEIR_MESSAGE_SOURCE_WALK
		uint16_t source[WEIR_FLOW_PAGES][WEIR_SOURCE_PAGE];
	};
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_flow_pages) ==
		       sizeof(struct weir_listed_flow[WEIR_FLOW_PAGES][WEIR_FLOW_PAGE_FLOWS]),
	"a page of affinity entries must not be larger than a page of flows");

// The part of statistics that one worker writes, in addition to its counters.
struct weir_worker_box { // [worker]
	struct weir_mailbox_ring response;
	struct weir_ring_position request; // the worker's read position in control's requests
	struct weir_sample_ring samples;
};

// The part of tables that control writes for one worker: requests, and read positions in rings.
struct weir_control_box { // [control]
	struct weir_mailbox_ring request;
	struct weir_ring_position response; // control's read position in the worker's responses
	struct weir_ring_position samples;
};

// --- header -------------------------------------------------------------------------------

struct weir_port_info { // 128 bytes, [dp]
	char name[WEIR_NAME_BYTES]; // name in the configuration
	char kernel_interface[16]; // the kernel's interface on this network, "" = none
	uint32_t kernel_ifindex; // index of kernel_interface; 0 = none
	uint16_t mtu; // largest IP packet, bytes
	uint16_t vlan; // tag of outgoing frames, 0 = none
	uint8_t mac[6];
	uint8_t steered; // 1 = a steer program filters this port (the handover passes its map)
	uint8_t reserved[33];
};
_Static_assert(sizeof(struct weir_port_info) == 128, "segment ABI");

struct weir_segment_header { // [dp]
	uint64_t magic;
	uint32_t abi;
	uint32_t header_bytes; // sizeof(struct weir_segment_header)
	uint64_t fingerprint; // fingerprint of this layout (fingerprint.h)
	uint64_t epoch; // random, new at every start of the dataplane
	uint64_t tsc_hz;
	uint64_t hash_seed;
	uint32_t dataplane_pid;
	uint32_t workers;
	uint32_t ports;
	// Number of elements of roots.selection[], and of a worker's service counters
	uint32_t max_services;
	uint32_t max_backends; // number of elements of each worker's backend counters
	uint32_t reserved0;
	// Statistics: offsets from the start of the memory area.
	uint64_t statistics_bytes;
	uint64_t quiescence_off; // struct weir_quiescence[workers]
	uint64_t refusals_off; // struct weir_refusals[workers]
	uint64_t worker_counters_off; // struct weir_worker_counters[workers]
	uint64_t worker_boxes_off; // struct weir_worker_box[workers]
	uint64_t service_counters_off; // struct weir_share_counters[workers][max_services]
	uint64_t backend_counters_off; // struct weir_share_counters[workers][max_backends]
	// Tables: offsets from the start of the memory area.
	uint64_t tables_bytes;
	uint64_t news_off; // struct weir_news, struct weir_notes, struct weir_update_log
	uint64_t roots_off; // struct weir_roots
	uint64_t control_boxes_off; // struct weir_control_box[workers]
	uint64_t identity_services_off; // struct weir_identity_service[max_services]
	uint64_t identity_backends_off; // struct weir_identity_backend[max_backends]
	uint64_t service_bases_off; // struct weir_share_counters[max_services]
	uint64_t backend_bases_off; // struct weir_share_counters[max_backends]
	uint64_t rows_off; // struct weir_row_pair[max_backends]
	uint64_t costs_off; // uint64_t[max_backends], signals (backend_signal.h); relaxed stores
	uint64_t heap_off; // blobs; 64-aligned
	uint64_t heap_bytes;
	struct weir_port_info port[WEIR_PORTS_MAX];
	uint64_t port_counters_off; // statistics: struct weir_port_counters[ports]
	// Statistics, since ABI 8.
	uint64_t bucket_packets_off; // struct weir_bucket_packets[workers]
	uint64_t bucket_owners_off; // struct weir_bucket_owners
	uint64_t steal_counters_off; // struct weir_steal_counters[workers]
	uint32_t bucketing; // enum weir_bucketing
	uint32_t reserved1;
	uint64_t flow_pages_off; // statistics, since ABI 9: struct weir_flow_pages[workers]
	uint64_t capture_rings_off; // statistics, since ABI 10: struct weir_capture_ring[workers]
	uint64_t capture_control_off; // tables, since ABI 10: struct weir_capture_control
	uint64_t limit_words_off; // statistics, since ABI 15: struct weir_limit_word[max_backends]
};
