// SPDX-License-Identifier: BSD-3-Clause
#include "captures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "writer.h"

#define POLL_MS 5
#define NS_PER_MS 1000000u

static const char *const end_texts[] = {
#define X(name, key, text) [WEIR_CAPTURE_END_##name] = text,
	WEIR_CAPTURE_ENDS(X)
#undef X
};

struct next { // the next packet in the ring of a worker
	bool there;
	struct weir_capture_packet packet;
};

struct weir_captures {
	uv_loop_t *loop;
	uv_timer_t timer; // runs while a client waits for packets
	struct weir_audit *audit;
	struct weir_segment *segment; // NULL = no dataplane is attached
	const struct weir_tables *tables;
	struct weir_capture_request request; // request of the last capture
	struct weir_capture_status status;
	uint64_t order; // ID of the capture in the segment
	uint64_t read_ns; // time of the last read by the client
	struct next *next; // [workers]
	weir_capture_done done; // callback of the read in progress; NULL = no read is in progress
	void *context;
	uint64_t until_ms;
};

static uint64_t clock_ns(clockid_t id) {
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is_running(const struct weir_captures *captures) {
	return captures->status.number != 0 && captures->status.ended == WEIR_CAPTURE_END_NONE;
}

// Extends the lifetime of the capture. Called when the capture starts, and when a read begins or
// ends.
static void note_read(struct weir_captures *captures) {
	captures->read_ns = clock_ns(CLOCK_MONOTONIC);
	weir_capture_extend(captures->segment,
		captures->read_ns + (uint64_t)WEIR_CAPTURES_UNREAD_MS * NS_PER_MS);
}

// --- packets ------------------------------------------------------------------------------

static void count_missed(struct weir_captures *captures) {
	captures->status.lost = captures->status.limited = 0;
	for (uint32_t worker = 0; worker < captures->segment->workers; worker++) {
		uint64_t lost, limited;

		weir_capture_missed(captures->segment, worker, captures->order, &lost, &limited);
		captures->status.lost += lost;
		captures->status.limited += limited;
	}
}

// Returns the oldest of the next packets of all rings, or NULL if all rings are empty.
static struct next *oldest(struct weir_captures *captures, uint32_t *ret_worker) {
	struct next *found = NULL;

	for (uint32_t worker = 0; worker < captures->segment->workers; worker++) {
		struct next *next = &captures->next[worker];

		if (!next->there) {
			next->there = weir_capture_take(
				captures->segment, worker, captures->order, &next->packet);
		}
		if (next->there && (found == NULL || next->packet.record.time_ns <
							     found->packet.record.time_ns)) {
			found = next;
			*ret_worker = worker;
		}
	}
	return found;
}

static void complete(const struct weir_captures *captures, struct weir_captured *captured) {
	const struct weir_capture_record *record = &captured->packet.record;
	const char *service =
		weir_tables_service_name_at(captures->tables, record->service, record->tables);
	const char *backend =
		weir_tables_backend_name_at(captures->tables, record->backend, record->tables);

	snprintf(
		captured->service, sizeof(captured->service), "%s", service != NULL ? service : "");
	snprintf(
		captured->backend, sizeof(captured->backend), "%s", backend != NULL ? backend : "");
	captured->publications = weir_writer_publications(captures->segment, record->tables);
}

// Takes the packets that are in the rings, up to the limit of one read. Returns false if out of
// memory.
static bool take(struct weir_captures *captures, struct weir_capture_reading *reading) {
	uint64_t most = WEIR_CAPTURES_PACKETS;
	uint32_t worker = 0;
	struct next *next = oldest(captures, &worker);

	if (captures->request.packets > 0 &&
		captures->request.packets - captures->status.packets < most) {
		most = captures->request.packets - captures->status.packets;
	}
	if (next != NULL) {
		reading->packets = malloc(most * sizeof(*reading->packets));
		if (reading->packets == NULL) {
			return false;
		}
	}
	for (; next != NULL && reading->count < most; next = oldest(captures, &worker)) {
		struct weir_captured *captured = &reading->packets[reading->count++];

		captured->packet = next->packet;
		captured->worker = worker;
		complete(captures, captured);
		next->there = false;
	}
	reading->more = next != NULL;
	captures->status.packets += reading->count;
	return true;
}

// --- ends ---------------------------------------------------------------------------------

static void audit_end(const struct weir_captures *captures) {
	const struct weir_capture_status *status = &captures->status;
	const char *why = end_texts[status->ended];
	char after[WEIR_AUDIT_VALUE_BYTES];
	struct weir_audit_event event = {.who = status->who,
		.command = "capture.stop",
		.object = captures->request.what,
		.before = "",
		.after = after,
		.why = why[0] != '\0' ? why : NULL};

	snprintf(after, sizeof(after), "%llu packet%s read, %llu lost, %llu over the rate limit",
		(unsigned long long)status->packets, status->packets == 1 ? "" : "s",
		(unsigned long long)status->lost, (unsigned long long)status->limited);
	weir_audit_add(captures->audit, &event);
}

static void end_capture(struct weir_captures *captures, enum weir_capture_end end) {
	weir_capture_withdraw(captures->segment);
	count_missed(captures);
	captures->status.ended = end;
	free(captures->next);
	captures->next = NULL;
	audit_end(captures);
}

// --- readings -----------------------------------------------------------------------------

static void answer(
	struct weir_captures *captures, struct weir_capture_reading *reading, int error) {
	weir_capture_done done = captures->done;

	uv_timer_stop(&captures->timer);
	captures->done = NULL;
	reading->lost = captures->status.lost;
	reading->limited = captures->status.limited;
	reading->ended = captures->status.ended;
	reading->since_1970_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
	done(captures->context, error, error == 0 ? reading : NULL);
	free(reading->packets);
}

static void poll_rings(struct weir_captures *captures) {
	struct weir_capture_reading reading = {0};
	bool taken = take(captures, &reading);

	count_missed(captures);
	if (captures->request.packets > 0 &&
		captures->status.packets >= captures->request.packets) {
		reading.more = false;
		end_capture(captures, WEIR_CAPTURE_END_PACKETS);
	}
	if (!taken || reading.count > 0 || uv_now(captures->loop) >= captures->until_ms) {
		if (is_running(captures)) {
			note_read(captures);
		}
		answer(captures, &reading, taken ? 0 : -ENOMEM);
	}
}

static void poll_due(uv_timer_t *timer) {
	poll_rings(timer->data);
}

void weir_captures_read(struct weir_captures *captures, weir_capture_done done, void *context) {
	captures->done = done;
	captures->context = context;
	if (!is_running(captures)) {
		struct weir_capture_reading nothing = {0};

		answer(captures, &nothing, 0);
		return;
	}
	note_read(captures);
	uv_update_time(captures->loop);
	captures->until_ms = uv_now(captures->loop) + WEIR_CAPTURES_WAIT_MS;
	uv_timer_start(&captures->timer, poll_due, POLL_MS, POLL_MS);
	poll_rings(captures);
}

// --- begin and end ------------------------------------------------------------------------

void weir_captures_stop(struct weir_captures *captures, enum weir_capture_end end) {
	struct weir_capture_reading nothing = {0};

	if (is_running(captures)) {
		end_capture(captures, end);
		if (captures->done != NULL) {
			answer(captures, &nothing, 0);
		}
	}
}

int weir_captures_start(
	struct weir_captures *captures, const struct weir_capture_request *request, uint64_t *ret) {
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	struct next *next;

	if (captures->segment == NULL) {
		return -ENOTCONN;
	}
	if (is_running(captures)) {
		if (now_ns - captures->read_ns < (uint64_t)WEIR_CAPTURES_UNREAD_MS * NS_PER_MS) {
			return -EBUSY;
		}
		weir_captures_stop(captures, WEIR_CAPTURE_END_UNREAD);
	}
	next = calloc(captures->segment->workers, sizeof(*next));
	if (next == NULL) {
		return -ENOMEM;
	}
	captures->next = next;
	captures->request = *request;
	captures->status = (struct weir_capture_status){.number = captures->status.number + 1,
		.connection = request->connection,
		.who = request->who};
	captures->order = weir_capture_order(captures->segment, &request->terms, 0);
	note_read(captures);
	*ret = captures->status.number;
	return 0;
}

struct weir_capture_status weir_captures_status(const struct weir_captures *captures) {
	return captures->status;
}

// --- create and free ----------------------------------------------------------------------

int weir_captures_create(uv_loop_t *loop, struct weir_audit *audit, struct weir_captures **ret) {
	struct weir_captures *captures = calloc(1, sizeof(*captures));

	if (captures == NULL) {
		return -ENOMEM;
	}
	captures->loop = loop;
	captures->audit = audit;
	uv_timer_init(loop, &captures->timer);
	captures->timer.data = captures;
	*ret = captures;
	return 0;
}

void weir_captures_bind(struct weir_captures *captures, struct weir_segment *segment,
	const struct weir_tables *tables) {
	if (captures == NULL) {
		return;
	}
	weir_captures_stop(captures, WEIR_CAPTURE_END_NO_DATAPLANE);
	captures->segment = segment;
	captures->tables = tables;
	if (segment != NULL) {
		// Ends a capture that a previous control process started and did not stop.
		weir_capture_withdraw(segment);
	}
}

static void timer_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_captures_free(struct weir_captures *captures) {
	if (captures == NULL) {
		return;
	}
	weir_captures_bind(captures, NULL, NULL);
	uv_close((uv_handle_t *)&captures->timer, timer_closed);
}
