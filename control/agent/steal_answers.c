// SPDX-License-Identifier: BSD-3-Clause
#include "steal_answers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "steal_helper.h"

static uint64_t clock_ms(const struct weir_steal_answers *answers) {
	return uv_now(answers->loop) - answers->params.started_ms;
}

// --- answers ------------------------------------------------------------------------------

static void send_answer(struct weir_steal_answers *answers,
	const struct weir_agent_steal_answer *found, uint16_t key_id,
	const struct weir_path *path) {
	const struct weir_agent_key *key = weir_agent_keys_find(answers->params.keys, key_id);
	struct weir_agent_steal_answer answer = *found;
	uint8_t datagram[WEIR_AGENT_MESSAGE_BYTES];

	if (key == NULL) { // the key is no longer in the key file
		return;
	}
	answer.clock_ms = clock_ms(answers);
	weir_agent_steal_answer_encode(&answer, key, datagram);
	if (weir_datagrams_send(answers->params.datagrams, datagram, sizeof(datagram), path) == 0) {
		answers->answered[answer.result]++;
	}
}

// Answer a request without a lookup, and without an entry in answers->steals.
static void answer_at_once(struct weir_steal_answers *answers, const struct weir_agent_steal *steal,
	enum weir_agent_steal_result result, const struct weir_path *path) {
	struct weir_agent_steal_answer answer;

	weir_agent_steal_answer_begin(steal, &answer);
	answer.result = (uint8_t)result;
	send_answer(answers, &answer, steal->key_id, path);
}

static void finish(struct weir_steal_answers *answers, struct weir_steals_entry *entry,
	enum weir_agent_steal_result result) {
	entry->pending = false;
	entry->answer.result = (uint8_t)result;
	send_answer(answers, &entry->answer, entry->key_id, &entry->path);
}

//--- lookup -------------------------------------------------------------------------------

static struct weir_handshake_flow flow_of(const struct weir_agent_steal *steal) {
	struct weir_handshake_flow flow = {
		.client_port = (uint16_t)steal->client_port, .vip_port = (uint16_t)steal->vip_port};
	const uint8_t *client, *vip;

	flow.family = weir_agent_address_family(steal->client, &client);
	(void)weir_agent_address_family(steal->vip, &vip);
	memcpy(flow.client, client, flow.family == 6 ? 16 : 4);
	memcpy(flow.vip, vip, flow.family == 6 ? 16 : 4);
	return flow;
}

// Returns the result for a flow in this state. NO_RESULT: the result is not known yet, because the
// flow has a handshake that can be removed.
static enum weir_agent_steal_result judge(const struct weir_handshake *handshake) {
	switch (handshake->state) {
	case WEIR_HANDSHAKE_NO_LISTENER:
		return WEIR_AGENT_STEAL_NO_LISTENER;
	case WEIR_HANDSHAKE_NONE:
		return WEIR_AGENT_STEAL_NOTHING;
	case WEIR_HANDSHAKE_BEGUN:
		return handshake->settled_ms < WEIR_HANDSHAKE_SETTLED_MS
			       ? WEIR_AGENT_STEAL_UNSETTLED
			       : WEIR_AGENT_STEAL_NO_RESULT;
	case WEIR_HANDSHAKE_OVER:
		break;
	}
	return WEIR_AGENT_STEAL_RUNNING;
}

// Send a removal request to the helper. number: sequence number of the request's entry. Returns
// NO_RESULT while the helper's answer is pending, otherwise the result.
static enum weir_agent_steal_result request_removal(struct weir_steal_answers *answers,
	const struct weir_agent_steal *steal, const struct weir_handshake_flow *flow,
	uint32_t number) {
	const struct weir_steal_helper_request request = {.number = number,
		.flow = *flow,
		.deadline_ms = answers->params.started_ms + steal->deadline_ms};
	int r;

	if (answers->helper < 0) { // the exit of the helper is already logged
		return WEIR_AGENT_STEAL_CANNOT_TELL;
	}
	r = weir_steal_helper_send(answers->helper, &request);
	if (r == 0) {
		return WEIR_AGENT_STEAL_NO_RESULT;
	}
	if (r != answers->error) {
		weir_log_write(answers->params.log, WEIR_LOG_ERROR,
			"cannot send a request to the helper process for --allow-steal: %s; if "
			"weir-agent-net hangs or is stopped, restart weir-agent",
			strerror(-r));
	}
	answers->error = r;
	return WEIR_AGENT_STEAL_CANNOT_TELL;
}

