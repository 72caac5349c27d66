// SPDX-License-Identifier: BSD-3-Clause
//
// State: the services and backends of the tables, as flat arrays indexed by id. Private to this
// folder. A configuration is applied to a clone of the state, which replaces the state only after
// everything was published.
//
// Threads: one, the owner of the tables.
#pragma once

#include "selection.h"
#include "tables.h"

// Life of an id. Each step waits for a grace period of the workers, in the order of withdrawal in
// layout.h: services -> selection -> backends -> the id itself.
enum weir_id_stage {
	WEIR_ID_FREE,
	WEIR_ID_LIVE,
	WEIR_ID_LEAVING, // no longer configured, still published
	WEIR_ID_UNCHOSEN, // not in any published selection; readers of old ones may still choose
			  // it. A backend keeps its row until its last flow has ended
	WEIR_ID_CLEARING, // backends only: the next publication withdraws its row
	WEIR_ID_CLEARED, // row (service: selection) withdrawn; waits for the readers, a service for
			 // its last flow
};

// Values set by a caller in this process, which take precedence over those in a segment.
enum weir_set_flag {
	WEIR_SET_ADMIN = 1u << 0,
	WEIR_SET_HEALTH = 1u << 1,
	WEIR_SET_WEIGHT = 1u << 2,
	WEIR_SET_NEXT_HOP = 1u << 3,
};

// Groups of backends, in order of preference for new flows.
enum weir_group {
	WEIR_GROUP_ELIGIBLE, // ready, healthy
	// Ready and refusing, but was healthy before: its checks may be wrong. Or ejected.
	WEIR_GROUP_MAYBE_UP,
	WEIR_GROUP_LAST_RESORT, // all except maintenance: drained, lame duck, or never healthy
	WEIR_GROUP_NONE, // takes no flows
	WEIR_GROUPS,
};

// The former flows of a service (former.c).
enum weir_former_stage {
	WEIR_FORMER_NONE, // no selection was published: no flow has begun
	WEIR_FORMER_KNOWN,
	WEIR_FORMER_CHANGED, // its backends or weights have changed since they were counted
	WEIR_FORMER_SETTLING, // the same; workers may use the previous tables until former_mark
};

// Lists link ids as id + 1, so that zeroed memory is an empty list.
struct weir_service_entry {
	char name[WEIR_NAME_BYTES];
	const struct weir_config_service *config; // NULL unless live
	uint64_t mark; // grace period of the stage
	uint64_t identity; // hash of the name
	uint64_t since; // weir_state.updates when it got its id
	uint32_t seen; // serial of the last configuration with it
	uint32_t backends; // live
	uint32_t members; // live and leaving
	uint32_t eligible;
	uint32_t slots; // of the published selection; 0 = its policy does not use slots
	uint32_t table_slots; // of one subset
	uint64_t parts; // sum over its backends in the selection
	uint64_t generation; // of the selection whose parts were counted, 0 = none
	uint32_t error_window_ms; // automatic; 0 = not computed yet
	uint32_t max_active_flows; // as last configured; 0 = no limit
	uint32_t auto_mean; // mean of the known automatic weights, as last decided; 0 = none known
	uint32_t subsets; // of this instance, as last decided: 1, or one for each worker
	// As last decided; updated while single backends move if `counted`.
	uint32_t in_group[WEIR_GROUPS]; // members of each group
	uint32_t resolved; // members allowed by group and panic, with a known next hop
	uint32_t chosen; // members
	uint32_t listed; // members that are candidates of the published selection
	uint32_t listed_chosen; // both
	uint16_t first; // list of its backends
	uint16_t hash_next;
	uint8_t stage; // enum weir_id_stage
	uint8_t configured_policy; // enum weir_policy
	uint8_t runtime_policy; // WEIR_POLICY_UNSET = none
	uint8_t down_flags; // WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET, or 0: for backends that are
			    // down; unchanged while the service leaves
	bool measured; // a caller needs the service times of its flows
	bool policy_set; // runtime_policy was set by a caller in this process
	bool adopted; // came out of a segment, not out of a configuration
	bool panic;
	bool slow_start; // some of its backends are in slow start
	bool parts_stale; // its parts must be counted again although its selection is unchanged
	bool dirty; // its selection may have changed
	bool undecided; // its members may have changed
	bool moved; // some of its backends have
	bool counted;
	bool divided; // into subsets
	bool stale; // its selection must be rebuilt, in steps
	uint8_t worst; // enum weir_group: worst one allowed by panic
	bool touched; // in the list of those with something to publish
	bool drain_set; // drained or ready by a caller in this process
	uint8_t drain; // enum weir_drain_phase of its drained binds
	uint64_t drain_until_ns; // CLOCK_MONOTONIC, 0 = no deadline
	uint64_t drain_left; // open flows at its end, or WEIR_FLOWS_UNKNOWN
	uint64_t drain_begun_ms; // last order of a drain, CLOCK_MONOTONIC; 0 = before this process
	uint64_t drained[WEIR_CONFIG_BINDS_MAX / 64]; // a bit per bind of config
	// Its removed binds, or its own removal while it leaves: NONE, DRAINING, or DROPPED
	// (removed binds whose flows have ended).
	uint8_t removal; // enum weir_drain_phase
	uint32_t removed_ms; // how long they drain, as last configured; 0 = not at all
	uint64_t removal_until_ns; // CLOCK_MONOTONIC, end of the phase
	uint32_t removed_binds; // in the service table
	struct weir_config_bind removed_first[WEIR_TABLES_FIRST_REMOVED]; // of these
	bool removed_ended; // the flows of some of these have ended
	uint8_t former_stage; // enum weir_former_stage
	uint64_t former_mark;
	// Once known: its active flows after the last change of its choice, and its spilled ones so
	// far.
	uint64_t former_flows;
	uint64_t former_spilled;
};

