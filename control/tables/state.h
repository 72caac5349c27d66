// SPDX-License-Identifier: BSD-3-Clause
//
// State: the services and backends of the tables, as flat arrays indexed by id.
// Private to this folder. A state can be cloned, so that a configuration is applied to the clone
// and takes its place only when everything was published.
//
// Threads: one, the owner of the tables.
#pragma once

#include "selection.h"
#include "tables.h"

// Life of an id. Each step waits for a grace period of the workers, in the order that layout.h
// asks of a withdrawal: services -> selection -> backends -> the id itself.
enum weir_id_stage {
	WEIR_ID_FREE,
	WEIR_ID_LIVE,
	WEIR_ID_LEAVING, // not configured any more, still in what is published
	WEIR_ID_UNCHOSEN, // nothing published leads a new flow to it; readers of the old may.
			  // A backend stays so, with its row, until its last flow has ended
	WEIR_ID_CLEARING, // backends only: its row goes with the next publication
	WEIR_ID_CLEARED, // row (service: selection) is gone; waits for readers of the old,
			 // a service for its last flow
};

// Which values were set by a caller of this process, and so outweigh what a segment holds.
enum weir_set_flag {
	WEIR_SET_ADMIN = 1u << 0,
	WEIR_SET_HEALTH = 1u << 1,
	WEIR_SET_WEIGHT = 1u << 2,
	WEIR_SET_NEXT_HOP = 1u << 3,
};

// Groups of backends, each one with less right to new flows than the former.
enum weir_group {
	WEIR_GROUP_ELIGIBLE, // ready, healthy
	// Ready, refusing, and was healthy before: its checks may be wrong. Or ejected.
	WEIR_GROUP_ANSWERS_MAYBE,
	WEIR_GROUP_LAST_RESORT, // all but maintenance: drained, lame ducks, never healthy so far
	WEIR_GROUP_NONE, // takes nothing
	WEIR_GROUPS,
};

// Lists link ids as id + 1, so that zeroed memory is an empty list.
struct weir_service_entry {
	char name[WEIR_NAME_BYTES];
	const struct weir_config_service *config; // NULL unless live
	uint64_t mark; // grace period of the stage
	uint64_t identity; // hash of the name
	uint64_t since; // weir_state.updates when it got its id
	uint32_t seen; // serial of the last configuration that named it
	uint32_t backends; // live
	uint32_t members; // live and leaving
	uint32_t eligible;
	uint32_t slots; // that the published selection chooses by, 0 = it does not
	uint32_t table_slots; // those of one subset
	uint64_t parts; // of its backends in the selection, sum
	uint64_t generation; // of the selection whose parts were counted, 0 = none
	uint32_t error_window_ms; // automatic one; 0 = none computed yet
	uint32_t auto_mean; // of the known automatic weights, as last decided; 0 = none is known
	uint32_t subsets; // of this instance, as last decided: 1, or one for each worker
	// As last decided, and kept up to date while backends move one by one (`counted`).
	uint32_t in_group[WEIR_GROUPS]; // members of each group
	uint32_t resolved; // members that group and panic let in and whose next hop is known
	uint32_t chosen; // members
	uint32_t listed; // candidates of the published selection
	uint32_t listed_chosen; // both
	uint16_t first; // list of its backends
	uint16_t hash_next;
	uint8_t stage; // enum weir_id_stage
	uint8_t configured_policy; // enum weir_policy
	uint8_t runtime_policy; // WEIR_POLICY_UNSET = none
	uint8_t down_flags; // WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET, or 0: of backends that are
			    // down; as it was, of a service that leaves
	bool measured; // the service times of its flows are asked for
	bool policy_set; // runtime_policy was set by a caller of this process
	bool adopted; // came out of a segment, not out of a configuration
	bool panic;
	bool slow_start; // some of its backends are in it
	bool parts_old; // its parts are to be counted again, though its selection is the same
	bool dirty; // its selection may have changed
	bool undecided; // who is to be in it may have changed
	bool moved; // some of its backends have
	bool counted;
	bool divided; // into subsets
	bool stale; // its selection is to be built again, in steps
	uint8_t worst; // enum weir_group: that panic lets in
	bool touched; // in the list of those with something to publish
};

