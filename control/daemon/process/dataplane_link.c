// SPDX-License-Identifier: BSD-3-Clause
#include "dataplane_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WHY_BYTES 256
// Number of quick retries after the socket of the dataplane has appeared. A connection attempt that
// is already running at that time can fail; without quick retries, control would then wait
// WEIR_LINK_RETRY_MS.
#define EAGER_TRIES 20
#define EAGER_RETRY_MS 10

struct attempt { // an attempt to connect; runs in the thread pool of libuv
	uv_work_t work;
	struct weir_dataplane_link *link; // NULL if the link was freed during the attempt
	char *run_dir;
	int result;
	int connection;
	struct weir_handover handover;
	char why[WHY_BYTES];
};

struct weir_dataplane_link {
	uv_loop_t *loop;
	const char *run_dir;
	struct weir_log *log;
	struct weir_dataplane_events events;
	uv_timer_t retry;
	uv_fs_event_t appears; // watches the run directory
	uv_poll_t end; // becomes readable when the dataplane exits
	unsigned int handles; // number of handles (retry, appears, end) not closed yet
	bool end_open; // `end` was initialized, and is not closed yet
	bool freed;
	struct attempt *attempt; // attempt in progress, or NULL
	struct weir_segment *segment; // NULL = not attached
	struct weir_handover handover;
	int connection;
	unsigned int eager; // number of quick retries left
	uint64_t tried_ms; // loop time of the last attempt
	// Loop time of the first of the consecutive attempts that timed out; 0 = the last attempt
	// did not time out.
	uint64_t silent_ms;
	bool waits; // the line "waiting for weir-dataplane" was logged
	int failed; // negative errno of the last attempt; 0 = the attempt succeeded
	char failed_why[WHY_BYTES]; // reason of `failed`, if it was logged as an error; otherwise
				    // ""
};

static void try_now(struct weir_dataplane_link *link);

static void close_handover(struct weir_handover *handover) {
	if (handover->statistics_fd >= 0) {
		close(handover->statistics_fd);
	}
	if (handover->tables_fd >= 0) {
		close(handover->tables_fd);
	}
	for (uint32_t i = 0; i < handover->vip_maps && i < WEIR_PORTS_MAX; i++) {
		if (handover->vip_map_fd[i] >= 0) {
			close(handover->vip_map_fd[i]);
		}
	}
	handover->statistics_fd = -1;
	handover->tables_fd = -1;
	handover->vip_maps = 0;
}

static void finish_free(struct weir_dataplane_link *link) {
	if (link->freed && link->handles == 0) {
		free(link);
	}
}

static void handle_closed(uv_handle_t *handle) {
	struct weir_dataplane_link *link = handle->data;

	link->handles--;
	finish_free(link);
}

// --- waiting for the dataplane ------------------------------------------------------------

static void retry_due(uv_timer_t *timer) {
	try_now(timer->data);
}

static void retry_in(struct weir_dataplane_link *link, uint64_t ms) {
	uv_timer_start(&link->retry, retry_due, ms, 0);
}

static void run_dir_changed(uv_fs_event_t *event, const char *name, int events, int status) {
	struct weir_dataplane_link *link = event->data;

	(void)events;
	if (status == 0 && name != NULL && strcmp(name, WEIR_HANDOVER_SOCKET) == 0 &&
		link->segment == NULL) {
		link->eager = EAGER_TRIES;
		try_now(link);
	}
}

static bool is_absence(int error) {
	return error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET;
}

// Returns whether the dataplane may still be starting: a starting dataplane listens on its socket,
// but does not reply until its ports are started.
static bool may_be_starting(struct weir_dataplane_link *link, int error) {
	if (error != -ETIMEDOUT) {
		link->silent_ms = 0;
		return false;
	}
	if (link->silent_ms == 0) {
		link->silent_ms = link->tried_ms;
	}
	return uv_now(link->loop) - link->silent_ms < WEIR_LINK_STARTING_MS;
}

