// SPDX-License-Identifier: BSD-3-Clause
//
// Tables: builds and publishes tables from a configuration and the state of its backends. The core
// of weir-control without its event loop: weir-pcap and the tests run the same code.
//
// Keeps ids stable: services and backends have the same id as long as they exist under the same
// (service, backend) name; an id is given to another only after no flow refers to it (the sum of
// the workers' active_flows is 0 after a grace period) (design invariant: ids are stable).
//
// Published tables survive this process: weir_tables_open adopts their identities (S3). After a
// dataplane restart the same state is published again into the new segment with weir_tables_rebind
// (S4).
//
// Threads: one. No I/O, no clock (time is an argument), no logging.
#pragma once

#include "config.h"
#include "writer.h"

struct weir_tables;

// State of one backend, set by health checks, operators and the neighbour watcher; read by the API.
struct weir_backend_state {
	char service[WEIR_NAME_BYTES];
	char name[WEIR_NAME_BYTES];
	struct weir_address address;
	uint16_t id;
	uint16_t service_id;
	uint8_t admin; // enum weir_admin_state
	uint64_t admin_ms; // when it changed (CLOCK_MONOTONIC); 0 = not in this process
	uint8_t health; // enum weir_health_state
	bool ejected; // takes no new flows for a while, see outliers.h
	bool leaving; // removed from the configuration, still has flows or a service that holds it
	bool resolved; // next hop known
	uint16_t path_mtu; // 0 = that of the port
	bool in_selection; // takes new flows of some worker now (panic and subsets included)
	uint8_t flags; // WEIR_BACKEND_CLOSED to WEIR_BACKEND_RESET: as published
	struct weir_policy_share share; // slow start; all zero = none
	uint32_t configured_weight; // the value of "auto", if automatic
	bool weight_auto; // the configured weight is "auto"
	uint32_t auto_weight; // from its CPUs, if automatic; 0 = unknown
	uint32_t runtime_weight; // WEIR_WEIGHT_UNSET = none
	uint32_t reported_weight; // 0 = none
	uint32_t own_weight; // WEIR_WEIGHT_UNSET = none
	uint32_t effective_weight;
	uint8_t drain; // enum weir_drain_phase
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline. Used while draining
	uint64_t drain_left; // as given to weir_tables_end_drain. Used when kept or dropped
	uint32_t max_active_flows; // its own limit, see weir_tables_set_limit; 0 = none
	uint32_t limit; // of its active flows at all workers together, as published; 0 = none
	bool at_limit; // see weir_tables_set_limit
	uint64_t identity; // hash of service and name
};

// Next hop of packets to a backend, from the kernel or the configuration.
struct weir_next_hop {
	bool resolved;
	uint8_t port; // index
	uint8_t mac[6];
	struct weir_address source; // outer source address
	uint8_t source_bits; // IPv4: number of its low bits that vary by flow
	uint16_t mtu; // of the path, bytes of outer packet; 0 = that of the port
};

// Open tables over a segment and adopt its contents. Nothing is published before the first apply.
// segment NULL: not available yet, see weir_tables_rebind. Returns 0 or -ENOMEM.
int weir_tables_open(struct weir_segment *segment, struct weir_tables **ret);
void weir_tables_free(struct weir_tables *tables); // published tables stay

// Move to a new segment (the dataplane restarted) and publish everything there. segment NULL:
// unbind; changes are kept and published by the next rebind. The previous segment must stay mapped
// until this returns. A segment that another control process wrote is adopted as by open, and then
// what was set in this process is set again: ids may change, look them up afterwards. Returns 0, or
// a negative errno: -ENOSPC (ids), -ENOMEM, and it is unbound (weir_tables_segment), or one of
// weir_tables_publish, and it is bound: publish again.
int weir_tables_rebind(struct weir_tables *tables, struct weir_segment *segment);