struct weir_backend_entry {
	char name[WEIR_NAME_BYTES];
	struct weir_address address;
	struct weir_next_hop hop;
	uint64_t mark;
	uint64_t identity; // hash of service and name: the same on every instance
	uint64_t since; // weir_state.updates when it got its id
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline
	uint32_t configured_weight; // unless it is automatic
	uint32_t auto_weight; // that its CPUs make, if it is automatic; 0 = not known
	uint32_t runtime_weight;
	uint32_t reported_weight; // 0 = none
	uint32_t
		own_weight; // that it says in place of the configured one; WEIR_WEIGHT_UNSET = none
	uint32_t max_active_flows; // of its own, of each worker; 0 = none
	uint64_t parts; // of its service's, in the published selection, if it is open
	uint64_t slow_start_ms; // when its slow start began; 0 = it is in none
	uint64_t subsets; // bit i: is to be in subset number i; 0 = in none
	uint32_t rank; // in the canonical order of its service; only with subsetting
	uint32_t seen;
	uint16_t service;
	uint16_t next; // in its service's list
	uint16_t previous; // 0 = it is the first of the list
	uint16_t hash_next;
	uint16_t leaving_at; // its place in the list of those that leave
	uint8_t stage;
	struct weir_policy_share share; // slow start, as last decided; all zeroes = none
	uint8_t admin;
	uint8_t health;
	uint8_t drain; // enum weir_drain_phase
	uint8_t set; // enum weir_set_flag
	bool adopted; // came out of a segment, not out of a configuration
	bool weight_auto; // the configured weight follows from its CPUs
	bool usable; // may take new flows: eligible, or panic makes it so; and its next hop is
		     // resolved, or that of no other one is
	uint8_t flags; // of its row, as decided: WEIR_BACKEND_CLOSED to WEIR_BACKEND_RESET
	bool proven; // was healthy since it was configured; weir_backend_set_health
	bool at_limit; // takes no new flow while others can
	bool ejected; // its connections fail: no new flows for a while
	bool eligible; // ready, healthy, not ejected, weight above 0
	bool chosen; // is to be in the selection: usable, and in a subset
	bool far; // not about to be used
	bool listed; // is a candidate of the published selection
	bool in_selection; // is one, and chosen still
	bool moved; // its group, its next hop or its drain may have changed
	bool resolved; // its next hop was, as last decided
	uint8_t group; // enum weir_group, as last decided
	bool dirty; // its row may have changed
	bool touched; // in the list of those with something to publish
};

struct weir_state { // to be freed and cloned as a whole
	struct weir_service_entry *services; // [WEIR_SERVICES_MAX], memory is taken as it is used
	struct weir_backend_entry *backends; // [WEIR_BACKENDS_MAX]
	uint16_t *service_heads;
	uint16_t *backend_heads;
	// Ids with something to publish, each once: so a publication costs what has changed,
	// whatever the number of backends.
	uint16_t *touched_services;
	uint16_t *touched_backends;
	uint16_t *leaving; // backends that leave, in any order; backends_leaving elements
	uint32_t touched_service_count;
	uint32_t touched_backend_count;
	uint32_t leaving_next; // where to go on looking for those whose last flow has ended
	uint32_t service_ids; // ids in use are below
	uint32_t backend_ids;
	uint32_t backend_free; // no id below is free
	struct weir_subset_place place; // of this instance; workers: of the segment
	uint32_t clients; // groups of instances in the fleet
	uint32_t service_limit; // ids that the segment has room for
	uint32_t backend_limit;
	uint32_t services_leaving;
	uint32_t backends_leaving;
	uint64_t now_ms; // CLOCK_MONOTONIC of the last tick; 0 = there was none
	uint64_t looked_at; // backends, in decisions
	uint64_t updates; // of the segment's update log, before the last publication
	uint32_t serial; // of the configuration
	uint32_t waiting; // services and backends of the configuration that have no id yet
	bool all_dirty; // everything may differ from what is published, not only what was touched
	bool undecided; // some service is
	bool services_dirty; // the service table may have changed
	bool stale; // some service may be
	bool far_changed; // weir_backend_entry.far of some backend may have
};

int weir_state_create(struct weir_state **ret);
void weir_state_free(struct weir_state *state); // NULL is fine
int weir_state_clone(const struct weir_state *state, struct weir_state **ret);

// Everything may differ from what is published: compare it all at the next publication.
void weir_state_mark_all(struct weir_state *state);
void weir_state_mark_service(struct weir_state *state, uint16_t service); // its selection
void weir_state_mark_backend(struct weir_state *state, uint16_t backend); // its row
// Its right to new flows: costs that backend, unless others follow from it (weir_eligible_move).
void weir_state_move_backend(struct weir_state *state, uint16_t backend);
// Only what is remembered of it for the next control process.
void weir_state_touch_service(struct weir_state *state, uint16_t service);
void weir_state_touch_backend(struct weir_state *state, uint16_t backend);

// --- ids.c ---