struct weir_backend_entry {
	char name[WEIR_NAME_BYTES];
	struct weir_address address;
	struct weir_next_hop hop;
	uint64_t mark;
	uint64_t identity; // hash of service and name: the same on every instance
	uint64_t since; // weir_state.updates when it got its id
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline
	uint64_t drain_left; // open flows at its end, or WEIR_FLOWS_UNKNOWN
	uint32_t configured_weight; // unless it is automatic
	uint32_t auto_weight; // from its CPUs, if automatic; 0 = unknown
	uint32_t runtime_weight;
	uint32_t reported_weight; // 0 = none
	uint32_t own_weight; // from its own report, replaces the configured one; WEIR_WEIGHT_UNSET
			     // = none
	uint32_t max_active_flows; // its own limit, see weir_tables_set_limit; 0 = none
	uint64_t parts; // of its service's, in the published selection, if open
	uint64_t admin_ms; // time of the last change of admin in this process; 0 = none
	uint64_t slow_start_ms; // start of its slow start; 0 = not in slow start
	uint64_t subsets; // bit i: member of subset i
	uint32_t rank; // in the canonical order of its service; only with subsetting
	uint32_t seen;
	uint16_t service;
	uint16_t next; // in its service's list
	uint16_t previous; // 0 = first of the list
	uint16_t hash_next;
	uint16_t leaving_at; // index in the list of leaving backends
	uint8_t stage;
	struct weir_policy_share share; // slow start, as last decided; all zero = none
	uint8_t admin;
	uint8_t health;
	uint8_t drain; // enum weir_drain_phase
	uint8_t set; // enum weir_set_flag
	bool adopted; // came out of a segment, not out of a configuration
	bool weight_auto; // the configured weight is computed from its CPUs
	bool usable; // may take new flows: eligible or allowed by panic; and its next hop is
		     // resolved, or no other one's is
	uint8_t flags; // of its row, as decided: WEIR_BACKEND_CLOSED to WEIR_BACKEND_RESET
	bool proven; // was healthy since configured; see weir_backend_set_health
	bool at_limit; // takes no new flows while others can
	bool ejected; // its connections fail: no new flows for a while
	bool eligible; // ready, healthy, not ejected, weight above 0
	bool chosen; // belongs in the selection: usable, and in a subset
	bool far; // see weir_tables_backend_is_far
	bool listed; // is a candidate of the published selection
	bool in_selection; // listed and chosen
	bool moved; // its group, its next hop or its drain may have changed
	bool resolved; // its next hop is resolved, as last decided
	uint8_t group; // enum weir_group, as last decided
	bool dirty; // its row may have changed
	bool touched; // in the list of those with something to publish
};