// Logs why attaching has failed, unless the last attempt failed for the same reason. If the
// dataplane is not running, or is still starting, the failure is normal and is logged at level
// info. Any other failure is logged as an error.
static void note_failure(struct weir_dataplane_link *link, int error, const char *why) {
	bool waits = may_be_starting(link, error) || is_absence(error);

	why = why[0] != '\0' ? why : strerror(-error);
	if (waits && !link->waits) {
		weir_log_write(link->log, WEIR_LOG_INFO,
			"waiting for weir-dataplane on %s/" WEIR_HANDOVER_SOCKET, link->run_dir);
	} else if (!waits && (error != link->failed || strcmp(why, link->failed_why) != 0)) {
		weir_log_write(
			link->log, WEIR_LOG_ERROR, "cannot attach to weir-dataplane: %s", why);
	}
	link->waits = waits;
	link->failed = error;
	snprintf(link->failed_why, sizeof(link->failed_why), "%s", waits ? "" : why);
}

static uint64_t retry_after(struct weir_dataplane_link *link, int error) {
	if (is_absence(error) && link->eager > 0) {
		link->eager--;
		return EAGER_RETRY_MS;
	}
	return is_absence(error) || error == -EBUSY || error == -ETIMEDOUT
		       ? WEIR_LINK_RETRY_MS
		       : WEIR_LINK_REFUSED_RETRY_MS;
}

// --- attached -----------------------------------------------------------------------------

static void end_closed(uv_handle_t *handle) {
	struct weir_dataplane_link *link = handle->data;

	close(link->connection);
	link->connection = -1;
	link->end_open = false;
	link->handles--;
	if (!link->freed) {
		try_now(link);
	}
	finish_free(link);
}

static void drop_segment(struct weir_dataplane_link *link) {
	weir_segment_free(link->segment);
	link->segment = NULL;
	close_handover(&link->handover);
}

static void connection_readable(uv_poll_t *poll, int status, int events) {
	struct weir_dataplane_link *link = poll->data;
	char byte;
	ssize_t n = status < 0 ? 0 : recv(link->connection, &byte, 1, MSG_DONTWAIT);

	(void)events;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
		return; // the dataplane sends nothing on this connection
	}
	weir_log_write(link->log, WEIR_LOG_WARN,
		"weir-dataplane closed the connection; waiting for weir-dataplane");
	link->waits = true; // logged already
	uv_poll_stop(poll);
	link->events.lost(link->events.context);
	drop_segment(link);
	uv_close((uv_handle_t *)&link->end, end_closed);
}

static int watch_end(struct weir_dataplane_link *link, int connection) {
	int r = uv_poll_init(link->loop, &link->end, connection);

	if (r < 0) {
		return r;
	}
	link->end.data = link;
	link->connection = connection;
	link->end_open = true;
	link->handles++;
	return uv_poll_start(&link->end, UV_READABLE | UV_DISCONNECT, connection_readable);
}

// Attaches to the segment of a successful attempt. Takes ownership of the segment and the
// descriptors, and releases all of them on failure. Returns 0, or negative errno with one line in
// why.
static int adopt(struct weir_dataplane_link *link, struct attempt *attempt, char *why) {
	int r;

	link->handover = attempt->handover;
	r = weir_segment_attach(attempt->handover.statistics_fd, attempt->handover.tables_fd,
		&link->segment, why, WHY_BYTES);
	if (r < 0) {
		close_handover(&link->handover);
		close(attempt->connection);
		return r;
	}
	link->handover.statistics_fd = -1; // owned by the segment
	link->handover.tables_fd = -1;
	r = link->events.attached(
		link->events.context, link->segment, &link->handover, why, WHY_BYTES);
	if (r < 0) {
		drop_segment(link);
		close(attempt->connection);
		return r;
	}
	r = watch_end(link, attempt->connection);
	if (r < 0) {
		snprintf(why, WHY_BYTES, "cannot poll the connection to weir-dataplane: %s",
			uv_strerror(r));
		link->events.lost(link->events.context);
		drop_segment(link);
		if (link->end_open) {
			uv_close((uv_handle_t *)&link->end, end_closed);
		} else {
			close(attempt->connection);
		}
		return r;
	}
	return 0;
}

