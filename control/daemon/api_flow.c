// SPDX-License-Identifier: BSD-3-Clause
//
// API handler flow.lookup.
#include "api_flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_commands.h"
#include "daemon.h"
#include "flow_state.h"
#include "mailbox.h"

#define LOOK_MS 1
#define LOOKUPS_MAX 32 // under way at once: fits a mailbox, whatever the workers do
#define WHY_BYTES 320

struct lookup { // one question, to all workers
	struct lookup *next;
	struct weir_daemon *daemon;
	struct weir_api_call *call;
	uint64_t sequence;
	uint64_t deadline_ms;
	uint32_t workers;
	uint64_t asked, answered; // bitmaps by worker
	bool has_answer;
	uint32_t worker; // whose answer it is
	// The best so far: one that found the flow wins, then one that has a backend for it.
	struct weir_message answer;
	uint16_t chosen[WEIR_WORKERS_MAX]; // by worker, of those that answered
	struct weir_message question;
};

struct weir_lookups {
	uv_loop_t *loop;
	uv_timer_t timer; // runs while there are lookups
	struct lookup *first;
	uint32_t count;
	uint64_t sequence; // of the last question
};

_Static_assert(WEIR_WORKERS_MAX <= 64, "bitmaps of workers");

struct verdict { // what the answers come to
	bool has_backend, has_chosen;
	struct weir_backend_state backend; // that has the flow
	struct weir_backend_state chosen; // of the best answer
	bool subsets; // the flow is unknown, and every worker has a subset of its own
	bool by_worker; // and so it depends on the worker what would be chosen
};

static const char *const state_names[] = {
#define X(name, key) [WEIR_FLOW_##name] = key,
	WEIR_FLOW_STATES(X)
#undef X
};

static const char *state_name(uint8_t state) {
	return state < sizeof(state_names) / sizeof(state_names[0]) ? state_names[state]
								    : "unknown";
}

// --- words --------------------------------------------------------------------------------

static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char *text, const char *format, ...) {
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, WHY_BYTES - used, format, arguments);
	va_end(arguments);
}

static void explain_backend(const struct weir_backend_state *backend, char *why) {
	if (backend->leaving) {
		append(why, "; the backend was removed: only old flows");
	} else if (backend->admin == WEIR_ADMIN_DRAIN) {
		append(why, "; the backend is drained: only old flows");
	} else if (backend->admin == WEIR_ADMIN_MAINTENANCE) {
		append(why, "; the backend is in maintenance: only old flows");
	} else if (backend->health == WEIR_HEALTH_REFUSING) {
		append(why, "; the backend is refusing: only old flows");
	} else if (backend->health == WEIR_HEALTH_LAME_DUCK) {
		append(why, "; the backend is a lame duck: only old flows");
	} else if (!backend->in_selection) {
		append(why, "; the backend takes no new flows");
	}
}

static void explain_silence(const struct lookup *lookup, char *why) {
	for (uint32_t worker = 0; worker < lookup->workers; worker++) {
		if ((lookup->answered >> worker & 1) == 0) {
			append(why, "; worker %u did not answer", worker);
		}
	}
}

static void explain_found(const struct lookup *lookup, const struct weir_backend_state *backend,
	const struct weir_backend_state *chosen, const struct weir_service_state *service,
	char *why) {
	append(why, "flow table of worker %u", lookup->worker);
	if (backend != NULL) {
		explain_backend(backend, why);
	}
	if (chosen != NULL && service->slots > 0 &&
		lookup->answer.flow.chosen != lookup->answer.flow.backend) {
		append(why, "; as a new flow it would go to %s", chosen->name);
	}
}

