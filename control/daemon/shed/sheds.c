// SPDX-License-Identifier: BSD-3-Clause
#include "sheds.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "plural.h"

#define TEXT_BYTES 640
// a shed fails after this number of consecutive orders without an answer
#define UNANSWERED_MOST 5u

struct service_sum {
	uint16_t service; // id
	struct weir_shed_sum sum;
};

struct weir_sheds {
	struct weir_sheds_of of;
	struct weir_tables *tables; // NULL until the first weir_sheds_follow
	struct weir_shed *first; // owned
	uint64_t now_ms; // time of the last call that has a time argument
	// Sums that were computed in this second. They are stored because a sum needs the counters
	// of all backends of its service. There is at most one sum for each running shed. When a
	// shed starts, all sums are discarded.
	struct service_sum sums[WEIR_AGENTS_SHEDS_MAX];
	uint32_t sum_count;
};

// --- the list -------------------------------------------------------------------------------

// Returns the last shed of a backend, except dry runs, or NULL.
static struct weir_shed *find_last(
	const struct weir_sheds *sheds, const char *service, const char *backend) {
	struct weir_shed *shed = sheds->first;

	while (shed != NULL && (shed->terms.dry_run || strcmp(shed->service, service) != 0 ||
				       strcmp(shed->backend, backend) != 0)) {
		shed = shed->next;
	}
	return shed;
}

const struct weir_shed *weir_sheds_last(
	const struct weir_sheds *sheds, const char *service, const char *backend) {
	return find_last(sheds, service, backend);
}

// Returns the shed that has an order in flight to this backend, or NULL.
static struct weir_shed *find_in_flight(const struct weir_sheds *sheds, uint16_t backend) {
	struct weir_shed *shed = sheds->first;

	while (shed != NULL && !(shed->in_flight && shed->order_backend == backend)) {
		shed = shed->next;
	}
	return shed;
}

static void forget(struct weir_sheds *sheds, struct weir_shed *shed) {
	struct weir_shed **link = &sheds->first;

	while (*link != shed) {
		link = &(*link)->next;
	}
	*link = shed->next;
	free(shed);
}

// --- begin and end of a shed ----------------------------------------------------------------

// Log an event of a shed, and add it to the health history of its backend.
static void record(const struct weir_sheds *sheds, const struct weir_shed *shed,
	enum weir_log_level level, const char *text) {
	int id = sheds->tables == NULL
			 ? -1
			 : weir_tables_backend_find(sheds->tables, shed->service, shed->backend);

	weir_log_event(sheds->of.log, level,
		&(struct weir_log_fields){
			.service = shed->service, .backend = shed->backend, .reason = text},
		"shed %s/%s: %s", shed->service, shed->backend, text);
	if (id >= 0) {
		weir_states_record(sheds->of.states, (uint16_t)id, "shed", text);
	}
}

static void begin(struct weir_sheds *sheds, struct weir_shed *shed) {
	weir_shed_begun begun = shed->begun;
	char text[TEXT_BYTES];

	shed->begun = NULL;
	snprintf(text, sizeof(text),
		"started: %llu flows, mean %llu, %llu above the mean; at most %g connections per "
		"second (%s)",
		(unsigned long long)shed->first.flows, (unsigned long long)shed->first.mean,
		(unsigned long long)shed->first.above, shed->terms.rate,
		weir_agent_shed_method_name(shed->method));
	record(sheds, shed, WEIR_LOG_INFO, text);
	begun(shed->context, shed);
}

// Adds an audit entry for the end of a shed that had begun. The entry names the user who started
// the shed. before: state before the end.
static void record_end(
	const struct weir_sheds *sheds, const struct weir_shed *shed, const char *before) {
	char object[WEIR_AUDIT_OBJECT_BYTES], after[WEIR_AUDIT_VALUE_BYTES];
	char text[TEXT_BYTES];
	const struct weir_audit_event event = {.who = shed->who,
		.command = "shed.end",
		.object = object,
		.before = before,
		.after = after,
		.why = shed->why[0] != '\0' ? shed->why : NULL};

	snprintf(object, sizeof(object), "%s/%s", shed->service, shed->backend);
	weir_shed_describe(shed, after, sizeof(after));
	snprintf(text, sizeof(text), "%s%s%s", after, shed->why[0] != '\0' ? ": " : "", shed->why);
	weir_audit_add(sheds->of.audit, &event);
	record(sheds, shed, shed->state == WEIR_SHED_FAILED ? WEIR_LOG_WARN : WEIR_LOG_INFO, text);
}

