// SPDX-License-Identifier: BSD-3-Clause
#include "reports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "announced.h"
#include "capacity.h"
#include "clocks.h"
#include "configured.h"
#include "port_words.h"
#include "reports_settings.h"
#include "steal_duration.h"

#define WEIGHT_MOST 65535.0 // maximum weight in the configuration

// Values that a source can report and withdraw, in addition to the announced states.
enum reported { REPORTED_LIMIT, REPORTED_QUEUE, REPORTED_WEIGHT, REPORTED_COUNT };

struct entry { // data of one backend id
	bool known;
	bool any; // last is valid
	bool at_limit;
	uint8_t accept_queue_percent;
	// number of the last weir_reports_configure call that contained this backend
	uint64_t generation;
	uint64_t identity;
	uint32_t wants; // fields that are used regardless of the policy
	uint32_t divisor; // estimated number of balancers in the fleet that use the backend
	uint32_t limit; // limit that the backend reported, for all balancers together; 0 = none
	uint32_t share; // this instance's share of `limit`; 0 = no limit
	bool requests; // each flow of the backend's service is one request
	uint32_t weight; // weight that the backend reported; WEIR_WEIGHT_UNSET = none
	// Reported percentage of the configured weight; it replaces `weight`. Below 0 = none.
	double percent;
	uint64_t taken_ms; // time of the last report
	uint64_t expire_ms; // lifetime of a report
	struct weir_steal_duration service; // data for service_s in struct weir_reports_status
	struct weir_announced announced;
	struct weir_host_cpus host; // the CPUs that were last reported
	struct weir_report last;
	char source[WEIR_REPORTS_SOURCE_BYTES]; // source of the last report
	// Which source reported each value; "" = none.
	char by[REPORTED_COUNT][WEIR_REPORTS_SOURCE_BYTES];
};

struct weir_reports {
	struct weir_states *states;
	struct weir_estimates *estimates;
	weir_reports_changed changed;
	void *context;
	weir_reports_full full; // NULL = no callback
	void *full_context;
	struct weir_tables *tables; // NULL until the first weir_reports_configure
	struct entry *entries; // indexed by backend id
	struct weir_bound_ports *binds; // binds of all services
	struct weir_capacity_table *speeds; // speeds of CPU models
	uint32_t ids;
	uint64_t generation;
	char why[256]; // the text that weir_reports_why returns
};

int weir_reports_create(struct weir_states *states, struct weir_estimates *estimates,
	weir_reports_changed changed, void *context, struct weir_reports **ret) {
	struct weir_reports *reports = calloc(1, sizeof(*reports));

	if (reports == NULL) {
		return -ENOMEM;
	}
	reports->states = states;
	reports->estimates = estimates;
	reports->changed = changed;
	reports->context = context;
	*ret = reports;
	return 0;
}

void weir_reports_free(struct weir_reports *reports) {
	if (reports == NULL) {
		return;
	}
	free(reports->entries);
	free(reports->binds);
	weir_capacity_table_free(reports->speeds);
	free(reports);
}

void weir_reports_on_full(struct weir_reports *reports, weir_reports_full full, void *context) {
	reports->full = full;
	reports->full_context = context;
}

static struct entry *find(const struct weir_reports *reports, uint16_t backend) {
	return backend < reports->ids && reports->entries[backend].known
		       ? &reports->entries[backend]
		       : NULL;
}

static bool is_by(const struct entry *entry, enum reported what, const char *source) {
	return strncmp(entry->by[what], source, sizeof(entry->by[what]) - 1) == 0;
}

// --- to the tables --------------------------------------------------------------------------

static uint32_t weight_of(const struct entry *entry, uint32_t configured) {
	struct weir_report report = {
		.given = WEIR_REPORT(WEIGHT_PERCENT), .weight_percent = entry->percent};
	double weight;

	if (entry->percent < 0) {
		return entry->weight;
	}
	if (entry->percent == 0 || configured == 0) {
		return 0;
	}
	weight = weir_report_weight(&report, configured) + 0.5;
	return weight < 1 ? 1 : (uint32_t)weight;
}

