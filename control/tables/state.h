// SPDX-License-Identifier: BSD-3-Clause
//
// State: the services and backends of the tables, as flat arrays indexed by id. Private to this
// folder. A configuration is applied to a clone of the state. The clone replaces the state only
// after everything was published, or, without a segment, after everything was decided.
//
// Threads: one, the owner of the tables.
#pragma once

#include "selection.h"
#include "tables.h"

// Stages of an id. An id leaves UNCHOSEN and CLEARED only after a grace period of the workers, and
// leaves LEAVING and CLEARING with a publication. The stages follow the order of withdrawal in
// layout.h: services, then the selection, then the backends, then the id itself.
enum weir_id_stage {
	WEIR_ID_FREE,
	WEIR_ID_LIVE,
	WEIR_ID_LEAVING, // no longer configured, still published
	// The id is in no published selection (a service: not in the service table), but readers
	// of old tables may still choose the id. A backend keeps its row until its last flow has
	// ended.
	WEIR_ID_UNCHOSEN,
	WEIR_ID_CLEARING, // only for backends: the next publication withdraws the row
	// The row of the backend, or the selection of the service, is withdrawn. The id is freed
	// when no reader uses it and it has no flows. The id of a service is freed after the ids of
	// all its backends.
	WEIR_ID_CLEARED,
};

// Values set by a caller in this process, which take precedence over the values in a segment.
enum weir_set_flag {
	WEIR_SET_ADMIN = 1u << 0,
	WEIR_SET_HEALTH = 1u << 1,
	WEIR_SET_WEIGHT = 1u << 2,
	WEIR_SET_NEXT_HOP = 1u << 3,
};

// Groups of backends, in order of preference for new flows.
enum weir_group {
	WEIR_GROUP_ELIGIBLE, // ready, healthy, not ejected
	// Ready, and either ejected although healthy, or REFUSING after it was healthy. The health
	// checks may be wrong.
	WEIR_GROUP_MAYBE_UP,
	WEIR_GROUP_LAST_RESORT, // drained, lame duck, STARTING, or REFUSING and never healthy
	WEIR_GROUP_NONE, // gets no new flows: leaving, in maintenance, or its weight is 0
	WEIR_GROUPS,
};

// The two kinds of backends of a service, as indexes.
enum weir_tier {
	WEIR_TIER_PRIMARY,
	WEIR_TIER_BACKUP, // configured with "backup"
	WEIR_TIERS,
};

// Numbers of backends of a service, by tier and group.
struct weir_group_counts {
	uint32_t in_group[WEIR_TIERS][WEIR_GROUPS]; // leaving backends are in WEIR_GROUP_NONE
	// Number of primary backends to which backup_below_percent refers: live primary backends,
	// except ready backends whose first health checks have no result yet.
	uint32_t primaries;
	uint32_t backups; // live backups
};

// Which backends of a service may get new flows.
struct weir_openings {
	// By tier: backends in the groups below this number may get new flows; 0 = none.
	uint8_t groups[WEIR_TIERS];
	bool on_backups; // the backups may get new flows
	bool panic;
};

// Stages of counting the former flows of a service: flows that may have begun before the last
// change to its backends or binds (former.c).
enum weir_former_stage {
	WEIR_FORMER_NONE, // no selection was published, so no flow has begun
	WEIR_FORMER_KNOWN,
	// The service's backends, weights or binds changed after the flows were counted.
	WEIR_FORMER_CHANGED,
	// After a change, workers may still use the previous tables until former_mark has passed.
	// The flows are then counted.
	WEIR_FORMER_SETTLING,
};

// Flags of a backend that is down.
#define WEIR_BACKEND_DOWN_FLAGS (WEIR_BACKEND_DOWN | WEIR_BACKEND_REHASH | WEIR_BACKEND_RESET)