static void end(struct weir_sheds *sheds, struct weir_shed *shed, enum weir_shed_state state) {
	weir_shed_begun begun = shed->begun;
	char before[WEIR_AUDIT_VALUE_BYTES];

	weir_shed_describe(shed, before, sizeof(before));
	shed->state = (uint8_t)state;
	shed->ended_ms = weir_wall_ms();
	shed->begun = NULL;
	if (begun == NULL) {
		record_end(sheds, shed, before);
		return;
	}
	begun(shed->context, shed);
	forget(sheds, shed); // only sheds that have run are kept
}

// --- the mean -------------------------------------------------------------------------------

static const struct weir_shed_sum *sum_of(
	struct weir_sheds *sheds, const struct weir_service_state *service) {
	struct service_sum *sum = sheds->sums;

	while (sum < sheds->sums + sheds->sum_count && sum->service != service->id) {
		sum++;
	}
	if (sum == sheds->sums + sheds->sum_count) {
		sheds->sum_count++;
		sum->service = service->id;
		sum->sum = weir_shed_add_up(sheds->tables, sheds->first, service, sheds->now_ms);
	}
	return &sum->sum;
}

static int measure(struct weir_sheds *sheds, const struct weir_service_state *service,
	const struct weir_backend_state *backend, uint64_t leaving, struct weir_shed_level *ret) {
	const uint64_t flows = weir_shed_flows(sheds->tables, sheds->first, backend, sheds->now_ms);

	return weir_shed_level(sum_of(sheds, service), flows > leaving ? flows - leaving : 0,
		weir_shed_weight(service, backend), ret);
}

// --- orders ---------------------------------------------------------------------------------

static void fail(struct weir_sheds *sheds, struct weir_shed *shed, const char *why) {
	weir_shed_note(shed, "%s", why);
	end(sheds, shed, WEIR_SHED_FAILED);
}

// Called when an order got no answer in time, or was not sent because the agent does not answer.
// After UNANSWERED_MOST of these orders in a row, the shed fails.
static void take_silence(struct weir_sheds *sheds, struct weir_shed *shed) {
	weir_shed_note(shed, "its weir-agent does not answer in time");
	if (++shed->unanswered >= UNANSWERED_MOST) {
		end(sheds, shed, WEIR_SHED_FAILED);
	}
}

static void send_order(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_backend_state *backend, struct weir_shed_step step) {
	const struct weir_config_service *service =
		weir_tables_service_config(sheds->tables, shed->service);
	struct weir_agents_shed order;
	int r;

	if (service == NULL) {
		fail(sheds, shed, "the service is no longer configured");
		return;
	}
	order = weir_shed_order(shed, service, backend->id, step);
	r = weir_agents_order_shed(sheds->of.agents, &order);
	if (r == 0) {
		shed->in_flight = true;
		shed->order_backend = backend->id;
		shed->orders += step.count > 0;
	} else if (r == -EAGAIN) {
		take_silence(sheds, shed);
	} else if (r != -EBUSY && r != -EALREADY) {
		fail(sheds, shed,
			r == -EINVAL ? "the service has no TCP bind"
				     : "the backend no longer has a weir-agent");
	}
}

// Called while the backend is at the mean. Ends the shed when the backend has been at the mean for
// WEIR_SHED_SETTLED_MS, because until then clients may connect again, some of them to this backend.
// Waits longer while its agent does not answer, or while its hook still ends connections.
// Meanwhile, sends orders with a count of 0, so that the agent counts the connections.
static void wait_at_mean(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_backend_state *backend) {
	if (shed->level_ms == 0) {
		shed->level_ms = sheds->now_ms;
	}
	if (shed->leaving == 0 && shed->unanswered == 0 &&
		sheds->now_ms >= shed->level_ms + WEIR_SHED_SETTLED_MS) {
		weir_shed_note_mean(shed);
		end(sheds, shed, WEIR_SHED_DONE);
	} else {
		weir_shed_note(shed, "waiting for clients to reconnect");
		send_order(sheds, shed, backend,
			(struct weir_shed_step){.duration_ms = WEIR_SHED_ORDER_MS});
	}
}

// Orders the agent to end the next connections. Ends the shed instead if its backend has been at
// the mean for long enough, or if the shed has ended its maximum number of connections.
static void continue_shed(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_backend_state *backend) {
	const uint64_t left = shed->first.flows > shed->ended ? shed->first.flows - shed->ended : 0;

	if (weir_shed_is_at_mean(shed)) {
		wait_at_mean(sheds, shed, backend);
	} else if (left == 0) {
		weir_shed_note(shed, "the shed has ended as many connections as the backend had "
				     "when the shed started");
		end(sheds, shed, WEIR_SHED_DONE);
	} else {
		// An agent starts its hook at most once a second, and not near the end of an order.
		// An order of one second would start the hook only once, and delay the next start.
		// Therefore an order to an agent with a hook lasts two seconds.
		const uint32_t seconds = shed->method == WEIR_AGENT_SHED_HOOK ? 2 : 1;

		shed->level_ms = 0;
		send_order(sheds, shed, backend,
			weir_shed_step(shed->level.above, left, weir_shed_rate_milli(&shed->terms),
				seconds));
	}
}

