// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "plural.h"
#include "sheds_private.h"

// --- terms ----------------------------------------------------------------------------------

struct weir_shed_terms weir_shed_terms_default(void) {
	return (struct weir_shed_terms){.rate = 10, .idle_ms = 5000, .for_ms = 600000};
}

int weir_shed_terms_check(const struct weir_shed_terms *terms, char *why, size_t why_bytes) {
	// The opposite of the condition would accept NaN.
	if (!(terms->rate >= WEIR_SHED_RATE_LEAST_MILLI / 1000.0 &&
		    terms->rate <= WEIR_AGENT_SHED_RATE_MILLI_MOST / 1000.0)) {
		snprintf(why, why_bytes, "argument \"rate\" must be a number from 0.2 to 1000");
		return -EINVAL;
	}
	if (!(terms->idle_ms >= WEIR_AGENT_SHED_IDLE_LEAST_MS &&
		    terms->idle_ms <= WEIR_SHED_FOR_MOST_MS)) {
		snprintf(why, why_bytes, "argument \"idle_ms\" must be a number from %d to %.0f",
			WEIR_AGENT_SHED_IDLE_LEAST_MS, WEIR_SHED_FOR_MOST_MS);
		return -EINVAL;
	}
	if (!(terms->for_ms >= 1000 && terms->for_ms <= WEIR_SHED_FOR_MOST_MS)) {
		snprintf(why, why_bytes, "argument \"for_ms\" must be a number from 1000 to %.0f",
			WEIR_SHED_FOR_MOST_MS);
		return -EINVAL;
	}
	return 0;
}

// --- starts ---------------------------------------------------------------------------------