// Enter a name under an id of the caller's choice (adoption) or the lowest free one.
// Return the id, -ENOSPC, -EEXIST (the id is taken, or the name is: live services and backends are
// unique). The entry is LIVE and otherwise zeroed, a backend's run-time weight unset.
int weir_service_id_take(struct weir_state *state, uint16_t id, const char *name);
int weir_service_id_add(struct weir_state *state, const char *name);
int weir_backend_id_take(struct weir_state *state, uint16_t id, uint16_t service, const char *name,
	const struct weir_address *address);
int weir_backend_id_add(struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address);
void weir_service_id_del(struct weir_state *state, uint16_t id);
void weir_backend_id_del(struct weir_state *state, uint16_t id);

// The service of a name, leaving or not. Id or -ENOENT.
int weir_service_id_find(const struct weir_state *state, const char *name);
// The live backend of a name. Id or -ENOENT.
int weir_backend_id_find(const struct weir_state *state, uint16_t service, const char *name);
// The leaving backend of a name and address. Id or -ENOENT.
int weir_backend_id_find_leaving(const struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address);

bool weir_state_same_address(const struct weir_address *a, const struct weir_address *b);

// Move between LIVE and LEAVING; keeps the counts right and marks what it touches.
void weir_backend_leave(struct weir_state *state, uint16_t id);
void weir_backend_revive(struct weir_state *state, uint16_t id);
void weir_service_leave(struct weir_state *state, uint16_t id); // and its backends
void weir_service_revive(struct weir_state *state, uint16_t id); // its backends stay leaving

// --- settings.c ---

enum weir_policy weir_service_policy(const struct weir_service_entry *service); // in effect
// Whether the reported weights of a service's backends count.
bool weir_service_takes_reports(const struct weir_service_entry *service);
// What a selection of the service is published with. The service has a configuration.
struct weir_policy_settings weir_service_settings(
	const struct weir_state *state, const struct weir_service_entry *service);
// A policy set at run time is dropped when the configured one changes, or when settings of the file
// do not go with it any more.
void weir_service_follow_policy(struct weir_state *state, struct weir_service_entry *service);

// --- eligible.c ---

// Its health is this now. Marks nothing.
void weir_backend_set_health(struct weir_backend_entry *backend, enum weir_health_state health);
// The weight of the configuration: the number in it, or what "auto" comes to.
uint32_t weir_backend_configured_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
uint32_t weir_backend_effective_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// The same as a selection has it: of a policy that chooses by slots, slow start makes a part of it.
uint32_t weir_backend_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend);
// Decide which backends of a service are to be in its selection, panic and subsets included, and
// what becomes of the flows of the others. Marks the rows of those for which that changes. Returns
// 0 or -ENOMEM (what was decided before stays).
int weir_eligible_decide(struct weir_state *state, uint16_t service);
// Decide about the backends that have moved, one by one. Where panic, subsets or slow start make
// others follow, the service is left undecided.
void weir_eligible_move(struct weir_state *state);
// Whether flows would go to another backend if this one were ejected, and no panic would follow, as
// last decided.
bool weir_eligible_may_eject(const struct weir_state *state, uint16_t backend);
// weir_eligible_decide for all services where it may have changed, whether or not they can be
// published. Returns 0 or -ENOMEM (some may be decided).
int weir_eligible_decide_all(struct weir_state *state);
// Whether the published selection names others than the chosen ones.
bool weir_eligible_differ(const struct weir_service_entry *service);
// A decided one, ready for weir_selection_build; false: it is not chosen. *reported is set when its
// weight was reported.
bool weir_eligible_member(const struct weir_state *state, uint16_t backend,
	struct weir_selection_member *ret, bool *reported);
// The decided ones, ready for weir_selection_build, and whether any weight of theirs was reported.
// members has room for service->backends.
uint32_t weir_eligible_members(const struct weir_state *state, uint16_t service,
	struct weir_selection_member *members, bool *ret_reported);

// --- slow_start.c ---

// An eligible backend was not eligible, or is no more.
void weir_slow_start_begin(const struct weir_state *state, struct weir_backend_entry *backend);
void weir_slow_start_end(struct weir_state *state, uint16_t backend);
// How far the chosen backends of a service are. Marks the rows of those for which that changes.
// Returns 0 or -ENOMEM.
int weir_slow_start_decide(struct weir_state *state, struct weir_service_entry *service);
// Mark the services where the next step is due, of WEIR_SLOW_START_STEPS in a window.
void weir_slow_start_tick(struct weir_state *state, uint64_t now_ms);
#define WEIR_SLOW_START_STEPS 60u

// --- subsets.c ---

