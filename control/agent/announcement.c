// SPDX-License-Identifier: BSD-3-Clause
#include "announcement.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "clocks.h"
#include "plural.h"
#include "saved_state.h"

#define NOTICE_TURN_MS 10

// --- announced state ----------------------------------------------------------------------

static void on_notice(uv_timer_t *timer) {
	struct weir_announcement *announcement = timer->data;
	const struct weir_announcement_params *params = &announcement->params;
	struct weir_balancer *balancer;

	while ((balancer = weir_balancers_next_to_notify(
			params->balancers, announcement->serial, uv_now(timer->loop))) != NULL) {
		params->notify(params->context, balancer);
	}
	if (weir_balancers_unacknowledged(params->balancers, announcement->serial) == 0) {
		uv_timer_stop(timer);
	}
}

static void notify_all(struct weir_announcement *announcement) {
	weir_balancers_announce(announcement->params.balancers, uv_now(announcement->notice.loop));
	on_notice(&announcement->notice);
	uv_timer_start(&announcement->notice, on_notice, NOTICE_TURN_MS, NOTICE_TURN_MS);
}

// Announces a state with its reason (`why`): saves the state unless announcement->final is set,
// logs it and notifies the balancers. Does nothing if the state is unchanged.
static void announce(
	struct weir_announcement *announcement, enum weir_health_word word, const char *why) {
	const struct weir_announcement_params *params = &announcement->params;
	const char *name = weir_health_word_name(word);

	if (word == announcement->word) {
		return;
	}
	announcement->word = word;
	announcement->word_serial = ++announcement->serial;
	if (!announcement->final) {
		weir_saved_state_write(params->saved, word);
	}
	memset(announcement->why, 0, sizeof(announcement->why));
	memcpy(announcement->why, why, strnlen(why, sizeof(announcement->why) - 1));
	weir_log_event(params->log, WEIR_LOG_INFO,
		&(struct weir_log_fields){.state = name, .reason = why},
		"%s: %s, balancers to notify: %u", name, why,
		weir_balancers_unacknowledged(params->balancers, announcement->serial));
	sd_notifyf(0, "STATUS=%s: %s", name, why);
	notify_all(announcement);
}

// --- drain --------------------------------------------------------------------------------

static void log_drain(const struct weir_announcement *announcement) {
	const struct weir_drain *drain = &announcement->drain;
	char connections[WEIR_DRAIN_COUNT_BYTES];

	weir_log_write(announcement->params.log, WEIR_LOG_INFO,
		"drain: %s, %u balancer%s not yet notified, %s",
		weir_drain_state_name(drain->state), drain->pending, weir_plural(drain->pending),
		weir_drain_count_text(drain->connections, connections));
}

static void on_drain(uv_timer_t *timer) {
	struct weir_announcement *announcement = timer->data;
	const struct weir_announcement_params *params = &announcement->params;
	enum weir_drain_state before = announcement->drain.state, state;
	uint32_t pending =
		weir_balancers_unacknowledged(params->balancers, announcement->word_serial);
	const uint64_t start_ns = weir_thread_cpu_ns();
	uint32_t open, half_open;

	params->connections(params->context, &open, &half_open);
	weir_drain_note_balancers(
		&announcement->drain, weir_balancers_count(params->balancers), pending);
	state = weir_drain_step(
		&announcement->drain, uv_now(timer->loop), pending, open, half_open);
	if (state != before) {
		log_drain(announcement);
	}
	if (!weir_drain_is_running(&announcement->drain)) {
		params->drained(params->context);
		return;
	}
	uv_update_time(timer->loop);
	uv_timer_start(timer, on_drain,
		weir_drain_pause_ms(
			&announcement->drain, uv_now(timer->loop), weir_thread_cpu_ns() - start_ns),
		0);
}

void weir_announcement_lame_duck(struct weir_announcement *announcement, uint64_t interval_ms,
	bool patient, const char *why) {
	announce(announcement, WEIR_HEALTH_WORD_LAME_DUCK, why);
	weir_drain_begin(
		&announcement->drain, uv_now(announcement->drain_turn.loop), interval_ms, patient);
	uv_timer_start(&announcement->drain_turn, on_drain, 0, 0);
}

void weir_announcement_ready(struct weir_announcement *announcement, const char *why) {
	weir_drain_end(&announcement->drain);
	uv_timer_stop(&announcement->drain_turn);
	announce(announcement, WEIR_HEALTH_WORD_READY, why);
}

void weir_announcement_ports(struct weir_announcement *announcement) {
	announcement->serial++;
	notify_all(announcement);
}

// --- start and stop -----------------------------------------------------------------------

static void begin_as(
	struct weir_announcement *announcement, enum weir_health_word word, const char *why) {
	announcement->serial = announcement->word_serial = 1;
	announcement->word = word;
	weir_saved_state_write(announcement->params.saved, word);
	snprintf(announcement->why, sizeof(announcement->why), "%s", why);
}

int weir_announcement_start(uv_loop_t *loop, const struct weir_announcement_params *params,
	bool warm_up, struct weir_announcement *ret) {
	int r;

	*ret = (struct weir_announcement){.params = *params};
	if (weir_saved_state_read(params->saved) == WEIR_HEALTH_WORD_LAME_DUCK) {
		begin_as(ret, WEIR_HEALTH_WORD_LAME_DUCK, "restored after an agent crash");
	} else if (warm_up) {
		begin_as(ret, WEIR_HEALTH_WORD_STARTING, "warming up");
	} else {
		begin_as(ret, WEIR_HEALTH_WORD_READY, "started");
	}
	r = uv_timer_init(loop, &ret->notice);
	if (r == 0) {
		ret->notice.data = ret;
		r = uv_timer_init(loop, &ret->drain_turn);
		ret->drain_turn.data = ret;
	}
	return r;
}

void weir_announcement_stop(struct weir_announcement *announcement) {
	if (announcement->notice.data != NULL) {
		uv_close((uv_handle_t *)&announcement->notice, NULL);
		uv_close((uv_handle_t *)&announcement->drain_turn, NULL);
	}
}

void weir_announcement_is_final(struct weir_announcement *announcement) {
	announcement->final = true;
	weir_saved_state_write(announcement->params.saved, WEIR_HEALTH_WORD_NONE);
}
