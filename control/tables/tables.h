// SPDX-License-Identifier: BSD-3-Clause
//
// Tables: builds and publishes tables from a configuration and the state of its backends. This part
// of weir-control needs no event loop; weir-pcap and the tests also use it.
//
// Ids are stable (design invariant). A service keeps its id while its name exists. A backend keeps
// its id while its service has a backend with the same name and address. An id is reused only when
// no flow refers to it: after a grace period, and when active_flows is 0 for all workers.
//
// Published tables stay in the segment after this process exits: weir_tables_open reads which ids
// they use. After a dataplane restart, weir_tables_rebind publishes the state again, into the new
// segment (S3 and S4, docs/design/architecture.md).
//
// Threads: one. No I/O, no logging. Time is an argument. Only weir_tables_apply can wait.
#pragma once

#include "config.h"
#include "writer.h"

struct weir_tables;

// State of one backend, set by health checks, operators and next hops; read by the API.
struct weir_backend_state {
	char service[WEIR_NAME_BYTES];
	char name[WEIR_NAME_BYTES];
	struct weir_address address;
	uint16_t id;
	uint16_t service_id;
	uint8_t admin; // enum weir_admin_state
	// Time of the last change of the administrative state by this process (CLOCK_MONOTONIC); 0
	// = none.
	uint64_t admin_ms;
	uint8_t health; // enum weir_health_state
	// Because its connections fail, the backend gets no new flows until the ejection ends,
	// except in panic mode; see outliers.h.
	bool ejected;
	// No longer configured (or the address was replaced), but kept until its flows, the drain
	// of its service and the grace periods of its id have ended.
	bool leaving;
	bool resolved; // the next hop is known
	uint16_t path_mtu; // 0 = the port's MTU
	struct weir_forwarding forwarding;
	// The backend may get new flows, and the published selection of at least one worker
	// contains it. Depends on panic mode and subsets.
	bool in_selection;
	uint8_t flags; // flags of the published row, without WEIR_BACKEND_AT_LIMIT
	struct weir_policy_share share; // slow start; all zero = none
	uint32_t configured_weight; // if it is "auto", see weir_tables_set_auto_weight
	bool weight_auto; // the configured weight is "auto"
	bool backup; // configured as a backup
	uint32_t auto_weight; // weight computed from the backend's CPUs, if automatic; 0 = unknown
	uint32_t runtime_weight; // weight set at run time; WEIR_WEIGHT_UNSET = none
	uint32_t reported_weight; // weight derived from the backend's reports; 0 = none
	// Weight that the backend reported for itself; WEIR_WEIGHT_UNSET = none.
	uint32_t own_weight;
	uint32_t effective_weight;
	uint8_t drain; // enum weir_drain_phase
	uint64_t drain_until_ns; // deadline while draining, CLOCK_MONOTONIC; 0 = no deadline
	// The value passed to weir_tables_end_drain, or WEIR_FLOWS_UNKNOWN. Valid after the drain,
	// if flows were kept or dropped.
	uint64_t drain_left;
	uint32_t max_active_flows; // the backend's own limit, see weir_tables_set_limit; 0 = none
	uint32_t limit; // published limit of active flows, for all workers together; 0 = none
	bool at_limit; // the backend counts as being at its limit, see weir_tables_set_limit
	uint64_t identity; // hash of service and name
};

// Next hop of packets to a backend, from the kernel, the configuration, or an adopted row.
struct weir_next_hop {
	bool resolved;
	uint8_t port; // index of the port
	uint8_t mac[6];
	uint32_t ifindex; // kernel interface of the route; 0 = none
	bool on_link; // `mac` belongs to the backend itself, not to a gateway
	struct weir_address source; // outer source address
	uint8_t source_bits; // IPv4: number of low bits that vary by flow
	uint16_t mtu; // path MTU, bytes with outer headers; 0 = the port's MTU
	uint16_t route_mtu; // path MTU without reports of routers about tunnel packets
};

// Returns whether the next hop is resolved and can be used with this forwarding. L2 cannot go
// through a gateway: the gateway would route a packet to the VIP back to a balancer. The other
// modes need an outer source address, which a next hop adopted from an l2 backend does not have.
bool weir_next_hop_serves(
	const struct weir_next_hop *hop, const struct weir_forwarding *forwarding);