static void write_tables(struct weir_reports *reports, uint16_t id) {
	const struct entry *entry = &reports->entries[id];
	uint32_t limit = entry->share, weight;
	struct weir_backend_state state;

	if (weir_tables_backend(reports->tables, id, &state) < 0 || state.leaving) {
		return;
	}
	weight = weight_of(entry, state.configured_weight);
	if (state.max_active_flows == limit && state.at_limit == entry->at_limit &&
		state.own_weight == weight) {
		return;
	}
	weir_tables_set_limit(reports->tables, id, limit, entry->at_limit);
	weir_tables_set_own_weight(reports->tables, id, weight);
	reports->changed(reports->context);
}

// --- reports --------------------------------------------------------------------------------

struct origin { // where a report comes from
	const char *source;
	// True: values that the report does not contain stay. False: these values are withdrawn.
	bool keeps;
};

// Returns whether a report changes a value. given: whether the report contains the value. Records
// the source of the value.
static bool concerns(
	struct entry *entry, enum reported what, const struct origin *origin, bool given) {
	const char *source = origin->source;

	if (!given && (origin->keeps || !is_by(entry, what, source))) {
		return false;
	}
	snprintf(entry->by[what], sizeof(entry->by[what]), "%s", given ? source : "");
	return true;
}

// Returns how many slots of the backend's limit this instance holds. Slots that forged SYNs have
// taken are included until a worker releases them.
static uint32_t held_here(const struct weir_reports *reports, uint16_t id) {
	const struct weir_segment *segment = weir_tables_segment(reports->tables);

	return segment != NULL && id < segment->max_backends
		       ? __atomic_load_n(&segment->limit_words[id].held, __ATOMIC_RELAXED)
		       : 0;
}

// Sets the share of this instance, but ignores changes of a few per cent, because each change
// causes a publication. The share never stays above the limit.
static void set_share(struct entry *entry, uint32_t share) {
	uint32_t slight = entry->share / 32;

	if (entry->share > entry->limit || share + slight < entry->share ||
		share > entry->share + slight) {
		entry->share = share;
	}
}

static void take_limit(struct weir_reports *reports, uint16_t id, const struct weir_report *report,
	const struct origin *origin) {
	struct entry *entry = &reports->entries[id];
	bool given = (report->given & WEIR_REPORT(MAX_ACTIVE)) != 0;
	bool has_active = entry->requests && (report->given & WEIR_REPORT(ACTIVE)) != 0;

	if (concerns(entry, REPORTED_LIMIT, origin, given)) {
		entry->limit = given ? (uint32_t)report->max_active_flows : 0;
		set_share(entry,
			weir_reports_share(entry->limit, entry->divisor,
				has_active ? report->active_requests : -1, held_here(reports, id)));
	}
}

static void take_queue(
	struct entry *entry, const struct weir_report *report, const struct origin *origin) {
	uint32_t fields = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT);
	bool given = (report->given & fields) == fields && report->accept_queue_limit > 0;
	double full = report->accept_queue_limit * entry->accept_queue_percent / 100;

	if (!concerns(entry, REPORTED_QUEUE, origin, given)) {
		return;
	}
	if (!given || entry->accept_queue_percent == 0) {
		entry->at_limit = false;
	} else if (report->accept_queue >= full) {
		entry->at_limit = true;
	} else if (report->accept_queue < full / 2) {
		entry->at_limit = false;
	}
}

// Updates the mean time between the ends of two successive connections. While connections wait in
// the accept queue, measures this time. Otherwise computes this time from the service time and the
// number of connections that the backend serves at the same time.
static void take_service_time(
	struct entry *entry, const struct weir_report *report, uint64_t at_ms) {
	const uint32_t queue = WEIR_REPORT(QUEUE), count = WEIR_REPORT(SERVICE_COUNT);
	double waiting = (report->given & queue) != 0 ? report->accept_queue : 0;
	double active = (report->given & WEIR_REPORT(ACTIVE)) != 0 ? report->active_requests : 1;
	double served = active - waiting > 1 ? active - waiting : 1;
	bool busy = entry->any && waiting > 0 && (report->given & count) != 0 &&
		    (entry->last.given & queue) != 0 && entry->last.accept_queue > 0;

	if ((report->given & WEIR_REPORT(SERVICE_TIME)) == 0 ||
		((report->given & count) != 0 && report->service_count < 0.5)) {
		return;
	}
	weir_steal_duration_ended(&entry->service,
		busy ? (double)(at_ms - entry->taken_ms) / 1000 / report->service_count
		     : report->service_time_ms / 1000 / served);
}