// In lists, an id is stored as id + 1, so that zeroed memory is an empty list.
struct weir_service_entry {
	char name[WEIR_NAME_BYTES];
	const struct weir_config_service *config; // NULL unless the service is live
	uint64_t mark; // mark of the grace period for which the current stage waits
	uint64_t identity; // hash of the name
	uint64_t since; // value of weir_state.updates when the id was assigned to the service
	uint32_t seen; // serial number of the last configuration that contains the service
	uint32_t backends; // number of live backends
	uint32_t members; // number of live and leaving backends
	uint32_t eligible;
	uint32_t slots; // see weir_service_state.slots
	uint32_t table_slots; // slots of one subset
	uint64_t parts; // sum of the parts of the service's backends in the selection
	// Generation of the selection from which the parts were counted, 0 = none.
	uint64_t generation;
	uint32_t error_window_ms; // automatic error window; 0 = not computed yet
	uint32_t max_active_flows; // limit of active flows, as last configured; 0 = no limit
	uint32_t auto_mean; // mean of the known automatic weights, as last decided; 0 = none known
	// Number of subsets of this instance after the last decision: 1, or one for each worker.
	uint32_t subsets;
	// Number of members in each group after the last decision. While `counted` is set, the
	// numbers are also updated when a single backend moves to another group.
	struct weir_group_counts counts;
	struct weir_openings open; // as last decided
	bool noted_on_backups; // open.on_backups, as last reported by weir_tables_takeover
	// Number of members that can get new flows, because of their group or of panic mode, and
	// whose next hop is resolved.
	uint32_t resolved;
	uint32_t chosen; // number of chosen members
	uint32_t listed; // members that are candidates of the published selection
	uint32_t listed_chosen; // members that are chosen and listed
	uint16_t first; // head of the list of the service's backends
	uint16_t hash_next;
	uint8_t stage; // enum weir_id_stage
	uint8_t configured_policy; // enum weir_policy
	uint8_t runtime_policy; // WEIR_POLICY_UNSET = none
	// Flags of backends that are down: WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET, or 0. The flags
	// do not change while the service is LEAVING.
	uint8_t down_flags;
	bool measured; // a caller in this process needs the service times of the service's flows
	bool policy_set; // runtime_policy was set by a caller in this process
	bool adopted; // read from a segment, not from a configuration
	bool adopted_leaving; // an earlier process had removed the service
	bool slow_start; // some of its backends are in slow start
	bool parts_stale; // the parts must be counted again, even if the selection is unchanged
	bool dirty; // its selection may have changed
	bool undecided; // its members may have changed
	bool moved; // weir_backend_entry.moved was set for some of the service's backends
	bool counted;
	bool divided; // the backends are divided into subsets
	bool stale; // its selection must be rebuilt, in steps
	bool touched; // in the list of services with something to publish
	bool drain_set; // a caller in this process changed the drain of binds
	uint8_t drain; // enum weir_drain_phase of the drained binds
	uint64_t drain_until_ns; // CLOCK_MONOTONIC, 0 = no deadline
	uint64_t drain_left; // open flows at the end of the drain, or WEIR_FLOWS_UNKNOWN
	uint64_t drain_begun_ms; // see weir_service_state.drain_begun_ms
	// One bit per bind of config: the bind is drained.
	uint64_t drained[WEIR_CONFIG_BINDS_MAX / 64];
	// Phase of the removed binds, or, while the service is LEAVING, of the whole service. NONE,
	// DRAINING, or DROPPED (the flows of the removed binds have ended).
	uint8_t removal; // enum weir_drain_phase
	uint32_t removed_ms; // duration of the drain of a removal, as last configured; 0 = no drain
	uint64_t removal_until_ns; // end of the phase in `removal`, CLOCK_MONOTONIC
	uint32_t removed_binds; // number of removed binds in the service table
	bool lost_binds; // a reload took binds away from the service, see weir_service_state
	struct weir_config_bind removed_first[WEIR_TABLES_FIRST_REMOVED]; // the first removed binds
	bool removed_ended; // the flows of some removed binds have ended
	uint8_t former_stage; // enum weir_former_stage
	uint64_t former_mark;
	// Valid in stage WEIR_FORMER_KNOWN: the number of active flows, and the value of the
	// spilled counter, when the former flows were last counted.
	uint64_t former_flows;
	uint64_t former_spilled;
};