// Make `config` the configuration (borrowed: must outlive the tables, or the next apply, which
// compares with it). All or nothing: on error the published tables stay. Only what differs is
// published. Administrative states and run-time weights are kept; a run-time weight is dropped when
// the configured weight of its backend changes. New backends start as STARTING when their service
// has a health check, else HEALTHY. why gets one line. Waits up to WEIR_TABLES_WAIT_MS if memory is
// free only after a grace period. Returns 0, -ENOSPC (ids, heap or services exhausted), -EBUSY (a
// worker still uses replaced tables after that time: retry), -ENOMEM, -EEXIST (two services claim
// the same port), -EINVAL (more backends than table_size; a table_size that is not prime).
//
// At the first configuration over a segment, ids may still be in use from an earlier process.
// Entries without a free id are left out until leaving ones are removed, if there are enough ids
// for the whole configuration: see weir_tables_waiting, then apply the same configuration again.
#define WEIR_TABLES_WAIT_MS 500u
int weir_tables_apply(
	struct weir_tables *tables, const struct weir_config *config, char *why, size_t why_bytes);

// Find the next hop of an address without waiting: true if it is resolved now.
typedef bool (*weir_tables_find_hop_fn)(
	void *context, const struct weir_address *address, struct weir_next_hop *ret);
// From here on an apply asks `find` for the next hops of its unresolved backends, so that the first
// packets of a new service find them. Not while unbound. find may call the getters, which answer
// from before the apply.
void weir_tables_find_hops(struct weir_tables *tables, weir_tables_find_hop_fn find, void *context);

// Number of services and backends of the configuration without an id; usually 0. *ret_retry: ids
// were freed since the last apply, so that a retry may succeed.
uint32_t weir_tables_waiting(const struct weir_tables *tables, bool *ret_retry);

// Changes; each marks what it touches, weir_tables_publish publishes all marks at once.
// backend is a backend id. Return 0 or -ENOENT.
int weir_tables_set_admin(
	struct weir_tables *tables, uint16_t backend, enum weir_admin_state admin);
// Set the phase of its drain: DRAINING to KEPT also set admin DRAIN, and DROPPED sets MAINTENANCE.
// weir_tables_set_admin ends a drain. These three also set a removed backend, whose flows
// on_backend_down decides about all the same.
int weir_tables_set_drain(struct weir_tables *tables, uint16_t backend, enum weir_drain_phase phase,
	uint64_t until_ns);
// Set the phase at the end of a drain. left: open flows at that time, for this process only;
// WEIR_FLOWS_UNKNOWN also when an earlier process ended the drain.
#define WEIR_FLOWS_UNKNOWN UINT64_MAX
int weir_tables_end_drain(
	struct weir_tables *tables, uint16_t backend, enum weir_drain_phase phase, uint64_t left);
int weir_tables_set_health(
	struct weir_tables *tables, uint16_t backend, enum weir_health_state health);
int weir_tables_set_weight(
	struct weir_tables *tables, uint16_t backend, uint32_t weight); // or UNSET
// Set the capacity that a backend reported; 0 = unknown. Replaces the configured weight (unless
// that is 0) if the service's policy uses reported weights.
int weir_tables_set_reported_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
// Set the value of a backend's configured weight "auto", computed from its CPUs. 0 = unknown: the
// mean of the known ones of its service, or WEIR_CONFIG_WEIGHT_DEFAULT if none is known. Stored for
// the next control process. -ENOENT also if its weight is not automatic.
int weir_tables_set_auto_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
#define WEIR_WEIGHT_AUTO_MOST 65535u
// Set the weight that a backend reported for itself, used with any policy; WEIR_WEIGHT_UNSET =
// none. Replaces the configured weight, even if that is 0, but not a run-time weight.
int weir_tables_set_own_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
// Set the backend's own limit of active flows (0 = none), and whether it counts as at its limit
// now. Published in its row. The limit is that of all workers together; of one worker of a
// dataplane before WEIR_ABI_SHARED_LIMITS.
int weir_tables_set_limit(
	struct weir_tables *tables, uint16_t backend, uint32_t max_active_flows, bool at_limit);
int weir_tables_set_next_hop(
	struct weir_tables *tables, uint16_t backend, const struct weir_next_hop *hop);
int weir_tables_next_hop(
	const struct weir_tables *tables, uint16_t backend, struct weir_next_hop *ret);
