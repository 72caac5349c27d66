// SPDX-License-Identifier: BSD-3-Clause
//
// Tables: turns a configuration and what is known of the backends into published tables. The
// heart of weir-control, without its event loop: weir-pcap and the tests run the very same code.
//
// Keeps ids stable: services and backends have the same id as long as they exist under the same
// (service, backend) name; an id is given to another only after no flow refers to it (the sum of
// the workers' active_flows is 0 after a grace period) (design invariant: ids are stable).
//
// What is published survives this process: weir_tables_open reads the identities back and goes
// on from there (S3). After a dataplane restart the same state is published again into the new
// segment with weir_tables_rebind (S4).
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
	uint8_t health; // enum weir_health_state
	bool ejected; // its connections fail: it takes no new flows for a while
	bool leaving; // removed from the configuration, flows still refer to it
	bool resolved; // next hop known
	uint16_t path_mtu; // to it; 0 = that of the port
	bool in_selection; // takes new flows of some worker now (panic and subsets included)
	uint8_t flags; // WEIR_BACKEND_CLOSED to WEIR_BACKEND_RESET: what workers are told
	struct weir_policy_share share; // slow start; all zeroes = it is in none
	uint32_t configured_weight; // what "auto" comes to, if it is automatic
	bool weight_auto; // it is
	uint32_t auto_weight; // that its CPUs make, if it is automatic; 0 = not known
	uint32_t runtime_weight; // WEIR_WEIGHT_UNSET = none
	uint32_t reported_weight; // 0 = none
	uint32_t own_weight; // WEIR_WEIGHT_UNSET = none
	uint32_t effective_weight;
	uint8_t drain; // enum weir_drain_phase
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline. Counts while draining
	uint32_t max_active_flows; // its own limit, of each worker; 0 = none
	bool at_limit; // as weir_tables_set_limit
	uint64_t identity; // hash of service and name
};

// Where packets to a backend go next, as the kernel or the configuration says.
struct weir_next_hop {
	bool resolved;
	uint8_t port; // index
	uint8_t mac[6];
	struct weir_address source; // outer source address
	uint8_t source_bits; // IPv4: low bits of it that are each flow's own
	uint16_t mtu; // of the path, bytes of outer packet; 0 = that of the port
};

// Open over a segment; adopts what it holds. Nothing is published before the first apply.
// segment NULL: none yet, see weir_tables_rebind. Returns 0 or -ENOMEM.
int weir_tables_open(struct weir_segment *segment, struct weir_tables **ret);
void weir_tables_free(struct weir_tables *tables); // published tables stay

// Move to a new segment (the dataplane restarted) and publish everything there. segment NULL:
// none for now; changes are kept and published by the next rebind. The former segment must live
// until this returns. A segment that another control process wrote is adopted as by open, and what
// was set in this process meanwhile is set again: ids may change, look them up afterwards.
// Returns 0, or a negative errno: -ENOSPC (ids), -ENOMEM, and it is unbound (weir_tables_segment),
// or one of weir_tables_publish, and it is bound: publish again.
int weir_tables_rebind(struct weir_tables *tables, struct weir_segment *segment);

// Make `config` the configuration (borrowed: must outlive the tables or the next apply). All or
// nothing: on error what was published stays. Only what differs is published. Administrative
// states and run-time weights are kept; a run-time weight is dropped when the configured weight
// of its backend changes. New backends start as STARTING when their service has a health check,
// else HEALTHY. why gets one line.
// Waits up to WEIR_TABLES_WAIT_MS when there is room only after a grace period.
// Returns 0, -ENOSPC (ids, heap or services exhausted), -EBUSY (a worker has not let go of replaced
// tables in that time: try again), -ENOMEM, -EEXIST (two services claim the same port), -EINVAL
// (more backends than table_size; a table_size that is no prime).
//
// The first configuration over a segment finds the ids there that an earlier process gave away.
// What has no id yet, though there are ids enough for the whole configuration, is left out until
// the others have left: see weir_tables_waiting, then apply the same configuration again.
#define WEIR_TABLES_WAIT_MS 500u
int weir_tables_apply(
	struct weir_tables *tables, const struct weir_config *config, char *why, size_t why_bytes);

// How many services and backends of the configuration have no id yet; usually 0. *ret_retry:
// others have left since, so that some of them may get one.
uint32_t weir_tables_waiting(const struct weir_tables *tables, bool *ret_retry);

// Changes; each marks what it touches, weir_tables_publish publishes all marks at once.
// backend is a backend id. Return 0 or -ENOENT.
int weir_tables_set_admin(
	struct weir_tables *tables, uint16_t backend, enum weir_admin_state admin);
// How far its drain has come: DRAINING to KEPT are in force with admin DRAIN, and DROPPED with
// admin MAINTENANCE, which they set. weir_tables_set_admin ends a drain.
int weir_tables_set_drain(struct weir_tables *tables, uint16_t backend, enum weir_drain_phase phase,
	uint64_t until_ns);
int weir_tables_set_health(
	struct weir_tables *tables, uint16_t backend, enum weir_health_state health);