// chosen NULL: it depends on the worker.
static void explain_choice(const struct lookup *lookup, const struct weir_backend_state *chosen,
	const struct weir_service_state *service, char *why) {
	bool slots = service->slots > 0, panic = service->panic;

	if (slots) {
		append(why, "slot %u of %u", lookup->answer.flow.slot, service->table_slots);
	} else {
		append(why, "policy %s chooses when the flow begins",
			weir_policy_name((enum weir_policy)service->policy));
	}
	if (chosen == NULL) {
		append(why,
			"; every worker has a subset of its own, and which of them gets the "
			"flow is not known%s",
			slots ? "" : ": chosen_by_worker is for a flow that is under way");
	} else {
		if (slots) {
			append(why, ", weight %u", chosen->effective_weight);
		} else {
			append(why, "; a flow that is under way would go to %s", chosen->name);
		}
		panic = chosen->admin != WEIR_ADMIN_READY || chosen->health != WEIR_HEALTH_HEALTHY;
	}
	if (panic) {
		append(why, "; too few backends are healthy: panic uses all");
	}
}

// --- answers ------------------------------------------------------------------------------

static json_t *string_or_null(const char *text) {
	return text != NULL ? json_string(text) : json_null();
}

static bool has_answered(const struct lookup *lookup, uint32_t worker) {
	return (lookup->answered >> worker & 1) != 0;
}

// Whether the flow would go to the same backend whichever worker got it.
static bool workers_agree(const struct lookup *lookup) {
	for (uint32_t worker = 0; worker < lookup->workers; worker++) {
		if (!has_answered(lookup, worker) || lookup->chosen[worker] != lookup->chosen[0]) {
			return false;
		}
	}
	return true;
}

static json_t *json_by_worker(const struct lookup *lookup) {
	json_t *list = json_array();

	for (uint32_t worker = 0; worker < lookup->workers; worker++) {
		const char *name =
			weir_tables_backend_name(lookup->daemon->tables, lookup->chosen[worker]);

		if (has_answered(lookup, worker)) {
			json_array_append_new(
				list, json_pack("{s:I, s:o}", "worker", (json_int_t)worker,
					      "chosen", string_or_null(name)));
		}
	}
	return list;
}

static void explain(const struct lookup *lookup, const struct verdict *verdict,
	const struct weir_service_state *service, char *why) {
	const struct weir_message *answer = &lookup->answer;

	why[0] = '\0';
	if (answer->flow.found) {
		explain_found(lookup, verdict->has_backend ? &verdict->backend : NULL,
			verdict->has_chosen ? &verdict->chosen : NULL, service, why);
		return;
	}
	if (answer->flow.service == WEIR_SERVICE_NONE) {
		append(why, "no service owns this address and port");
	} else if (!verdict->has_chosen) {
		append(why, "service has no usable backend");
	} else {
		explain_choice(lookup, verdict->by_worker ? NULL : &verdict->chosen, service, why);
	}
	explain_silence(lookup, why);
}

static void judge(const struct lookup *lookup, const struct weir_service_state *service,
	struct verdict *ret) {
	const struct weir_tables *tables = lookup->daemon->tables;
	const struct weir_message *answer = &lookup->answer;

	ret->has_backend = weir_tables_backend(tables, answer->flow.backend, &ret->backend) == 0;
	ret->has_chosen = weir_tables_backend(tables, answer->flow.chosen, &ret->chosen) == 0;
	ret->subsets = !answer->flow.found && service->subsets > 1;
	ret->by_worker = ret->subsets && !workers_agree(lookup);
}