// Ejected: no new flows except in panic. Not stored for the next control process.
int weir_tables_set_ejected(struct weir_tables *tables, uint16_t backend, bool ejected);
// Whether new flows could use another backend without a panic if this one were ejected.
bool weir_tables_may_eject(const struct weir_tables *tables, uint16_t backend);

// The policy of a service, until the configured one changes; WEIR_POLICY_UNSET = as configured.
// Returns 0, -ENOENT, -EINVAL (unknown policy, or the file has settings that do not fit it:
// weir_config_policy_misfit).
int weir_tables_set_policy(struct weir_tables *tables, uint16_t service, uint8_t policy);
// Whether service times of its flows are measured even if its policy does not need them; initially
// not. Returns 0 or -ENOENT.
int weir_tables_set_measured(struct weir_tables *tables, uint16_t service, bool measured);
// How long an error counts, if the configuration does not set it. Returns 0 or -ENOENT.
int weir_tables_set_error_window(struct weir_tables *tables, uint16_t service, uint32_t ms);
#define WEIR_ERROR_WINDOW_LEAST_MS 1000u // used until set

// Drains of binds: those of a service, or those with an address (NULL = all). Packets that begin a
// flow are refused; existing flows continue. Number of selected binds:
uint32_t weir_tables_select_binds(
	const struct weir_tables *tables, uint16_t service, const struct weir_address *address);
// Number of these that are drained:
uint32_t weir_tables_select_drained(
	const struct weir_tables *tables, uint16_t service, const struct weir_address *address);
// Begin their drain (another deadline for all drained binds of the service, 0 = none), or end it.
// A new bind of a drained address, or of a service that is drained as a whole, is drained, too.
// Returns 0 or -ENOENT.
int weir_tables_drain_binds(struct weir_tables *tables, uint16_t service,
	const struct weir_address *address, bool drained, uint64_t until_ns);
// The first service from this id on whose binds drain: id or -ENOENT.
int weir_tables_next_draining(const struct weir_tables *tables, uint32_t from);
// Set the phase at the end of a drain. DROPPED: its flows end; only if all its binds are drained,
// else KEPT. left: as of weir_tables_end_drain. Returns the phase or -ENOENT.
int weir_tables_end_bind_drain(
	struct weir_tables *tables, uint16_t service, enum weir_drain_phase phase, uint64_t left);
uint32_t weir_tables_drained_binds(const struct weir_tables *tables, uint16_t service);
// The published bind of a destination, as weir_service_lookup has it; WEIR_SERVICE_NONE also
// without a segment. address: 16 bytes, IPv4 zero padded.
uint16_t weir_tables_bind_at(const struct weir_tables *tables, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t port);
// bind: as in the configuration of the service.
bool weir_tables_bind_is_drained(const struct weir_tables *tables, uint16_t service, uint32_t bind);

// Whether a drained backend or bind has no flow if the counters have none. Not while a worker has
// not adopted the last begun drain, and may begin another flow; while unbound; and for a time after
// a restart of the dataplane, which counts an existing flow from its next packet on.
#define WEIR_TABLES_RECOUNT_MS 60000
bool weir_tables_counts_drains(const struct weir_tables *tables);
// The rest of that time, in milliseconds; 0 = over, or no restart.
uint64_t weir_tables_recount_left_ms(const struct weir_tables *tables);
// This process was started after a dataplane that may have been restarted: age_ms is the time since
// that dataplane started. Another process in its place may have seen the restart.
void weir_tables_recount_since(struct weir_tables *tables, uint64_t age_ms);

// Removals: what a configuration, with `drain.removed_ms` above 0, no longer has drains until a
// deadline. Binds of TCP: packets that begin a flow are refused, existing flows continue; at the
// deadline with on_backend_down "reset" workers end them, and the binds stay refused for the
// timeout of established flows, because a client in a transfer ignores an RST with a number that it
// is past, and needs several; otherwise the binds are withdrawn, and the flows continue. A service:
// the same for its binds; its backends are down from the deadline on.
//
// The first service with a removal from this id on: id or -ENOENT.
int weir_tables_next_removal(const struct weir_tables *tables, uint32_t from);
// End the present phase of a removal: drained (no flows are left), or its end was reached. Returns
// enum weir_drain_phase: DRAINED, DROPPED or KEPT (what happens to the flows), or -ENOENT.
int weir_tables_end_removal(struct weir_tables *tables, uint16_t service, bool drained);
// The removed binds in the service table, of a service or (WEIR_SERVICE_NONE) of all; ranges may be
// in parts. Fills up to `room` elements. Returns their number. Reads the whole published table for
// more than the first ones of a service.
uint32_t weir_tables_removed_binds(const struct weir_tables *tables, uint16_t service,
	struct weir_config_bind *ret, uint32_t room);