struct weir_backend_entry {
	char name[WEIR_NAME_BYTES];
	struct weir_address address;
	struct weir_next_hop hop;
	uint64_t mark;
	uint64_t identity; // hash of service and name, equal on all instances
	uint64_t since; // value of weir_state.updates when the id was assigned to the backend
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline
	uint64_t drain_left; // open flows at the end of the drain, or WEIR_FLOWS_UNKNOWN
	uint32_t configured_weight; // not used if the weight is automatic
	uint32_t auto_weight; // weight computed from the backend's CPUs, if automatic; 0 = unknown
	uint32_t runtime_weight;
	uint32_t reported_weight; // weight derived from the backend's reports; 0 = none
	// The weight that the backend reported for itself. It replaces the configured weight;
	// WEIR_WEIGHT_UNSET = none.
	uint32_t own_weight;
	uint32_t max_active_flows; // the backend's own limit, see weir_tables_set_limit; 0 = none
	struct weir_forwarding forwarding;
	// Share of the backend in the published selection, in parts (parts.c), if the backend is
	// open.
	uint64_t parts;
	uint64_t admin_ms; // time of the last change of admin in this process; 0 = none
	uint64_t slow_start_ms; // start of the slow start; 0 = not in slow start
	uint64_t subsets; // bit i: the backend is a member of subset i
	// rank among the backends of its tier, in the canonical order; used only with subsets
	uint32_t rank;
	uint32_t seen;
	uint16_t service;
	uint16_t next; // next in the service's list
	uint16_t previous; // previous in the service's list; 0 = first
	uint16_t hash_next;
	uint16_t leaving_at; // index in the list of leaving backends
	uint8_t stage;
	struct weir_policy_share share; // slow start, as last decided; all zero = none
	uint8_t admin;
	uint8_t health;
	uint8_t drain; // enum weir_drain_phase
	uint8_t set; // enum weir_set_flag
	bool adopted; // read from a segment, not from a configuration
	bool weight_auto; // the configured weight is computed from the backend's CPUs
	bool backup; // enum weir_tier
	// The backend can get new flows: it is eligible, or panic mode allows it. Its next hop must
	// also be resolved if any such backend of the service has a resolved next hop.
	bool usable;
	uint8_t flags; // flags of the row, as decided, without WEIR_BACKEND_AT_LIMIT
	bool proven; // has been healthy since it was configured; see weir_backend_set_health
	bool at_limit; // gets no new flows while other backends can get them
	bool ejected; // ejected because connections fail: gets no new flows except in panic mode
	bool eligible; // ready, healthy, not ejected, weight above 0
	bool chosen; // must be in the selection: usable, and a member of a subset
	bool far; // see weir_tables_backend_is_far
	bool listed; // the published selection contains the backend as a candidate
	bool in_selection; // listed and chosen
	bool moved; // the group, the next hop or the drain of the backend may have changed
	bool resolved; // the next hop is resolved, as last decided
	uint8_t group; // enum weir_group, as last decided
	bool counted; // in weir_group_counts.primaries, as last decided
	bool dirty; // the row may have changed
	bool touched; // in the list of backends with something to publish
};