static void answer_lookup(struct lookup *lookup) {
	struct weir_tables *tables = lookup->daemon->tables;
	const struct weir_message *answer = &lookup->answer;
	bool found = answer->flow.found != 0;
	struct weir_service_state service = {0};
	const struct weir_backend_state *goes_to, *chosen;
	struct verdict verdict;
	bool has_slot; // what a new flow would get can be told
	char why[WHY_BYTES], hash[20], address[INET6_ADDRSTRLEN];

	weir_tables_service(tables, answer->flow.service, &service);
	judge(lookup, &service, &verdict);
	has_slot = verdict.has_chosen && service.slots > 0;
	chosen = has_slot && !verdict.by_worker ? &verdict.chosen : NULL;
	goes_to = found ? (verdict.has_backend ? &verdict.backend : NULL) : chosen;
	explain(lookup, &verdict, &service, why);
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)answer->flow.hash);
	weir_api_answer(lookup->call,
		json_pack("{s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "service",
			string_or_null(weir_tables_service_name(tables, answer->flow.service)),
			"hash", hash, "found", (int)found, "worker",
			found ? json_integer(lookup->worker) : json_null(), "state",
			string_or_null(found ? state_name(answer->flow.state) : NULL), "idle_ms",
			found ? json_integer(answer->flow.idle_ms) : json_null(), "backend",
			string_or_null(goes_to != NULL ? goes_to->name : NULL), "address",
			string_or_null(goes_to != NULL ? weir_address_format(&goes_to->address,
								 address, sizeof(address))
						       : NULL),
			"why", why, "slot",
			has_slot ? json_integer(answer->flow.slot) : json_null(), "chosen",
			string_or_null(chosen != NULL ? chosen->name : NULL), "chosen_by_worker",
			verdict.subsets ? json_by_worker(lookup) : json_null()));
}

static void end_lookup(struct weir_lookups *lookups, struct lookup **link) {
	struct lookup *lookup = *link;

	*link = lookup->next;
	lookups->count--;
	if (lookup->has_answer) {
		answer_lookup(lookup);
	} else {
		weir_api_fail(lookup->call, WEIR_API_TIMEOUT,
			"no worker answered within %d ms: weir-dataplane hangs, or is starved of "
			"its cores",
			WEIR_LOOKUP_MS);
	}
	free(lookup);
}

// An answer with a backend says more than one without.
static bool is_better(const struct weir_message *a, const struct weir_message *than) {
	if (a->flow.found != than->flow.found) {
		return a->flow.found != 0;
	}
	return a->flow.chosen != WEIR_BACKEND_NONE && than->flow.chosen == WEIR_BACKEND_NONE;
}

static void take_answer(
	struct weir_lookups *lookups, uint32_t worker, const struct weir_message *message) {
	for (struct lookup *lookup = lookups->first; lookup != NULL; lookup = lookup->next) {
		if (lookup->sequence != message->sequence || worker >= lookup->workers ||
			message->kind != WEIR_MESSAGE_FLOW_LOOKUP) {
			continue;
		}
		lookup->answered |= 1ull << worker;
		lookup->chosen[worker] = message->flow.chosen;
		if (!lookup->has_answer || is_better(message, &lookup->answer)) {
			lookup->answer = *message;
			lookup->worker = worker;
			lookup->has_answer = true;
		}
		return;
	}
}

// Take what the workers answered; end what is complete or late.
static void look(struct weir_lookups *lookups, const struct weir_segment *segment) {
	struct lookup **link = &lookups->first;
	struct weir_message message;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		// Bounded: a worker that never stops answering must not keep us here.
		for (int i = 0; i < WEIR_MAILBOX_MESSAGES &&
				weir_mailbox_receive(&segment->mailboxes[worker].reply, &message);
			i++) {
			take_answer(lookups, worker, &message);
		}
	}
	while (*link != NULL) {
		struct lookup *lookup = *link;

		if (lookup->answered == lookup->asked ||
			(lookup->has_answer && lookup->answer.flow.found) ||
			uv_now(lookups->loop) >= lookup->deadline_ms) {
			end_lookup(lookups, link);
		} else {
			link = &lookup->next;
		}
	}
	if (lookups->first == NULL) {
		uv_timer_stop(&lookups->timer);
	}
}

static void look_due(uv_timer_t *timer) {
	struct weir_lookups *lookups = timer->data;

	// Without a dataplane nothing is under way: weir_lookups_abandon ended it.
	if (lookups->first != NULL) {
		look(lookups, lookups->first->daemon->segment);
	}
}

// --- questions ----------------------------------------------------------------------------