// Opens tables for a segment, and reads the state that an earlier process has stored there.
// Withdraws selections of services that the state does not contain. Otherwise, nothing is published
// before the first weir_tables_apply. segment NULL: there is no segment yet, see
// weir_tables_rebind. Returns 0 or -ENOMEM.
int weir_tables_open(struct weir_segment *segment, struct weir_tables **ret);
void weir_tables_free(struct weir_tables *tables); // published tables stay in the segment

// Moves the tables to a new segment after a restart of the dataplane, and publishes everything
// there. segment NULL: unbinds the tables; changes are kept, and the next rebind publishes them.
// The previous segment must stay mapped until this function returns.
//
// If the segment and the previous segment have different epochs, the state in the segment is read
// as in weir_tables_open, and then the values that were set in this process are set again. Ids may
// change: look them up again after the call.
//
// Returns 0 or a negative errno. If the segment has too few ids, or memory runs out, no segment is
// bound after the error (weir_tables_segment returns NULL). If weir_tables_publish has failed, the
// segment is bound, and the caller must publish again.
int weir_tables_rebind(struct weir_tables *tables, struct weir_segment *segment);

// Makes `config` the current configuration, and publishes the differences. On an error the previous
// configuration stays current, and one line is written to why. The published tables are then
// unchanged, with two exceptions: selections of removed services may be withdrawn, and a first
// configuration without room may withdraw invalid and oversized tables of an earlier process. May
// wait for up to WEIR_TABLES_WAIT_MS until memory becomes free after a grace period.
//
// config: after success, borrowed until the tables are freed, or until a later weir_tables_apply
// has succeeded (that call compares both configurations). Administrative states and run-time
// weights are kept; a new configured weight clears the run-time weight of its backend. New backends
// start as STARTING if their service has a health check, otherwise as HEALTHY.
//
// Returns 0; -ENOSPC (not enough ids or heap, or too many services); -EBUSY (a worker still uses
// replaced tables after the wait: retry); -ENOMEM; -EEXIST (two services have a bind for the same
// address and port); -EINVAL (more backends than table_size, or a table_size that is not prime).
//
// When this process applies its first configuration, ids of an earlier process may still be in use.
// Services and backends for which no id is free are then left out, provided that the whole
// configuration fits after leaving entries are removed. In this case, apply the same configuration
// again later; see weir_tables_waiting.
#define WEIR_TABLES_WAIT_MS 500u
int weir_tables_apply(
	struct weir_tables *tables, const struct weir_config *config, char *why, size_t why_bytes);
// Returns whether weir_tables_apply would find ids for all services and backends of a
// configuration, or could wait for them: 0; -ENOSPC with one line in why; or -ENOMEM. If no segment
// is bound, the limits are those in the configuration, as for weir_tables_apply.
int weir_tables_check_ids(const struct weir_tables *tables, const struct weir_config *config,
	char *why, size_t why_bytes);

// Finds the next hop of an address without waiting. Returns true if the next hop is resolved now.
typedef bool (*weir_tables_find_hop_fn)(
	void *context, const struct weir_address *address, struct weir_next_hop *ret);
// Sets the function with which weir_tables_apply looks up the next hops of unresolved backends.
// With this function, the first packets of a new service are forwarded. weir_tables_apply does not
// call `find` while no segment is bound. `find` may call the getters of the tables, which still
// return the previous values, except weir_tables_config.
void weir_tables_find_hops(struct weir_tables *tables, weir_tables_find_hop_fn find, void *context);

// Returns the number of configured services and backends without an id; usually 0. *ret_retry: true
// if ids were freed since the last apply, so that another apply may succeed.
uint32_t weir_tables_waiting(const struct weir_tables *tables, bool *ret_retry);

// Changes: each function marks what it changes, and weir_tables_publish publishes all marked
// changes together. backend: a backend id. The functions return 0, or -ENOENT if there is no such
// backend or it was removed (see below for functions that accept a removed backend).
int weir_tables_set_admin(
	struct weir_tables *tables, uint16_t backend, enum weir_admin_state admin);