struct weir_state { // always freed or cloned as a whole
	struct weir_service_entry *services; // [WEIR_SERVICES_MAX], memory is committed on use
	struct weir_backend_entry *backends; // [WEIR_BACKENDS_MAX]
	uint16_t *service_heads;
	uint16_t *backend_heads;
	// Ids with something to publish, without duplicates. Because of these lists, the cost of a
	// publication depends on the number of changes, not on the number of backends.
	uint16_t *touched_services;
	uint16_t *touched_backends;
	uint16_t *leaving; // leaving backends, unordered; backends_leaving elements
	uint32_t touched_service_count;
	uint32_t touched_backend_count;
	// Index in `leaving` at which the next search for backends without flows begins.
	uint32_t leaving_next;
	uint32_t service_ids; // ids in use are below this number
	uint32_t backend_ids;
	uint32_t backend_free; // no id below this number is free
	// Position of this instance in the fleet. place.workers: number of workers of the segment.
	// Without a segment, place.workers and the limits are from the configuration.
	struct weir_subset_place place;
	uint32_t clients; // number of groups of instances in the fleet
	uint32_t service_limit; // capacity of the segment
	uint32_t backend_limit;
	uint32_t services_leaving;
	uint32_t backends_leaving;
	uint64_t now_ms; // CLOCK_MONOTONIC of the last weir_tables_clock; 0 = none yet
	uint64_t examined; // number of backends examined by decisions and rebuilds
	uint64_t updates; // value of the segment's number of updates before the last publication
	uint32_t serial; // serial number of the configuration
	uint32_t waiting; // number of configured services and backends that have no id yet
	// Any id may differ from the published state, even if it is not listed as touched.
	bool all_dirty;
	bool undecided; // some service is undecided
	bool services_dirty; // the service table may have changed
	bool stale; // some service may be stale
	bool draining; // the binds of some service may be in the phase DRAINING
	bool removing; // some service may have a removal
	uint32_t removed_binds; // number of removed binds of all services
	uint32_t established_ms; // timeout of flows, as configured
	bool former_changed; // the former flows of some service may have to be counted again
	bool takeover; // the backups of some service may have started or stopped getting new flows
	bool far_changed; // weir_backend_entry.far of some backend may have changed
};

int weir_state_create(struct weir_state **ret);
void weir_state_free(struct weir_state *state); // NULL is allowed
int weir_state_clone(const struct weir_state *state, struct weir_state **ret);

// Makes the next publication compare everything with the published state.
void weir_state_mark_all(struct weir_state *state);
void weir_state_mark_service(struct weir_state *state, uint16_t service); // marks the selection
void weir_state_mark_backend(struct weir_state *state, uint16_t backend); // marks the row
// Marks a backend that may start or stop getting new flows. Only this backend is examined, unless
// the change affects other backends (weir_eligible_move).
void weir_state_move_backend(struct weir_state *state, uint16_t backend);
// The next two functions mark only the data that is stored for the next control process.
void weir_state_touch_service(struct weir_state *state, uint16_t service);
void weir_state_touch_backend(struct weir_state *state, uint16_t backend);

// --- ids.c ---

// Add a service or a backend. The *_id_take functions use the id that the caller passes (for
// adoption); the *_id_add functions use the lowest free id. The new entry is LIVE. Its other
// members are zero, except that the run-time policy of a service and the run-time and own weights
// of a backend are unset. Returns the id, or -ENOSPC if the id is out of range or no id is free.
// Returns -EEXIST if the id or the name is in use: names of services are unique, and names of live
// backends are unique in their service.
int weir_service_id_take(struct weir_state *state, uint16_t id, const char *name);
int weir_service_id_add(struct weir_state *state, const char *name);
int weir_backend_id_take(struct weir_state *state, uint16_t id, uint16_t service, const char *name,
	const struct weir_address *address);
int weir_backend_id_add(struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address);
void weir_service_id_del(struct weir_state *state, uint16_t id);
void weir_backend_id_del(struct weir_state *state, uint16_t id);

// Finds the service with this name, even if it is leaving. Returns its id or -ENOENT.
int weir_service_id_find(const struct weir_state *state, const char *name);
// Finds the live backend with this name. Returns its id or -ENOENT.
int weir_backend_id_find(const struct weir_state *state, uint16_t service, const char *name);
// Finds the leaving backend with this name and address. Returns its id or -ENOENT.
int weir_backend_id_find_leaving(const struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address);
// Finds all leaving backends with this name. Writes at most `room` ids. Returns the number of
// leaving backends with this name.
uint32_t weir_backend_ids_leaving(const struct weir_state *state, uint16_t service,
	const char *name, uint16_t *ids, uint32_t room);