int weir_tables_set_weight(
	struct weir_tables *tables, uint16_t backend, uint32_t weight); // or UNSET
// What a backend can do, from its reports; 0 = unknown. Takes the place of the configured weight
// (unless that is 0) when the service's policy takes reported weights.
int weir_tables_set_reported_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
// What the configured weight of a backend is when that is "auto": it follows from its CPUs. 0 = not
// known: the mean of those of its service that are known, WEIR_CONFIG_WEIGHT_DEFAULT when none is.
// Remembered for the next control process. -ENOENT also if its weight is not automatic.
int weir_tables_set_auto_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
#define WEIR_WEIGHT_AUTO_MOST 65535u
// The weight that a backend says of itself, with any policy; WEIR_WEIGHT_UNSET = none. It takes the
// place of the configured weight, 0 included, but not of one that is set at run time.
int weir_tables_set_own_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
// The backend's own limit of established flows, of each worker (0 = none), and whether it counts as
// at its limit now. Its row tells the workers.
int weir_tables_set_limit(
	struct weir_tables *tables, uint16_t backend, uint32_t max_active_flows, bool at_limit);
int weir_tables_set_next_hop(
	struct weir_tables *tables, uint16_t backend, const struct weir_next_hop *hop);
// Ejected: no new flows, but in panic. Not remembered for the next control process.
int weir_tables_set_ejected(struct weir_tables *tables, uint16_t backend, bool ejected);
// Whether new flows would find another backend if this one were ejected, without a panic.
bool weir_tables_may_eject(const struct weir_tables *tables, uint16_t backend);

// The policy of a service, until the configured one changes; WEIR_POLICY_UNSET = as configured.
// Returns 0, -ENOENT, -EINVAL (no policy, or the file has settings that do not go with it:
// weir_config_policy_misfit).
int weir_tables_set_policy(struct weir_tables *tables, uint16_t service, uint8_t policy);
// Whether the service times of its flows are measured whatever its policy needs: not, at first.
// Returns 0 or -ENOENT.
int weir_tables_set_measured(struct weir_tables *tables, uint16_t service, bool measured);
// How long an error counts, where the configuration leaves that open. Returns 0 or -ENOENT.
int weir_tables_set_error_window(struct weir_tables *tables, uint16_t service, uint32_t ms);
#define WEIR_ERROR_WINDOW_LEAST_MS 1000u // what holds until it is set

// Whether replaced tables wait for a grace period. What did not fit (-EBUSY) may fit when none do.
bool weir_tables_wait(struct weir_tables *tables);

// Publish what is marked, in the order of layout.h, then reclaim. Never waits. While unbound: only
// decide panic and subsets, for whoever asks.
// Returns how many selections, service tables and touched ids were published (0 before the first
// apply: marks are kept), or -ENOSPC, -EBUSY, -ENOMEM (nothing changed; marks are kept).
int weir_tables_publish(struct weir_tables *tables);

// Selections that are left to be built after backends came or went: a change of a backend of a
// large service closes or opens its row, and its selection follows in steps. One step, of less than
// a millisecond at 10,000 backends, but for the last one, which publishes, of a few. Returns 1
// while there is more to do, 0 when all selections name the chosen backends, or -ENOSPC, -EBUSY,
// -ENOMEM: try again later.
int weir_tables_build(struct weir_tables *tables);
bool weir_tables_is_stale(const struct weir_tables *tables); // whether there may be more to do

// What decisions and builders have done since the tables were opened.
struct weir_tables_work {
	uint64_t backends; // looked at
	uint64_t slots; // written
};
struct weir_tables_work weir_tables_work(const struct weir_tables *tables);

// Whether weir_tables_backend_is_far may say something else than before the last call.
bool weir_tables_far_changed(struct weir_tables *tables);

// A table that a worker has refused.
struct weir_tables_refusal {
	uint32_t worker;
	enum weir_update_kind kind;
	uint16_t id; // of the service or backend
	bool restored; // the table before it is published again, or another one is by now
};
// Look for tables that workers have refused since the last call (at first: that they refuse now),
// and publish again the ones before them; where these are gone, mark what is to be built anew.
// Returns false when there is none; call until then, about every 100 ms.
bool weir_tables_refused(struct weir_tables *tables, struct weir_tables_refusal *ret);

// What time it is, CLOCK_MONOTONIC: call about every 100 ms, and before a publication or a new
// configuration. Backends in slow start go a step on with the next publication, and those that
// become eligible begin it as of this time.
void weir_tables_clock(struct weir_tables *tables, uint64_t now_ms);

// Reclaim memory and ids of backends that left; publish marks that an earlier publish could not.
// Call about every 100 ms. Never waits.
void weir_tables_tick(struct weir_tables *tables);

// Look up and enumerate. Indexes run over ids; -ENOENT for a free id.
uint32_t weir_tables_backend_ids(const struct weir_tables *tables);
// The same of services: weir_tables_service has those below it that are in use.
uint32_t weir_tables_service_ids(const struct weir_tables *tables);
int weir_tables_backend(
	const struct weir_tables *tables, uint16_t id, struct weir_backend_state *ret);