uint32_t weir_tables_removed_count(const struct weir_tables *tables); // of all; cheap
// Whether a service has lost this VIP: it is that of a removed bind that drains, or was one of a
// service that this process removed, until its last flow has ended. Reads as much as
// weir_tables_removed_binds.
bool weir_tables_has_lost(
	const struct weir_tables *tables, uint16_t service, const struct weir_address *address);
// The first of those of a service, without reading the table. Returns their number.
#define WEIR_TABLES_FIRST_REMOVED 2u
uint32_t weir_tables_first_removed(const struct weir_tables *tables, uint16_t service,
	struct weir_config_bind ret[WEIR_TABLES_FIRST_REMOVED]);

// Whether replaced tables wait for a grace period. Once none do, retry what returned -EBUSY.
bool weir_tables_wait(struct weir_tables *tables);

// Publish what is marked, in the order of layout.h, then reclaim. Never waits. While unbound: only
// decide panic and subsets, for the getters below. Returns the number of selections, service tables
// and touched ids published (0 before the first apply: marks are kept), or -ENOSPC, -EBUSY, -ENOMEM
// (marks are kept; only rows changed, which need no memory: workers pass over closed backends).
int weir_tables_publish(struct weir_tables *tables);

// Do one step of rebuilding stale selections: in a large service a backend's change first closes or
// opens its row, and the selection is rebuilt in steps. A step takes less than a millisecond at
// 10,000 backends, the last one, which publishes, a few milliseconds. Returns 1 while steps remain,
// 0 when all selections have the chosen backends, or -ENOSPC, -EBUSY, -ENOMEM: retry later.
int weir_tables_build(struct weir_tables *tables);
bool weir_tables_is_stale(const struct weir_tables *tables); // whether steps may remain

// Work done since the tables were opened.
struct weir_tables_work {
	uint64_t backends; // examined by decisions
	uint64_t slots; // written by builders
};
struct weir_tables_work weir_tables_work(const struct weir_tables *tables);

// Whether results of weir_tables_backend_is_far may have changed since the last call.
bool weir_tables_far_changed(struct weir_tables *tables);

// A table that a worker has refused.
struct weir_tables_refusal {
	uint32_t worker;
	enum weir_update_kind kind;
	uint16_t id; // of the service or backend
	bool restored; // the previous table, or a later one, is published now
};
// Find a table that a worker refused since the last call (in the first call: that it refuses now),
// and publish the previous table again; if that is gone, mark it to be rebuilt. Returns false if
// there is none. Call in a loop until then, about every 100 ms.
bool weir_tables_refused(struct weir_tables *tables, struct weir_tables_refusal *ret);

// Set the time, CLOCK_MONOTONIC: call about every 100 ms, and before a publication or a new
// configuration. Backends in slow start advance at the next publication, and those that become
// eligible begin it at this time.
void weir_tables_clock(struct weir_tables *tables, uint64_t now_ms);

// Reclaim memory and ids of removed backends; publish marks that an earlier publish could not. Call
// about every 100 ms. Never waits.
void weir_tables_tick(struct weir_tables *tables);

// Look up and enumerate. Indexes run over ids; -ENOENT for a free id.
uint32_t weir_tables_backend_ids(const struct weir_tables *tables);
// The same for services, see weir_tables_service.
uint32_t weir_tables_service_ids(const struct weir_tables *tables);
int weir_tables_backend(
	const struct weir_tables *tables, uint16_t id, struct weir_backend_state *ret);