// Sets the phase of a backend's drain. The phases DRAINING to KEPT also set the administrative
// state to DRAIN, and the phase DROPPED sets it to MAINTENANCE. To end a drain, call
// weir_tables_set_admin. weir_tables_set_admin, weir_tables_set_drain and weir_tables_end_drain
// also accept a removed backend; on_backend_down then determines the action for its flows.
// weir_tables_set_next_hop accepts a removed backend as well.
int weir_tables_set_drain(struct weir_tables *tables, uint16_t backend, enum weir_drain_phase phase,
	uint64_t until_ns);
// Sets the phase at the end of a drain. left: number of open flows at that time. This number is
// not stored for the next control process: if an earlier process has ended the drain, drain_left
// is WEIR_FLOWS_UNKNOWN.
#define WEIR_FLOWS_UNKNOWN UINT64_MAX
int weir_tables_end_drain(
	struct weir_tables *tables, uint16_t backend, enum weir_drain_phase phase, uint64_t left);
int weir_tables_set_health(
	struct weir_tables *tables, uint16_t backend, enum weir_health_state health);
int weir_tables_set_weight(
	struct weir_tables *tables, uint16_t backend, uint32_t weight); // or WEIR_WEIGHT_UNSET
// Sets the capacity that a backend has reported; 0 = unknown. If the service's policy uses reported
// weights, this capacity replaces the configured weight. A run-time weight, or a weight that the
// backend reports for itself, scales the capacity. The factor is this weight divided by the
// configured weight (1 if the configured weight is 0). A weight of 0 stays 0.
int weir_tables_set_reported_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
// Sets the automatic weight of a backend, which is computed from its CPUs; 0 = unknown. For an
// unknown weight, the mean of the known automatic weights in the service is used, or
// WEIR_CONFIG_WEIGHT_DEFAULT if none is known. A weight above WEIR_WEIGHT_AUTO_MOST is reduced to
// this maximum. The weight is stored for the next control process. Returns 0, or -ENOENT if there
// is no such backend or its configured weight is not "auto".
int weir_tables_set_auto_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
#define WEIR_WEIGHT_AUTO_MOST 65535u
// Sets the weight that a backend has reported for itself, used with any policy; WEIR_WEIGHT_UNSET =
// none. This weight, even if it is 0, replaces the configured weight, but not a run-time weight.
int weir_tables_set_own_weight(struct weir_tables *tables, uint16_t backend, uint32_t weight);
// Sets the backend's own limit of active flows (0 = none), and whether the backend counts as being
// at its limit now. Both are published in the backend's row. The limit applies to all workers
// together.
int weir_tables_set_limit(
	struct weir_tables *tables, uint16_t backend, uint32_t max_active_flows, bool at_limit);
int weir_tables_set_next_hop(
	struct weir_tables *tables, uint16_t backend, const struct weir_next_hop *hop);
int weir_tables_next_hop(
	const struct weir_tables *tables, uint16_t backend, struct weir_next_hop *ret);
// Sets whether a backend is ejected. An ejected backend gets no new flows except in panic mode. The
// value is not stored for the next control process.
int weir_tables_set_ejected(struct weir_tables *tables, uint16_t backend, bool ejected);
// Returns whether this backend may be ejected: it is eligible, another backend could take its
// flows, and the service would not be in panic mode.
bool weir_tables_may_eject(const struct weir_tables *tables, uint16_t backend);

// Sets the policy of a service until the configured policy changes, or until the settings in the
// file are no longer valid for the policy; WEIR_POLICY_UNSET = as configured. Returns 0, -ENOENT,
// or -EINVAL (the policy is unknown, or the settings in the file are not valid for the policy, see
// weir_config_policy_misfit).
int weir_tables_set_policy(struct weir_tables *tables, uint16_t service, uint8_t policy);
// Sets whether the service times of the service's flows are measured even if its policy does not
// need them; false initially, and after a bind to a new dataplane. Returns 0 or -ENOENT.
int weir_tables_set_measured(struct weir_tables *tables, uint16_t service, bool measured);
// Sets the time for which an error counts as an active flow, for a service whose configuration does
// not set this time. Returns 0 or -ENOENT.
int weir_tables_set_error_window(struct weir_tables *tables, uint16_t service, uint32_t ms);
#define WEIR_ERROR_WINDOW_LEAST_MS 1000u // used until set

