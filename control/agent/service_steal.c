// SPDX-License-Identifier: BSD-3-Clause
//
// Steal requests: looks up a flow in the kernel, and removes a handshake that is not complete.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service.h"
#include "steal_helper.h"

// --- answers ------------------------------------------------------------------------------

static void send_answer(struct weir_service *service, const struct weir_agent_steal_answer *found,
	uint16_t key_id, const struct weir_path *path) {
	const struct weir_agent_key *key = weir_agent_keys_find(&service->keys, key_id);
	struct weir_agent_steal_answer answer = *found;
	uint8_t datagram[WEIR_AGENT_MESSAGE_BYTES];

	if (key == NULL) { // removed from the file meanwhile
		return;
	}
	answer.clock_ms = weir_service_clock_ms(service);
	weir_agent_steal_answer_encode(&answer, key, datagram);
	if (weir_datagrams_send(&service->datagrams, datagram, sizeof(datagram), path) == 0) {
		service->steal.answered[answer.result]++;
	}
}

// Requests that were not looked at leave no state.
static void answer_at_once(struct weir_service *service, const struct weir_agent_steal *steal,
	enum weir_agent_steal_result result, const struct weir_path *path) {
	struct weir_agent_steal_answer answer;

	weir_agent_steal_answer_begin(steal, &answer);
	answer.result = (uint8_t)result;
	send_answer(service, &answer, steal->key_id, path);
}

