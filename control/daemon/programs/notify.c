// SPDX-License-Identifier: BSD-3-Clause
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDS 65536u
#define STATE_BYTES 16
#define ADDRESS_BYTES 64
#define WHY_BYTES 256
#define START_MS 50 // minimum time between the starts of two programs

struct notice {
	struct notice *next;
	uint16_t id;
	bool of_backend;
	char service[WEIR_CONFIG_NAME_BYTES], backend[WEIR_CONFIG_NAME_BYTES];
	char address[ADDRESS_BYTES];
	char from[STATE_BYTES]; // last reported state
	char to[STATE_BYTES];
	char why[WHY_BYTES];
	uint32_t eligible, backends, quorum;
	uint64_t time_ms;
};

struct queue { // waiting notices, in the order of their first change
	struct notice *first, **last;
	struct notice **by_id; // array of IDS pointers
};

struct weir_notify {
	uv_loop_t *loop;
	struct weir_programs *programs;
	struct weir_log *log;
	struct weir_config_notify settings;
	// Notices of services are sent first: a failure of many backends must not delay programs
	// that announce routes of services.
	struct queue services, backends;
	struct notice *running;
	uint64_t started_ms; // start of the last program, uv_now
	struct weir_config_notify run_with; // settings of the running program
	uv_timer_t timer; // starts the next program
};

// --- running the program ---------------------------------------------------------------------

static void schedule(struct weir_notify *notify);

static const char *name_of(const struct notice *notice, char text[2 * WEIR_CONFIG_NAME_BYTES]) {
	snprintf(text, 2 * WEIR_CONFIG_NAME_BYTES, "%s%s%s", notice->service,
		notice->of_backend ? "/" : "", notice->backend);
	return text;
}

static void log_failure(
	const struct weir_notify *notify, const struct notice *notice, const char *why) {
	char name[2 * WEIR_CONFIG_NAME_BYTES];

	weir_log_event(notify->log, WEIR_LOG_WARN,
		&(struct weir_log_fields){.service = notice->service,
			.backend = notice->backend,
			.state = notice->to,
			.reason = why},
		"notify: %s for %s %s, %s: %s", notify->run_with.command.text,
		notice->of_backend ? "backend" : "service", name_of(notice, name), notice->to, why);
}

static void on_done(void *context, const struct weir_program_result *result) {
	struct weir_notify *notify = context;
	char text[WEIR_PROGRAM_OUTPUT_BYTES + 64];

	if (result->end != WEIR_PROGRAM_EXITED || result->status != 0) {
		weir_program_describe(result, notify->run_with.timeout_ms, text, sizeof(text));
		log_failure(notify, notify->running, text);
	}
	free(notify->running);
	notify->running = NULL;
	schedule(notify);
}

// error: negative errno.
static void on_not_started(struct weir_notify *notify, int error) {
	struct weir_program_result result = {.end = WEIR_PROGRAM_NOT_STARTED, .status = error};
	const char *problem = weir_programs_problem(notify->programs);

	if (problem != NULL) {
		result.end = WEIR_PROGRAM_LOST;
		snprintf(result.output, sizeof(result.output), "%s", problem);
	}
	on_done(notify, &result);
}

static int run(struct weir_notify *notify, const struct notice *notice) {
	const char *arguments[WEIR_CONFIG_COMMAND_WORDS_MAX + 5];
	char text[10][WHY_BYTES + 32];
	const char *variables[] = {text[0], text[1], text[2], text[3], text[4], text[5], text[6],
		text[7], notice->of_backend ? NULL : text[8], NULL};
	uint32_t n = weir_config_command_words(&notify->settings.command, arguments);

	arguments[n++] = notice->of_backend ? "backend" : "service";
	arguments[n++] = notice->service;
	if (notice->of_backend) {
		arguments[n++] = notice->backend;
	}
	arguments[n++] = notice->to;
	arguments[n] = NULL;
	snprintf(text[0], sizeof(text[0]), "WEIR_EVENT=%s",
		notice->of_backend ? "backend" : "service");
	snprintf(text[1], sizeof(text[1]), "WEIR_SERVICE=%s", notice->service);
	snprintf(text[2], sizeof(text[2]), "WEIR_STATE=%s", notice->to);
	snprintf(text[3], sizeof(text[3]), "WEIR_PREVIOUS=%s", notice->from);
	snprintf(text[4], sizeof(text[4]), "WEIR_REASON=%s", notice->why);
	snprintf(text[5], sizeof(text[5]), "WEIR_TIME_MS=%" PRIu64, notice->time_ms);
	if (notice->of_backend) {
		snprintf(text[6], sizeof(text[6]), "WEIR_BACKEND=%s", notice->backend);
		snprintf(text[7], sizeof(text[7]), "WEIR_ADDRESS=%s", notice->address);
	} else {
		snprintf(text[6], sizeof(text[6]), "WEIR_ELIGIBLE=%u", notice->eligible);
		snprintf(text[7], sizeof(text[7]), "WEIR_BACKENDS=%u", notice->backends);
		snprintf(text[8], sizeof(text[8]), "WEIR_QUORUM=%u", notice->quorum);
	}
	return weir_programs_run(notify->programs,
		&(struct weir_program){.arguments = arguments,
			.variables = variables,
			.timeout_ms = notify->settings.timeout_ms},
		on_done, notify, NULL);
}

// Removes the first notice from a queue that is not empty.
static struct notice *take(struct queue *queue) {
	struct notice *notice = queue->first;

	queue->first = notice->next;
	if (queue->first == NULL) {
		queue->last = &queue->first;
	}
	if (queue->by_id[notice->id] == notice) {
		queue->by_id[notice->id] = NULL;
	}
	return notice;
}

