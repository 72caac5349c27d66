// SPDX-License-Identifier: BSD-3-Clause
#include "steals.h"

#include <errno.h>
#include <stdlib.h>

// Time after which a victim refuses a request, counted from the sending of the request.
#define DEADLINE_NS 100000000u
#define NS_PER_S 1e9

struct weir_steals {
	struct weir_mailboxes *mailboxes;
	const struct weir_log *log;
	const struct weir_segment *segment; // NULL = no dataplane is attached
	struct weir_bucket_moves *moves; // NULL = none, see weir_steals_impossible
	struct weir_bucket_look look; // a member, because it is too large for the stack
	struct {
		uint64_t sequence; // sequence number of the last message about the bucket; 0 = none
		uint32_t id; // ID of the move that this message requests
	} sent[WEIR_BUCKETS];
	bool attached; // a segment was attached before
	bool out_of_memory; // the moves of this segment could not be allocated; each tick retries
	bool configured;
	enum weir_stealing set;
};

static double seconds(uint64_t ns) {
	return (double)ns / NS_PER_S;
}

// --- on and off ---------------------------------------------------------------------------

static const char *const bucketing_text[] = {
#define X(name, text) text,
	WEIR_BUCKETING(X)
#undef X
};

const char *weir_steals_impossible(const struct weir_steals *steals) {
	if (steals->segment == NULL) {
		return "no weir-dataplane is attached";
	}
	if (steals->segment->bucketing != WEIR_BUCKETING_YES) {
		return bucketing_text[steals->segment->bucketing];
	}
	return steals->out_of_memory ? "weir-control is out of memory" : NULL;
}

const char *weir_steals_off(const struct weir_steals *steals) {
	const char *why = weir_steals_impossible(steals);

	if (why != NULL || steals->set == WEIR_STEALING_ON) {
		return why;
	}
	if (steals->set == WEIR_STEALING_OFF) {
		return "switched off (weirctl worker steal)";
	}
	return steals->configured ? NULL : "switched off by the configuration (workers.steal)";
}

static bool is_against_configuration(const struct weir_steals *steals) {
	return steals->set != WEIR_STEALING_UNSET &&
	       (steals->set == WEIR_STEALING_ON) != steals->configured;
}

const char *weir_steals_why(const struct weir_steals *steals) {
	const char *off = weir_steals_off(steals);

	return off == NULL && is_against_configuration(steals)
		       ? "switched on (weirctl worker steal), which overrides the configuration "
			 "(workers.steal)"
		       : off;
}

static void warn_if_against(const struct weir_steals *steals) {
	if (steals->segment != NULL && weir_steals_impossible(steals) == NULL &&
		is_against_configuration(steals)) {
		weir_log_write(steals->log, WEIR_LOG_WARN,
			"workers.steal is %s in the configuration, but stealing was switched %s by "
			"weirctl worker steal; to use the configured value, run \"weirctl worker "
			"steal configured\"",
			steals->configured ? "true" : "false", steals->configured ? "off" : "on");
	}
}

// Publishes whether workers steal. The workers need this, because they also send requests to each
// other. Stores the operator's setting for the next control process.
static void publish(const struct weir_steals *steals) {
	if (steals->segment == NULL) {
		return;
	}
	__atomic_store_n(&steals->segment->notes->stealing, steals->set, __ATOMIC_RELAXED);
	__atomic_store_n(&steals->segment->news->stealing,
		weir_steals_off(steals) == NULL ? WEIR_STEALING_ON : WEIR_STEALING_OFF,
		__ATOMIC_RELAXED);
}

void weir_steals_configure(struct weir_steals *steals, bool on) {
	steals->configured = on;
	publish(steals);
	warn_if_against(steals);
}

void weir_steals_set(struct weir_steals *steals, enum weir_stealing stealing) {
	steals->set = stealing;
	publish(steals);
}

// --- requests -----------------------------------------------------------------------------

static void send_due(struct weir_steals *steals) {
	struct weir_bucket_request request;

	while (weir_bucket_moves_next(steals->moves, &request)) {
		uint64_t now = uv_hrtime();
		struct weir_message message = {.sequence = weir_mailboxes_number(steals->mailboxes),
			.kind = WEIR_MESSAGE_STEAL,
			.steal = {.deadline_ns = now + DEADLINE_NS,
				.bucket = request.bucket,
				.thief = request.thief}};

		steals->sent[request.bucket].sequence = message.sequence;
		steals->sent[request.bucket].id = request.id;
		if (!weir_mailboxes_send(steals->mailboxes, request.victim, &message)) {
			weir_bucket_moves_answer(
				steals->moves, request.bucket, request.id, false, seconds(now));
		}
	}
}