// Returns how many binds of a service have this address, or the number of all its binds if
// address is NULL. The next functions select binds in the same way. At a drained bind, workers
// refuse packets that begin a flow, and existing flows continue.
uint32_t weir_tables_select_binds(
	const struct weir_tables *tables, uint16_t service, const struct weir_address *address);
// Returns how many of the selected binds are drained.
uint32_t weir_tables_select_drained(
	const struct weir_tables *tables, uint16_t service, const struct weir_address *address);
// Begins the drain of the selected binds, or ends it. If a drain begins, until_ns is the new
// deadline for all drained binds of the service; 0 = none. A bind that is configured later is also
// drained if its address is drained, or if all binds of its service are drained. Returns 0 or
// -ENOENT.
int weir_tables_drain_binds(struct weir_tables *tables, uint16_t service,
	const struct weir_address *address, bool drained, uint64_t until_ns);
// Returns the lowest id, at least `from`, of a service with draining binds, or -ENOENT.
int weir_tables_next_draining(const struct weir_tables *tables, uint32_t from);
// Sets the phase at the end of a drain of binds. DROPPED ends the service's flows. If some binds
// of the service are not drained, sets KEPT instead of DROPPED. left: see weir_tables_end_drain.
// Returns the phase that was set, or -ENOENT.
int weir_tables_end_bind_drain(
	struct weir_tables *tables, uint16_t service, enum weir_drain_phase phase, uint64_t left);
uint32_t weir_tables_drained_binds(const struct weir_tables *tables, uint16_t service);
// Finds the published bind of a destination. Returns the result of weir_service_lookup, or
// WEIR_SERVICE_NONE if no valid service table is published. address: 16 bytes, IPv4 zero padded.
uint16_t weir_tables_bind_at(const struct weir_tables *tables, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t port);
// Returns whether a bind is drained. bind: index in the configuration of the service.
bool weir_tables_bind_is_drained(const struct weir_tables *tables, uint16_t service, uint32_t bind);

// Returns whether a drained backend or bind has no flows if its counters are 0. moves: result of
// weir_tables_moves before the counters were read. The result is false in four cases: no segment is
// bound; the latest drain is not published yet, or a worker has not adopted it and may still begin
// a flow; a bucket may have moved between workers while the counters were read; or the dataplane
// was restarted less than WEIR_TABLES_RECOUNT_MS ago. After a restart, the dataplane counts an
// existing flow only when its next packet arrives.
#define WEIR_TABLES_RECOUNT_MS 60000
bool weir_tables_counts_drains(const struct weir_tables *tables, uint64_t moves);
// Returns the number of completed moves of buckets between workers; 0 if no segment is bound.
uint64_t weir_tables_moves(const struct weir_tables *tables);
// Returns how much of WEIR_TABLES_RECOUNT_MS is left after a restart of the dataplane, in
// milliseconds; 0 = none is left, or there was no restart.
uint64_t weir_tables_recount_left_ms(const struct weir_tables *tables);
// Call for the first dataplane of this process, if its start may have been a restart. age_ms: time
// for which the dataplane has counted flows.
void weir_tables_recount_since(struct weir_tables *tables, uint64_t age_ms);

// Removals: if `drain.removed_ms` is above 0, binds and services that are removed from the
// configuration drain until a deadline. Only TCP binds drain: workers refuse packets that begin
// a flow, and existing flows continue.
//
// If on_backend_down is "reset", workers end the flows at the deadline. Workers then refuse packets
// to the binds for a time equal to the timeout of established flows. One RST is sometimes not
// enough, because a client in a transfer ignores an RST whose sequence number is too old.
//
// With other settings of on_backend_down, the binds are withdrawn at the deadline, and the flows
// continue. If a service is removed, this applies to all its binds, and its backends are down
// after the deadline.
//
// Returns the lowest id, at least `from`, of a service with a removal in progress, or -ENOENT.
int weir_tables_next_removal(const struct weir_tables *tables, uint32_t from);
// Ends the current phase of a removal, because no flows are left (drained is true) or because the
// time of the phase has passed. Returns the result for the flows: DRAINED, DROPPED or KEPT of enum
// weir_drain_phase. The result has no meaning if the phase was DROPPED. Returns -ENOENT if there is
// no removal or no configuration.
int weir_tables_end_removal(struct weir_tables *tables, uint16_t service, bool drained);
// Gets the removed binds in the service table, of one service or of all services
// (WEIR_SERVICE_NONE). A range of ports may be split into several binds. Fills up to `room`
// elements. Returns the number of filled elements. Reads the published table, unless the service
// has at most WEIR_TABLES_FIRST_REMOVED removed binds.
uint32_t weir_tables_removed_binds(const struct weir_tables *tables, uint16_t service,
	struct weir_config_bind *ret, uint32_t room);
