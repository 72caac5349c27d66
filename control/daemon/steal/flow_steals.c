// SPDX-License-Identifier: BSD-3-Clause
#include "flow_steals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "round_times.h"
#include "steal_service.h"

// A flow is not moved later than this time after the start of the scan that has found the flow.
#define FLOW_LIFE_NS 3000000000ull

enum phase { PHASE_IDLE, PHASE_SCANNING, PHASE_REQUESTING };

enum request_state { REQUEST_FREE, REQUEST_SENT, REQUEST_MOVING };

struct request { // a request for one flow
	enum request_state state;
	// State REQUEST_SENT: token of the steal request. State REQUEST_MOVING: sequence number of
	// the message to the worker.
	uint64_t number;
	uint64_t planned_ms;
	uint64_t until_ms;
	struct weir_flow_waiting_at flow;
	struct steal_planned planned;
};

struct weir_flow_steals {
	uv_loop_t *loop;
	struct weir_log *log;
	uv_timer_t timer; // runs between rounds, while a service steals
	struct weir_mailboxes *mailboxes;
	struct weir_reports *reports;
	struct weir_tables *tables; // NULL until the first weir_flow_steals_configure
	struct weir_agents *agents;
	struct weir_flow_scan scan;
	enum phase phase;
	uint64_t scanned_ns; // start of the scan
	struct weir_round_times times;
	// Time when the next flow of the scan will have waited long enough to be moved; 0 = there
	// is none.
	uint64_t due_ms;
	struct steal_service *services;
	uint32_t count;
	uint32_t turn; // index of the service with which the search for the next round starts
	uint32_t counted; // index of the service whose half-open flows are counted next
	uint32_t current; // index of the service of the round in progress, or of the last round
	uint32_t active; // number of elements of requests[] in use
	bool unsupported;
	uint64_t events; // number of events since the start
	struct request requests[WEIR_FLOW_STEALS_AT_ONCE];
	struct weir_flow_steals_event event[WEIR_FLOW_STEALS_RECENT];
};

// --- the end of a request -----------------------------------------------------------------

static void copy_name(char to[WEIR_NAME_BYTES], const char *from) {
	snprintf(to, WEIR_NAME_BYTES, "%s", from != NULL ? from : "");
}

static void remember(struct weir_flow_steals *steals, const struct request *request,
	enum weir_flow_steal_outcome outcome) {
	const struct steal_service *service = &steals->services[steals->current];
	const struct weir_flow_waiting_at *flow = &request->flow;
	struct weir_flow_steals_event *event =
		&steals->event[steals->events++ % WEIR_FLOW_STEALS_RECENT];

	*event = (struct weir_flow_steals_event){.time_ms = weir_wall_ms(),
		.client = weir_address_of(flow->family, flow->client),
		.vip = weir_address_of(flow->family, flow->vip),
		.client_port = ntohs(flow->client_port),
		.vip_port = ntohs(flow->vip_port),
		.took_ms = (uint32_t)(weir_monotonic_ms() - request->planned_ms),
		.reason = request->planned.reason,
		.outcome = outcome};
	copy_name(event->service, service->name);
	copy_name(event->from, weir_tables_backend_name(steals->tables, request->planned.from));
	copy_name(event->to, weir_tables_backend_name(steals->tables, request->planned.to));
}

static void log_hindrance(struct weir_flow_steals *steals, const struct request *request,
	enum weir_flow_steal_outcome outcome) {
	struct steal_service *service = &steals->services[steals->current];
	const char *name = weir_tables_backend_name(steals->tables, request->planned.from);
	const char *what = weir_flow_steal_hindrance(outcome);

	if (what != NULL && weir_steal_service_is_to_log(
				    service, &request->planned, outcome, weir_monotonic_ms())) {
		weir_log_event(steals->log, WEIR_LOG_WARN,
			&(struct weir_log_fields){
				.service = service->name, .backend = name, .reason = what},
			"waiting connections to port %u of %s/%s cannot be moved to another "
			"backend: %s",
			ntohs(request->planned.port), service->name,
			name != NULL ? name : "a removed id", what);
	}
}