static void advance(struct weir_sheds *sheds, struct weir_shed *shed) {
	struct weir_backend_state backend;
	struct weir_service_state service;

	if (shed->state == WEIR_SHED_STOPPING) {
		end(sheds, shed, WEIR_SHED_STOPPED);
	} else if (sheds->now_ms >= shed->began_ms + (uint64_t)shed->terms.for_ms) {
		weir_shed_note(shed, "the maximum duration (--duration) has passed");
		end(sheds, shed, WEIR_SHED_EXPIRED);
	} else if (!weir_shed_find_backend(sheds->tables, shed, &backend) ||
		   weir_tables_service(sheds->tables, backend.service_id, &service) < 0) {
		fail(sheds, shed, "the backend was removed, or its address has changed");
	} else if (weir_shed_misfit(&backend) != NULL) {
		fail(sheds, shed, weir_shed_misfit(&backend));
	} else if (service.panic && shed->state != WEIR_SHED_STARTING) {
		shed->level_ms = 0;
		weir_shed_note(shed, "waiting: the service is in panic mode");
	} else if (measure(sheds, &service, &backend, shed->leaving + shed->lost, &shed->level) <
		   0) {
		fail(sheds, shed, "no other backend gets new flows");
	} else {
		weir_shed_level_raise(&shed->level, shed->first.mean);
		if (shed->state == WEIR_SHED_STARTING) {
			send_order(sheds, shed, &backend,
				(struct weir_shed_step){.duration_ms = WEIR_SHED_ORDER_MS});
		} else {
			continue_shed(sheds, shed, &backend);
		}
	}
}

// --- results --------------------------------------------------------------------------------

static void count_result(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_agents_shed_result *result) {
	shed->ended += result->ended;
	if (weir_shed_is_answered(result)) {
		shed->unanswered = 0;
	}
	if (result->answered && weir_shed_has_numbers(result->result)) {
		shed->method = result->method;
		shed->connections = result->connections;
		shed->candidates = result->candidates;
		shed->leaving = result->leaving;
	}
	// Connections that a hook ends are not added to `gone` or `lost`: the server closes them
	// normally, so their flows do not stay in the flow table. Connections of an abandoned shed
	// are not added, because the flow table is lost.
	if (shed->method != WEIR_AGENT_SHED_IDLE || !weir_shed_is_running(shed)) {
		return;
	}
	if (weir_shed_is_answered(result) && result->over) {
		weir_shed_gone_add(&shed->gone, result->ended, sheds->now_ms,
			weir_tables_config(sheds->tables)->flow_table.established_ms);
	} else {
		shed->lost += result->ended;
	}
}

// Called when a shed begins. Removes the previous shed of the backend. If the backend still has the
// same address, keeps the counts of flows that the previous shed has ended, because these flows may
// still be in the flow table.
static void replace_last(struct weir_sheds *sheds, struct weir_shed *shed) {
	for (struct weir_shed *old = shed->next, *next; old != NULL; old = next) {
		next = old->next;
		if (!old->terms.dry_run && strcmp(old->service, shed->service) == 0 &&
			strcmp(old->backend, shed->backend) == 0) {
			if (weir_address_equal(&old->address, &shed->address)) {
				shed->gone = old->gone;
			}
			forget(sheds, old);
		}
	}
}

static void take_first(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_agents_shed_result *result) {
	if (!weir_shed_is_answered(result)) {
		weir_shed_note(shed,
			"its weir-agent answers probes, but did not answer the order within %u "
			"ms: it is busy, or its version does not support sheds",
			WEIR_SHED_ORDER_MS + WEIR_AGENTS_SHED_LATE_MS);
		end(sheds, shed, WEIR_SHED_FAILED);
	} else if (result->result == WEIR_AGENT_SHED_BUSY) {
		fail(sheds, shed,
			"its weir-agent is busy with a shed of another balancer, or of another "
			"service on the same server; try again when that shed has ended");
	} else if (shed->terms.dry_run) {
		end(sheds, shed, WEIR_SHED_DONE);
	} else {
		shed->state = WEIR_SHED_RUNNING;
		replace_last(sheds, shed);
		begin(sheds, shed);
		advance(sheds, shed);
	}
}