uint32_t weir_tables_removed_count(
	const struct weir_tables *tables); // removed binds of all services; fast
// Returns whether this VIP was removed from a service. True if a removed bind with this VIP is in
// the service table, or if this process has removed the service and its id is not free yet. Takes
// the same time as weir_tables_removed_binds.
bool weir_tables_has_lost(
	const struct weir_tables *tables, uint16_t service, const struct weir_address *address);
// Gets up to WEIR_TABLES_FIRST_REMOVED removed binds of a service, without reading the table.
// Returns the number of binds in ret.
#define WEIR_TABLES_FIRST_REMOVED 2u
uint32_t weir_tables_first_removed(const struct weir_tables *tables, uint16_t service,
	struct weir_config_bind ret[WEIR_TABLES_FIRST_REMOVED]);

// Returns whether replaced tables are waiting for a grace period. When the result becomes false,
// retry operations that returned -EBUSY.
bool weir_tables_wait(struct weir_tables *tables);

// Publishes all marked changes, in the order of layout.h, then reclaims memory. Never waits.
// Returns the number of selections, service tables and touched ids that were published.
//
// While no segment is bound, only determines panic mode and subsets, for the getters below, and
// returns 0 or -ENOMEM. Before the first weir_tables_apply, returns 0 and keeps the marks.
//
// On -ENOSPC, -EBUSY and -ENOMEM the marks are kept as well. Only rows, which need no memory, are
// then published, so that workers skip closed backends. A row that would leave too few open
// backends in the published selection is not published.
int weir_tables_publish(struct weir_tables *tables);

// Does one step of rebuilding stale selections. When a backend of a large service changes, its row
// is closed or opened first, and then the selection is rebuilt in steps. With 10,000 backends, a
// step takes less than a millisecond; the last step, which publishes the selection, takes a few
// milliseconds.
//
// Returns 1 if there are further steps, 0 if no selection is stale or nothing can be published, or
// -ENOSPC, -EBUSY or -ENOMEM (retry later).
int weir_tables_build(struct weir_tables *tables);
// Returns whether there may be further steps.
bool weir_tables_is_stale(const struct weir_tables *tables);

// Finds a service whose backups have started or stopped getting new flows since the service was
// last returned (see weir_service_state.on_backups). Call in a loop until false is returned. Fast
// if nothing has changed.
bool weir_tables_takeover(struct weir_tables *tables, uint16_t *ret_service);

// The work done so far. `backends` excludes the work of a failed weir_tables_apply.
struct weir_tables_work {
	uint64_t backends; // number of backends examined since the last bind to a new segment
	// Number of slots of built selections since the tables were opened. Of several subsets,
	// only the first is counted.
	uint64_t slots;
};
struct weir_tables_work weir_tables_work(const struct weir_tables *tables);

// Returns whether results of weir_tables_backend_is_far may have changed since the last call to
// this function.
bool weir_tables_far_changed(struct weir_tables *tables);

// A table or a row that a worker has refused.
struct weir_tables_refusal {
	uint32_t worker;
	enum weir_update_kind kind;
	uint16_t id; // id of the service (of a selection) or of the backend (of a row)
	bool restored; // the previous table, or a later table, is published now
};
// Finds a table or a row that a worker has refused since the last call, and publishes the previous
// table again. If the previous table no longer exists, marks the refused table for a rebuild, or
// withdraws a selection of a free service id. Marks a refused row for publication. The first call
// finds tables that workers refuse at that time. Returns false if nothing was refused.
// About every 100 ms, call in a loop until false is returned.
bool weir_tables_refused(struct weir_tables *tables, struct weir_tables_refusal *ret);