static void end_request(struct weir_flow_steals *steals, struct request *request,
	enum weir_flow_steal_outcome outcome) {
	log_hindrance(steals, request, outcome);
	if (outcome == WEIR_FLOW_STEAL_MOVED) {
		weir_tables_flow_moved(steals->tables, request->planned.to);
	}
	weir_steal_service_ended(&steals->services[steals->current], &request->planned, outcome,
		weir_monotonic_ms());
	remember(steals, request, outcome);
	request->state = REQUEST_FREE;
	steals->active--;
}

static struct request *find(
	struct weir_flow_steals *steals, enum request_state state, uint64_t number) {
	for (uint32_t i = 0; i < WEIR_FLOW_STEALS_AT_ONCE; i++) {
		struct request *request = &steals->requests[i];

		if (request->state == state && request->number == number) {
			return request;
		}
	}
	return NULL;
}

// --- the move -----------------------------------------------------------------------------

static void take_moved(void *context, uint32_t worker, const struct weir_message *message) {
	struct weir_flow_steals *steals = context;
	struct request *request = find(steals, REQUEST_MOVING, message->sequence);

	if (request != NULL && request->flow.worker == worker) {
		end_request(steals, request, weir_flow_steal_of_move(message->move.answer));
	}
}

static void request_move(struct weir_flow_steals *steals, struct request *request) {
	const struct weir_flow_waiting_at *flow = &request->flow;
	struct weir_message message = {.sequence = weir_mailboxes_number(steals->mailboxes),
		.kind = WEIR_MESSAGE_FLOW_MOVE,
		.move = {.source_port = flow->client_port,
			.destination_port = flow->vip_port,
			.family = flow->family,
			.to = request->planned.to,
			.stamp = flow->stamp,
			.deadline_ns = steals->scanned_ns + FLOW_LIFE_NS}};

	memcpy(message.move.source, flow->client, sizeof(flow->client));
	memcpy(message.move.destination, flow->vip, sizeof(flow->vip));
	request->state = REQUEST_MOVING;
	request->number = message.sequence;
	request->until_ms = weir_monotonic_ms() + WEIR_FLOW_STEALS_MOVE_MS;
	if (!weir_mailboxes_send(steals->mailboxes, flow->worker, &message)) {
		end_request(steals, request, WEIR_FLOW_STEAL_NO_WORKER);
	}
}

// --- the agent ----------------------------------------------------------------------------

// Handles the answer of an agent. Answers to abandoned requests are ignored.
static void on_answer(void *context, const struct weir_agents_steal *steal,
	enum weir_agent_steal_result result, uint32_t duration_ms) {
	struct weir_flow_steals *steals = context;
	struct request *request = find(steals, REQUEST_SENT, steal->token);

	(void)duration_ms;
	if (request == NULL) {
		return;
	}
	if (weir_agent_steal_permits(result)) {
		request_move(steals, request);
	} else {
		end_request(steals, request, weir_flow_steal_of_answer(result));
	}
}

static void request_permission(struct weir_flow_steals *steals, struct request *request) {
	const struct weir_flow_waiting_at *flow = &request->flow;
	struct weir_agents_steal steal = {.backend = flow->backend,
		.client_port = ntohs(flow->client_port),
		.vip_port = ntohs(flow->vip_port),
		.client = weir_address_of(flow->family, flow->client),
		.vip = weir_address_of(flow->family, flow->vip),
		.timeout_ms = WEIR_FLOW_STEALS_ANSWER_MS,
		.token = weir_mailboxes_number(steals->mailboxes)};
	int r;

	request->state = REQUEST_SENT;
	request->number = steal.token;
	request->planned_ms = weir_monotonic_ms();
	// This is longer than the timeout of weir_agents_request_steal, which ends the request
	// first.
	request->until_ms = request->planned_ms + WEIR_FLOW_STEALS_ANSWER_MS * 2;
	steals->active++;
	r = weir_agents_request_steal(steals->agents, &steal);
	if (r == -EALREADY || r == -EBUSY) {
		// Earlier requests that a reload has abandoned are still in flight: a request for
		// this flow, or too many requests in total. The agent did not fail.
		end_request(steals, request, WEIR_FLOW_STEAL_ABANDONED);
	} else if (r < 0) {
		end_request(steals, request, WEIR_FLOW_STEAL_SILENT);
	}
}