static enum weir_agent_steal_result look(
	struct weir_steal_answers *answers, const struct weir_agent_steal *steal, uint32_t number) {
	const struct weir_handshake_flow flow = flow_of(steal);
	enum weir_agent_steal_result result;
	struct weir_handshake handshake;

	if (weir_handshake_look(&answers->handshakes, &flow, &handshake) != 0) {
		return WEIR_AGENT_STEAL_CANNOT_TELL;
	}
	result = judge(&handshake);
	if (result != WEIR_AGENT_STEAL_NOTHING && result != WEIR_AGENT_STEAL_NO_RESULT) {
		return result;
	}
	// Read the count of cookies after the lookup, so that the count includes each SYN that
	// arrived before the lookup.
	if (weir_syn_cookies_possible(&answers->cookies, uv_now(answers->loop))) {
		return WEIR_AGENT_STEAL_COOKIES;
	}
	return result == WEIR_AGENT_STEAL_NO_RESULT ? request_removal(answers, steal, &flow, number)
						    : result;
}

static bool is_allowed(const struct weir_steal_answers *answers, uint32_t port) {
	const struct weir_steal_answers_params *params = &answers->params;

	for (uint32_t i = 0; params->allowed && i < params->port_count; i++) {
		if (params->ports[i] == port) {
			return true;
		}
	}
	return false;
}

enum weir_agent_refusal weir_steal_answers_take(struct weir_steal_answers *answers,
	const struct weir_agent_steal *steal, const struct weir_path *path) {
	enum weir_agent_refusal refusal = WEIR_AGENT_REFUSAL_NONE;
	enum weir_agent_steal_result result;
	struct weir_steals_entry *entry;

	if (!is_allowed(answers, steal->vip_port)) {
		answer_at_once(answers, steal, WEIR_AGENT_STEAL_OFF, path);
		return WEIR_AGENT_REFUSAL_NONE;
	}
	switch (weir_steals_take(&answers->steals, steal, answers->params.number, clock_ms(answers),
		&entry, &refusal)) {
	case WEIR_STEALS_NEW:
		entry->path = *path;
		result = look(answers, steal, entry->number);
		if (result != WEIR_AGENT_STEAL_NO_RESULT) {
			finish(answers, entry, result);
		}
		break;
	case WEIR_STEALS_KNOWN:
		send_answer(answers, &entry->answer, steal->key_id, path);
		break;
	case WEIR_STEALS_PENDING:
		break;
	case WEIR_STEALS_LATE:
		answer_at_once(answers, steal, WEIR_AGENT_STEAL_LATE, path);
		break;
	case WEIR_STEALS_REFUSED:
		return refusal;
	}
	return WEIR_AGENT_REFUSAL_NONE;
}

// --- the helper ---------------------------------------------------------------------------

// Logs why handshakes are not removed, and stores the text for weir-agent status.
__attribute__((format(printf, 2, 3))) static void set_problem(
	struct weir_steal_answers *answers, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answers->problem, sizeof(answers->problem), format, arguments);
	va_end(arguments);
	weir_log_write(answers->params.log, WEIR_LOG_ERROR, "%s", answers->problem);
}