struct weir_state { // freed and cloned as a whole
	struct weir_service_entry *services; // [WEIR_SERVICES_MAX], memory is committed on use
	struct weir_backend_entry *backends; // [WEIR_BACKENDS_MAX]
	uint16_t *service_heads;
	uint16_t *backend_heads;
	// Ids with something to publish, each once, so that the cost of a publication depends on
	// the changes, not on the number of backends.
	uint16_t *touched_services;
	uint16_t *touched_backends;
	uint16_t *leaving; // leaving backends, unordered; backends_leaving elements
	uint32_t touched_service_count;
	uint32_t touched_backend_count;
	uint32_t leaving_next; // index in leaving where the next search for backends without flows
			       // begins
	uint32_t service_ids; // ids in use are below
	uint32_t backend_ids;
	uint32_t backend_free; // no id below is free
	struct weir_subset_place place; // of this instance; workers: of the segment
	uint32_t clients; // groups of instances in the fleet
	uint32_t service_limit; // capacity of the segment
	uint32_t backend_limit;
	uint32_t services_leaving;
	uint32_t backends_leaving;
	uint64_t now_ms; // CLOCK_MONOTONIC of the last tick; 0 = none yet
	uint64_t examined; // backends examined by decisions
	uint64_t updates; // of the segment's update log, before the last publication
	uint32_t serial; // of the configuration
	uint32_t waiting; // services and backends of the configuration without an id
	bool all_dirty; // anything may differ from the published state, not only touched ids
	bool undecided; // some service is undecided
	bool services_dirty; // the service table may have changed
	bool stale; // some service may be stale
	bool draining; // some service may have drained binds, and flows
	bool removing; // some service may have a removal
	uint32_t removed_binds; // of all services
	uint32_t established_ms; // timeout of flows, as configured
	bool former_changed; // the former flows of some service may be to be counted
	bool separate_limits; // each worker of the segment has its own limits of active flows
	bool far_changed; // weir_backend_entry.far of some backend may have changed
};

int weir_state_create(struct weir_state **ret);
void weir_state_free(struct weir_state *state); // NULL is allowed
int weir_state_clone(const struct weir_state *state, struct weir_state **ret);

// Compare everything with the published state at the next publication.
void weir_state_mark_all(struct weir_state *state);
void weir_state_mark_service(struct weir_state *state, uint16_t service); // its selection
void weir_state_mark_backend(struct weir_state *state, uint16_t backend); // its row
// Whether it takes new flows. Costs one backend, unless others are affected (weir_eligible_move).
void weir_state_move_backend(struct weir_state *state, uint16_t backend);
// Only what is stored for the next control process.
void weir_state_touch_service(struct weir_state *state, uint16_t service);
void weir_state_touch_backend(struct weir_state *state, uint16_t backend);

// --- ids.c ---

// Add a name with an id chosen by the caller (adoption), or with the lowest free id. Return the id,
// -ENOSPC, -EEXIST (the id is taken, or the name is: live services and backends are unique). The
// entry is LIVE and otherwise zeroed, a backend's run-time weight unset.
int weir_service_id_take(struct weir_state *state, uint16_t id, const char *name);
int weir_service_id_add(struct weir_state *state, const char *name);
int weir_backend_id_take(struct weir_state *state, uint16_t id, uint16_t service, const char *name,
	const struct weir_address *address);
int weir_backend_id_add(struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address);
void weir_service_id_del(struct weir_state *state, uint16_t id);
void weir_backend_id_del(struct weir_state *state, uint16_t id);

// The service with a name, even if it is leaving. Id or -ENOENT.
int weir_service_id_find(const struct weir_state *state, const char *name);
// The live backend with a name. Id or -ENOENT.
int weir_backend_id_find(const struct weir_state *state, uint16_t service, const char *name);
// The leaving backend of a name and address. Id or -ENOENT.
int weir_backend_id_find_leaving(const struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address);
// All leaving backends of a name. Fills up to `room` ids. Returns their number.
uint32_t weir_backend_ids_leaving(const struct weir_state *state, uint16_t service,
	const char *name, uint16_t *ids, uint32_t room);