// --- rounds -------------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer);

static void enter(struct weir_flow_steals *steals, enum phase phase) {
	steals->phase = phase;
	if (phase == PHASE_IDLE) {
		uv_timer_start(&steals->timer, on_timer,
			weir_round_times_ended(&steals->times, steals->due_ms, weir_monotonic_ms()),
			0);
	} else {
		uv_timer_stop(&steals->timer);
		weir_mailboxes_wait(steals->mailboxes, WEIR_MESSAGE_FLOW_MOVE);
	}
}

static void count_half_open(struct weir_flow_steals *steals) {
	if (steals->mailboxes->segment != NULL) {
		steals->counted = weir_steal_services_count(steals->services, steals->count,
			steals->counted, steals->mailboxes->segment, weir_monotonic_ms());
	}
}

// Begins a round for the service with this index. Does nothing if no connections need to be moved
// away from its backends.
static void begin_with(struct weir_flow_steals *steals, uint32_t at) {
	struct steal_service *service = &steals->services[at];
	uint16_t victims[WEIR_WAITING_BACKENDS];
	uint32_t found = !service->enabled ? 0
					   : weir_steal_service_look(service, steals->tables,
						     steals->reports, weir_monotonic_ms(), victims);

	if (found > 0) {
		steals->current = at;
		steals->scanned_ns = uv_hrtime();
		steals->due_ms = 0;
		weir_flow_scan_begin(&steals->scan, victims, found, service->after_ms,
			steals->scanned_ns, weir_monotonic_ms());
		enter(steals, PHASE_SCANNING);
	}
}

// Begins a round for the next service with a backend from which connections should be moved.
static void begin_round(struct weir_flow_steals *steals) {
	for (uint32_t i = 0; steals->mailboxes->segment != NULL && i < steals->count; i++) {
		uint32_t at = (steals->turn + i) % steals->count;

		begin_with(steals, at);
		if (steals->phase != PHASE_IDLE) {
			steals->turn = (at + 1) % steals->count;
			return;
		}
	}
}

static void plan_round(struct weir_flow_steals *steals) {
	struct steal_planned planned[WEIR_FLOW_STEALS_AT_ONCE];
	struct steal_service *service = &steals->services[steals->current];
	const uint64_t start_ns = weir_thread_cpu_ns();
	uint32_t due = weir_flow_scan_due(&steals->scan, weir_monotonic_ms());
	uint32_t all = steals->scan.count, n;

	// Read the state of the backends again, because the scan took some time.
	weir_steal_service_refresh(service, steals->tables, steals->reports, weir_monotonic_ms());
	steals->scan.count = due;
	n = weir_steal_service_plan(service, &steals->scan, weir_monotonic_ms(), planned);
	steals->scan.count = all;
	service->incomplete += steals->scan.incomplete;
	steals->unsupported |= steals->scan.unsupported;
	for (uint32_t i = 0; i < n; i++) {
		struct request *request = &steals->requests[i];

		*request = (struct request){
			.flow = steals->scan.flow[planned[i].flow], .planned = planned[i]};
		request_permission(steals, request);
	}
	steals->scan.incomplete = false; // already counted for the service; do not count it again
	steals->due_ms = weir_flow_scan_drop(&steals->scan, due);
	weir_round_times_spend(&steals->times, weir_thread_cpu_ns() - start_ns);
	enter(steals, steals->active > 0 ? PHASE_REQUESTING : PHASE_IDLE);
}

