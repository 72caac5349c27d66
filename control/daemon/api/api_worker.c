// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of workers: worker.show, and worker.steal, which enables or disables the stealing of
// buckets between workers.
#include <math.h>
#include <string.h>

#include "api_commands.h"
#include "api_counters.h"
#include "api_show.h"
#include "daemon.h"
#include "heartbeat.h"

static const char *const answer_keys[] = {
#define X(name, key, text) key,
	WEIR_BUCKET_ANSWERS(X)
#undef X
};

// Returns how often a worker refused to give a bucket away, as {reason: n}. *ret_sum: the sum over
// all reasons.
static json_t *json_refused(const struct weir_steal_counters *counters, json_int_t *ret_sum) {
	json_t *refused = json_object();

	*ret_sum = 0;
	for (int i = WEIR_BUCKET_CONFIRMED + 1; i < WEIR_BUCKET_ANSWER_COUNT; i++) {
		json_int_t n = (json_int_t)weir_counter_read(&counters->answers[i]);

		json_object_set_new(refused, answer_keys[i], json_integer(n));
		*ret_sum += n;
	}
	return refused;
}

static void add_hottest(json_t *object, const struct weir_bucket_summary *summary) {
	bool any = summary->hottest < WEIR_BUCKETS;

	json_object_set_new(
		object, "hottest_bucket", any ? json_integer(summary->hottest) : json_null());
	json_object_set_new(object, "hottest_percent",
		any ? json_real(round(summary->hottest_load * 10000) / 100) : json_null());
	json_object_set_new(object, "elephants", json_integer(summary->elephants));
}

// Add to an object: the number of buckets of a worker, how many buckets the worker has taken, given
// away and refused, and its hottest bucket.
static void add_buckets(const struct weir_daemon *daemon, uint32_t worker, json_t *object) {
	const struct weir_bucket_moves *moves = weir_steals_moves(daemon->steals);
	const struct weir_steal_counters *counters = &daemon->segment->steal_counters[worker];
	struct weir_bucket_summary summary = weir_bucket_moves_summary(moves, worker);
	json_int_t refusals;
	json_t *refused = json_refused(counters, &refusals);

	json_object_set_new(object, "buckets", json_integer(summary.buckets));
#define X(field, unit, metric, text) \
	json_object_set_new( \
		object, #field, json_integer((json_int_t)weir_counter_read(&counters->field)));
	WEIR_STEAL_COUNTERS(X)
#undef X
	json_object_set_new(object, "refusals", json_integer(refusals));
	json_object_set_new(object, "refused", refused);
	add_hottest(object, &summary);
}

static void add_no_buckets(json_t *object) {
	json_object_set_new(object, "buckets", json_null());
#define X(field, unit, metric, text) json_object_set_new(object, #field, json_null());
	WEIR_STEAL_COUNTERS(X)
#undef X
	json_object_set_new(object, "refusals", json_null());
	json_object_set_new(object, "refused", json_null());
	json_object_set_new(object, "hottest_bucket", json_null());
	json_object_set_new(object, "hottest_percent", json_null());
	json_object_set_new(object, "elephants", json_null());
}

static void add_stealing(const struct weir_daemon *daemon, json_t *object) {
	const char *off = weir_steals_off(daemon->steals);
	const char *why = weir_steals_why(daemon->steals);

	json_object_set_new(object, "stealing", json_string(off == NULL ? "on" : "off"));
	json_object_set_new(object, "stealing_why", why == NULL ? json_null() : json_string(why));
}

json_t *weir_json_worker_row(const struct weir_daemon *daemon, uint32_t worker, bool drops) {
	const struct weir_config *config = weir_reload_config(daemon->reload);
	const struct weir_segment *segment = daemon->segment;
	double busy = weir_samples_busy_percent(&daemon->samples, segment, worker);
	json_t *object = json_pack("{s:I, s:o, s:b, s:o}", "worker", (json_int_t)worker, "core",
		worker < config->workers.count ? json_integer(config->workers.cores[worker])
					       : json_null(),
		"alive", (int)weir_worker_alive(segment, worker, weir_daemon_now_ns()),
		"busy_percent", busy < 0 ? json_null() : json_real(round(busy * 100) / 100));

	if (object == NULL) {
		return NULL;
	}
	weir_json_worker(object, &segment->worker_counters[worker]);
	if (drops) {
		json_object_set_new(
			object, "drops", weir_json_worker_drops(&segment->worker_counters[worker]));
	}
	add_stealing(daemon, object);
	if (weir_steals_moves(daemon->steals) != NULL) {
		add_buckets(daemon, worker, object);
	} else {
		add_no_buckets(object);
	}
	return object;
}

void weir_api_worker_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	json_t *list;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	list = json_array();
	for (uint32_t worker = 0; worker < daemon->segment->workers; worker++) {
		json_array_append_new(list, weir_json_worker_row(daemon, worker, false));
	}
	weir_api_answer(call, list);
}

// --- worker.steal -------------------------------------------------------------------------

// Parse the argument `stealing`: "on", "off", or null for the configured value. Returns false if it
// is invalid.
static bool parse_stealing(const json_t *value, enum weir_stealing *ret) {
	const char *text = json_string_value(value);

	if (json_is_null(value)) {
		*ret = WEIR_STEALING_UNSET;
	} else if (text != NULL && strcmp(text, "on") == 0) {
		*ret = WEIR_STEALING_ON;
	} else if (text != NULL && strcmp(text, "off") == 0) {
		*ret = WEIR_STEALING_OFF;
	} else {
		return false;
	}
	return true;
}

static json_t *json_set(enum weir_stealing set) {
	return set == WEIR_STEALING_UNSET ? json_null()
					  : json_string(set == WEIR_STEALING_ON ? "on" : "off");
}

void weir_api_worker_steal(struct weir_daemon *daemon, struct weir_api_call *call) {
	const json_t *value = json_object_get(weir_api_request(call), "stealing");
	const char *impossible = weir_steals_impossible(daemon->steals);
	enum weir_stealing stealing;
	json_t *object;

	if (!parse_stealing(value, &stealing)) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"argument \"stealing\" must be \"on\", \"off\" or null (as configured)");
		return;
	}
	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	if (stealing == WEIR_STEALING_ON && impossible != NULL) {
		weir_api_fail(call, WEIR_API_REFUSED, "no flows can move between workers: %s",
			impossible);
		return;
	}
	weir_steals_set(daemon->steals, stealing);
	object = json_pack("{s:o, s:b}", "set", json_set(stealing), "configured",
		(int)weir_steals_configured(daemon->steals));
	if (object != NULL) {
		add_stealing(daemon, object);
	}
	weir_api_answer(call, object);
}