static void take_next(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_agents_shed *order, const struct weir_agents_shed_result *result) {
	if (shed->state == WEIR_SHED_STOPPING) {
		end(sheds, shed, WEIR_SHED_STOPPED);
	} else if (!weir_shed_is_answered(result)) {
		take_silence(sheds, shed);
	} else if (result->ended == 0) {
		if (order->count > 0) {
			weir_shed_note_wait(shed, result);
		} // the next order follows in the next second
	} else {
		shed->why[0] = '\0';
		advance(sheds, shed);
	}
}

static void take_result(void *context, const struct weir_agents_shed *order,
	const struct weir_agents_shed_result *result) {
	struct weir_sheds *sheds = context;
	struct weir_shed *shed = find_in_flight(sheds, order->backend);

	if (shed == NULL) {
		return;
	}
	shed->in_flight = false;
	count_result(sheds, shed, result);
	if (!weir_shed_is_running(shed)) {
		return; // the shed was abandoned
	}
	if (weir_shed_failure(result->result) != NULL) {
		fail(sheds, shed, weir_shed_failure(result->result));
	} else if (shed->state == WEIR_SHED_STARTING) {
		take_first(sheds, shed, result);
	} else {
		take_next(sheds, shed, order, result);
	}
}

// --- starts ---------------------------------------------------------------------------------

