// SPDX-License-Identifier: BSD-3-Clause
//
// Layout of the segment: the memory that weir-dataplane and weir-control share.
//
// The dataplane creates it (a sealed memfd that cannot shrink), fills the header and hands it to
// the control process over a unix socket (handover.h). Everything is an offset from the start,
// fixed width, little endian as the host is; there are no pointers. Each field names its writer:
//   [dp]      the dataplane, once, before the segment is handed over
//   [worker]  one worker, its own line, relaxed stores
//   [control] the control process
//
// The control process publishes by storing a reference (below) into a root with release order.
// Guarantees kept by this folder:
//   S2 a worker sees either the old table or the new, whole.
//   S3 control may die at any instruction: only complete blobs are ever referenced, and a new
//      control process finds all it needs to go on in the three tables and the identity blob.
//   S5 a blob is reused only after every worker has reported a quiescent state.
//
// Order of publication (control) and of loading (worker), each with release/acquire:
//   publish: identity -> backends -> selection -> services      load: services -> selection ->
//   backends. So whoever sees a selection also sees the backends that it names.
// Withdrawal is the reverse, with a grace period before ids or memory are used again.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "counters.h"
#include "drop_reasons.h"
#include "policy.h"

#define WEIR_SEGMENT_MAGIC 0x3147455352494557ull // "WEIRSEG1" in memory
#define WEIR_SEGMENT_ABI 4

#define WEIR_WORKERS_MAX 64
#define WEIR_PORTS_MAX 16
#define WEIR_SERVICES_MAX 4096
#define WEIR_BACKENDS_MAX 65535 // ids 0..65534
#define WEIR_BACKEND_NONE 0xffffu // "no backend" where an id is expected
#define WEIR_SERVICE_NONE 0xffffu
#define WEIR_NAME_BYTES 64 // names of services, backends and ports, with the final NUL
#define WEIR_TABLE_SLOTS_MAX 16777213u // the largest prime below 2^24

// A reference to a published blob: generation in the upper 32 bits (never 0 while live), offset
// / 64 in the lower. Unique per publication, so that "same reference" means "same blob" even when
// memory is reused. 0 = nothing published.
typedef uint64_t weir_ref;

enum weir_blob_kind {
	WEIR_BLOB_SERVICES = 1, // struct weir_service_table
	WEIR_BLOB_BACKENDS, // struct weir_backend_table
	WEIR_BLOB_SELECTION, // struct weir_selection
	WEIR_BLOB_IDENTITY, // struct weir_identity
};

// At the head of every blob. Blobs are 64-byte aligned and immutable once referenced.
struct weir_blob { // [control]
	uint32_t kind; // enum weir_blob_kind
	uint32_t generation; // as in the reference
	uint64_t bytes; // whole blob, header included, multiple of 64
};

// --- services -----------------------------------------------------------------------------

// What a key of the service table means. One open-addressing hash table holds all three.
enum weir_bind_kind {
	WEIR_BIND_EXACT = 1, // address, protocol, port -> service
	WEIR_BIND_RANGES, // address, protocol -> ranges[first .. first + count)
	WEIR_BIND_ADDRESS, // address alone -> it is a VIP (for ICMP and for what no port matches)
};

// IPv4 addresses are stored in the first 4 bytes, the rest 0; family tells them apart.
struct weir_bind { // 32 bytes, [control]
	uint8_t address[16];
	uint8_t family; // 4 or 6; 0 = free bucket
	uint8_t protocol; // IPPROTO_TCP, IPPROTO_UDP; 0 with WEIR_BIND_ADDRESS
	uint8_t kind; // enum weir_bind_kind
	uint8_t reserved;
	uint16_t port; // host order, WEIR_BIND_EXACT only
	uint16_t service; // WEIR_BIND_EXACT: service id
	uint32_t first; // WEIR_BIND_RANGES: first element in ranges[]
	uint32_t count; // WEIR_BIND_RANGES: how many
};
_Static_assert(sizeof(struct weir_bind) == 32, "segment ABI");

struct weir_bind_range { // ports of "every port" (0..65535) or of a range, sorted, disjoint
	uint16_t first; // host order
	uint16_t last; // inclusive
	uint16_t service;
	uint16_t reserved;
};
_Static_assert(sizeof(struct weir_bind_range) == 8, "segment ABI");

struct weir_service_table { // blob, [control]
	struct weir_blob blob;
	uint32_t buckets; // power of two, at most half full
	uint32_t ranges;
	uint64_t buckets_off; // from the start of the blob: struct weir_bind[buckets]
	uint64_t ranges_off; // from the start of the blob: struct weir_bind_range[ranges]
	uint64_t hash_seed;
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct weir_service_table) == 64, "segment ABI");

// --- backends -----------------------------------------------------------------------------

enum weir_backend_flag {
	WEIR_BACKEND_PRESENT = 1u << 0, // the id is in use; flows may refer to it
	WEIR_BACKEND_RESOLVED = 1u << 1, // header[] holds the next hop's MAC address
	WEIR_BACKEND_USABLE = 1u << 2, // takes new flows (informational: selection decides)
};