// Sets the time (CLOCK_MONOTONIC). Call about every 100 ms, and before a publication or a new
// configuration. The next publication updates the progress of backends in slow start. Backends that
// become eligible begin slow start at this time.
void weir_tables_clock(struct weir_tables *tables, uint64_t now_ms);

// Calls weir_tables_publish, which also reclaims memory and ids of removed services and backends.
// Then counts former flows. Call about every 100 ms. Never waits.
void weir_tables_tick(struct weir_tables *tables);

// The following functions look up and enumerate backends and services. Functions that return int
// return -ENOENT for a free id. All ids of backends are below the result of
// weir_tables_backend_ids.
uint32_t weir_tables_backend_ids(const struct weir_tables *tables);
// All ids of services are below the returned number, see weir_tables_service.
uint32_t weir_tables_service_ids(const struct weir_tables *tables);
int weir_tables_backend(
	const struct weir_tables *tables, uint16_t id, struct weir_backend_state *ret);
// Returns the path MTU of packets with this forwarding; 0 = the port's MTU. With l2, the path MTU
// does not depend on reports of routers, because there is no router on the path.
uint16_t weir_next_hop_mtu(
	const struct weir_next_hop *hop, const struct weir_forwarding *forwarding);
// Returns whether tunnel packets sent to this next hop have this outer source.
bool weir_next_hop_has_source(const struct weir_next_hop *hop, const struct weir_address *source);
// Returns whether tunnel packets to a backend have this outer source.
bool weir_tables_has_source(
	const struct weir_tables *tables, uint16_t id, const struct weir_address *source);
// Returns whether a tunnel packet of this length reaches a backend without being fragmented.
// Returns true if no segment is bound or the next hop is unresolved.
bool weir_tables_fits(const struct weir_tables *tables, uint16_t id, uint32_t bytes);
// Returns the active flows of a backend, summed over the workers. Flows of a bucket that moves
// between workers may be missing. Returns 0 if no segment is bound. Reads shared memory for each
// worker.
uint64_t weir_tables_backend_flows(const struct weir_tables *tables, uint16_t id);
int weir_tables_backend_find(const struct weir_tables *tables, const char *service,
	const char *name); // id or -ENOENT
// Finds a removed backend that a new backend with this name and address would replace. Returns its
// id or -ENOENT.
int weir_tables_backend_find_removed(const struct weir_tables *tables, uint16_t service,
	const struct weir_config_backend *config);
int weir_tables_service_find(const struct weir_tables *tables, const char *name); // id, -ENOENT
// Finds a removed service, even if it is only kept for its flows. Returns its id or -ENOENT.
int weir_tables_service_find_removed(const struct weir_tables *tables, const char *name);
// Returns the configuration of a service, borrowed until the next weir_tables_apply. Returns NULL
// if the service is not configured, or has no id yet. Takes constant time.
const struct weir_config_service *weir_tables_service_config(
	const struct weir_tables *tables, const char *name);
const char *weir_tables_service_name(const struct weir_tables *tables, uint16_t id); // or NULL

// Finds the removed backends with this name. There are several if reloads have changed the address
// of the backend or removed the backend. Fills up to `room` ids. Returns the number of backends,
// which may exceed `room`.
uint32_t weir_tables_backends_removed(const struct weir_tables *tables, uint16_t service,
	const char *name, uint16_t *ids, uint32_t room);

// Finds the backends with this address in all services, including removed backends. Fills up to
// `room` ids. Returns the number of backends, which may exceed `room`.
uint32_t weir_tables_backends_at(const struct weir_tables *tables,
	const struct weir_address *address, uint16_t *ids, uint32_t room);

const char *weir_tables_backend_name(const struct weir_tables *tables, uint16_t id); // or NULL
// Returns the id of the service of a backend, or WEIR_SERVICE_NONE. Faster than
// weir_tables_backend.
uint16_t weir_tables_backend_service(const struct weir_tables *tables, uint16_t id);