static void on_timer(uv_timer_t *timer) {
	struct weir_notify *notify = timer->data;
	struct queue *queue =
		notify->services.first != NULL ? &notify->services : &notify->backends;
	struct notice *notice = queue->first;
	int r;

	if (strcmp(notice->from, notice->to) == 0) {
		free(take(queue)); // the state has returned to the last reported state
		schedule(notify);
		return;
	}
	notify->started_ms = uv_now(notify->loop);
	notify->run_with = notify->settings;
	r = run(notify, notice);
	if (r == -EBUSY) {
		schedule(notify); // tries again
		return;
	}
	notify->running = take(queue);
	if (r < 0) {
		on_not_started(notify, r);
	}
}

// Starts the timer for the next notice, if there is one and no program is running.
static void schedule(struct weir_notify *notify) {
	uint64_t now = uv_now(notify->loop), next = notify->started_ms + START_MS;

	if ((notify->services.first != NULL || notify->backends.first != NULL) &&
		notify->running == NULL) {
		uv_timer_start(&notify->timer, on_timer,
			notify->started_ms != 0 && next > now ? next - now : 0, 0);
	}
}

// --- events ----------------------------------------------------------------------------------

static void fill(struct notice *notice, const struct weir_notify_event *event) {
	snprintf(notice->to, sizeof(notice->to), "%s", event->to);
	snprintf(notice->why, sizeof(notice->why), "%s", event->why);
	notice->eligible = event->eligible;
	notice->backends = event->backends;
	notice->quorum = event->quorum;
	notice->time_ms = event->time_ms;
}

static bool same_object(const struct notice *notice, const struct weir_notify_event *event) {
	return strcmp(notice->service, event->service) == 0 &&
	       strcmp(notice->backend, event->backend != NULL ? event->backend : "") == 0;
}

static void add(struct weir_notify *notify, struct queue *queue, uint16_t id,
	const struct weir_notify_event *event) {
	struct notice **waiting = queue->by_id, *notice;

	if (notify->settings.command.words == 0) {
		return;
	}
	if (waiting[id] != NULL && same_object(waiting[id], event)) {
		fill(waiting[id], event);
		return;
	}
	notice = calloc(1, sizeof(*notice));
	if (notice == NULL) {
		weir_log_write(notify->log, WEIR_LOG_ERROR, "notify: out of memory");
		return;
	}
	notice->id = id;
	notice->of_backend = event->backend != NULL;
	snprintf(notice->service, sizeof(notice->service), "%s", event->service);
	snprintf(notice->from, sizeof(notice->from), "%s", event->from);
	if (notice->of_backend) {
		snprintf(notice->backend, sizeof(notice->backend), "%s", event->backend);
		snprintf(notice->address, sizeof(notice->address), "%s", event->address);
	}
	fill(notice, event);
	// If waiting[id] is the notice of a removed object, that notice stays in the queue.
	waiting[id] = notice;
	*queue->last = notice;
	queue->last = &notice->next;
	schedule(notify);
}

void weir_notify_service(
	struct weir_notify *notify, uint16_t id, const struct weir_notify_event *event) {
	add(notify, &notify->services, id, event);
}

void weir_notify_backend(
	struct weir_notify *notify, uint16_t id, const struct weir_notify_event *event) {
	if (notify->settings.backends) {
		add(notify, &notify->backends, id, event);
	}
}

// Removes all waiting changes of a queue, because they are no longer reported.
static void forget(struct weir_notify *notify, struct queue *queue) {
	while (queue->first != NULL) {
		free(take(queue));
	}
	if (notify->services.first == NULL && notify->backends.first == NULL &&
		notify->running == NULL) {
		uv_timer_stop(&notify->timer);
	}
}

// --- create and close -------------------------------------------------------------------------

void weir_notify_configure(struct weir_notify *notify, const struct weir_config_notify *settings) {
	const char *file = settings->command.text;

	notify->settings = *settings;
	if (settings->command.words == 0 || !settings->backends) {
		forget(notify, &notify->backends);
	}
	if (settings->command.words == 0) {
		forget(notify, &notify->services);
		return;
	}
	if (notify->programs == NULL) {
		weir_log_write(notify->log, WEIR_LOG_WARN,
			"notify: programs cannot run: their helper process has not started");
	} else if (access(file, F_OK) < 0) {
		weir_log_write(notify->log, WEIR_LOG_WARN, "notify: %s: %s", file, strerror(errno));
	}
}

static int create_queue(struct queue *queue) {
	queue->last = &queue->first;
	queue->by_id = calloc(IDS, sizeof(*queue->by_id));
	return queue->by_id != NULL ? 0 : -ENOMEM;
}

static void free_all(struct weir_notify *notify) {
	free(notify->services.by_id);
	free(notify->backends.by_id);
	free(notify);
}

int weir_notify_create(uv_loop_t *loop, struct weir_programs *programs, struct weir_log *log,
	struct weir_notify **ret) {
	struct weir_notify *notify = calloc(1, sizeof(*notify));

	if (notify == NULL) {
		return -ENOMEM;
	}
	notify->loop = loop;
	notify->programs = programs;
	notify->log = log;
	if (create_queue(&notify->services) < 0 || create_queue(&notify->backends) < 0) {
		free_all(notify);
		return -ENOMEM;
	}
	uv_timer_init(loop, &notify->timer);
	notify->timer.data = notify;
	*ret = notify;
	return 0;
}

static void on_closed(uv_handle_t *handle) {
	free_all(handle->data);
}

void weir_notify_close(struct weir_notify *notify) {
	if (notify == NULL) {
		return;
	}
	free(notify->running); // the program continues, but its result is ignored
	notify->running = NULL;
	forget(notify, &notify->services);
	forget(notify, &notify->backends);
	uv_close((uv_handle_t *)&notify->timer, on_closed);
}