// Its active flows, a sum over workers: a read of shared memory for each, unlike the rest.
uint64_t weir_tables_backend_flows(const struct weir_tables *tables, uint16_t id);
int weir_tables_backend_find(const struct weir_tables *tables, const char *service,
	const char *name); // id or -ENOENT
int weir_tables_service_find(const struct weir_tables *tables, const char *name); // id, -ENOENT
const char *weir_tables_service_name(const struct weir_tables *tables, uint16_t id); // or NULL

const char *weir_tables_backend_name(const struct weir_tables *tables, uint16_t id); // or NULL
// Id of the service of a backend, or WEIR_SERVICE_NONE: to pass over those of others quickly.
uint16_t weir_tables_backend_service(const struct weir_tables *tables, uint16_t id);

// The same as a worker meant it that had adopted the changes below this number of the update log:
// NULL also if the id has come to another one since.
const char *weir_tables_service_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates);
const char *weir_tables_backend_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates);

struct weir_service_state {
	uint16_t id;
	bool panic; // of the backends in service (healthy, ejected, or refusing after having been
		    // healthy) less than panic_threshold_percent are eligible: all of these are
		    // used; with none eligible, drained, lame and never healthy ones are, too
	uint32_t backends, eligible; // eligible: ready, healthy, weight above 0 (panic left out)
	uint32_t slots; // of all subsets; 0 when the policy does not choose by slots
	uint32_t table_slots; // of one subset that has candidates; 0 as above
	uint32_t subsets; // published: 1, or one for each worker; 0 = nothing is, or no segment
	uint64_t parts; // of its backends, sum
	uint64_t generation; // of its selection
	uint8_t policy; // enum weir_policy, in effect
	uint8_t configured_policy;
	uint8_t runtime_policy; // WEIR_POLICY_UNSET = none
	struct weir_policy_settings settings; // zeroed for a service that leaves
};
int weir_tables_service(
	const struct weir_tables *tables, uint16_t id, struct weir_service_state *ret);

// What the published selection gives a backend of its service's parts: slots (maglev), strides
// (weighted-round-robin), weights (time-weighted, interleaved: of the time, not of the flows), else
// one each. 0 when it takes nothing.
uint64_t weir_tables_backend_parts(const struct weir_tables *tables, uint16_t backend);

struct weir_subset_part {
	uint16_t backend;
	uint64_t parts;
};
// The same of one published subset (below weir_service_state.subsets), in the order of its
// candidates; parts of different subsets are not comparable. Fills up to `room` elements. Returns
// how many; 0 when nothing is published.
uint32_t weir_tables_subset_parts(const struct weir_tables *tables, uint16_t service,
	uint32_t subset, struct weir_subset_part *ret, uint32_t room);

// --- subsets ---

// How a service is divided. With subsetting off (no algorithm, or a size that is not below the
// number of backends) there is one subset, of all backends.
struct weir_subset_state {
	struct weir_subset_params params; // of this instance's first subset
	enum weir_subset_client client;
	bool off;
	uint32_t subsets; // of this instance: 1, or one for each worker; clients params.client + 0,
			  // 1 ...
	uint64_t clients; // of the whole fleet
	uint32_t backends; // in the list
};
int weir_tables_subset(
	const struct weir_tables *tables, uint16_t service, struct weir_subset_state *ret);

// Whether a backend is not about to be used: it is in no subset of this instance and, in each of
// them, behind the members and a few usable spares (a tenth of the size, at least
// WEIR_SUBSET_SPARES_LEAST). Its health is less urgent.
bool weir_tables_backend_is_far(const struct weir_tables *tables, uint16_t backend);
#define WEIR_SUBSET_SPARES_LEAST 2u

struct weir_subset_member {
	uint16_t backend;
	uint16_t replaces; // a backend of this subset that is not used now, or WEIR_BACKEND_NONE
	bool unusable; // belongs to the subset, is not used now
};
// A subset of this instance (below subsets): those that belong to it in order of preference, then
// those that stand in. In panic a subset takes its share of the eligible backends of the service,
// rounded up, and only the rest of those that panic makes usable. ret has room for all backends of
// the list. Returns their number, -ENOENT, -ENOMEM.
int weir_tables_subset_members(const struct weir_tables *tables, uint16_t service, uint32_t subset,
	struct weir_subset_member *ret);

struct weir_subset_count {
	uint16_t backend;
	bool usable;
	uint32_t clients; // of the fleet that use it, as far as this instance can tell
};
// Clients of each backend, in canonical order. ret has room for all backends of the list. Returns
// their number, -ENOENT, -ENOMEM. With more than WEIR_SUBSET_PAIRS_MAX pairs of clients and
// backends all clients are 0: that would take too long here.
int weir_tables_subset_counts(
	const struct weir_tables *tables, uint16_t service, struct weir_subset_count *ret);
#define WEIR_SUBSET_PAIRS_MAX 2000000u

struct weir_writer *weir_tables_writer(struct weir_tables *tables); // NULL while unbound
const struct weir_segment *weir_tables_segment(const struct weir_tables *tables);
const struct weir_config *weir_tables_config(const struct weir_tables *tables);