// Return the name that an id had after the first `updates` changes of the update log. Return NULL
// if the id has no name or was reused since then.
const char *weir_tables_service_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates);
const char *weir_tables_backend_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates);

struct weir_service_state {
	uint16_t id;
	// The service is in panic mode: less than panic_threshold_percent of its primary backends
	// in service are eligible. A backend is in service if it is ready, its weight is above 0,
	// and it is either healthy (even if ejected), or refusing after it was healthy. In panic
	// mode, all backends in service are used. If no backend is eligible, backends that are
	// drained or lame duck, and backends whose health checks have not passed yet, are used as
	// well.
	//
	// If a backup is eligible, or the backups are used, the percentage applies to the backups
	// instead. If a backup is eligible, the service can only be in panic mode while the backups
	// are used.
	bool panic;
	// The backups get new flows. With an eligible backup: less than backup_below_percent of the
	// primary backends are eligible, or none is eligible. Without an eligible backup: no
	// primary backend could get new flows even in panic mode.
	bool on_backups;
	bool leaving; // no longer configured, but kept until its flows and its removal have ended
	// Number of live backends, and number of eligible backends: live, ready, healthy, not
	// ejected, and with a weight above 0, regardless of panic mode.
	uint32_t backends, eligible;
	uint32_t backups, backups_eligible; // numbers of backups among `backends` and `eligible`
	// Number of backends that may get new flows, also in panic mode or as backups, and whose
	// next hop is resolved.
	uint32_t resolved;
	// Slots of all published subsets; 0 = the policy does not use slots, or nothing is
	// published.
	uint32_t slots;
	uint32_t table_slots; // slots of each published subset that has candidates; 0 as in `slots`
	// Number of published subsets: 1, or one per worker. 0 = nothing is published, or there is
	// no segment.
	uint32_t subsets;
	uint64_t parts; // sum of the parts of the backends in the published selection
	uint64_t generation; // generation of the published selection; 0 = none
	uint8_t policy; // policy in effect, enum weir_policy
	uint8_t configured_policy;
	uint8_t runtime_policy; // policy set at run time; WEIR_POLICY_UNSET = none
	// The settings of the policy; zeroed for a service without configuration. They contain the
	// configured limit of active flows, although this limit is published in the rows.
	struct weir_policy_settings settings;
	uint8_t drain; // enum weir_drain_phase of the service's drained binds
	uint64_t drain_until_ns; // CLOCK_MONOTONIC; 0 = no deadline
	uint64_t drain_left; // open flows at the end of the drain, see weir_tables_end_drain
	// Last start of a drain, CLOCK_MONOTONIC; 0 = no drain, or it began before this process.
	uint64_t drain_begun_ms;
	// Phase of the removed binds, or, if `leaving`, of the whole service. NONE, DRAINING, or
	// DROPPED (the flows of the removed binds have ended), enum weir_drain_phase.
	uint8_t removal;
	uint64_t removal_until_ns; // end of the phase `removal`, CLOCK_MONOTONIC
	uint32_t removed_binds; // number of removed binds in the service table
	// In this process, a reload removed binds of the service, or moved them to another service.
	// The service may still have flows of these binds.
	bool lost_binds;
	// An earlier process added the service. That process may have removed binds of the service,
	// or moved them to another service.
	bool adopted;
	// Flags of backends that are down: WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET, or 0.
	uint8_t down_flags;
};
int weir_tables_service(
	const struct weir_tables *tables, uint16_t id, struct weir_service_state *ret);

// Former flows of a service: flows that may move to another backend when a worker starts, although
// their backend is in the selection. A worker starts with an empty flow table, and chooses the
// backend of a flow with the current selection. The numbers are upper limits.
struct weir_former_flows {
	// Flows that may have begun before the last change to the selection (backends, weights,
	// settings), to the backends' rows (open or closed), or to the service's binds. Only
	// changes since the start of the dataplane are considered. UINT64_MAX = unknown: workers
	// may still use the previous tables, the flows were not counted since then, or no selection
	// was published.
	uint64_t older;
	// Flows that began after `older` was counted, on a backend that the selection does not
	// choose.
	uint64_t spilled;
};
// Call when a worker has moved a flow to this backend. The selection may choose another backend for
// the flow, so the current flows of the service count as older flows from now on.
void weir_tables_flow_moved(struct weir_tables *tables, uint16_t backend);
// Returns the former flows of a service. Reads shared memory for each worker.
struct weir_former_flows weir_tables_former_flows(
	const struct weir_tables *tables, uint16_t service);

