// SPDX-License-Identifier: BSD-3-Clause
#include "documents.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client.h"
#include "clocks.h"
#include "families.h"
#include "history.h"
#include "history_file.h"
#include "status.h"
#include "weir_version.h"

#define AGE_MIN_MS 1000
#define AGE_FAILED_MAX_MS 10000 // maximum time for which the error of a failed query is reused
#define AGE_PER_REPLY 10 // replies that took t ms are reused for AGE_PER_REPLY * t ms
#define WHY_BYTES 512

struct weir_documents {
	const char *run_dir;
	unsigned int timeout_ms;
	bool ipvs_names;
	struct weir_log *log;
	double started; // Unix time of the start, seconds
	const char *directory; // directory of the history; NULL = the history is not saved
	bool unsaved; // the last attempt to save failed, and was logged
	pthread_mutex_t lock; // protects all fields below
	struct weir_client *client; // NULL = not connected
	json_t *control; // result of metrics.show, NULL = no reply
	// requested_ms: time at which the last metrics.show, or the last unanswered worker.show,
	// ended. took_ms: duration of that request. spent_ms: duration of that request and of all
	// requests since.
	uint64_t requested_ms, took_ms, spent_ms;
	double timestamp; // Unix time of the last request, seconds
	uint64_t number; // number of requests so far, including failed requests
	char why[WHY_BYTES]; // error of the last request; "" = none
	struct weir_history history;
	struct kept {
		struct weir_document *document;
		uint64_t number; // value of weir_documents.number when the document was created
	} kept[WEIR_DOCUMENT_KINDS];
};

// --- weir-control -----------------------------------------------------------------------------

static void disconnect(struct weir_documents *documents) {
	weir_client_free(documents->client);
	documents->client = NULL;
}

// Sends a request. Returns the reply; on an error, returns NULL and writes the reason to why.
static json_t *request_once(struct weir_documents *documents, const json_t *request, char *why) {
	json_t *answer = NULL;
	int r = 0;

	if (documents->client == NULL) {
		r = weir_client_connect(documents->run_dir, (int)documents->timeout_ms,
			&documents->client, why, WHY_BYTES);
		if (r == -ENOENT || r == -ECONNREFUSED) {
			snprintf(why + strlen(why), WHY_BYTES - strlen(why),
				", or weir-metrics with the --run-dir of the running weir-control");
		}
	}
	if (r == 0) {
		r = weir_client_call(documents->client, request, &answer, why, WHY_BYTES);
	}
	if (r < 0) {
		disconnect(documents);
		return NULL;
	}
	return answer;
}

// Sends a request. After a failure, repeats the request once if time is left, because some failures
// are temporary:
//   - weir-control closed this idle connection, because another client needed a connection
//   - weir-control restarted
//   - weir-dataplane started or exited during the reply, so that a list is incomplete
static json_t *send_command(struct weir_documents *documents, const char *command, char *why) {
	json_t *request = json_pack("{s:s}", "command", command), *answer = NULL;
	uint64_t end_ms = weir_monotonic_ms() + documents->timeout_ms;

	for (int try = 0; try < 2 && weir_monotonic_ms() < end_ms; try++) {
		const char *error;

		if (answer != NULL) {
			json_decref(answer);
			disconnect(documents); // weir-control closes it after some errors
		}
		answer = request_once(documents, request, why);
		if (json_is_true(json_object_get(answer, "ok"))) {
			break;
		}
		error = json_string_value(json_object_get(answer, "error"));
		if (error != NULL) {
			snprintf(why, WHY_BYTES, "%s", error);
		}
	}
	json_decref(request);
	if (!json_is_true(json_object_get(answer, "ok"))) {
		json_decref(answer);
		return NULL;
	}
	return answer;
}

static json_t *result_of(struct weir_documents *documents, const char *command) {
	char why[WHY_BYTES];
	json_t *answer = send_command(documents, command, why);
	json_t *result = json_incref(json_object_get(answer, "result"));

	json_decref(answer);
	return result;
}

static void note_answer(struct weir_documents *documents, const char *why) {
	if ((why[0] != '\0') != (documents->why[0] != '\0') || documents->number == 0) {
		weir_log_write(documents->log, why[0] != '\0' ? WEIR_LOG_WARN : WEIR_LOG_INFO, "%s",
			why[0] != '\0' ? why : "weir-control answers");
	}
	snprintf(documents->why, sizeof(documents->why), "%s", why);
}