// Returns what is wrong with the request, or NULL.
static const char *read_question(const struct weir_api_call *call, struct weir_message *question) {
	const char *protocol = weir_api_text(call, "protocol");
	struct weir_address source, destination;

	if (strcmp(protocol, "tcp") != 0 && strcmp(protocol, "udp") != 0) {
		return "\"protocol\" must be \"tcp\" or \"udp\"";
	}
	if (weir_address_parse(weir_api_text(call, "source"), &source) < 0) {
		return "\"source\" must be an IPv4 or IPv6 address";
	}
	if (weir_address_parse(weir_api_text(call, "destination"), &destination) < 0) {
		return "\"destination\" must be an IPv4 or IPv6 address";
	}
	if (source.family != destination.family) {
		return "\"source\" and \"destination\" must be of the same family";
	}
	*question = (struct weir_message){.kind = WEIR_MESSAGE_FLOW_LOOKUP};
	memcpy(question->flow.source, source.bytes, sizeof(question->flow.source));
	memcpy(question->flow.destination, destination.bytes, sizeof(question->flow.destination));
	question->flow.family = source.family;
	question->flow.protocol = strcmp(protocol, "tcp") == 0 ? IPPROTO_TCP : IPPROTO_UDP;
	question->flow.source_port = (uint16_t)weir_api_integer(call, "source_port", 0);
	question->flow.destination_port = (uint16_t)weir_api_integer(call, "destination_port", 0);
	question->flow.backend = WEIR_BACKEND_NONE;
	question->flow.chosen = WEIR_BACKEND_NONE;
	question->flow.service = WEIR_SERVICE_NONE;
	return NULL;
}

static void ask(struct weir_lookups *lookups, struct lookup *lookup) {
	const struct weir_segment *segment = lookup->daemon->segment;

	uv_update_time(lookups->loop);
	lookup->sequence = ++lookups->sequence;
	lookup->deadline_ms = uv_now(lookups->loop) + WEIR_LOOKUP_MS;
	lookup->workers = segment->workers;
	lookup->question.sequence = lookup->sequence;
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		if (weir_mailbox_send(&segment->mailboxes[worker].request, &lookup->question)) {
			lookup->asked |= 1ull << worker;
		}
	}
	lookup->next = lookups->first;
	lookups->first = lookup;
	lookups->count++;
	uv_timer_start(&lookups->timer, look_due, 0, LOOK_MS);
}

void weir_api_flow_lookup(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_lookups *lookups = daemon->lookups;
	struct weir_message question;
	struct lookup *lookup;
	const char *wrong;

	wrong = read_question(call, &question);
	if (wrong != NULL) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "%s", wrong);
		return;
	}
	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	if (lookups->count >= LOOKUPS_MAX) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"%d lookups are under way: try again in a moment", LOOKUPS_MAX);
		return;
	}
	lookup = calloc(1, sizeof(*lookup));
	if (lookup == NULL) {
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
		return;
	}
	lookup->daemon = daemon;
	lookup->call = call;
	lookup->question = question;
	ask(lookups, lookup);
}

// --- life ---------------------------------------------------------------------------------

int weir_lookups_create(uv_loop_t *loop, struct weir_lookups **ret) {
	struct weir_lookups *lookups = calloc(1, sizeof(*lookups));

	if (lookups == NULL) {
		return -ENOMEM;
	}
	lookups->loop = loop;
	// Late answers to a former control process are in the rings: no number of theirs is ours.
	lookups->sequence = weir_daemon_now_ns();
	uv_timer_init(loop, &lookups->timer);
	lookups->timer.data = lookups;
	*ret = lookups;
	return 0;
}

void weir_lookups_abandon(struct weir_lookups *lookups) {
	if (lookups == NULL) {
		return;
	}
	while (lookups->first != NULL) {
		struct lookup *lookup = lookups->first;

		lookups->first = lookup->next;
		lookups->count--;
		weir_api_fail(lookup->call, WEIR_API_NO_DATAPLANE,
			"the dataplane went away before it answered");
		free(lookup);
	}
	uv_timer_stop(&lookups->timer);
}

static void timer_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_lookups_free(struct weir_lookups *lookups) {
	if (lookups == NULL) {
		return;
	}
	weir_lookups_abandon(lookups);
	uv_close((uv_handle_t *)&lookups->timer, timer_closed);
}