// Move between LIVE and LEAVING; updates the counts and marks changes.
void weir_backend_leave(struct weir_state *state, uint16_t id);
void weir_backend_revive(struct weir_state *state, uint16_t id);
void weir_service_leave(struct weir_state *state, uint16_t id); // with its backends
void weir_service_revive(struct weir_state *state, uint16_t id); // its backends stay leaving

// --- settings.c ---

enum weir_policy weir_service_policy(const struct weir_service_entry *service); // in effect
// Whether the reported weights of a service's backends count.
bool weir_service_takes_reports(const struct weir_service_entry *service);
// The settings to publish with a selection of the service, which must have a configuration.
struct weir_policy_settings weir_service_settings(
	const struct weir_state *state, const struct weir_service_entry *service);
// The limit of active flows in a backend's row; 0 = none.
uint32_t weir_backend_limit(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// Mark its backends if the configured limit has changed. The service must have a configuration.
void weir_service_follow_limit(struct weir_state *state, struct weir_service_entry *service);
// Drop a policy set at run time when the configured one changes, or when settings of the file no
// longer fit it.
void weir_service_follow_policy(struct weir_state *state, struct weir_service_entry *service);

// --- eligible.c ---

// Set its health. Marks nothing.
void weir_backend_set_health(struct weir_backend_entry *backend, enum weir_health_state health);
// The weight of the configuration: the number in it, or the value of "auto".
uint32_t weir_backend_configured_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
uint32_t weir_backend_effective_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// Whether a backend takes new flows. The selection of a removed service stays published while its
// binds, which refuse new flows, drain.
static inline bool weir_backend_takes_flows(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	return backend->in_selection && state->services[backend->service].stage == WEIR_ID_LIVE;
}
// The weight in a selection: slow start scales it if the policy chooses by slots.
uint32_t weir_backend_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// Decide which backends of a service belong in its selection, panic and subsets included, and how
// flows of the others are treated. Marks the rows that change. Returns 0 or -ENOMEM (unchanged).
int weir_eligible_decide(struct weir_state *state, uint16_t service);
// Decide about moved backends one by one. The service is left undecided if panic, subsets or slow
// start affect other backends too.
void weir_eligible_move(struct weir_state *state);
// Whether, if this backend were ejected, another one would take its flows without a panic, as last
// decided.
bool weir_eligible_may_eject(const struct weir_state *state, uint16_t backend);
// Call weir_eligible_decide for all undecided services, whether or not they can be published.
// Returns 0 or -ENOMEM (some may be decided).
int weir_eligible_decide_all(struct weir_state *state);
// Whether the published selection differs from the chosen backends.
bool weir_eligible_differ(const struct weir_service_entry *service);
// Fill a member for weir_selection_build. Returns false if the backend is not chosen. Sets
// *reported if its weight was reported.
bool weir_eligible_member(const struct weir_state *state, uint16_t backend,
	struct weir_selection_member *ret, bool *reported);
// Fill the chosen members for weir_selection_build, and whether any weight was reported. members
// has room for service->backends. Returns their number.
uint32_t weir_eligible_members(const struct weir_state *state, uint16_t service,
	struct weir_selection_member *members, bool *ret_reported);

// --- bind_drains.c ---

bool weir_bind_drains_has(const struct weir_service_entry *service, uint32_t bind);
// Whether all binds are drained, and their flows have ended.
bool weir_bind_drains_ended(const struct weir_service_entry *service);
// The flags of a bind in the service table.
uint16_t weir_bind_drains_flags(const struct weir_service_entry *service, uint32_t bind);
// Call before the configuration of a service is replaced: binds of a drained address stay drained.
void weir_bind_drains_follow(
	struct weir_service_entry *service, const struct weir_config_service *config);
void weir_bind_drains_clear(struct weir_service_entry *service);
// After the first configuration over a segment: find the binds that are drained in the published
// service table. view: NULL = none.
void weir_bind_drains_adopt(struct weir_state *state, const struct weir_services_view *view);

// --- removals.c ---

// Whether the removal of a service that leaves is not over: it stays published.
bool weir_removal_holds(const struct weir_service_entry *service);
// Call before weir_service_leave, and before its drain is cleared.
void weir_removal_begin(struct weir_state *state, uint16_t service);
// Collect the binds of TCP in the published service table that `built`, made from the configuration
// alone, does not have, and that drain; begins the drains of new ones. Returns an array of *ret_n
// elements for the caller to free, or NULL: none, or no memory.
struct weir_service_bind *weir_removals_collect(struct weir_state *state,
	const struct weir_services_view *published, const struct weir_services_view *built,
	uint32_t *ret_n);
// These binds are in the new table; n = 0: none. Ends the removals of services without any.
void weir_removals_settle(
	struct weir_state *state, const struct weir_service_bind *removed, uint32_t n);

// --- flows.c ---

// Sum the active flows. Returns false if some may be missing, because a bucket of flows was moving
// between workers.
bool weir_flows_service(const struct weir_segment *segment, uint16_t service, uint64_t *ret);
bool weir_flows_backend(const struct weir_segment *segment, uint16_t backend, uint64_t *ret);

// --- former.c ---

// New flows of a service may get other backends than before, or its binds have changed.
void weir_former_changed(struct weir_state *state, uint16_t service);
// The same for a published selection, which may be its first one. Call before it is stored.
void weir_former_published(
	const struct weir_segment *segment, struct weir_state *state, uint16_t service);
// The services were published by an earlier process: all their flows may be former ones.
void weir_former_adopt(struct weir_state *state);
// Count the former flows of changed services once workers have adopted the changes.
void weir_former_tick(struct weir_tables *tables);

// --- slow_start.c ---

// Call when a backend becomes eligible, or is no longer eligible.
void weir_slow_start_begin(const struct weir_state *state, struct weir_backend_entry *backend);
void weir_slow_start_end(struct weir_state *state, uint16_t backend);
// Compute the progress of a service's chosen backends. Marks the rows that change. Returns 0 or
// -ENOMEM.
int weir_slow_start_decide(struct weir_state *state, struct weir_service_entry *service);
// Mark the services whose next step is due. A window has WEIR_SLOW_START_STEPS steps.
void weir_slow_start_tick(struct weir_state *state, uint64_t now_ms);
#define WEIR_SLOW_START_STEPS 60u

// --- subsets.c ---

// Rank the backends of a service in the canonical order, which is the same for all clients. Call
// after the configuration was applied. Returns 0 or -ENOMEM.
int weir_subsets_rank(struct weir_state *state, const struct weir_service_entry *service);
// Assign the usable backends of a service to the subsets of this instance. Returns 0 or -ENOMEM
// (unchanged).
int weir_subsets_decide(struct weir_state *state, struct weir_service_entry *service);

// --- apply.c ---

// Apply a configuration to the state. On error the caller must discard the state. With `wait`,
// entries without a free id are left out and counted (waiting), if there are enough ids for the
// whole configuration once leaving entries are removed.
int weir_state_apply(struct weir_state *state, const struct weir_config *config, bool wait,
	char *why, size_t why_bytes);

// --- adopt.c ---

// Fill an empty state from a segment.
void weir_state_adopt(struct weir_state *state, const struct weir_segment *segment);
// Copy the ids of `from` to an empty state if all fit: callers still use them with a new dataplane.
void weir_state_retain(struct weir_state *state, const struct weir_state *from);
// Copy what callers in this process set in `from`: everything for backends that are not in the
// segment, else only what was set explicitly.
void weir_state_inherit(struct weir_state *state, const struct weir_state *from);

struct weir_rebuild;

struct weir_kept_vip {
	struct weir_address address;
	uint64_t identity; // of the service
	uint16_t service;
};

struct weir_tables {
	struct weir_segment *segment; // NULL while unbound
	struct weir_writer *writer;
	struct weir_state *state;
	const struct weir_config *config;
	weir_tables_find_hop_fn find_hop; // NULL = none
	void *find_context;
	struct weir_rebuild *rebuild; // in progress; NULL = none
	uint16_t rebuild_next; // service at which the search for the next one begins
	uint64_t slots_written; // by the builders of selections
	uint64_t epoch; // of the last segment bound
	uint32_t leaving; // services and backends that left after the last apply
	bool drain_begun; // since the last publication
	uint64_t drain_mark; // grace period of the last one with a begun drain
	uint64_t recount_ms; // until then a restarted dataplane may not have counted all flows
	uint64_t refusals[WEIR_WORKERS_MAX]; // refused tables already handled, by worker
	struct weir_kept_vip *kept; // of removed services
	uint32_t kept_count;
};

// --- kept_vips.c ---

// Note the VIPs of services that a new configuration does not have; former: the one before, or
// NULL. Without memory, some are not noted.
void weir_kept_vips_follow(struct weir_tables *tables, const struct weir_config *former);

// --- refusals.c ---

// Ignore refusals of an earlier process's tables that were since replaced by valid ones. Call when
// a segment is bound.
void weir_refusals_begin(struct weir_tables *tables, const struct weir_segment *segment);

// --- identity.c ---

// Update an id's identity in the segment, store by store: a process that ends between two stores
// leaves a consistent identity. A backend or service with a new id takes the counters in the
// segment as its baseline. The ids are reserved (writer.h).
void weir_identity_store_service(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id);
void weir_identity_store_backend(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id);
// Fill an empty state from the identities in a segment. Inconsistent entries are left out.
void weir_identity_adopt(struct weir_state *state, const struct weir_segment *segment);

// --- build.c ---

// The row of a backend, all zeroes when the id is free or its row is withdrawn.
void weir_build_row(const struct weir_tables *tables, const struct weir_state *state, uint16_t id,
	struct weir_backend_row *ret);
// Build a blob from the state. Returns 0 and a blob that the caller owns, or NULL if it equals the
// published one; -ENOSPC, -EBUSY, -ENOMEM, -EEXIST (two services claim the same port), -EINVAL
// (more backends than slots).
int weir_build_selection(struct weir_tables *tables, const struct weir_state *state,
	uint16_t service, struct weir_blob **ret);
// Whether a selection with `open` open candidates still serves a service with `chosen` chosen
// backends: the open ones are most of either, so that a worker's search finds one
// (WEIR_POLICY_SEARCH).
bool weir_build_serves(uint32_t candidates, uint32_t open, uint32_t chosen);
// Whether the service's selection may be built later, in steps: workers skip closed candidates, and
// the published one still serves, judged by its candidates and its slots. at_once: number of
// selections that the publication builds already; small ones wait only behind several.
bool weir_build_may_wait(const struct weir_tables *tables, const struct weir_state *state,
	uint16_t service, uint32_t at_once);
// Number of subsets published for a service; 0 = nothing published, or invalid.
uint32_t weir_build_published_subsets(const struct weir_tables *tables, uint16_t service);
// Get the table published for a service and a subset, after validation. Returns false if none is
// published, or if it is invalid.
bool weir_build_published(const struct weir_tables *tables, uint16_t service, uint32_t subset,
	struct weir_policy_table *ret, uint64_t *ret_generation);
// Get the published service table, after validation. Returns false if none is published, or if
// its root or the table was overwritten: the writer may reuse such memory.
bool weir_build_published_services(const struct weir_segment *segment,
	const struct weir_writer *writer, struct weir_services_view *ret);
int weir_build_services(
	const struct weir_tables *tables, struct weir_state *state, struct weir_blob **ret);

// --- parts.c ---

// Update the parts of a service from its published selection.
void weir_parts_count(const struct weir_tables *tables, struct weir_state *state, uint16_t service);

// --- publish.c ---

// Advance the stage of ids whose grace period is over.
void weir_publish_advance(struct weir_tables *tables, struct weir_state *state);
// Publish what is marked in a state, all or nothing. Returns the number of items published, or a
// negative errno of build.c; the marks are kept then.
int weir_publish_state(struct weir_tables *tables, struct weir_state *state);
// After that failed for lack of memory: publish rows, which need none, so that workers pass over
// backends that closed meanwhile. Keeps the marks.
void weir_publish_rows(struct weir_tables *tables);
// Publish a selection that was built in steps, and update the state.
void weir_publish_selection(struct weir_tables *tables, uint16_t service, struct weir_blob *blob);

// --- rebuild.c ---

// Cancel the build in progress.
void weir_rebuild_cancel(struct weir_tables *tables);