// Stores the result of metrics.show. control: the result, owned by `documents` from now on; NULL =
// no reply, and `why` is the reason. began_ms: time when the request was sent.
static void set_figures(
	struct weir_documents *documents, json_t *control, uint64_t began_ms, const char *why) {
	json_decref(documents->control);
	documents->control = control;
	weir_history_note_starts(&documents->history, control);
	note_answer(documents, why);
	documents->requested_ms = weir_monotonic_ms();
	documents->took_ms = documents->requested_ms - began_ms;
	documents->spent_ms = documents->took_ms;
	documents->number++;
}

static void request_figures(struct weir_documents *documents) {
	uint64_t began_ms = weir_monotonic_ms();
	json_t *answer, *control = NULL;
	char why[WHY_BYTES] = "";

	documents->timestamp = (double)weir_wall_ms() / 1000;
	answer = send_command(documents, "metrics.show", why);
	if (answer != NULL) {
		control = json_incref(json_object_get(answer, "result"));
		json_object_set_new(json_object_get(control, "control"), "published",
			json_boolean(json_object_get(answer, "not_published") == NULL));
		why[0] = '\0';
	}
	json_decref(answer);
	set_figures(documents, control, began_ms, why);
}

static bool is_fresh(const struct weir_documents *documents) {
	uint64_t age_ms = documents->spent_ms * AGE_PER_REPLY;

	age_ms = age_ms < AGE_MIN_MS ? AGE_MIN_MS : age_ms;
	if (documents->control == NULL && age_ms > AGE_FAILED_MAX_MS) {
		age_ms = AGE_FAILED_MAX_MS;
	}
	return documents->number > 0 && weir_monotonic_ms() - documents->requested_ms < age_ms;
}

// --- documents --------------------------------------------------------------------------------

static json_int_t resident_bytes(void) {
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0;

	if (file == NULL) {
		return -1;
	}
	if (fscanf(file, "%*d %ld", &pages) != 1) {
		pages = -1;
	}
	fclose(file);
	return pages < 0 ? -1 : (json_int_t)pages * sysconf(_SC_PAGESIZE);
}