// Moves a backend from LIVE to LEAVING, or from a later stage back to LIVE. Updates the counts and
// marks the changes. weir_backend_revive also resets the values that callers can set, except the
// health and the next hop.
void weir_backend_leave(struct weir_state *state, uint16_t id);
void weir_backend_revive(struct weir_state *state, uint16_t id);
void weir_service_leave(struct weir_state *state, uint16_t id); // and the backends of the service
// Makes a service live again, without a run-time policy. Its backends are still leaving.
void weir_service_revive(struct weir_state *state, uint16_t id);

// --- settings.c ---

enum weir_policy weir_service_policy(const struct weir_service_entry *service); // policy in effect
// Returns whether the reported weights of a service's backends are used.
bool weir_service_takes_reports(const struct weir_service_entry *service);
// Returns the settings to publish with a selection of the service, which must have a configuration.
struct weir_policy_settings weir_service_settings(
	const struct weir_state *state, const struct weir_service_entry *service);
// Returns the limit of active flows in a backend's row; 0 = none.
uint32_t weir_backend_limit(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// Marks the service's backends if the configured limit has changed. The service must have a
// configuration.
void weir_service_follow_limit(struct weir_state *state, struct weir_service_entry *service);
// Clears the run-time policy of a service in either of two cases: the configured policy has
// changed, or the run-time policy does not fit the other settings in the file. Clears the reported
// weights of the service's backends if they are not used.
void weir_service_follow_policy(struct weir_state *state, struct weir_service_entry *service);

// --- openings.c ---

// Decides which backends may get new flows. config: NULL = a leaving service.
struct weir_openings weir_openings_decide(
	const struct weir_config_service *config, const struct weir_group_counts *counts);

// --- eligible.c ---

// Sets the health of a backend. Does not mark the backend as changed.
void weir_backend_set_health(struct weir_backend_entry *backend, enum weir_health_state health);
// Returns the configured weight: the number in the configuration, or the automatic weight if it is
// "auto".
uint32_t weir_backend_configured_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
uint32_t weir_backend_effective_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// Returns whether a backend may get new flows. Returns false if its service was removed, even if
// the selection is still published because the removed binds drain.
static inline bool weir_backend_takes_flows(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	return backend->in_selection && state->services[backend->service].stage == WEIR_ID_LIVE;
}
// Returns the weight of a backend in a selection. If the policy uses slots and a backend of the
// service is in slow start, all weights of the service are scaled, and slow start reduces the
// weight of this backend.
uint32_t weir_backend_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// Decides which backends of a service must be in its selection, depending on panic mode and
// subsets. Also determines the flags of their rows, such as the action for flows of backends that
// are down. Marks the rows that change. Returns 0 or -ENOMEM; after -ENOMEM the service is still
// undecided.
int weir_eligible_decide(struct weir_state *state, uint16_t service);
// Decides for each moved backend separately. If the change also affects other backends, because of
// panic mode, subsets or slow start, marks the service as undecided instead.
void weir_eligible_move(struct weir_state *state);
// Returns whether the backend may be ejected, see weir_tables_may_eject.
bool weir_eligible_may_eject(const struct weir_state *state, uint16_t backend);
// Calls weir_eligible_decide for all undecided services, even if they cannot be published. Returns
// 0 or -ENOMEM; after -ENOMEM some services may have been decided.
int weir_eligible_decide_all(struct weir_state *state);
// Returns whether the published selection differs from the chosen backends.
bool weir_eligible_differ(const struct weir_service_entry *service);
// Fills *ret with the data of a backend for weir_selection_build. Returns false if the backend is
// not chosen. Sets *reported if the weight of the backend was reported; otherwise *reported does
// not change.
bool weir_eligible_member(const struct weir_state *state, uint16_t backend,
	struct weir_selection_member *ret, bool *reported);
// Writes the chosen members for weir_selection_build. *ret_reported: whether any weight was
// reported. members: room for service->backends elements. Returns the number of members.
uint32_t weir_eligible_members(const struct weir_state *state, uint16_t service,
	struct weir_selection_member *members, bool *ret_reported);

// --- bind_drains.c ---

bool weir_bind_drains_has(const struct weir_service_entry *service, uint32_t bind);
// Returns whether all binds are drained, and the flows of the service have ended.
bool weir_bind_drains_ended(const struct weir_service_entry *service);
// Returns the flags of a bind in the service table.
uint16_t weir_bind_drains_flags(const struct weir_service_entry *service, uint32_t bind);
// Call before the configuration of a service is replaced. Binds of a drained address, or all binds
// if all are drained now, will also be drained in the new configuration.
void weir_bind_drains_follow(
	struct weir_service_entry *service, const struct weir_config_service *config);
void weir_bind_drains_clear(struct weir_service_entry *service);
// Call after the first configuration was applied to an adopted segment. Marks as drained the binds
// that are drained in the published service table. view: NULL = there is no table.
void weir_bind_drains_adopt(struct weir_state *state, const struct weir_services_view *view);

// --- removals.c ---

// Returns whether a leaving service stays published because its removal has not ended.
bool weir_removal_holds(const struct weir_service_entry *service);
// Begins the removal of a service, unless an earlier process has begun this removal. Ends the
// removal instead if `drain.removed_ms` is 0. Call before weir_service_leave, and before the
// service's drain is cleared.
void weir_removal_begin(struct weir_state *state, uint16_t service);
struct weir_service_bind;
// Returns the TCP binds whose removal is in progress: they are in the published service table, but
// not in the configuration. Begins the drains of newly removed binds. built: a table that was built
// only from the configuration. The caller frees *ret, an array of *ret_n elements; NULL = there are
// no such binds. Returns 0 or -ENOMEM.
int weir_removals_collect(struct weir_state *state, const struct weir_services_view *published,
	const struct weir_services_view *built, struct weir_service_bind **ret, uint32_t *ret_n);
// Records which removed binds the new table contains; n = 0: none. Ends the removals of services
// that have no removed binds, except the drains of leaving services.
void weir_removals_settle(
	struct weir_state *state, const struct weir_service_bind *removed, uint32_t n);

// --- flows.c ---

// Returns the number of completed moves of buckets between workers.
uint64_t weir_flows_moves(const struct weir_segment *segment);
// Returns whether no bucket has moved since weir_flows_moves returned `moves`. If a bucket has
// moved, a sum over the workers may lack its flows: the counter of the new owner may have been read
// before the move, and the counter of the old owner after the move.
bool weir_flows_are_whole(const struct weir_segment *segment, uint64_t moves);
// Sums the active flows of a service or a backend. Returns false if some flows may be missing,
// because a bucket of flows was moving between workers.
bool weir_flows_service(const struct weir_segment *segment, uint16_t service, uint64_t *ret);
bool weir_flows_backend(const struct weir_segment *segment, uint16_t backend, uint64_t *ret);

// --- former.c ---

// Call when new flows of a service may get different backends than before, or when the binds of the
// service have changed.
void weir_former_changed(struct weir_state *state, uint16_t service);
// Call before a selection is stored. The first selection of a service begins the count of its
// former flows.
void weir_former_published(
	const struct weir_segment *segment, struct weir_state *state, uint16_t service);
// Call after adopting services that an earlier process has published, because all their flows may
// be former flows.
void weir_former_adopt(struct weir_state *state);
// Counts the former flows of changed services after all workers have adopted the changes.
void weir_former_tick(struct weir_tables *tables);

// --- slow_start.c ---

// Call when a backend becomes eligible, or stops being eligible.
void weir_slow_start_begin(const struct weir_state *state, struct weir_backend_entry *backend);
void weir_slow_start_end(struct weir_state *state, uint16_t backend);
// Computes the slow start progress of a service's chosen backends. Marks the rows that change.
// Returns 0 or -ENOMEM.
int weir_slow_start_decide(struct weir_state *state, struct weir_service_entry *service);
// Sets the time of the state, and marks the services for which the next step of slow start has
// begun. A slow start window has WEIR_SLOW_START_STEPS steps, or fewer if it is short.
void weir_slow_start_tick(struct weir_state *state, uint64_t now_ms);
#define WEIR_SLOW_START_STEPS 60u

// --- subsets.c ---

// Returns the number of live primary backends of a service. Uses the number of backups of the last
// decision.
uint32_t weir_subsets_primaries(const struct weir_service_entry *service);
// Ranks the backends of a service in the canonical order, which is the same on all instances of the
// fleet. Call after the configuration was applied. Returns 0 or -ENOMEM.
int weir_subsets_rank(struct weir_state *state, const struct weir_service_entry *service);
// Assign the usable backends of a service to the subsets of this instance. Returns 0 or -ENOMEM
// (unchanged).
int weir_subsets_decide(struct weir_state *state, struct weir_service_entry *service);

// --- apply.c ---

// Returns whether the limits allow all services and backends of a configuration, if no other ids
// are in use.
bool weir_state_has_room(const struct weir_state *state, const struct weir_config *config);
// Applies a configuration to the state. On an error the caller must discard the state. wait: if
// true, entries that get no id are left out and counted in `waiting`, provided that the whole
// configuration fits after the ids of the leaving entries are freed.
int weir_state_apply(struct weir_state *state, const struct weir_config *config, bool wait,
	char *why, size_t why_bytes);

// --- adopt.c ---

// Fill an empty state from a segment.
void weir_state_adopt(struct weir_state *state, const struct weir_segment *segment);
// Copies the live services and backends of `from`, with their ids, to an empty state, if all ids
// fit. Does nothing if the state is not empty. Callers continue to use these ids after a new
// dataplane is attached.
void weir_state_retain(struct weir_state *state, const struct weir_state *from);
// Copies the values that callers in this process have set in `from`, such as the health of a
// backend, to live services and backends of the same name and address. If a service or backend was
// not read from the segment, its other values are copied as well.
void weir_state_inherit(struct weir_state *state, const struct weir_state *from);

struct weir_rebuild;

struct weir_kept_vip {
	struct weir_address address;
	uint64_t identity; // identity of the service
	uint16_t service;
};

struct weir_tables {
	struct weir_segment *segment; // NULL while no segment is bound
	struct weir_writer *writer;
	struct weir_state *state;
	const struct weir_config *config;
	weir_tables_find_hop_fn find_hop; // callback that finds next hops; NULL = none
	void *find_context;
	struct weir_rebuild *rebuild; // rebuild in progress; NULL = none
	// id of the service with which the search for the next selection to rebuild begins
	uint16_t rebuild_next;
	uint64_t slots_written; // number of slots written by the builders of selections
	uint64_t epoch; // epoch of the last bound segment
	// A later dataplane has started, so no dataplane uses the ids. false while a segment is
	// bound.
	bool ended;
	uint32_t leaving; // number of leaving services and backends after the last apply
	bool drain_begun; // a drain may have begun that is not published yet
	uint64_t drain_mark; // mark of the grace period of the last publication that began a drain
	// Until this time, the flow counters of a restarted dataplane may be too low.
	uint64_t recount_ms;
	// By worker: number of refused tables that were already handled.
	uint64_t refusals[WEIR_WORKERS_MAX];
	struct weir_kept_vip *kept; // VIPs of removed services
	uint32_t kept_count;
};

// --- kept_vips.c ---

// Stores the VIPs of services that a new configuration no longer contains. former: the previous
// configuration, or NULL. If out of memory, some VIPs are not stored.
void weir_kept_vips_follow(struct weir_tables *tables, const struct weir_config *former);

// --- refusals.c ---

// Ignores refused tables of an earlier process that have been replaced by valid tables. Call when a
// segment is bound.
void weir_refusals_begin(struct weir_tables *tables, const struct weir_segment *segment);

// --- identity.c ---

// Store the identity of a service or a backend in the segment. The order of the stores keeps the
// identity consistent if the process is killed between two stores. For an id with a new owner,
// the current counters are also stored, as the baseline of the owner's counters. The ids must be
// reserved (writer.h).
void weir_identity_store_service(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id);
void weir_identity_store_backend(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id);
// Fill an empty state from the identities in a segment. Inconsistent entries are left out.
void weir_identity_adopt(struct weir_state *state, const struct weir_segment *segment);

// --- build.c ---

// Builds the row of a backend. The row is all zeros if the id is free or if its row must be
// withdrawn.
void weir_build_row(const struct weir_tables *tables, const struct weir_state *state, uint16_t id,
	struct weir_backend_row *ret);
// Build a blob from the state. Returns 0 and a blob that the caller owns, or 0 and NULL if the new
// blob equals the published blob. Errors: -ENOSPC, -EBUSY, -ENOMEM, -EEXIST (two services have a
// bind for the same address and port), -EINVAL (more backends than slots).
int weir_build_selection(struct weir_tables *tables, const struct weir_state *state,
	uint16_t service, struct weir_blob **ret);
// Returns whether a selection has enough open candidates: at least one, at least half of its
// candidates, and at least half of the chosen backends of the service. Fewer than
// WEIR_POLICY_SEARCH candidates may be closed, so that the search of a worker finds an open
// candidate. candidates: number of candidates of the selection; open: number of open candidates;
// chosen: number of chosen backends of the service.
bool weir_build_serves(uint32_t candidates, uint32_t open, uint32_t chosen);
// Returns whether the service's selection may be built later, in steps. Until then, workers must be
// able to use the published selection: they skip closed candidates, so enough of its candidates and
// slots must be open. A small selection may wait only if this publication already builds several
// selections. at_once: number of these selections.
bool weir_build_may_wait(const struct weir_tables *tables, const struct weir_state *state,
	uint16_t service, uint32_t at_once);
// Returns the number of subsets published for a service; 0 = nothing valid is published.
uint32_t weir_build_published_subsets(const struct weir_tables *tables, uint16_t service);
// Get the published table of a service and a subset, after validation. Returns false if no table is
// published, or if the table is invalid.
bool weir_build_published(const struct weir_tables *tables, uint16_t service, uint32_t subset,
	struct weir_policy_table *ret, uint64_t *ret_generation);
// Gets the published service table, after validation. Returns false if no table is published. Also
// returns false if another process has overwritten the root or the table, because the writer may
// then reuse the memory.
bool weir_build_published_services(const struct weir_segment *segment,
	const struct weir_writer *writer, struct weir_services_view *ret);
int weir_build_services(
	const struct weir_tables *tables, struct weir_state *state, struct weir_blob **ret);

// --- parts.c ---

// Update the parts of a service from its published selection.
void weir_parts_count(const struct weir_tables *tables, struct weir_state *state, uint16_t service);

// --- publish.c ---

// Advances the stage of ids whose grace period has ended. Each call examines a limited number of
// backends. If no dataplane was ever attached, frees all leaving ids.
void weir_publish_advance(struct weir_tables *tables, struct weir_state *state);
// Publishes all marked changes of a state, or none if an error occurs. Returns the number of items
// published, or a negative errno of build.c. After an error the marks are kept.
int weir_publish_state(struct weir_tables *tables, struct weir_state *state);
// Call after weir_publish_state failed, for example for lack of memory. Publishes rows of live
// backends, which need no memory, so that workers skip closed backends. Leaves out rows that would
// leave too few open backends. Keeps the marks.
void weir_publish_rows(struct weir_tables *tables);
// Publish a selection that was built in steps, and update the state.
void weir_publish_selection(struct weir_tables *tables, uint16_t service, struct weir_blob *blob);

// --- rebuild.c ---

// Cancel the build in progress.
void weir_rebuild_cancel(struct weir_tables *tables);