// Give the backends of a service their places in the canonical order: the order of the list that
// all clients have. After the configuration was applied. Returns 0 or -ENOMEM.
int weir_subsets_rank(struct weir_state *state, const struct weir_service_entry *service);
// Deal the usable backends of a service to the subsets of this instance. Returns 0 or -ENOMEM
// (unchanged).
int weir_subsets_decide(struct weir_state *state, struct weir_service_entry *service);

// --- apply.c ---

// Make the state follow a configuration. On error the state is to be thrown away. With `wait`, what
// finds no free id is left out and counted (waiting), if there are ids enough for the whole
// configuration once those of others are free.
int weir_state_apply(struct weir_state *state, const struct weir_config *config, bool wait,
	char *why, size_t why_bytes);

// --- adopt.c ---

// Fill an empty state with what a segment holds.
void weir_state_adopt(struct weir_state *state, const struct weir_segment *segment);
// Give an empty state the ids of `from`, when they all fit: a new dataplane does not know them, but
// our callers do.
void weir_state_retain(struct weir_state *state, const struct weir_state *from);
// Take over what callers of this process set while `from` was the state: in full for backends
// that the segment did not know, else only what was set explicitly.
void weir_state_inherit(struct weir_state *state, const struct weir_state *from);

struct weir_rebuild;

struct weir_tables {
	struct weir_segment *segment; // NULL while unbound
	struct weir_writer *writer;
	struct weir_state *state;
	const struct weir_config *config;
	struct weir_rebuild *rebuild; // the one under way; NULL = none
	uint16_t rebuild_next; // service to begin the search for the next one with
	uint64_t slots_written; // of selections, by their builders
	uint64_t epoch; // of the segment last bound
	uint32_t leaving; // services and backends that left after the last apply
	uint64_t refusals[WEIR_WORKERS_MAX]; // of tables, by worker, that were told
};

// --- identity.c ---

// Bring what the segment remembers of an id up to the state, store by store: a process that ends
// between two of them leaves nothing half written. A backend or service that takes a free id starts
// with the counters that are there as its baseline. The ids are reserved (writer.h).
void weir_identity_store_service(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id);
void weir_identity_store_backend(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id);
// Fill an empty state with what a segment remembers. Entries that contradict each other are left
// out.
void weir_identity_adopt(struct weir_state *state, const struct weir_segment *segment);

// --- build.c ---

// The row of a backend, all zeroes when the id is free or its row is withdrawn.
void weir_build_row(const struct weir_tables *tables, const struct weir_state *state, uint16_t id,
	struct weir_backend_row *ret);
// Build a blob from the state. Return 0 and a blob that the caller owns, or NULL when what is
// published says the same; -ENOSPC, -EBUSY, -ENOMEM, -EEXIST (two services claim the same port),
// -EINVAL (more backends than slots).
int weir_build_selection(struct weir_tables *tables, const struct weir_state *state,
	uint16_t service, struct weir_blob **ret);
// Whether a selection of so many candidates, so many of which are open, still serves a service for
// which `chosen` backends are: most of either are among the open ones, and a worker that searches
// for one finds it (WEIR_POLICY_SEARCH).
bool weir_build_serves(uint32_t candidates, uint32_t open, uint32_t chosen);
// Whether the service's selection may be built later, in steps: workers pass over candidates that
// are closed, and the published one serves meanwhile, by its candidates and by its slots.
bool weir_build_may_wait(
	const struct weir_tables *tables, const struct weir_state *state, uint16_t service);
// How many subsets are published for a service; 0 = nothing, or nothing sound.
uint32_t weir_build_published_subsets(const struct weir_tables *tables, uint16_t service);
// What is published for a service and the workers of a subset, checked. Returns false when there is
// nothing sound.
bool weir_build_published(const struct weir_tables *tables, uint16_t service, uint32_t subset,
	struct weir_policy_table *ret, uint64_t *ret_generation);
int weir_build_services(
	const struct weir_tables *tables, const struct weir_state *state, struct weir_blob **ret);

// --- parts.c ---

// Bring what the state says of a service's selection up to what is published.
void weir_parts_count(const struct weir_tables *tables, struct weir_state *state, uint16_t service);

// --- publish.c ---

// Let ids whose grace period is over take their next step.
void weir_publish_advance(struct weir_tables *tables, struct weir_state *state);
// Publish what is marked in a state, all or nothing. Returns how much was published, or the
// negative errno of build.c: then nothing was published and the marks are kept.
int weir_publish_state(struct weir_tables *tables, struct weir_state *state);
// Publish a selection that was built in steps, and bring the state up to it.
void weir_publish_selection(struct weir_tables *tables, uint16_t service, struct weir_blob *blob);

// --- rebuild.c ---

// Give up what is being built.
void weir_rebuild_cancel(struct weir_tables *tables);