static enum weir_agent_steal_result judge_removal(
	struct weir_steal_answers *answers, const struct weir_steal_helper_answer *answer) {
	enum weir_agent_steal_result result;

	if (answer->error == -ETIME) {
		return WEIR_AGENT_STEAL_LATE;
	}
	if (answer->error != 0) {
		if (answer->error != answers->error) {
			set_problem(answers, "cannot remove a half-open connection: %s%s",
				strerror(-answer->error),
				answer->error == -EOPNOTSUPP
					? "; the kernel has no CONFIG_INET_DIAG_DESTROY"
					: "");
		}
		answers->error = answer->error;
		return WEIR_AGENT_STEAL_CANNOT_TELL;
	}
	answers->error = 0;
	answers->problem[0] = '\0';
	if (answer->removed) {
		return WEIR_AGENT_STEAL_REMOVED;
	}
	result = judge(&answer->found);
	// NOTHING means that the handshake ended after the lookup, by a timeout or by an ACK, so
	// the state of the flow is not certain.
	return result == WEIR_AGENT_STEAL_NO_RESULT || result == WEIR_AGENT_STEAL_NOTHING
		       ? WEIR_AGENT_STEAL_UNSETTLED
		       : result;
}

static void log_failed_start(
	struct weir_steal_answers *answers, const struct weir_steal_helper_answer *answer) {
	bool privileges = answer->step == WEIR_STEAL_HELPER_PRIVILEGES;

	set_problem(answers,
		"the helper process for --allow-steal cannot %s: %s; half-open connections are not "
		"removed; %s",
		privileges ? "switch to its user and keep CAP_NET_ADMIN"
			   : "query sockets (sock_diag)",
		strerror(-answer->error),
		privileges ? "run as root, or with config/systemd/weir-agent-steal.conf"
			   : "the helper needs AF_NETLINK (RestrictAddressFamilies= of its unit) "
			     "and CONFIG_INET_DIAG");
}

static void lose_helper(struct weir_steal_answers *answers, int error) {
	if (!answers->failed_start) { // if the helper failed to start, it has reported the cause
		set_problem(answers,
			"the helper process for --allow-steal has exited: %s; half-open "
			"connections are not removed; restart weir-agent",
			strerror(-error));
	}
	uv_poll_stop(&answers->poll);
	close(answers->helper);
	answers->helper = -1;
	for (uint32_t i = 0; i < WEIR_STEALS_MOST; i++) {
		struct weir_steals_entry *entry = &answers->steals.entry[i];

		if (entry->pending) {
			finish(answers, entry, WEIR_AGENT_STEAL_CANNOT_TELL);
		}
	}
}

static void on_answer(uv_poll_t *poll, int status, int events) {
	struct weir_steal_answers *answers = poll->data;
	struct weir_steal_helper_answer answer;
	struct weir_steals_entry *entry;
	int r;

	(void)status;
	(void)events;
	uv_update_time(answers->loop);
	while ((r = weir_steal_helper_answer(answers->helper, &answer)) == 0) {
		if (answer.number == 0) {
			log_failed_start(answers, &answer);
			answers->failed_start = true;
			continue;
		}
		entry = weir_steals_pending(&answers->steals, answer.number);
		if (entry != NULL) {
			finish(answers, entry, judge_removal(answers, &answer));
		}
	}
	if (r != -EAGAIN) {
		lose_helper(answers, r);
	}
}

// --- start and stop -----------------------------------------------------------------------

int weir_steal_answers_start(uv_loop_t *loop, const struct weir_steal_answers_params *params,
	int helper, struct weir_steal_answers *ret) {
	int r;

	*ret = (struct weir_steal_answers){
		.params = *params, .loop = loop, .helper = helper, .handshakes = {.fd = -1}};
	if (!params->allowed) {
		return 0;
	}
	weir_syn_cookies_init(&ret->cookies, "/proc", uv_now(loop));
	r = weir_handshakes_open(&ret->handshakes);
	if (r == 0) {
		r = uv_poll_init(loop, &ret->poll, helper);
	}
	if (r == 0) {
		ret->poll.data = ret;
		uv_poll_start(&ret->poll, UV_READABLE, on_answer);
	}
	return r;
}

void weir_steal_answers_stop(struct weir_steal_answers *answers) {
	if (answers->loop == NULL) {
		return; // weir_steal_answers_start was not called
	}
	if (answers->poll.data != NULL) {
		uv_close((uv_handle_t *)&answers->poll, NULL);
	}
	if (answers->helper >= 0) {
		close(answers->helper);
	}
	weir_handshakes_close(&answers->handshakes);
}
