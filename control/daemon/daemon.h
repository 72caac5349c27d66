// SPDX-License-Identifier: BSD-3-Clause
//
// Daemon: connects the modules of weir-control in one event loop. Data flow:
//
//   dataplane_link --segment--> tables <--changes-- states, reports, next hops, api_*,
//                                                  estimates
//   signals, api_config --> reload --> tables, checks       api_* --requests--> all
//   workers --samples--> estimates --costs--> workers     workers --counters--> outliers --> tables
//   workers --counters, owners of buckets--> steals --requests--> workers
//   reports, states, workers --> canaries --weights--> tables
//   workers --flows--> sheds --orders--> agents
//   states, tables --> quorums --> notify --> programs <-- health
//
// Threads: one. Changes by health checks, neighbours and estimates are published before the loop
// waits again, all changes of one iteration together. The changes wait longer if their publications
// would take more than a quarter of the loop's time. Changes by a command or a reload are published
// before the reply.
#pragma once

#include <uv.h>

#include "audit.h"
#include "canary.h"
#include "captures.h"
#include "checks.h"
#include "comparison.h"
#include "dataplane_link.h"
#include "drains.h"
#include "estimates.h"
#include "flow_lists.h"
#include "flow_lookup.h"
#include "flow_steals.h"
#include "health.h"
#include "links.h"
#include "log_limit.h"
#include "mailboxes.h"
#include "next_hops.h"
#include "notify.h"
#include "outliers.h"
#include "probed_agents.h"
#include "programs.h"
#include "quorums.h"
#include "recent.h"
#include "rejections.h"
#include "reload.h"
#include "reports.h"
#include "samples.h"
#include "sheds.h"
#include "stalls.h"
#include "states.h"
#include "steals.h"
#include "tables.h"

#define WEIR_DAEMON_WHY_BYTES 128
#define WEIR_DAEMON_REASON_BYTES 640 // for why a configuration is not applied

struct weir_daemon {
	uv_loop_t loop;
	struct weir_log *log;
	struct weir_log_limit *log_limit;
	struct weir_audit *audit;
	const char *run_dir;
	const char *user; // user of this process, for messages
	struct weir_dataplane_link *link;
	struct weir_reload *reload;
	struct weir_states *states;
	struct weir_reports *reports;
	struct weir_health *health;
	struct weir_checks_log checks_log;
	struct weir_probed_agents *probed_agents;
	struct weir_agents *agents; // the agents of probed_agents
	struct weir_next_hops *next_hops;
	struct weir_links links;
	struct weir_mailboxes mailboxes;
	struct weir_lookups *lookups;
	struct weir_flow_lists *flow_lists;
	struct weir_captures *captures;
	struct weir_steals *steals;
	struct weir_flow_steals *flow_steals;
	struct weir_tables *tables; // NULL until the first dataplane is attached
	struct weir_segment *segment; // NULL while there is no dataplane
	const struct weir_handover *handover; // NULL while there is no dataplane
	struct weir_samples samples;
	struct weir_stalls stalls;
	struct weir_recent recent;
	struct weir_drains drains;
	struct weir_comparisons comparisons;
	struct weir_estimates *estimates;
	struct weir_outliers *outliers;
	struct weir_rejections *rejections;
	struct weir_canaries *canaries;
	struct weir_sheds *sheds;
	struct weir_quorums quorums;
	struct weir_programs *programs; // NULL: programs cannot run
	struct weir_notify *notify; // NULL before weir_daemon_set_programs
	uint64_t epoch; // epoch of the last attached segment
	uint64_t started_ms; // start of this process, milliseconds since 1970
	// Start of the last attached dataplane, in milliseconds since 1970; 0 = unknown.
	uint64_t dataplane_started_ms;
	// Time of the last accepted reload, or start of this process, in milliseconds since 1970.
	uint64_t reloaded_ms;
	bool reload_refused; // the last reload, or the file at the start, was refused
	// Why the file of weir_reload_file is not in use: it did not fit the running dataplane, or,
	// if none was attached, the last one; or it has had errors since. "" = there is no such
	// reason.
	char file_why[WEIR_DAEMON_REASON_BYTES + 256];
	uint64_t reload_epoch; // epoch of the last call of weir_daemon_reload_once that reloaded
	bool applied; // the configuration in use was applied to the attached dataplane
	bool store_failed; // the configuration in use could not be stored
	bool dirty; // there are changes that must be published
	// The configuration, or a part of it, was not applied. Applying it will be retried.
	bool retry;
	uint64_t retry_ns; // earliest time of the retry
	// Time of the next call of weir_daemon_configure_again that has an effect; 0 = none.
	uint64_t follow_ns;
	// Why the configuration, or a part of it, is not applied; "" = it is applied completely.
	char config_why[320];
	// Why the last publication failed; "" = it succeeded.
	char publish_why[WEIR_DAEMON_WHY_BYTES];
	// Why building or publishing a stale selection failed; "" = it did not fail.
	char build_why[WEIR_DAEMON_WHY_BYTES];
	bool steer_due; // the VIP maps must be updated
	uint32_t steered_removed; // number of removed binds at the last update of the VIP maps
	// Time of the next check for expired keys in the VIP maps; 0 = no key can expire.
	uint64_t leaving_ns;
	// Why the last update of the VIP maps failed, as it was logged. "" = the update succeeded,
	// or its next failure must be logged again.
	char steer_why[272];
	uint64_t last_publish_us; // duration of the last publication
	uint64_t published_ns; // end of the last publication
	uint64_t build_next_ns; // time of the next step of building selections
	uint64_t last_grace_us; // duration of the last measured grace period, see grace_since_ns
	// Sums of last_publish_us and last_grace_us since the start of this process.
	uint64_t publish_us, grace_us;
	uint64_t graces; // number of grace periods in grace_us
	uint64_t grace_mark;
	// Time of the publication whose grace period is measured: the time until every worker uses
	// the published tables. 0 = no grace period is measured.
	uint64_t grace_since_ns;
	uv_timer_t tick, second, grace, publish, build;
	uv_timer_t collect; // runs while workers measure service times
	uv_prepare_t before_wait;
	uv_check_t after_wait;
	uv_signal_t hangup, terminate, interrupt;
};