static void finish(struct weir_service *service, struct weir_steals_entry *entry,
	enum weir_agent_steal_result result) {
	entry->pending = false;
	entry->answer.result = (uint8_t)result;
	send_answer(service, &entry->answer, entry->key_id, &entry->path);
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

// The result of a lookup if nothing is removed. NO_RESULT: there is a handshake that may be
// removed.
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

// Send the helper a removal request. Returns NO_RESULT: the helper's answer is pending.
static enum weir_agent_steal_result ask_helper(struct weir_service *service,
	const struct weir_agent_steal *steal, const struct weir_handshake_flow *flow,
	uint32_t number) {
	const struct weir_steal_helper_request request = {.number = number,
		.flow = *flow,
		.deadline_ms = service->started_ms + steal->deadline_ms};
	int r;

	if (service->steal.helper < 0) { // its end was logged
		return WEIR_AGENT_STEAL_CANNOT_TELL;
	}
	r = weir_steal_helper_ask(service->steal.helper, &request);
	if (r == 0) {
		return WEIR_AGENT_STEAL_NO_RESULT;
	}
	if (r != service->steal.error) {
		weir_log_write(service->log, WEIR_LOG_ERROR,
			"cannot send a request to the helper process for steals: %s; if "
			"weir-agent-net hangs or is stopped, restart weir-agent",
			strerror(-r));
	}
	service->steal.error = r;
	return WEIR_AGENT_STEAL_CANNOT_TELL;
}

static enum weir_agent_steal_result look(
	struct weir_service *service, const struct weir_agent_steal *steal, uint32_t number) {
	const struct weir_handshake_flow flow = flow_of(steal);
	enum weir_agent_steal_result result;
	struct weir_handshake handshake;

	if (weir_handshake_look(&service->steal.handshakes, &flow, &handshake) != 0) {
		return WEIR_AGENT_STEAL_CANNOT_TELL;
	}
	result = judge(&handshake);
	if (result != WEIR_AGENT_STEAL_NOTHING && result != WEIR_AGENT_STEAL_NO_RESULT) {
		return result;
	}
	// After the lookup: a SYN that arrived earlier is in the count by now.
	if (weir_syn_cookies_possible(&service->steal.cookies, weir_service_now_ms(service))) {
		return WEIR_AGENT_STEAL_COOKIES;
	}
	return result == WEIR_AGENT_STEAL_NO_RESULT ? ask_helper(service, steal, &flow, number)
						    : result;
}

static bool is_allowed(const struct weir_service *service, uint32_t port) {
	const struct weir_agent_options *options = service->options;

	for (uint32_t i = 0; options->allow_steal && i < options->port_count; i++) {
		if (options->ports[i] == port) {
			return true;
		}
	}
	return false;
}

void weir_service_steal(struct weir_service *service, const struct weir_agent_steal *steal,
	const struct weir_path *path) {
	enum weir_agent_refusal refusal = WEIR_AGENT_REFUSAL_NONE;
	enum weir_agent_steal_result result;
	struct weir_steals_entry *entry;

	if (!is_allowed(service, steal->vip_port)) {
		answer_at_once(service, steal, WEIR_AGENT_STEAL_OFF, path);
		return;
	}
	switch (weir_steals_take(&service->steal.steals, steal, service->number,
		weir_service_clock_ms(service), &entry, &refusal)) {
	case WEIR_STEALS_NEW:
		entry->path = *path;
		result = look(service, steal, entry->number);
		if (result != WEIR_AGENT_STEAL_NO_RESULT) {
			finish(service, entry, result);
		}
		break;
	case WEIR_STEALS_KNOWN:
		send_answer(service, &entry->answer, steal->key_id, path);
		break;
	case WEIR_STEALS_PENDING:
		break;
	case WEIR_STEALS_LATE:
		answer_at_once(service, steal, WEIR_AGENT_STEAL_LATE, path);
		break;
	case WEIR_STEALS_REFUSED:
		service->refused[refusal]++;
		break;
	}
}

// --- the helper ---------------------------------------------------------------------------

// Why handshakes are not removed: for the log, and for weir-agent status.
__attribute__((format(printf, 2, 3))) static void set_problem(
	struct weir_service *service, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(service->steal.problem, sizeof(service->steal.problem), format, arguments);
	va_end(arguments);
	weir_log_write(service->log, WEIR_LOG_ERROR, "%s", service->steal.problem);
}

static enum weir_agent_steal_result judge_removal(
	struct weir_service *service, const struct weir_steal_helper_answer *answer) {
	enum weir_agent_steal_result result;

	if (answer->error == -ETIME) {
		return WEIR_AGENT_STEAL_LATE;
	}
	if (answer->error != 0) {
		if (answer->error != service->steal.error) {
			set_problem(service, "cannot remove a handshake: %s%s",
				strerror(-answer->error),
				answer->error == -EOPNOTSUPP
					? "; the kernel has no CONFIG_INET_DIAG_DESTROY"
					: "");
		}
		service->steal.error = answer->error;
		return WEIR_AGENT_STEAL_CANNOT_TELL;
	}
	service->steal.error = 0;
	service->steal.problem[0] = '\0';
	if (answer->removed) {
		return WEIR_AGENT_STEAL_REMOVED;
	}
	result = judge(&answer->found);
	// The handshake ended by itself meanwhile: by a timeout, or by an ACK.
	return result == WEIR_AGENT_STEAL_NO_RESULT || result == WEIR_AGENT_STEAL_NOTHING
		       ? WEIR_AGENT_STEAL_UNSETTLED
		       : result;
}

static void log_failed_start(
	struct weir_service *service, const struct weir_steal_helper_answer *answer) {
	bool privileges = answer->step == WEIR_STEAL_HELPER_PRIVILEGES;

	set_problem(service,
		"the helper process for steals cannot %s: %s; handshakes are not removed; %s",
		privileges ? "become its user with CAP_NET_ADMIN" : "query sockets of the kernel",
		strerror(-answer->error),
		privileges ? "run as root, or with config/systemd/weir-agent-steal.conf"
			   : "it needs AF_NETLINK (RestrictAddressFamilies= of its unit) and a "
			     "kernel with CONFIG_INET_DIAG");
}

static void lose_helper(struct weir_service *service, int error) {
	if (!service->steal.failed_start) { // otherwise it has reported the cause
		set_problem(service,
			"the helper process for steals has ended: %s; handshakes are not removed; "
			"restart weir-agent",
			strerror(-error));
	}
	uv_poll_stop(&service->steal.poll);
	close(service->steal.helper);
	service->steal.helper = -1;
	for (uint32_t i = 0; i < WEIR_STEALS_MOST; i++) {
		struct weir_steals_entry *entry = &service->steal.steals.entry[i];

		if (entry->pending) {
			finish(service, entry, WEIR_AGENT_STEAL_CANNOT_TELL);
		}
	}
}

static void on_answer(uv_poll_t *poll, int status, int events) {
	struct weir_service *service = poll->data;
	struct weir_steal_helper_answer answer;
	struct weir_steals_entry *entry;
	int r;

	(void)status;
	(void)events;
	uv_update_time(&service->loop);
	while ((r = weir_steal_helper_answer(service->steal.helper, &answer)) == 0) {
		if (answer.number == 0) {
			log_failed_start(service, &answer);
			service->steal.failed_start = true;
			continue;
		}
		entry = weir_steals_pending(&service->steal.steals, answer.number);
		if (entry != NULL) {
			finish(service, entry, judge_removal(service, &answer));
		}
	}
	if (r != -EAGAIN) {
		lose_helper(service, r);
	}
}

// --- life ---------------------------------------------------------------------------------

int weir_service_steal_start(struct weir_service *service) {
	int r;

	if (!service->options->allow_steal) {
		return 0;
	}
	weir_syn_cookies_init(&service->steal.cookies, "/proc", weir_service_now_ms(service));
	r = weir_handshakes_open(&service->steal.handshakes);
	if (r == 0) {
		r = uv_poll_init(&service->loop, &service->steal.poll, service->steal.helper);
	}
	if (r == 0) {
		service->steal.poll.data = service;
		service->steal.poll_open = true;
		uv_poll_start(&service->steal.poll, UV_READABLE, on_answer);
	}
	return r;
}

void weir_service_steal_stop(struct weir_service *service) {
	if (service->steal.poll_open) {
		uv_close((uv_handle_t *)&service->steal.poll, NULL);
		service->steal.poll_open = false;
	}
	weir_handshakes_close(&service->steal.handshakes);
}