static void expire(struct weir_flow_steals *steals) {
	uint64_t now = weir_monotonic_ms();

	for (uint32_t i = 0; i < WEIR_FLOW_STEALS_AT_ONCE; i++) {
		struct request *request = &steals->requests[i];

		if (request->state != REQUEST_FREE && now >= request->until_ms) {
			end_request(steals, request,
				request->state == REQUEST_SENT ? WEIR_FLOW_STEAL_SILENT
							       : WEIR_FLOW_STEAL_NO_WORKER);
		}
	}
}

static void on_timer(uv_timer_t *timer) {
	struct weir_flow_steals *steals = timer->data;

	if (steals->times.early && steals->due_ms != 0 && steals->current < steals->count &&
		steals->services[steals->current].enabled) {
		// plan requests for connections of the last scan that have now waited long enough
		plan_round(steals);
		return;
	}
	steals->times.early = false;
	count_half_open(steals);
	begin_round(steals);
	if (steals->phase == PHASE_IDLE) {
		enter(steals, PHASE_IDLE);
	}
}

// Returns the index of the service to which a backend belongs, or steals->count if there is none.
static uint32_t service_of(const struct weir_flow_steals *steals, uint16_t backend) {
	struct weir_backend_state state;
	uint32_t i = 0;

	if (steals->count == 0 || weir_tables_backend(steals->tables, backend, &state) < 0) {
		return steals->count;
	}
	while (i < steals->count && steals->services[i].id != state.service_id) {
		i++;
	}
	return i;
}

// Called when a report shows a full accept queue. Begins an early round, if one may begin now.
static void on_full(void *context, uint16_t backend) {
	struct weir_flow_steals *steals = context;
	uint64_t start_ns = weir_thread_cpu_ns();
	bool early = steals->times.early;
	uint32_t at;

	// Do not begin a round if connections of the last scan will soon have waited long enough,
	// because they can be connections of this backend.
	if (steals->phase != PHASE_IDLE || steals->mailboxes->segment == NULL ||
		steals->due_ms != 0 ||
		!weir_round_times_permit(&steals->times, weir_monotonic_ms())) {
		return;
	}
	at = service_of(steals, backend);
	if (at == steals->count) {
		return;
	}
	weir_steal_service_begin_with(&steals->services[at], backend);
	steals->times.early = true;
	begin_with(steals, at);
	weir_round_times_spend(&steals->times, weir_thread_cpu_ns() - start_ns);
	if (steals->phase == PHASE_IDLE) {
		steals->times.early = early; // no round began, so the timer continues as before
	}
}

// Continues the round in progress. Returns whether answers are outstanding.
static bool step(void *context) {
	struct weir_flow_steals *steals = context;

	switch (steals->phase) {
	case PHASE_IDLE:
		break;
	case PHASE_SCANNING:
		if (!weir_flow_scan_step(&steals->scan, weir_monotonic_ms())) {
			plan_round(steals);
		}
		break;
	case PHASE_REQUESTING:
		expire(steals);
		if (steals->active == 0) {
			enter(steals, PHASE_IDLE);
		}
		break;
	}
	return steals->phase != PHASE_IDLE;
}

void weir_flow_steals_abandon(struct weir_flow_steals *steals) {
	if (steals == NULL) {
		return;
	}
	weir_flow_scan_abandon(&steals->scan);
	steals->due_ms = 0;
	for (uint32_t i = 0; i < steals->count; i++) {
		steals->services[i].saturated = false; // until the next round
	}
	for (uint32_t i = 0; i < WEIR_FLOW_STEALS_AT_ONCE; i++) {
		if (steals->requests[i].state != REQUEST_FREE) {
			end_request(steals, &steals->requests[i], WEIR_FLOW_STEAL_ABANDONED);
		}
	}
	steals->unsupported = false;
	if (steals->phase != PHASE_IDLE) {
		enter(steals, PHASE_IDLE);
	}
}