// Whether tunnel packets of this next hop have this outer source.
bool weir_next_hop_has_source(const struct weir_next_hop *hop, const struct weir_address *source);
// Whether tunnel packets to a backend have this outer source.
bool weir_tables_has_source(
	const struct weir_tables *tables, uint16_t id, const struct weir_address *source);
// Whether a tunnel packet of this length goes to a backend in one piece; true if that is unknown.
bool weir_tables_fits(const struct weir_tables *tables, uint16_t id, uint32_t bytes);
// Its active flows, summed over workers: unlike the others, reads shared memory for each worker.
uint64_t weir_tables_backend_flows(const struct weir_tables *tables, uint16_t id);
int weir_tables_backend_find(const struct weir_tables *tables, const char *service,
	const char *name); // id or -ENOENT
// A removed backend that would be this one again: the same name and address. Returns its id or
// -ENOENT.
int weir_tables_backend_find_removed(const struct weir_tables *tables, uint16_t service,
	const struct weir_config_backend *config);
int weir_tables_service_find(const struct weir_tables *tables, const char *name); // id, -ENOENT
// A service that was removed and drains, or still has flows. Id or -ENOENT.
int weir_tables_service_find_removed(const struct weir_tables *tables, const char *name);
// Its configuration, borrowed until the next weir_tables_apply; NULL if it is not configured, or
// waits for an id. Takes no longer with more services.
const struct weir_config_service *weir_tables_service_config(
	const struct weir_tables *tables, const char *name);
const char *weir_tables_service_name(const struct weir_tables *tables, uint16_t id); // or NULL

// The removed backends of a name, each with an address of its own: a reload gave the backend
// another one, or took it from the service. Fills up to `room` ids. Returns their number.
uint32_t weir_tables_backends_removed(const struct weir_tables *tables, uint16_t service,
	const char *name, uint16_t *ids, uint32_t room);

// The backends with an address, in any service, removed ones among them. Fills up to `room` ids.
// Returns their number.
uint32_t weir_tables_backends_at(const struct weir_tables *tables,
	const struct weir_address *address, uint16_t *ids, uint32_t room);

const char *weir_tables_backend_name(const struct weir_tables *tables, uint16_t id); // or NULL
// Id of the service of a backend, or WEIR_SERVICE_NONE: for quick filtering.
uint16_t weir_tables_backend_service(const struct weir_tables *tables, uint16_t id);

// The name of an id as used by a worker that has adopted the changes below this number of the
// update log: NULL also if the id was reused since.
const char *weir_tables_service_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates);
const char *weir_tables_backend_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates);

struct weir_service_state {
	uint16_t id;
	bool panic; // fewer than panic_threshold_percent of the backends in service (healthy,
		    // ejected, or refusing after having been healthy) are eligible: all of these
		    // are used; if none is eligible, drained, lame and never healthy ones, too
	bool leaving; // no longer configured; it stays until its flows and its removal have ended
	uint32_t backends, eligible; // eligible: ready, healthy, weight above 0 (panic left out)
	uint32_t resolved; // have a next hop, of those that are eligible or allowed by panic
	uint32_t slots; // of all subsets; 0 = the policy does not use slots
	uint32_t table_slots; // of one subset that has candidates; 0 as above
	uint32_t subsets; // published: 1, or one per worker; 0 = nothing published, or no segment
	uint64_t parts; // sum over its backends
	uint64_t generation; // of its selection
	uint8_t policy; // enum weir_policy, in effect
	uint8_t configured_policy;
	uint8_t runtime_policy; // WEIR_POLICY_UNSET = none
	// Zeroed for a service that leaves. With the configured limit of active flows, which may
	// be published in the rows instead.
	struct weir_policy_settings settings;
	uint8_t drain; // enum weir_drain_phase of its drained binds
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline
	uint64_t drain_left; // as of a backend
	uint64_t drain_begun_ms; // its last drain, CLOCK_MONOTONIC; 0 = before this process
	// Of its removed binds, or (leaving) of itself: enum weir_drain_phase NONE, DRAINING, or
	// DROPPED: the flows of its removed binds have ended.
	uint8_t removal;
	uint64_t removal_until_ns; // CLOCK_MONOTONIC, end of the phase
	uint32_t removed_binds; // in the service table
	uint8_t down_flags; // WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET, or 0
};
int weir_tables_service(
	const struct weir_tables *tables, uint16_t id, struct weir_service_state *ret);