static void take_weight(
	struct entry *entry, const struct weir_report *report, const struct origin *origin) {
	bool absolute = (report->given & WEIR_REPORT(WEIGHT)) != 0;
	bool percent = (report->given & WEIR_REPORT(WEIGHT_PERCENT)) != 0;

	if (!concerns(entry, REPORTED_WEIGHT, origin, absolute || percent)) {
		return;
	}
	entry->weight = !absolute                      ? WEIR_WEIGHT_UNSET
			: report->weight > WEIGHT_MOST ? (uint32_t)WEIGHT_MOST
						       : (uint32_t)(report->weight + 0.5);
	entry->percent = percent && !absolute ? report->weight_percent : -1;
}

// Sets the automatic weight of a backend. Returns the source of its capacity, or NONE if the
// capacity is not known or the weight is not automatic.
static enum weir_capacity_source write_auto_weight(struct weir_reports *reports, uint16_t id) {
	const struct weir_capacity capacity =
		weir_capacity_of(reports->speeds, &reports->entries[id].host);
	const uint32_t weight = weir_capacity_weight(&capacity);
	struct weir_backend_state state;

	if (weight == 0 || weir_tables_backend(reports->tables, id, &state) < 0 ||
		!state.weight_auto) {
		return WEIR_CAPACITY_FROM_NONE;
	}
	if (weight != state.auto_weight &&
		weir_tables_set_auto_weight(reports->tables, id, weight) == 0) {
		reports->changed(reports->context);
	}
	return capacity.source;
}

// Uses the CPU data of a report. The data does not expire, because the CPUs of a machine do not
// change while the machine sends no reports. Returns the fields that were used.
static uint32_t take_cpus(
	struct weir_reports *reports, uint16_t id, const struct weir_report *report) {
	static const uint32_t used[] = {
		[WEIR_CAPACITY_FROM_NONE] = 0,
		[WEIR_CAPACITY_FROM_TABLE] = WEIR_REPORT(CPUS),
		[WEIR_CAPACITY_FROM_MEASURED] = WEIR_REPORT(CPUS) | WEIR_REPORT(GCU),
		[WEIR_CAPACITY_FROM_FREQUENCY] = WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ),
	};
	const struct weir_host_cpus host = weir_host_cpus_of(report);

	if (weir_capacity_of(reports->speeds, &host).source == WEIR_CAPACITY_FROM_NONE) {
		return 0;
	}
	reports->entries[id].host = host;
	return used[write_auto_weight(reports, id)];
}

uint32_t weir_reports_take(struct weir_reports *reports, uint16_t id,
	const struct weir_report *report, const char *source) {
	const struct origin origin = {source, weir_reports_source_keeps(source)};
	const uint64_t at_ms = weir_monotonic_ns() / 1000000;
	struct entry *entry = find(reports, id);
	uint32_t cpus;
	int used;

	if (entry == NULL) {
		return 0;
	}
	take_limit(reports, id, report, &origin);
	take_queue(entry, report, &origin);
	take_service_time(entry, report, at_ms);
	take_weight(entry, report, &origin);
	cpus = take_cpus(reports, id, report);
	entry->last = *report;
	entry->any = true;
	entry->taken_ms = at_ms;
	snprintf(entry->source, sizeof(entry->source), "%s", source);
	write_tables(reports, id);
	reports->why[0] = '\0';
	used = weir_estimates_report(reports->estimates, id, report, weir_monotonic_ns(),
		reports->why, sizeof(reports->why));
	weir_announced_take(&entry->announced, reports->states, id, report, source);
	if (entry->at_limit && reports->full != NULL) {
		reports->full(reports->full_context, id);
	}
	return (used > 0 ? (uint32_t)used : 0) | cpus |
	       (report->given & weir_reports_used(entry->wants, entry->limit > 0));
}

const char *weir_reports_why(const struct weir_reports *reports) {
	return reports->why;
}