// --- attempts -----------------------------------------------------------------------------

static void connect_in_pool(uv_work_t *work) {
	struct attempt *attempt = work->data;

	attempt->result = weir_handover_connect(attempt->run_dir, &attempt->handover,
		&attempt->connection, attempt->why, sizeof(attempt->why));
}

static void attempt_done(uv_work_t *work, int status) {
	struct attempt *attempt = work->data;
	struct weir_dataplane_link *link = attempt->link;
	int r = status < 0 ? status : attempt->result;
	char why[WHY_BYTES];

	if (link == NULL) {
		if (r == 0) {
			close_handover(&attempt->handover);
			close(attempt->connection);
		}
		goto free_attempt;
	}
	link->attempt = NULL;
	snprintf(why, sizeof(why), "%s", attempt->why);
	if (r == 0) {
		why[0] = '\0';
		r = adopt(link, attempt, why);
	}
	if (r == 0) {
		link->silent_ms = 0;
		link->waits = false;
		link->failed = 0;
		link->failed_why[0] = '\0';
	} else {
		note_failure(link, r, why);
		retry_in(link, retry_after(link, r));
		if (!is_absence(r)) {
			link->events.refused(link->events.context, r);
		}
	}
free_attempt:
	free(attempt->run_dir);
	free(attempt);
}

static void try_now(struct weir_dataplane_link *link) {
	struct attempt *attempt;

	// Do nothing while the previous connection is closing: end_closed tries again.
	if (link->freed || link->attempt != NULL || link->segment != NULL || link->end_open) {
		return;
	}
	uv_timer_stop(&link->retry);
	link->tried_ms = uv_now(link->loop);
	attempt = calloc(1, sizeof(*attempt));
	if (attempt == NULL) {
		retry_in(link, WEIR_LINK_RETRY_MS);
		return;
	}
	attempt->link = link;
	attempt->connection = -1;
	attempt->handover.statistics_fd = -1;
	attempt->handover.tables_fd = -1;
	attempt->run_dir = strdup(link->run_dir);
	attempt->work.data = attempt;
	if (attempt->run_dir == NULL ||
		uv_queue_work(link->loop, &attempt->work, connect_in_pool, attempt_done) < 0) {
		free(attempt->run_dir);
		free(attempt);
		retry_in(link, WEIR_LINK_RETRY_MS);
		return;
	}
	link->attempt = attempt;
}

int weir_dataplane_link_create(uv_loop_t *loop, const char *run_dir, struct weir_log *log,
	const struct weir_dataplane_events *events, struct weir_dataplane_link **ret) {
	struct weir_dataplane_link *link = calloc(1, sizeof(*link));

	if (link == NULL) {
		return -ENOMEM;
	}
	link->loop = loop;
	link->run_dir = run_dir;
	link->log = log;
	link->events = *events;
	link->connection = -1;
	link->handover.statistics_fd = -1;
	link->handover.tables_fd = -1;
	link->handles = 2;
	uv_timer_init(loop, &link->retry);
	uv_fs_event_init(loop, &link->appears);
	link->retry.data = link;
	link->appears.data = link;
	// Ignore errors: the watch only makes attaching faster. Without it, the timer still
	// retries.
	uv_fs_event_start(&link->appears, run_dir_changed, run_dir, 0);
	try_now(link);
	*ret = link;
	return 0;
}

const char *weir_dataplane_link_why(const struct weir_dataplane_link *link) {
	return link->failed_why[0] != '\0' ? link->failed_why : NULL;
}

void weir_dataplane_link_free(struct weir_dataplane_link *link) {
	if (link == NULL) {
		return;
	}
	link->freed = true;
	if (link->attempt != NULL) {
		uv_cancel((uv_req_t *)&link->attempt->work);
		link->attempt->link = NULL;
	}
	if (link->segment != NULL) {
		drop_segment(link);
		uv_close((uv_handle_t *)&link->end, end_closed);
	}
	uv_close((uv_handle_t *)&link->retry, handle_closed);
	uv_close((uv_handle_t *)&link->appears, handle_closed);
}