static void take_response(void *context, uint32_t worker, const struct weir_message *message) {
	struct weir_steals *steals = context;
	uint32_t bucket = message->steal.bucket;

	(void)worker;
	if (steals->moves != NULL && bucket < WEIR_BUCKETS &&
		steals->sent[bucket].sequence == message->sequence) {
		weir_bucket_moves_answer(steals->moves, bucket, steals->sent[bucket].id,
			message->steal.answer == WEIR_BUCKET_CONFIRMED, seconds(uv_hrtime()));
	}
}

static bool step(void *context) {
	struct weir_steals *steals = context;
	uint64_t now = uv_hrtime();

	if (steals->moves == NULL) {
		return false;
	}
	weir_bucket_look_take(&steals->look, steals->segment, now);
	weir_bucket_moves_note(steals->moves, &steals->look, seconds(now));
	if (weir_steals_off(steals) == NULL) {
		send_due(steals);
	}
	return weir_bucket_moves_pending(steals->moves) > 0;
}

static void report_elephants(struct weir_steals *steals) {
	uint32_t bucket, worker;
	double load;

	while (weir_bucket_moves_elephant(steals->moves, &bucket, &worker, &load)) {
		weir_log_write(steals->log, WEIR_LOG_WARN,
			"bucket %u uses %.0f %% of the time of worker %u: most packets belong to "
			"one flow or a few flows, and a flow cannot be split between workers",
			bucket, 100 * load, worker);
	}
}

// Allocates the moves, and reads the current owner of each bucket from the segment.
static void start_moves(struct weir_steals *steals) {
	const struct weir_segment *segment = steals->segment;

	weir_bucket_look_take(&steals->look, segment, uv_hrtime());
	steals->out_of_memory =
		weir_bucket_moves_create(segment->workers, &steals->look, &steals->moves) < 0;
	publish(steals);
}

// Allocates the moves again after an allocation has failed.
static void retry_moves(struct weir_steals *steals) {
	start_moves(steals);
	if (!steals->out_of_memory) {
		weir_log_write(steals->log, WEIR_LOG_INFO,
			"memory is available again: flows can move between workers");
	}
}

void weir_steals_tick(struct weir_steals *steals) {
	uint64_t now = uv_hrtime();

	if (steals->out_of_memory) {
		retry_moves(steals);
	}
	if (steals->moves == NULL) {
		return;
	}
	weir_mailboxes_take(steals->mailboxes);
	weir_bucket_look_take(&steals->look, steals->segment, now);
	weir_bucket_moves_tick(
		steals->moves, &steals->look, weir_steals_off(steals) == NULL, seconds(now));
	report_elephants(steals);
	if (weir_steals_off(steals) == NULL) {
		send_due(steals);
	}
	if (weir_bucket_moves_pending(steals->moves) > 0) {
		weir_mailboxes_wait(steals->mailboxes, WEIR_MESSAGE_STEAL);
	}
}

// --- create and free ----------------------------------------------------------------------

void weir_steals_attach(struct weir_steals *steals, const struct weir_segment *segment) {
	uint64_t set = __atomic_load_n(&segment->notes->stealing, __ATOMIC_RELAXED);

	steals->segment = segment;
	if (!steals->attached && (set == WEIR_STEALING_ON || set == WEIR_STEALING_OFF)) {
		steals->set = (enum weir_stealing)set;
	}
	steals->attached = true;
	if (segment->bucketing == WEIR_BUCKETING_YES) {
		start_moves(steals);
	} else {
		publish(steals);
	}
	warn_if_against(steals);
	if (segment->workers > 1 && weir_steals_off(steals) != NULL) {
		weir_log_write(steals->log, WEIR_LOG_INFO, "no flows move between workers: %s",
			weir_steals_off(steals));
	}
}

void weir_steals_detach(struct weir_steals *steals) {
	if (steals == NULL) {
		return;
	}
	weir_bucket_moves_free(steals->moves);
	steals->moves = NULL;
	steals->segment = NULL;
	steals->out_of_memory = false;
}

int weir_steals_create(
	struct weir_mailboxes *mailboxes, const struct weir_log *log, struct weir_steals **ret) {
	struct weir_steals *steals = calloc(1, sizeof(*steals));

	if (steals == NULL) {
		return -ENOMEM;
	}
	steals->mailboxes = mailboxes;
	steals->log = log;
	weir_mailboxes_subscribe(mailboxes, WEIR_MESSAGE_STEAL, take_response, step, steals);
	*ret = steals;
	return 0;
}

void weir_steals_free(struct weir_steals *steals) {
	if (steals == NULL) {
		return;
	}
	weir_steals_detach(steals);
	free(steals);
}

// --- status -------------------------------------------------------------------------------

enum weir_stealing weir_steals_set_to(const struct weir_steals *steals) {
	return steals->set;
}

bool weir_steals_configured(const struct weir_steals *steals) {
	return steals->configured;
}

const struct weir_bucket_moves *weir_steals_moves(const struct weir_steals *steals) {
	return steals->moves;
}