static void withdraw_load(struct weir_reports *reports, uint16_t id, const char *source) {
	static const struct weir_report nothing = {0};
	const struct origin origin = {.source = source, .keeps = false};
	struct entry *entry = &reports->entries[id];

	take_limit(reports, id, &nothing, &origin);
	take_queue(entry, &nothing, &origin);
	take_weight(entry, &nothing, &origin);
	write_tables(reports, id);
}

void weir_reports_source_gone(struct weir_reports *reports, uint16_t id, const char *source) {
	struct entry *entry = find(reports, id);

	if (entry == NULL) {
		return;
	}
	withdraw_load(reports, id, source);
	weir_announced_withdraw(&entry->announced, reports->states, id, source);
}

// Withdraws the values of a source whose reports have expired. by: name of the source; "" = none.
static void expire(struct weir_reports *reports, uint16_t id, const char *by) {
	char source[WEIR_REPORTS_SOURCE_BYTES]; // copy: the calls below may clear `by`

	snprintf(source, sizeof(source), "%s", by);
	if (source[0] != '\0') {
		weir_reports_source_gone(reports, id, source);
	}
}

static void expire_sources(struct weir_reports *reports, uint16_t id) {
	const struct entry *entry = &reports->entries[id];

	expire(reports, id, entry->announced.word_by);
	expire(reports, id, entry->announced.ports_by);
	for (uint32_t what = 0; what < REPORTED_COUNT; what++) {
		expire(reports, id, entry->by[what]);
	}
}

void weir_reports_second(struct weir_reports *reports, uint64_t now_ms) {
	for (uint32_t id = 0; id < reports->ids; id++) {
		struct entry *entry = find(reports, (uint16_t)id);

		if (entry != NULL && entry->percent >= 0) {
			// the configured weight can be automatic, and can have changed
			write_tables(reports, (uint16_t)id);
		}
		if (entry == NULL || !entry->any || now_ms < entry->taken_ms + entry->expire_ms) {
			continue;
		}
		entry->any = false;
		expire_sources(reports, (uint16_t)id);
	}
}

// --- configuration --------------------------------------------------------------------------

uint32_t weir_reports_fields_used(const struct weir_reports *reports, uint16_t id) {
	const struct entry *entry = find(reports, id);

	return entry != NULL ? entry->wants | weir_estimates_wants(reports->estimates, id) : 0;
}

// Withdraws the values of a source that the service no longer uses. by: name of the source, "" =
// none. load: whether `by` is the source of a limit, an accept queue or a weight.
static void drop_source(
	struct weir_reports *reports, const struct weir_configured *of, const char *by, bool load) {
	const struct weir_config_health_check *check =
		weir_config_check_of(of->service, of->config);
	const uint16_t id = of->backend.id;
	char source[WEIR_REPORTS_SOURCE_BYTES]; // copy: the calls below may clear `by`

	snprintf(source, sizeof(source), "%s", by);
	if (source[0] != '\0' && !weir_reports_have_source(of->service, check, source)) {
		weir_reports_source_gone(reports, id, source);
	} else if (load && !weir_reports_read_load(check, source)) {
		withdraw_load(reports, id, source);
	}
}

static void drop_sources(struct weir_reports *reports, const struct weir_configured *of) {
	const struct entry *entry = &reports->entries[of->backend.id];

	drop_source(reports, of, entry->announced.word_by, false);
	drop_source(reports, of, entry->announced.ports_by, false);
	for (uint32_t what = 0; what < REPORTED_COUNT; what++) {
		drop_source(reports, of, entry->by[what], true);
	}
}