// Write why a backend cannot be shed, and a remedy. Returns -EINVAL.
static int refuse(char *why, size_t why_bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int refuse(char *why, size_t why_bytes, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, why_bytes, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static int check_binds(
	const struct weir_config_service *service, const char *name, char *why, size_t why_bytes) {
	uint32_t count = 0;

	for (uint32_t i = 0; service != NULL && i < service->bind_count; i++) {
		count += service->binds[i].protocol == IPPROTO_TCP;
	}
	if (count == 0) {
		return refuse(why, why_bytes, "service %s has no TCP bind", name);
	}
	if (count > WEIR_AGENT_SHED_BINDS) {
		return refuse(why, why_bytes,
			"service %s has %u TCP binds, and a shed order has room for %d", name,
			count, WEIR_AGENT_SHED_BINDS);
	}
	return 0;
}

static int check_agent(const struct weir_sheds *sheds, const struct weir_backend_state *state,
	char *why, size_t why_bytes) {
	struct weir_agents_status status;

	if (weir_agents_status(sheds->of.agents, state->id, &status) < 0) {
		return refuse(why, why_bytes,
			"service %s has no agents; add \"agent\": {} to it, and run weir-agent "
			"with "
			"--shed-idle or --shed-hook on the backend",
			state->service);
	}
	if (!status.has_answer || !status.answers) {
		return refuse(why, why_bytes,
			"the weir-agent of %s/%s does not answer; run \"weir-agent doctor\" on the "
			"backend",
			state->service, state->name);
	}
	return 0;
}

static int check(const struct weir_sheds *sheds, const struct weir_backend_state *state,
	struct weir_shed_level *ret, char *why, size_t why_bytes) {
	const struct weir_shed *shed = weir_sheds_find(sheds, state->service, state->name);

	if (shed != NULL && weir_shed_is_running(shed)) {
		return refuse(why, why_bytes,
			"%s/%s is being shed; to stop it, run \"weirctl backend shed --stop "
			"%s/%s\"",
			state->service, state->name, state->service, state->name);
	}
	if (state->leaving || !state->in_selection) {
		return refuse(why, why_bytes,
			"%s/%s takes no new flows, so it is not compared with the mean",
			state->service, state->name);
	}
	if (check_binds(weir_tables_service_config(sheds->tables, state->service), state->service,
		    why, why_bytes) < 0 ||
		check_agent(sheds, state, why, why_bytes) < 0) {
		return -EINVAL;
	}
	if (weir_shed_measure(sheds, state, 0, ret) < 0) {
		return refuse(why, why_bytes,
			"no other backend of service %s takes new flows: there is no mean",
			state->service);
	}
	if (ret->above == 0) {
		return refuse(why, why_bytes,
			"%s/%s has %llu open flow%s, and its share of the mean is %llu: nothing is "
			"above it",
			state->service, state->name, (unsigned long long)ret->flows,
			weir_plural(ret->flows), (unsigned long long)ret->mean);
	}
	return 0;
}

// Remove the ended shed of the backend, but keep its count of flows that may be in the flow table.
static void replace(struct weir_sheds *sheds, struct weir_shed *shed) {
	const struct weir_shed *old = weir_sheds_find(sheds, shed->service, shed->backend);

	if (old != NULL && old != shed) {
		shed->gone = old->gone;
		shed->gone_ms = old->gone_ms;
		weir_sheds_forget(sheds, old);
	}
}

int weir_sheds_start(struct weir_sheds *sheds, uint16_t backend,
	const struct weir_shed_terms *terms, const struct weir_audit_who *who, uint64_t now_ms,
	weir_shed_begun begun, void *context, char *why, size_t why_bytes) {
	struct weir_backend_state state;
	struct weir_shed_level level;
	struct weir_shed *shed;

	sheds->now_ms = now_ms;
	if (weir_tables_backend(sheds->tables, backend, &state) < 0) {
		return refuse(why, why_bytes, "the backend was removed");
	}
	if (check(sheds, &state, &level, why, why_bytes) < 0) {
		return -EINVAL;
	}
	shed = weir_sheds_add(sheds);
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
	snprintf(shed->service, sizeof(shed->service), "%s", state.service);
	snprintf(shed->backend, sizeof(shed->backend), "%s", state.name);
	if (!terms->dry_run) {
		replace(sheds, shed);
	}
	weir_shed_advance(sheds, shed);
	return 0;
}

int weir_sheds_stop(struct weir_sheds *sheds, const char *service, const char *backend) {
	for (uint32_t i = 0; i < sheds->count; i++) {
		struct weir_shed *shed = sheds->shed[i];

		if (shed->state == WEIR_SHED_RUNNING && strcmp(shed->service, service) == 0 &&
			strcmp(shed->backend, backend) == 0) {
			weir_shed_note(shed, "by an operator");
			if (shed->in_flight) {
				shed->state = WEIR_SHED_STOPPING;
			} else {
				weir_shed_end(sheds, shed, WEIR_SHED_STOPPED);
			}
			return 0;
		}
	}
	return -ENOENT;
}

// --- life -----------------------------------------------------------------------------------

void weir_sheds_follow(struct weir_sheds *sheds, struct weir_tables *tables) {
	sheds->tables = tables;
}

void weir_sheds_second(struct weir_sheds *sheds, uint64_t now_ms) {
	sheds->now_ms = now_ms;
	for (uint32_t i = sheds->count; sheds->tables != NULL && i > 0; i--) {
		struct weir_shed *shed = sheds->shed[i - 1];

		if (shed->in_flight || !weir_shed_is_running(shed)) {
			continue;
		}
		weir_shed_advance(sheds, shed); // frees it if it ends before it begins
	}
}

void weir_sheds_abandon(struct weir_sheds *sheds, const char *why) {
	for (uint32_t i = sheds != NULL ? sheds->count : 0; i > 0; i--) {
		struct weir_shed *shed = sheds->shed[i - 1];

		if (weir_shed_is_running(shed)) {
			weir_shed_note(shed, "%s", why);
			weir_shed_end(sheds, shed, WEIR_SHED_FAILED);
		}
	}
}

int weir_sheds_create(const struct weir_sheds_of *of, struct weir_sheds **ret) {
	struct weir_sheds *sheds = calloc(1, sizeof(*sheds));

	if (sheds == NULL) {
		return -ENOMEM;
	}
	sheds->of = *of;
	weir_agents_on_shed_ended(of->agents, weir_shed_take_result, sheds);
	*ret = sheds;
	return 0;
}

void weir_sheds_free(struct weir_sheds *sheds) {
	if (sheds == NULL) {
		return;
	}
	for (uint32_t i = 0; i < sheds->count; i++) {
		free(sheds->shed[i]);
	}
	free(sheds->shed);
	free(sheds);
}