// Starts the daemon. run_dir, user, log and reload: borrowed until weir_daemon_fini. Adds to `log`
// a filter that limits repeated lines. Returns 0 or negative errno (logged). After an error, do not
// call weir_daemon_fini.
int weir_daemon_init(struct weir_daemon *daemon, const char *run_dir, const char *user,
	struct weir_log *log, struct weir_reload *reload);
// Sends health checks via the data path through this tunnel. Returns 0; the daemon then owns the
// tunnel. Or returns negative errno with the tunnel unchanged.
int weir_daemon_set_data_path(struct weir_daemon *daemon, struct weir_data_path_tunnel *tunnel);
// Runs programs of the configuration with this helper process (programs.h); negative: there is
// none. Takes ownership of helper, even if the call fails. Returns 0 or negative errno (logged).
int weir_daemon_set_programs(struct weir_daemon *daemon, int helper);
// Writes one line: why programs of the configuration do not run, or run late. Returns false if
// there is no such problem, or if the configuration (only != NULL: this service) has no program.
bool weir_daemon_programs_problem(const struct weir_daemon *daemon,
	const struct weir_config_service *only, char *why, size_t bytes);
// Notifies systemd that the service is ready, and runs until SIGTERM or SIGINT, or until a new
// version of weir-control must be started because of an upgrade.
void weir_daemon_run(struct weir_daemon *daemon);
void weir_daemon_fini(struct weir_daemon *daemon);

// --- for the API's handlers ---

// Publishes all changes now. Returns 0 or negative errno. -ENOTCONN: the changes will be published
// when a dataplane is attached. -EAGAIN: the changes will be published when the configuration has
// been applied. Any other error was logged once, and each tick tries to publish again.
int weir_daemon_publish(struct weir_daemon *daemon);
// Returns why some changes could not be published; NULL = no change has failed, or no dataplane is
// attached.
const char *weir_daemon_unpublished(const struct weir_daemon *daemon);
// Returns why this process cannot attach to the running dataplane, as one line; NULL = it is
// attached, or no dataplane is running.
const char *weir_daemon_unattached(const struct weir_daemon *daemon);
// Returns why the configuration in use does not fit the attached dataplane, so that no later
// attempt to apply it can succeed; NULL = it fits.
const char *weir_daemon_unfit(const struct weir_daemon *daemon);
// Returns the workers that are stalled now.
const struct weir_stalls *weir_daemon_stalls(struct weir_daemon *daemon);
// Logs the warnings about a configuration file.
void weir_daemon_log_warnings(
	struct weir_log *log, const char *file, const struct weir_config_errors *errors);
// Calls weir_reload_plan, and adds the costs of the changes, and warnings about them, to the plan.
// Returns the result of weir_reload_plan.
int weir_daemon_plan(struct weir_daemon *daemon, const char *file, struct weir_reload_plan *plan);
// Reads a file and makes it the configuration. file: NULL = the file of weir_reload_file. Logs all
// changes and warnings, or all errors. plan is always initialized; release it with
// weir_reload_plan_fini. Returns 0 or negative errno with a line in why.
int weir_daemon_reload(struct weir_daemon *daemon, const char *file, struct weir_reload_plan *plan,
	char *why, size_t why_bytes);
// Adds a warning to the plan if weir_daemon_reload would refuse it, because the running dataplane
// has too few ids. Does not check whether there is enough memory for the tables.
void weir_daemon_warn_too_large(struct weir_daemon *daemon, struct weir_reload_plan *plan);
// Start and stop estimates as the services need them. Call this function when the needs of services
// may have changed.
void weir_daemon_update_estimates(struct weir_daemon *daemon);
// Returns the argument for weir_comparison_begin. A dataplane must be attached.
struct weir_comparisons *weir_daemon_comparisons(struct weir_daemon *daemon);
uint64_t weir_daemon_now_ns(void); // CLOCK_MONOTONIC
uint64_t weir_daemon_wall_ms(void); // CLOCK_REALTIME