static void configure_backend(struct weir_reports *reports, const struct weir_configured *of,
	uint32_t wants, uint32_t sharers) {
	const struct weir_config_service *service = of->service;
	const struct weir_backend_state *state = &of->backend;
	struct entry *entry = &reports->entries[state->id];
	uint32_t divisor;
	bool requests;

	if (!entry->known || entry->identity != state->identity) {
		*entry = (struct entry){.known = true,
			.identity = state->identity,
			.weight = WEIR_WEIGHT_UNSET,
			.percent = -1};
		weir_steal_duration_init(&entry->service);
	}
	entry->generation = reports->generation;
	entry->wants = wants;
	entry->expire_ms =
		weir_reports_expire_ms(service, weir_config_check_of(service, of->config));
	divisor = weir_reports_divisor(service, sharers);
	requests = service->workload == WEIR_WORKLOAD_REQUESTS;
	if (entry->divisor != divisor || entry->requests != requests) {
		entry->divisor = divisor;
		entry->requests = requests;
		entry->share = weir_reports_share(entry->limit, divisor, -1, 0);
	}
	entry->accept_queue_percent = (uint8_t)service->flow_control.accept_queue_percent;
	entry->at_limit &= entry->accept_queue_percent != 0;
	drop_sources(reports, of);
	write_tables(reports, state->id);
	(void)write_auto_weight(reports, state->id); // the table of speeds may have changed
}

// Returns the number of all balancers of the fleet, at least 1.
static uint32_t all_sharers(const struct weir_config *config) {
	uint32_t balancers = config->instance.clients * config->instance.members;

	return balancers > 0 ? balancers : 1;
}

int weir_reports_configure(struct weir_reports *reports, struct weir_tables *tables,
	const struct weir_config *config) {
	struct weir_configured of = weir_configured_begin(tables, config);
	uint32_t sharers = all_sharers(config), wants = 0, at = UINT32_MAX;
	uint32_t first = 0,
		 counted = 0; // `first` is the number of binds of the first `counted` services
	struct weir_bound_ports *binds = weir_bound_ports_of(config), *before = reports->binds;
	struct weir_capacity_table *speeds = NULL;
	int r = binds == NULL || weir_capacity_table_create(config, &speeds) < 0
			? -ENOMEM
			: weir_configured_grow(tables, &reports->entries, &reports->ids,
				  sizeof(*reports->entries));

	if (r < 0) {
		free(binds);
		weir_capacity_table_free(speeds);
		return r;
	}
	reports->binds = binds;
	weir_capacity_table_free(reports->speeds);
	reports->speeds = speeds;
	reports->tables = tables;
	reports->generation++;
	while (weir_configured_next(&of)) {
		if (of.at_service != at) {
			at = of.at_service;
			wants = weir_reports_wants(of.service);
		}
		for (; counted < of.at_service; counted++) {
			first += config->services[counted].bind_count;
		}
		configure_backend(reports, &of, wants, sharers);
		weir_announced_set_binds(&reports->entries[of.backend.id].announced,
			reports->states, of.backend.id, binds + first, of.service->bind_count);
	}
	for (uint32_t id = 0; id < reports->ids; id++) {
		reports->entries[id].known &=
			reports->entries[id].generation == reports->generation;
	}
	free(before); // entries refer to the previous binds until set_binds
	return 0;
}

// --- status ---------------------------------------------------------------------------------

bool weir_reports_at_limit(const struct weir_reports *reports, uint16_t backend) {
	const struct entry *entry = find(reports, backend);

	return entry != NULL && entry->at_limit;
}

int weir_reports_status(
	const struct weir_reports *reports, uint16_t backend, struct weir_reports_status *ret) {
	const struct entry *entry = find(reports, backend);

	if (entry == NULL || !entry->any) {
		return -ENOENT;
	}
	*ret = (struct weir_reports_status){.report = &entry->last,
		.source = entry->source,
		.age_ms = weir_monotonic_ns() / 1000000 - entry->taken_ms,
		.max_active_flows = entry->limit,
		.at_limit = entry->at_limit,
		.service_s = weir_steal_duration_estimate(&entry->service, -1)};
	return 0;
}

int weir_reports_capacity(
	const struct weir_reports *reports, uint16_t backend, struct weir_capacity *ret) {
	const struct entry *entry = find(reports, backend);
	struct weir_backend_state state;
	struct weir_capacity capacity;

	if (entry == NULL || weir_tables_backend(reports->tables, backend, &state) < 0 ||
		!state.weight_auto) {
		return -ENOENT;
	}
	capacity = weir_capacity_of(reports->speeds, &entry->host);
	if (capacity.source == WEIR_CAPACITY_FROM_NONE) {
		return -ENOENT;
	}
	*ret = capacity;
	return 0;
}