// Flows of a service for which a worker that starts may find another backend, although their
// backend is in the selection: at most so many of its open flows.
struct weir_former_flows {
	// Began before the last change of its selection (backends, weights, settings), of the rows
	// of its backends (open or closed) or of its binds, since the dataplane was started.
	// UINT64_MAX = unknown: workers may still use the previous tables, or an earlier process
	// published it.
	uint64_t older;
	uint64_t spilled; // began since, at another backend than the selection has for them
};
// A worker has moved a flow to this backend, which the selection may not have for it: the present
// flows of the service count as older ones.
void weir_tables_flow_moved(struct weir_tables *tables, uint16_t backend);
// Reads shared memory for each worker.
struct weir_former_flows weir_tables_former_flows(
	const struct weir_tables *tables, uint16_t service);

// The backend's parts in the published selection: slots (maglev), strides (weighted-round-robin),
// weights (time-weighted, interleaved: of the time, not of the flows), else 1. 0 = takes no flows.
uint64_t weir_tables_backend_parts(const struct weir_tables *tables, uint16_t backend);

struct weir_subset_part {
	uint16_t backend;
	uint64_t parts;
};
// The parts in one published subset (below weir_service_state.subsets), in the order of its
// candidates; parts of different subsets are not comparable. Fills up to `room` elements. Returns
// their number; 0 if nothing is published.
uint32_t weir_tables_subset_parts(const struct weir_tables *tables, uint16_t service,
	uint32_t subset, struct weir_subset_part *ret, uint32_t room);

// --- subsets ---

// How a service is divided into subsets. With subsetting off (no algorithm, or a size that is not
// below the number of backends) there is one subset, of all backends.
struct weir_subset_state {
	struct weir_subset_params params; // of this instance's first subset
	enum weir_subset_client client;
	bool off;
	uint32_t
		subsets; // of this instance: 1, or one per worker; clients params.client + 0, 1 ...
	uint64_t clients; // of the whole fleet
	uint32_t backends; // in the list
};
int weir_tables_subset(
	const struct weir_tables *tables, uint16_t service, struct weir_subset_state *ret);

// Whether a backend is far from use: in each subset of this instance it ranks behind the members
// and a few usable spares (a tenth of the size, at least WEIR_SUBSET_SPARES_LEAST). Its health is
// less urgent.
bool weir_tables_backend_is_far(const struct weir_tables *tables, uint16_t backend);
#define WEIR_SUBSET_SPARES_LEAST 2u

struct weir_subset_member {
	uint16_t backend;
	uint16_t replaces; // the unusable member that it replaces, or WEIR_BACKEND_NONE
	bool unusable; // member of the subset, not used now
};
// A subset of this instance (below subsets): its members in order of preference, then substitutes.
// In panic a subset takes its share of the service's eligible backends, rounded up, and fills the
// rest with backends that only panic allows. ret has room for all backends of the list. Returns
// their number, -ENOENT, -ENOMEM.
int weir_tables_subset_members(const struct weir_tables *tables, uint16_t service, uint32_t subset,
	struct weir_subset_member *ret);

struct weir_subset_count {
	uint16_t backend;
	bool usable;
	uint32_t clients; // in the fleet that use it, as computed by this instance
};
// Clients of each backend, in canonical order. ret has room for all backends of the list. Returns
// their number, -ENOENT, -ENOMEM. With more than WEIR_SUBSET_PAIRS_MAX pairs of clients and
// backends all clients are 0: computing them would take too long.
int weir_tables_subset_counts(
	const struct weir_tables *tables, uint16_t service, struct weir_subset_count *ret);
#define WEIR_SUBSET_PAIRS_MAX 2000000u

struct weir_writer *weir_tables_writer(struct weir_tables *tables); // NULL while unbound
const struct weir_segment *weir_tables_segment(const struct weir_tables *tables);
const struct weir_config *weir_tables_config(const struct weir_tables *tables);
