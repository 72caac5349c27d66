// SPDX-License-Identifier: BSD-3-Clause
#include "programs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helper_process.h"
#include "programs_helper.h"
#include "programs_message.h"

struct pending {
	uint64_t id; // 0 = free
	uint64_t deadline_ms; // loop time after which the result is LOST
	bool extended; // the deadline was extended, because the loop may have been busy before
	weir_program_done done;
	void *context;
};

struct weir_programs {
	struct weir_log *log;
	int helper;
	bool lost; // the helper has exited; a failed send sets this before lose_all is called
	uint64_t last_id;
	struct pending pending[WEIR_PROGRAMS_MAX];
	unsigned int handles; // number of handles that are not closed
	uv_poll_t poll;
	uv_timer_t timer; // the next deadline
	struct weir_program_request request;
};

int weir_programs_start(const struct weir_run_as *run_as, int *ret) {
	return weir_helper_start("weir-programs", weir_programs_serve, run_as, ret);
}

static void on_deadline(uv_timer_t *timer);

static struct pending *find(struct weir_programs *programs, uint64_t id) {
	for (unsigned int i = 0; i < WEIR_PROGRAMS_MAX; i++) {
		if (programs->pending[i].id == id) {
			return &programs->pending[i];
		}
	}
	return NULL;
}

// Starts the timer for the next deadline, if there is one.
static void schedule(struct weir_programs *programs) {
	const uint64_t now = uv_now(programs->timer.loop);
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < WEIR_PROGRAMS_MAX; i++) {
		const struct pending *pending = &programs->pending[i];

		next = pending->id != 0 && pending->deadline_ms < next ? pending->deadline_ms
								       : next;
	}
	if (next != UINT64_MAX) {
		uv_timer_start(&programs->timer, on_deadline, next > now ? next - now : 0, 0);
	}
}

// Calls `done`. Frees the entry before the call, because `done` may run the next program.
static void end(struct pending *pending, const struct weir_program_result *result) {
	const struct pending ended = *pending;

	pending->id = 0;
	ended.done(ended.context, result);
}

const char *weir_programs_problem(const struct weir_programs *programs) {
	return programs == NULL
		       ? "the process that runs programs could not start; restart weir-control"
	       : programs->lost ? "the process that runs programs has exited; restart weir-control"
				: NULL;
}

static void lose_all(struct weir_programs *programs) {
	struct weir_program_result lost = {.end = WEIR_PROGRAM_LOST};

	programs->lost = true;
	snprintf(lost.output, sizeof(lost.output), "%s", weir_programs_problem(programs));
	uv_poll_stop(&programs->poll);
	weir_log_write(programs->log, WEIR_LOG_ERROR,
		"programs of the configuration cannot run: %s", lost.output);
	for (unsigned int i = 0; i < WEIR_PROGRAMS_MAX; i++) {
		if (programs->pending[i].id != 0 &&
			!uv_is_closing((uv_handle_t *)&programs->poll)) {
			end(&programs->pending[i], &lost);
		}
	}
}

static void on_answer(uv_poll_t *poll, int status, int events) {
	struct weir_programs *programs = poll->data;
	struct weir_program_answer answer;
	ssize_t n;

	(void)events;
	while ((n = recv(programs->helper, &answer, sizeof(answer), MSG_DONTWAIT)) > 0) {
		struct pending *pending = n == (ssize_t)sizeof(answer) && answer.id != 0
						  ? find(programs, answer.id)
						  : NULL;

		if (pending != NULL) { // not cancelled
			answer.result.output[sizeof(answer.result.output) - 1] = '\0';
			end(pending, &answer.result);
		}
		if (uv_is_closing((uv_handle_t *)poll)) { // `done` has closed the connection
			return;
		}
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || status < 0) {
		lose_all(programs);
	}
}

int weir_programs_create(
	uv_loop_t *loop, int helper, struct weir_log *log, struct weir_programs **ret) {
	struct weir_programs *programs = calloc(1, sizeof(*programs));
	int r;

	if (programs == NULL) {
		close(helper);
		return -ENOMEM;
	}
	programs->log = log;
	programs->helper = helper;
	programs->poll.data = programs->timer.data = programs;
	r = uv_poll_init(loop, &programs->poll, helper);
	if (r < 0) {
		close(helper);
		free(programs);
		return r;
	}
	uv_timer_init(loop, &programs->timer);
	programs->handles = 2;
	uv_poll_start(&programs->poll, UV_READABLE | UV_DISCONNECT, on_answer);
	*ret = programs;
	return 0;
}