#define WEIR_OUTER_HEADER_BYTES 62 // Ethernet 14 + two VLAN tags 8 + IPv6 40

// One backend as a worker needs it: a prebuilt outer header to copy in front of the packet. For
// the worker only total length, TTL, DSCP/ECN and the IPv4 checksum are left to fill in.
// Indexed by backend id. The first cache line is all that an IPv4 backend needs.
struct weir_backend_row { // 128 bytes, [control]
	uint8_t flags; // enum weir_backend_flag
	uint8_t port; // index of the port to send on
	uint8_t outer_family; // 4 or 6: family of the backend's own address
	uint8_t l2_bytes; // length of the Ethernet header and its tags: 14, 18 or 22
	uint8_t header_bytes; // l2_bytes + 20 or + 40
	uint8_t reserved0;
	uint16_t mtu; // largest outer IP packet, bytes: that of the port
	uint16_t service; // the service that the backend belongs to
	uint16_t checksum_base; // IPv4: ones' complement sum of the constant fields of header[]
	uint32_t reserved1;
	uint8_t header[WEIR_OUTER_HEADER_BYTES + 2]; // at byte 16; first header_bytes are valid
	uint8_t reserved2[48];
};
_Static_assert(sizeof(struct weir_backend_row) == 128, "segment ABI");

struct weir_backend_table { // blob, [control]
	struct weir_blob blob;
	uint32_t rows; // ids 0 .. rows - 1
	uint32_t reserved0;
	uint64_t rows_off; // from the start of the blob: struct weir_backend_row[rows], 64-aligned
	uint64_t reserved[4];
};
_Static_assert(sizeof(struct weir_backend_table) == 64, "segment ABI");

// --- selection, one per service -----------------------------------------------------------

// What a worker chooses from. Offsets are from the start of the blob.
struct weir_selection_subset { // 24 bytes, [control]
	uint32_t candidates; // eligible ones; 0 = there are none: packets drop as no_backend
	uint32_t slots; // of the Maglev table; 0 only without candidates
	uint32_t rounds; // 0 without WEIR_NEEDS_ROUNDS, or without candidates
	uint32_t candidates_off; // struct weir_candidate[candidates]
	uint32_t slots_off; // uint16_t[slots], index into candidates[]
	uint32_t rounds_off; // struct weir_round[rounds]
};
_Static_assert(sizeof(struct weir_selection_subset) == 24, "segment ABI");

// One subset, that all workers share; or several: worker w has number w modulo their number.
struct weir_selection { // blob, [control]
	struct weir_blob blob;
	uint16_t service;
	uint16_t subsets; // 1..WEIR_WORKERS_MAX
	uint32_t
		others_off; // from the start of the blob: struct weir_selection_subset[subsets - 1]
	struct weir_policy_settings settings;
	struct weir_selection_subset first; // number 0; the others follow at others_off
};
_Static_assert(sizeof(struct weir_selection) == 64, "segment ABI");

// --- identity: who the ids are; written and read by control only --------------------------
//
// All that a restarted control process must not forget: which id is whose, administrative
// states and weights set at run time. Workers never read it.

struct weir_identity_service {
	char name[WEIR_NAME_BYTES]; // "" = free id
	uint8_t configured_policy; // enum weir_policy
	uint8_t runtime_policy; // set by an operator; WEIR_POLICY_UNSET = none
	uint8_t reserved[6];
};
#define WEIR_POLICY_UNSET 0xffu

struct weir_identity_backend {
	char name[WEIR_NAME_BYTES]; // "" = free id
	uint8_t address[16];
	uint8_t family;
	uint8_t admin_state; // enum weir_admin_state
	uint8_t health_state; // enum weir_health_state
	uint8_t leaving; // removed from the configuration; id kept until no flow refers to it
	uint16_t service;
	uint16_t reserved0;
	uint32_t configured_weight;
	uint32_t runtime_weight; // set by an operator; WEIR_WEIGHT_UNSET = none
};
#define WEIR_WEIGHT_UNSET 0xffffffffu

struct weir_identity { // blob, [control]
	struct weir_blob blob;
	uint32_t services; // ids 0 .. services - 1
	uint32_t backends; // ids 0 .. backends - 1
	uint64_t services_off;
	uint64_t backends_off;
	uint64_t reserved[3];
};
_Static_assert(sizeof(struct weir_identity) == 64, "segment ABI");

// X(NAME, "name")
#define WEIR_ADMIN_STATES(X) X(READY, "ready") X(DRAIN, "drain") X(MAINTENANCE, "maintenance")
#define WEIR_HEALTH_STATES(X) \
	X(STARTING, "starting") \
	X(HEALTHY, "healthy") X(LAME_DUCK, "lame-duck") X(REFUSING, "refusing")

enum weir_admin_state {
#define X(name, key) WEIR_ADMIN_##name,
	WEIR_ADMIN_STATES(X)
#undef X
};

enum weir_health_state {
#define X(name, key) WEIR_HEALTH_##name,
	WEIR_HEALTH_STATES(X)
#undef X
};