// Writes why a backend cannot be shed, and a remedy. Returns -EINVAL.
static int refuse(char *why, size_t why_bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int refuse(char *why, size_t why_bytes, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, why_bytes, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static int check_agent(const struct weir_sheds *sheds, const struct weir_backend_state *state,
	char *why, size_t why_bytes) {
	struct weir_agents_status status;

	if (weir_agents_status(sheds->of.agents, state->id, &status) < 0) {
		return refuse(why, why_bytes,
			"service %s has no agents; add \"agent\": {} to the service, and run "
			"weir-agent with --shed-idle or --shed-hook on the backend",
			state->service);
	}
	if (!status.has_answer || !status.answers) {
		return refuse(why, why_bytes,
			"the weir-agent of %s/%s does not answer; run \"weir-agent doctor "
			"INTERFACE\" on the backend",
			state->service, state->name);
	}
	return 0;
}

static uint32_t count_running(const struct weir_sheds *sheds) {
	uint32_t running = 0;

	for (const struct weir_shed *shed = sheds->first; shed != NULL; shed = shed->next) {
		running += weir_shed_is_running(shed);
	}
	return running;
}

// Checks whether the backend can be compared with the mean, and whether its service has TCP binds.
static int check_state(const struct weir_sheds *sheds, const struct weir_backend_state *state,
	struct weir_service_state *ret, char *why, size_t why_bytes) {
	if (state->leaving || !state->in_selection ||
		weir_tables_service(sheds->tables, state->service_id, ret) < 0) {
		return refuse(why, why_bytes,
			"%s/%s gets no new flows: only a backend that gets new flows can be shed",
			state->service, state->name);
	}
	if (ret->panic) {
		return refuse(why, why_bytes,
			"service %s is in panic mode: new flows, and clients that connect again, "
			"may get a backend that is down",
			state->service);
	}
	return weir_shed_check_binds(weir_tables_service_config(sheds->tables, state->service),
		state->service, why, why_bytes);
}

static int check(struct weir_sheds *sheds, const struct weir_backend_state *state,
	struct weir_shed_level *ret, char *why, size_t why_bytes) {
	const struct weir_shed *shed = find_last(sheds, state->service, state->name);
	struct weir_service_state service;

	if (shed != NULL && weir_shed_is_running(shed)) {
		return refuse(why, why_bytes,
			"%s/%s is being shed; to stop it, run \"weirctl backend shed --stop "
			"%s/%s\"",
			state->service, state->name, state->service, state->name);
	}
	if (count_running(sheds) >= WEIR_AGENTS_SHEDS_MAX) { // each shed needs a slot for its order
		return refuse(why, why_bytes,
			"%u sheds are running, which is the maximum; try again when one has ended",
			WEIR_AGENTS_SHEDS_MAX);
	}
	if (check_state(sheds, state, &service, why, why_bytes) < 0 ||
		check_agent(sheds, state, why, why_bytes) < 0) {
		return -EINVAL;
	}
	if (weir_tables_recount_left_ms(sheds->tables) > 0) {
		return refuse(why, why_bytes,
			"weir-dataplane was restarted less than a minute ago: not all flows are "
			"counted yet, so the mean is unknown");
	}
	if (measure(sheds, &service, state, 0, ret) < 0) {
		return refuse(why, why_bytes,
			"no other backend of service %s gets new flows: there is no mean to "
			"compare with",
			state->service);
	}
	if (ret->above == 0) {
		return refuse(why, why_bytes,
			"%s/%s has %llu open flow%s, and the mean for its weight is %llu: there is "
			"nothing to shed",
			state->service, state->name, (unsigned long long)ret->flows,
			weir_plural(ret->flows), (unsigned long long)ret->mean);
	}
	return 0;
}

int weir_sheds_start(struct weir_sheds *sheds, uint16_t backend,
	const struct weir_shed_terms *terms, const struct weir_audit_who *who, uint64_t now_ms,
	weir_shed_begun begun, void *context, char *why, size_t why_bytes) {
	struct weir_backend_state state;
	struct weir_shed_level level;
	struct weir_shed *shed;

	sheds->now_ms = now_ms;
	sheds->sum_count = 0; // forces a new sum, so that the first mean is from current counters
	if (sheds->tables == NULL) {
		return refuse(why, why_bytes,
			"the configuration is not published to weir-dataplane yet: see \"weirctl "
			"status\"");
	}
	if (weir_tables_backend(sheds->tables, backend, &state) < 0) {
		return refuse(why, why_bytes, "the backend was removed");
	}
	if (check(sheds, &state, &level, why, why_bytes) < 0) {
		return -EINVAL;
	}
	shed = malloc(sizeof(*shed));
	if (shed == NULL) {
		return -ENOMEM;
	}
	*shed = (struct weir_shed){.terms = *terms,
		.who = *who,
		.started_ms = weir_wall_ms(),
		.began_ms = now_ms,
		.first = level,
		.level = level,
		.begun = begun,
		.context = context};
	shed->address = state.address;
	snprintf(shed->service, sizeof(shed->service), "%s", state.service);
	snprintf(shed->backend, sizeof(shed->backend), "%s", state.name);
	shed->next = sheds->first;
	sheds->first = shed;
	advance(sheds, shed);
	return 0;
}

int weir_sheds_stop(struct weir_sheds *sheds, const char *service, const char *backend) {
	struct weir_shed *shed = find_last(sheds, service, backend);

	if (shed == NULL || !weir_shed_is_running(shed)) {
		return -ENOENT;
	}
	weir_shed_note(shed, shed->begun != NULL ? "stopped by an operator" : "by an operator");
	if (shed->in_flight || shed->begun != NULL) {
		shed->state = WEIR_SHED_STOPPING;
	} else {
		end(sheds, shed, WEIR_SHED_STOPPED);
	}
	return 0;
}

// --- create and free ------------------------------------------------------------------------

void weir_sheds_follow(struct weir_sheds *sheds, struct weir_tables *tables) {
	sheds->tables = tables;
	sheds->sum_count = 0;
}

void weir_sheds_second(struct weir_sheds *sheds, uint64_t now_ms) {
	struct weir_backend_state state;

	sheds->now_ms = now_ms;
	sheds->sum_count = 0;
	for (struct weir_shed *shed = sheds->first, *next; shed != NULL; shed = next) {
		next = shed->next;
		if (shed->in_flight) {
			continue;
		}
		if (weir_shed_is_running(shed)) {
			advance(sheds, shed); // frees a shed whose start fails
		} else if (!weir_shed_find_backend(sheds->tables, shed, &state)) {
			forget(sheds, shed);
		}
	}
}

void weir_sheds_abandon(struct weir_sheds *sheds, const char *why) {
	struct weir_shed *next;

	for (struct weir_shed *shed = sheds != NULL ? sheds->first : NULL; shed != NULL;
		shed = next) {
		next = shed->next;
		shed->gone = (struct weir_shed_gone){0}; // the flow table is lost
		if (weir_shed_is_running(shed)) {
			weir_shed_note(shed, "%s", why);
			end(sheds, shed, WEIR_SHED_FAILED);
		}
	}
}

int weir_sheds_create(const struct weir_sheds_of *of, struct weir_sheds **ret) {
	struct weir_sheds *sheds = calloc(1, sizeof(*sheds));

	if (sheds == NULL) {
		return -ENOMEM;
	}
	sheds->of = *of;
	weir_agents_on_shed_ended(of->agents, take_result, sheds);
	*ret = sheds;
	return 0;
}

void weir_sheds_free(struct weir_sheds *sheds) {
	if (sheds == NULL) {
		return;
	}
	for (struct weir_shed *shed = sheds->first, *next; shed != NULL; shed = next) {
		next = shed->next;
		free(shed);
	}
	free(sheds);
}
