// SPDX-License-Identifier: BSD-3-Clause
#include "flow_lookup.h"

#include <errno.h>
#include <stdlib.h>

struct lookup { // a lookup: the same request to all workers, or to one worker
	struct lookup *next;
	uint64_t sequence;
	uint64_t deadline_ms;
	uint64_t requested; // bitmap by worker
	struct weir_lookup_result result;
	struct weir_message request;
	weir_lookup_done done;
	void *context;
};

struct weir_lookups {
	uv_loop_t *loop;
	struct weir_mailboxes *mailboxes;
	struct lookup *first;
	uint32_t count;
};

static void end_lookup(struct weir_lookups *lookups, struct lookup **link, int error) {
	struct lookup *lookup = *link;

	*link = lookup->next;
	lookups->count--;
	lookup->done(lookup->context, error, error == 0 ? &lookup->result : NULL);
	free(lookup);
}

// --- responses ----------------------------------------------------------------------------

static bool is_of_source(const struct lookup *lookup) {
	return lookup->request.kind == WEIR_MESSAGE_SOURCE_LOOKUP ||
	       lookup->request.kind == WEIR_MESSAGE_SOURCE_DELETE;
}

static bool deletes(const struct weir_message *request) {
	return request->kind == WEIR_MESSAGE_FLOW_DELETE ||
	       request->kind == WEIR_MESSAGE_SOURCE_DELETE;
}

static bool has_found(const struct lookup *lookup, const struct weir_message *response) {
	return (is_of_source(lookup) ? response->source.found : response->flow.found) != 0;
}

static uint16_t chosen_by(const struct lookup *lookup, const struct weir_message *response) {
	return is_of_source(lookup) ? response->source.chosen : response->flow.chosen;
}

// Returns whether a response is better than the best response so far. A response with the flow is
// better than a response without the flow. Otherwise, a response with a backend is better than a
// response without a backend.
static bool is_better(const struct lookup *lookup, const struct weir_message *response) {
	const struct weir_message *best = &lookup->result.response;

	if (has_found(lookup, response) != has_found(lookup, best)) {
		return has_found(lookup, response);
	}
	return chosen_by(lookup, response) != WEIR_BACKEND_NONE &&
	       chosen_by(lookup, best) == WEIR_BACKEND_NONE;
}

static void take_response(void *context, uint32_t worker, const struct weir_message *message) {
	struct weir_lookups *lookups = context;

	for (struct lookup *lookup = lookups->first; lookup != NULL; lookup = lookup->next) {
		struct weir_lookup_result *result = &lookup->result;

		if (lookup->sequence != message->sequence || worker >= result->workers) {
			continue;
		}
		result->chosen[worker] = chosen_by(lookup, message);
		if (result->responded == 0 || is_better(lookup, message)) {
			result->response = *message;
			result->worker = worker;
		}
		result->responded |= 1ull << worker;
		return;
	}
}

// Ends the lookups that are complete or have timed out. Returns whether any lookup is still in
// progress.
static bool step(void *context) {
	struct weir_lookups *lookups = context;
	struct lookup **link = &lookups->first;

	while (*link != NULL) {
		struct lookup *lookup = *link;
		const struct weir_lookup_result *result = &lookup->result;
		bool responded = result->responded != 0;

		if (result->responded == lookup->requested ||
			(responded && has_found(lookup, &result->response)) ||
			uv_now(lookups->loop) >= lookup->deadline_ms) {
			end_lookup(lookups, link, responded ? 0 : -ETIMEDOUT);
		} else {
			link = &lookup->next;
		}
	}
	return lookups->first != NULL;
}

// --- requests -----------------------------------------------------------------------------

// Returns the worker with the latest heartbeat.
static uint32_t liveliest_worker(const struct weir_segment *segment) {
	uint64_t latest_ns = 0;
	uint32_t liveliest = 0;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		const uint64_t heartbeat_ns =
			weir_counter_read(&segment->worker_counters[worker].heartbeat_ns);

		if (heartbeat_ns > latest_ns) {
			latest_ns = heartbeat_ns;
			liveliest = worker;
		}
	}
	return liveliest;
}

int weir_lookups_start(struct weir_lookups *lookups, const struct weir_message *request,
	weir_lookup_done done, void *context) {
	const struct weir_segment *segment = lookups->mailboxes->segment;
	const uint32_t most = deletes(request) ? WEIR_LOOKUPS_MAX : WEIR_LOOKUPS_OPEN;
	struct lookup *lookup;
	uint64_t workers = UINT64_MAX; // bitmap

	if (segment == NULL) {
		return -ENOTCONN;
	}
	if (lookups->count >= most) {
		return -EBUSY;
	}
	lookup = calloc(1, sizeof(*lookup));
	if (lookup == NULL) {
		return -ENOMEM;
	}
	uv_update_time(lookups->loop);
	lookup->done = done;
	lookup->context = context;
	lookup->request = *request;
	lookup->sequence = weir_mailboxes_number(lookups->mailboxes);
	lookup->deadline_ms = uv_now(lookups->loop) + WEIR_LOOKUP_MS;
	lookup->result.workers = segment->workers;
	lookup->request.sequence = lookup->sequence;
	if (request->kind == WEIR_MESSAGE_SOURCE_DELETE) {
		workers = 1ull << liveliest_worker(segment);
	}
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		if ((workers >> worker & 1) != 0 &&
			weir_mailboxes_send(lookups->mailboxes, worker, &lookup->request)) {
			lookup->requested |= 1ull << worker;
		}
	}
	lookup->next = lookups->first;
	lookups->first = lookup;
	lookups->count++;
	weir_mailboxes_wait(lookups->mailboxes, WEIR_MESSAGE_FLOW_LOOKUP);
	return 0;
}

// --- create and free ----------------------------------------------------------------------

int weir_lookups_create(
	uv_loop_t *loop, struct weir_mailboxes *mailboxes, struct weir_lookups **ret) {
	struct weir_lookups *lookups = calloc(1, sizeof(*lookups));

	if (lookups == NULL) {
		return -ENOMEM;
	}
	lookups->loop = loop;
	lookups->mailboxes = mailboxes;
	weir_mailboxes_subscribe(mailboxes, WEIR_MESSAGE_FLOW_LOOKUP, take_response, step, lookups);
	weir_mailboxes_subscribe(mailboxes, WEIR_MESSAGE_FLOW_DELETE, take_response, NULL, lookups);
	weir_mailboxes_subscribe(
		mailboxes, WEIR_MESSAGE_SOURCE_LOOKUP, take_response, NULL, lookups);
	weir_mailboxes_subscribe(
		mailboxes, WEIR_MESSAGE_SOURCE_DELETE, take_response, NULL, lookups);
	*ret = lookups;
	return 0;
}

void weir_lookups_abandon(struct weir_lookups *lookups) {
	if (lookups == NULL) {
		return;
	}
	while (lookups->first != NULL) {
		end_lookup(lookups, &lookups->first, -ENOTCONN);
	}
}

void weir_lookups_free(struct weir_lookups *lookups) {
	if (lookups == NULL) {
		return;
	}
	weir_lookups_abandon(lookups);
	free(lookups);
}