// Returns the number of a backend's parts in the published selection; 0 = it gets no new flows. A
// part is a slot (maglev), a stride (weighted-round-robin), or a unit that is derived from the
// weight (least-loaded, and the time-weighted and interleaved policies). With other policies each
// backend has 1 part. Except for slots, the parts are scaled if a backend of the service is in slow
// start, or if there are several subsets.
uint64_t weir_tables_backend_parts(const struct weir_tables *tables, uint16_t backend);

struct weir_subset_part {
	uint16_t backend;
	uint64_t parts;
};
// Gets the parts in one published subset, in the order of the subset's candidates. subset: less
// than weir_service_state.subsets. Parts of different subsets cannot be compared. Fills up to
// `room` elements. Returns the number of filled elements; 0 if nothing is published.
uint32_t weir_tables_subset_parts(const struct weir_tables *tables, uint16_t service,
	uint32_t subset, struct weir_subset_part *ret, uint32_t room);

// --- subsets ---

// How a service is divided into subsets. If subsetting is off (there is no algorithm, or the size
// is at least the number of primary backends and at least the number of backups), there is one
// subset with all backends.
struct weir_subset_state {
	struct weir_subset_params params; // parameters of the first subset of this instance
	enum weir_subset_client client;
	bool off;
	// Number of subsets of this instance: 1, or one per worker. Subset i belongs to the client
	// params.client + i.
	uint32_t subsets;
	uint64_t clients; // number of clients in the whole fleet
	uint32_t backends; // number of live backends of the service
};
int weir_tables_subset(
	const struct weir_tables *tables, uint16_t service, struct weir_subset_state *ret);

// Returns whether a backend is "far": it will probably not be used soon, so its health can be
// checked less often. In each subset of this instance, a far backend ranks behind the members and
// behind a few usable spares (a tenth of the size, at least WEIR_SUBSET_SPARES_LEAST).
bool weir_tables_backend_is_far(const struct weir_tables *tables, uint16_t backend);
#define WEIR_SUBSET_SPARES_LEAST 2u

struct weir_subset_member {
	uint16_t backend;
	// The unusable member that this substitute replaces, or WEIR_BACKEND_NONE.
	uint16_t replaces;
	bool unusable; // the backend is a member of the subset, but is not used now
};
// Gets a subset of this instance: its primary members in order of preference, then their
// substitutes, and if backups are used, then the same for the backups. subset: less than
// weir_subset_state.subsets. ret: must have room for all live backends of the service. Returns the
// number of elements, -ENOENT or -ENOMEM.
//
// In panic mode, a subset gets its share of the service's eligible backends, rounded up. The other
// places of the subset are filled with backends that are allowed only because of panic mode.
int weir_tables_subset_members(const struct weir_tables *tables, uint16_t service, uint32_t subset,
	struct weir_subset_member *ret);

struct weir_subset_count {
	uint16_t backend;
	bool usable;
	// Number of clients in the fleet that use the backend, as this instance computes it.
	uint32_t clients;
};
// Gets the number of clients of each live backend of a service. The primary backends come first,
// then the backups, each in canonical order (without a subset algorithm, in the order in which they
// got their ids). ret: must have room for all live backends. Returns the number of backends,
// -ENOENT or -ENOMEM.
//
// If there are more than WEIR_SUBSET_PAIRS_MAX pairs of clients and backends, computing the
// numbers would take too long: all numbers are then 0.
int weir_tables_subset_counts(
	const struct weir_tables *tables, uint16_t service, struct weir_subset_count *ret);
#define WEIR_SUBSET_PAIRS_MAX 2000000u

// weir_tables_writer and weir_tables_segment return NULL while no segment is bound.
struct weir_writer *weir_tables_writer(struct weir_tables *tables);
const struct weir_segment *weir_tables_segment(const struct weir_tables *tables);
const struct weir_config *weir_tables_config(
	const struct weir_tables *tables); // NULL before the first weir_tables_apply