static double seconds_of(struct timeval time) {
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

// Returns the host name as a JSON string, or JSON null if the name is unknown or not UTF-8.
static json_t *json_host(void) {
	char name[HOST_NAME_MAX + 1] = "";
	json_t *host = gethostname(name, sizeof(name) - 1) == 0 ? json_string(name) : NULL;

	return host != NULL ? host : json_null();
}

static json_t *json_own(const struct weir_documents *documents) {
	bool up = documents->control != NULL;
	json_int_t resident = resident_bytes();
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return json_pack("{s:s, s:o, s:f, s:b, s:o, s:f, s:o, s:f, s:o}", "version", WEIR_VERSION,
		"host", json_host(), "started_seconds", documents->started, "control_up", (int)up,
		"dataplane_up",
		up ? json_boolean(json_is_object(json_object_get(documents->control, "dataplane")))
		   : json_null(),
		"timestamp_seconds", documents->timestamp, "reply_seconds",
		up ? json_real((double)documents->took_ms / 1000) : json_null(), "cpu_seconds",
		seconds_of(used.ru_utime) + seconds_of(used.ru_stime), "resident_bytes",
		resident < 0 ? json_null() : json_integer(resident));
}

static void write_status(struct weir_documents *documents, const struct weir_figures *figures,
	struct weir_text *text) {
	json_t *events = NULL, *steals = NULL, *audit = NULL;
	uint64_t began_ms = weir_monotonic_ms();

	if (documents->control != NULL) {
		events = result_of(documents, "health.history");
		steals = result_of(documents, "flow.steals");
		audit = result_of(documents, "audit.show");
	}
	documents->spent_ms += weir_monotonic_ms() - began_ms;
	weir_status_write(text, &(struct weir_status){.figures = *figures,
					.history = &documents->history,
					.events = events,
					.steals = steals,
					.audit = audit,
					.why = documents->why});
	json_decref(events);
	json_decref(steals);
	json_decref(audit);
}

static struct weir_document *make(struct weir_documents *documents, enum weir_document_kind kind) {
	struct weir_document *document = calloc(1, sizeof(*document));
	json_t *own = json_own(documents);
	struct weir_figures figures = {.own = own, .control = documents->control};
	struct weir_text text = {.failed = document == NULL || own == NULL};

	if (kind == WEIR_DOCUMENT_STATUS) {
		write_status(documents, &figures, &text);
	} else {
		weir_families_write(
			&text, &figures, documents->ipvs_names, kind == WEIR_DOCUMENT_OPENMETRICS);
	}
	json_decref(own);
	if (text.failed) {
		free(text.data);
		free(document);
		return NULL;
	}
	*document = (struct weir_document){.data = text.data, .bytes = text.bytes, .users = 1};
	return document;
}

void weir_document_release(struct weir_document *document) {
	if (document != NULL && __atomic_sub_fetch(&document->users, 1, __ATOMIC_ACQ_REL) == 0) {
		free(document->data);
		free(document);
	}
}

int weir_documents_get(struct weir_documents *documents, enum weir_document_kind kind,
	struct weir_document **ret) {
	struct kept *kept = &documents->kept[kind];
	int r = 0;

	pthread_mutex_lock(&documents->lock);
	if (!is_fresh(documents)) {
		request_figures(documents);
	}
	if (kept->document == NULL || kept->number != documents->number) {
		weir_document_release(kept->document);
		kept->document = make(documents, kind);
		kept->number = documents->number;
	}
	if (kept->document != NULL) {
		__atomic_add_fetch(&kept->document->users, 1, __ATOMIC_RELAXED);
		*ret = kept->document;
	} else {
		r = -ENOMEM;
	}
	pthread_mutex_unlock(&documents->lock);
	return r;
}

// Requests the list of workers from weir-control. Returns NULL if weir-control does not reply, or
// replies with an error, for example because weir-dataplane does not run. If weir-control does not
// reply, stores the error. For a short time, further requests then fail immediately with this
// error, because waiting for a second timeout would exceed the timeout of a scraper.
static json_t *request_workers(struct weir_documents *documents) {
	uint64_t began_ms = weir_monotonic_ms();
	double timestamp = (double)weir_wall_ms() / 1000;
	char why[WHY_BYTES] = "";
	json_t *answer = send_command(documents, "worker.show", why);
	json_t *workers = json_incref(json_object_get(answer, "result"));

	documents->spent_ms += weir_monotonic_ms() - began_ms;
	json_decref(answer);
	if (answer == NULL && documents->client == NULL) {
		documents->timestamp = timestamp;
		set_figures(documents, NULL, began_ms, why);
	} else if (documents->why[0] != '\0' || documents->number == 0) {
		// This is the first reply of weir-control, or the first reply after a failure.
		request_figures(documents);
	}
	return workers;
}

void weir_documents_sample(struct weir_documents *documents) {
	json_t *workers = NULL;

	pthread_mutex_lock(&documents->lock);
	if (documents->why[0] == '\0' ||
		// If the last error is recent, a request has just failed; send no further request.
		!is_fresh(documents)) {
		workers = request_workers(documents);
	}
	weir_history_add(&documents->history, weir_wall_ms(), workers);
	pthread_mutex_unlock(&documents->lock);
	json_decref(workers);
}

// --- the history across restarts --------------------------------------------------------------

void weir_documents_keep(struct weir_documents *documents, const char *directory) {
	char why[WHY_BYTES];
	int r = weir_history_read(directory, weir_wall_ms(), &documents->history, why, sizeof(why));

	documents->directory = directory;
	if (r < 0 && r != -ENOENT) {
		weir_log_write(documents->log, WEIR_LOG_WARN, "%s", why);
	}
}

void weir_documents_save(struct weir_documents *documents) {
	char why[WHY_BYTES];
	json_t *json;
	int r;

	if (documents->directory == NULL) {
		return;
	}
	pthread_mutex_lock(&documents->lock);
	json = weir_history_json(&documents->history);
	pthread_mutex_unlock(&documents->lock);
	r = weir_history_write(documents->directory, json, why, sizeof(why));
	json_decref(json);
	if (r < 0 && !documents->unsaved) {
		weir_log_write(documents->log, WEIR_LOG_WARN, "%s", why);
	}
	documents->unsaved = r < 0;
}

int weir_documents_create(const char *run_dir, unsigned int timeout_ms, bool ipvs_names,
	struct weir_log *log, struct weir_documents **ret) {
	struct weir_documents *documents = calloc(1, sizeof(*documents));

	if (documents == NULL) {
		return -ENOMEM;
	}
	documents->run_dir = run_dir;
	documents->timeout_ms = timeout_ms;
	documents->ipvs_names = ipvs_names;
	documents->log = log;
	documents->started = (double)weir_wall_ms() / 1000;
	pthread_mutex_init(&documents->lock, NULL);
	*ret = documents;
	return 0;
}

void weir_documents_free(struct weir_documents *documents) {
	if (documents == NULL) {
		return;
	}
	for (int kind = 0; kind < WEIR_DOCUMENT_KINDS; kind++) {
		weir_document_release(documents->kept[kind].document);
	}
	disconnect(documents);
	json_decref(documents->control);
	pthread_mutex_destroy(&documents->lock);
	free(documents);
}