// Disables the stealing of connections until the next weir_flow_steals_configure.
static void disable(struct weir_flow_steals *steals) {
	weir_flow_steals_abandon(steals);
	for (uint32_t i = 0; i < steals->count; i++) {
		steals->services[i].enabled = false;
	}
}

void weir_flow_steals_clear(struct weir_flow_steals *steals) {
	disable(steals);
	for (uint32_t i = 0; i < steals->count; i++) {
		steals->services[i].count = 0; // discard the members, because ids have changed
	}
}

// --- configuration ------------------------------------------------------------------------

// Finds a service by name. *hint: index at which the search starts, because services mostly keep
// their order.
static struct steal_service *find_service(
	struct weir_flow_steals *steals, const char *name, uint32_t *hint) {
	for (uint32_t i = 0; i < steals->count; i++) {
		uint32_t at = (*hint + i) % steals->count;

		if (strcmp(steals->services[at].name, name) == 0) {
			*hint = at + 1;
			return &steals->services[at];
		}
	}
	return NULL;
}

static void drop_services(struct steal_service *services, uint32_t count) {
	for (uint32_t i = 0; services != NULL && i < count; i++) {
		weir_steal_service_fini(&services[i]);
	}
	free(services);
}

struct configuration { // the new configuration
	struct steal_service *services;
	// [count] the previous state of each service; NULL = the service is new
	struct steal_service **previous;
	uint32_t *place; // [WEIR_BACKEND_NONE], for weir_steal_service_take_over
	uint32_t count, enabled;
};

static int make_services(struct weir_flow_steals *steals, struct weir_tables *tables,
	const struct weir_config *config, struct configuration *ret) {
	uint32_t hint = 0;
	int r = 0;

	*ret = (struct configuration){
		.services = calloc(config->service_count + 1, sizeof(*ret->services)),
		.previous = calloc(config->service_count + 1, sizeof(*ret->previous)),
		.place = calloc(WEIR_BACKEND_NONE, sizeof(*ret->place))};
	if (ret->services == NULL || ret->previous == NULL || ret->place == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; r == 0 && i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];
		struct steal_service *previous = find_service(steals, service->name, &hint);

		if (!service->steal.enabled && (previous == NULL || previous->requests == 0)) {
			continue;
		}
		r = weir_steal_service_init(&ret->services[ret->count], tables, service,
			config->flow_table.syn_seen_ms);
		ret->previous[ret->count] = previous;
		ret->enabled += ret->services[ret->count++].enabled;
	}
	return r;
}

// Returns the index, in the new configuration, of the service of the round in progress, or
// new->count if this service has changed.
static uint32_t find_current(
	const struct weir_flow_steals *steals, const struct configuration *new) {
	uint32_t i = 0;

	while (i < new->count &&
		(new->previous[i] == NULL ||
			new->previous[i] != &steals->services[steals->current] ||
			!weir_steal_service_is_same(new->previous[i], &new->services[i]))) {
		i++;
	}
	return i;
}

// Moves the state of unchanged services to the new configuration. For changed services, copies only
// the state that they keep.
static void take_over(const struct configuration *new) {
	for (uint32_t i = 0; i < new->count; i++) {
		struct steal_service *previous = new->previous[i];

		if (previous == NULL) {
			continue;
		}
		if (weir_steal_service_is_same(previous, &new->services[i])) {
			weir_steal_service_fini(&new->services[i]);
			new->services[i] = *previous;
			*previous = (struct steal_service){0};
		} else {
			weir_steal_service_take_over(&new->services[i], previous, new->place);
		}
	}
}