// --- roots --------------------------------------------------------------------------------

struct weir_roots { // [control]; 64-aligned, selection[] follows with max_services elements
	weir_ref services;
	weir_ref backends;
	weir_ref identity;
	uint64_t publications; // total, informational
	uint64_t control_pid; // 0 = none attached
	uint64_t generation; // last one given to a blob: the next control process continues from
			     // here
	uint64_t heap_used; // bytes of the heap that ever held a blob; beyond is untouched
	uint64_t reserved[1];
	weir_ref selection[]; // by service id
};

// --- counters (counters.h) ----------------------------------------------------------------

struct weir_worker_counters { // [worker]
#define X(field, unit, metric, text) uint64_t field;
	WEIR_WORKER_FIGURES(X)
#undef X
	uint64_t heartbeat_ns; // CLOCK_MONOTONIC, about every millisecond
	uint64_t drops[WEIR_DROP_REASON_SLOTS]; // by enum weir_drop_reason
} __attribute__((aligned(64)));

// Per worker and service, and per worker and backend.
struct weir_share_counters { // [worker]
#define X(field, unit, metric, text) uint64_t field;
	WEIR_SHARE_FIGURES(X)
#undef X
	uint64_t reserved[4];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_share_counters) == 128, "two cache lines");
_Static_assert(offsetof(struct weir_share_counters, timed_out) == 56, "ends the first cache line");

// --- service times: single producer, single consumer --------------------------------------
//
// A worker writes one sample per completed flow of the services whose policy needs them, and none
// for others. When control does not read, samples are lost and counted; nothing waits.

#define WEIR_SAMPLES 16384 // power of two, per worker

struct weir_sample { // 16 bytes, [worker]
	uint64_t service_ns; // first packet to FIN or RST, or to the last packet of a UDP flow
	uint16_t backend;
	uint16_t reserved[3];
};
_Static_assert(sizeof(struct weir_sample) == 16, "segment ABI");

struct weir_sample_ring {
	uint64_t head __attribute__((aligned(64))); // [control] samples read
	uint64_t tail __attribute__((aligned(64))); // [worker] samples written
	uint64_t lost; // [worker] samples that found the ring full
	struct weir_sample sample[WEIR_SAMPLES] __attribute__((aligned(64)));
};

// --- mailboxes: single producer, single consumer, see mailbox.h ----------------------------

#define WEIR_MAILBOX_MESSAGES 64 // power of two
#define WEIR_MESSAGE_BYTES 128

struct weir_mailbox_ring {
	uint64_t head __attribute__((aligned(64))); // next to read, written by the consumer
	uint64_t tail __attribute__((aligned(64))); // next to write, written by the producer
	uint8_t message[WEIR_MAILBOX_MESSAGES][WEIR_MESSAGE_BYTES] __attribute__((aligned(64)));
};

struct weir_mailbox {
	struct weir_mailbox_ring request; // producer: control, consumer: the worker
	struct weir_mailbox_ring response; // producer: the worker, consumer: control
};

// --- header -------------------------------------------------------------------------------

struct weir_port_info { // 128 bytes, [dp]
	char name[WEIR_NAME_BYTES]; // as configured
	char kernel_interface[16]; // where the kernel sees this network, "" = nowhere
	uint32_t kernel_ifindex; // 0 = none
	uint16_t mtu; // bytes of IP packet
	uint16_t vlan; // tag of outgoing frames, 0 = none
	uint8_t mac[6];
	uint8_t steered; // 1 = a steer program filters this port (its map came with the handover)
	uint8_t reserved[33];
};
_Static_assert(sizeof(struct weir_port_info) == 128, "segment ABI");

struct weir_segment_header { // [dp], but for nothing: control never writes here
	uint64_t magic;
	uint32_t abi;
	uint32_t header_bytes; // sizeof(struct weir_segment_header)
	uint64_t bytes; // of the whole segment
	uint64_t epoch; // random, new at every start of the dataplane
	uint64_t tsc_hz;
	uint64_t hash_seed;
	uint32_t dataplane_pid;
	uint32_t workers;
	uint32_t ports;
	uint32_t
		max_services; // elements of roots.selection[] and of each worker's service counters
	uint32_t max_backends; // elements of each worker's backend counters
	uint32_t reserved0;
	uint64_t qsbr_off; // struct rte_rcu_qsbr for `workers` readers; reader id = worker index
	uint64_t qsbr_bytes;
	uint64_t roots_off; // struct weir_roots
	uint64_t worker_counters_off; // struct weir_worker_counters[workers]
	uint64_t service_counters_off; // struct weir_share_counters[workers][max_services]
	uint64_t backend_counters_off; // struct weir_share_counters[workers][max_backends]
	uint64_t mailboxes_off; // struct weir_mailbox[workers]
	uint64_t samples_off; // struct weir_sample_ring[workers]
	uint64_t costs_off; // uint64_t[max_backends], ns, 0 = unknown; [control], relaxed stores
	uint64_t heap_off; // blobs; 64-aligned
	uint64_t heap_bytes;
	struct weir_port_info port[WEIR_PORTS_MAX];
};