static void on_closed(uv_handle_t *handle) {
	struct weir_programs *programs = handle->data;

	if (--programs->handles == 0) {
		close(programs->helper);
		free(programs);
	}
}

void weir_programs_close(struct weir_programs *programs) {
	if (programs != NULL) {
		uv_close((uv_handle_t *)&programs->poll, on_closed);
		uv_close((uv_handle_t *)&programs->timer, on_closed);
	}
}

static int send_request(struct weir_programs *programs, size_t bytes) {
	ssize_t n;

	do {
		n = send(programs->helper, &programs->request, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	programs->lost |= n < 0 && (errno == EPIPE || errno == ECONNRESET);
	if (n < 0) {
		return errno == EAGAIN || errno == ENOBUFS ? -EBUSY : -EPIPE;
	}
	return 0;
}

int weir_programs_run(struct weir_programs *programs, const struct weir_program *program,
	weir_program_done done, void *context, uint64_t *ret_id) {
	struct pending *pending;
	int r;

	if (weir_programs_problem(programs) != NULL) {
		return -EPIPE;
	}
	pending = find(programs, 0);
	if (pending == NULL) {
		return -EBUSY;
	}
	r = weir_program_pack(program, programs->last_id + 1, &programs->request);
	if (r >= 0) {
		r = send_request(programs, (size_t)r);
	}
	if (r < 0) {
		return r;
	}
	*pending = (struct pending){.id = ++programs->last_id,
		.deadline_ms =
			uv_now(programs->timer.loop) + program->timeout_ms + WEIR_PROGRAM_GRACE_MS,
		.done = done,
		.context = context};
	if (ret_id != NULL) {
		*ret_id = pending->id;
	}
	schedule(programs);
	return 0;
}

// If the request cannot be sent, the program continues until its timeout.
static void send_kill(struct weir_programs *programs, uint64_t id) {
	const struct weir_program kill_only = {0};

	(void)send_request(programs, (size_t)weir_program_pack(&kill_only, id, &programs->request));
}

void weir_programs_cancel(struct weir_programs *programs, uint64_t id) {
	struct pending *pending = id != 0 ? find(programs, id) : NULL;

	if (pending != NULL) {
		pending->id = 0;
		send_kill(programs, id);
	}
}

// Kills programs that still have no result after one extension of the deadline; their result is
// LOST.
static void on_deadline(uv_timer_t *timer) {
	static const struct weir_program_result endless = {.end = WEIR_PROGRAM_LOST,
		.output = "the program does not end although it was killed"};
	struct weir_programs *programs = timer->data;
	const uint64_t now = uv_now(timer->loop);

	for (unsigned int i = 0; i < WEIR_PROGRAMS_MAX; i++) {
		struct pending *pending = &programs->pending[i];

		if (pending->id == 0 || pending->deadline_ms > now) {
			continue;
		}
		if (!pending->extended) { // a result may have arrived while the loop was busy
			pending->extended = true;
			pending->deadline_ms = now + WEIR_PROGRAM_GRACE_MS / 10;
			continue;
		}
		send_kill(programs, pending->id);
		end(pending, &endless);
		if (uv_is_closing((uv_handle_t *)timer)) { // `done` has closed the connection
			return;
		}
	}
	schedule(programs);
}

void weir_program_describe(
	const struct weir_program_result *result, uint32_t timeout_ms, char *text, size_t bytes) {
	const char *separator = result->output[0] != '\0' ? ": " : "";

	switch (result->end) {
	case WEIR_PROGRAM_EXITED:
		snprintf(text, bytes, "exit status %d%s%s", result->status, separator,
			result->output);
		break;
	case WEIR_PROGRAM_SIGNALED:
		snprintf(text, bytes, "ended by signal %d (%s)%s%s", result->status,
			strsignal(result->status), separator, result->output);
		break;
	case WEIR_PROGRAM_TIMED_OUT:
		snprintf(text, bytes, "killed after %u ms%s%s", timeout_ms, separator,
			result->output);
		break;
	case WEIR_PROGRAM_NOT_STARTED:
		snprintf(text, bytes, "cannot start: %s",
			result->output[0] != '\0' ? result->output : strerror(-result->status));
		break;
	case WEIR_PROGRAM_LOST:
		snprintf(text, bytes, "%s", result->output);
		break;
	}
}