int weir_flow_steals_configure(struct weir_flow_steals *steals, struct weir_tables *tables,
	const struct weir_config *config) {
	struct configuration new;
	int r = make_services(steals, tables, config, &new);
	uint32_t current;

	steals->tables = tables;
	if (r < 0) { // disable stealing instead of using the previous configuration
		drop_services(new.services, new.count);
		free(new.previous);
		free(new.place);
		disable(steals);
		uv_timer_stop(&steals->timer);
		return r;
	}
	current = find_current(steals, &new);
	if (current == new.count) {
		weir_flow_steals_abandon(steals);
	}
	take_over(&new);
	free(new.previous);
	free(new.place);
	drop_services(steals->services, steals->count);
	steals->services = new.services;
	steals->count = new.count;
	steals->current = current < new.count ? current : 0;
	steals->turn = new.count > 0 ? steals->turn % new.count : 0;
	steals->counted = new.count > 0 ? steals->counted % new.count : 0;
	if (new.enabled == 0) {
		uv_timer_stop(&steals->timer);
	} else if (steals->phase == PHASE_IDLE && !uv_is_active((uv_handle_t *)&steals->timer)) {
		enter(steals, PHASE_IDLE);
	}
	return 0;
}

// --- create and free ----------------------------------------------------------------------

int weir_flow_steals_create(uv_loop_t *loop, struct weir_log *log, struct weir_mailboxes *mailboxes,
	struct weir_reports *reports, struct weir_agents *agents, struct weir_flow_steals **ret) {
	struct weir_flow_steals *steals = calloc(1, sizeof(*steals));

	if (steals == NULL) {
		return -ENOMEM;
	}
	steals->loop = loop;
	steals->log = log;
	steals->mailboxes = mailboxes;
	steals->reports = reports;
	steals->agents = agents;
	weir_agents_on_steal_ended(agents, on_answer, steals);
	weir_reports_on_full(reports, on_full, steals);
	weir_round_times_init(&steals->times);
	uv_timer_init(loop, &steals->timer);
	steals->timer.data = steals;
	weir_flow_scan_init(&steals->scan, mailboxes);
	weir_mailboxes_subscribe(mailboxes, WEIR_MESSAGE_FLOW_MOVE, take_moved, step, steals);
	*ret = steals;
	return 0;
}

static void timer_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_flow_steals_free(struct weir_flow_steals *steals) {
	if (steals == NULL) {
		return;
	}
	drop_services(steals->services, steals->count);
	steals->services = NULL;
	steals->count = 0;
	weir_mailboxes_subscribe(steals->mailboxes, WEIR_MESSAGE_FLOW_WAITING, NULL, NULL, NULL);
	weir_mailboxes_subscribe(steals->mailboxes, WEIR_MESSAGE_FLOW_MOVE, NULL, NULL, NULL);
	uv_close((uv_handle_t *)&steals->timer, timer_closed);
}

// --- status -------------------------------------------------------------------------------

bool weir_flow_steals_service(
	const struct weir_flow_steals *steals, uint32_t n, struct weir_flow_steals_service *ret) {
	const struct steal_service *service;

	if (n >= steals->count) {
		return false;
	}
	service = &steals->services[n];
	*ret = (struct weir_flow_steals_service){.name = service->name,
		.enabled = service->enabled,
		.saturated = service->saturated,
		.incomplete = service->incomplete,
		.requests = service->requests};
	memcpy(ret->outcomes, service->outcomes, sizeof(ret->outcomes));
	return true;
}

bool weir_flow_steals_relieved(const struct weir_flow_steals *steals, uint32_t n, uint32_t *place,
	struct weir_flow_steals_relieved *ret) {
	return n < steals->count &&
	       weir_steal_service_relieved(&steals->services[n], steals->tables, place, ret);
}

bool weir_flow_steals_recent(const struct weir_flow_steals *steals, uint32_t n,
	const struct weir_flow_steals_event **ret) {
	if (n >= WEIR_FLOW_STEALS_RECENT || n >= steals->events) {
		return false;
	}
	*ret = &steals->event[(steals->events - 1 - n) % WEIR_FLOW_STEALS_RECENT];
	return true;
}

bool weir_flow_steals_unsupported(const struct weir_flow_steals *steals) {
	return steals->unsupported;
}
