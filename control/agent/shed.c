// SPDX-License-Identifier: BSD-3-Clause
#include "shed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plural.h"

static uint64_t clock_ms(const struct weir_shed *shed) {
	return uv_now(shed->loop) - shed->params.started_ms;
}

static bool has_hook(const struct weir_shed *shed) {
	return shed->params.method == WEIR_AGENT_SHED_HOOK;
}

// Returns the size of the token bucket, as a time (shed_orders.h). With a hook, the connections of
// a whole second are passed to the hook in one batch, because each run of the hook starts a
// process.
static uint32_t burst_ms(const struct weir_shed *shed) {
	return has_hook(shed) ? WEIR_SHED_HOOK_EVERY_MS : WEIR_SHED_TICK_MS;
}

// Returns the time (in clock_ms) after which no more connections of the active order are ended.
static uint64_t last_ms(const struct weir_shed *shed) {
	const uint64_t deadline_ms = shed->orders.active->order.deadline_ms;
	const uint64_t least_ms = has_hook(shed) ? WEIR_SHED_HOOK_LEAST_MS : 0;

	return deadline_ms > least_ms ? deadline_ms - least_ms : 0;
}

// Sets the reason why no connection can be ended. The reason is logged if it is new, and is shown
// by weir-agent status.
__attribute__((format(printf, 2, 3))) static void set_problem(
	struct weir_shed *shed, const char *format, ...) {
	char problem[WEIR_SHED_PROBLEM_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem, sizeof(problem), format, arguments);
	va_end(arguments);
	if (strcmp(problem, shed->problem) != 0) {
		memcpy(shed->problem, problem, sizeof(problem));
		weir_log_write(shed->params.log, WEIR_LOG_ERROR, "%s", problem);
	}
}

// --- answers ------------------------------------------------------------------------------

static void send_answer(struct weir_shed *shed, const struct weir_agent_shed_answer *found,
	uint16_t key_id, const struct weir_path *path) {
	const struct weir_agent_key *key = weir_agent_keys_find(shed->params.keys, key_id);
	struct weir_agent_shed_answer answer = *found;
	uint8_t datagram[WEIR_AGENT_MESSAGE_BYTES];

	if (key == NULL) { // the key is no longer in the key file
		return;
	}
	answer.clock_ms = clock_ms(shed);
	answer.method = (uint8_t)shed->params.method;
	weir_agent_shed_answer_encode(&answer, key, datagram);
	(void)weir_datagrams_send(shed->params.datagrams, datagram, sizeof(datagram), path);
}

// Answers an order without storing it. result: the result in the answer.
static void answer_at_once(struct weir_shed *shed, const struct weir_agent_shed *order,
	enum weir_agent_shed_result result, const struct weir_path *path) {
	const struct weir_agent_shed_answer answer = weir_shed_answer_begin(order, result);

	send_answer(shed, &answer, order->key_id, path);
}

static void log_end(const struct weir_shed *shed, const struct weir_shed_order *entry) {
	const struct weir_agent_shed_answer *answer = &entry->answer;

	if (answer->ended > 0) {
		weir_log_write(shed->params.log, WEIR_LOG_INFO,
			"%s %u connection%s of service %s, as requested by a balancer; %u still "
			"open",
			has_hook(shed) ? "passed to --shed-hook:" : "ended", answer->ended,
			weir_plural(answer->ended), entry->order.service, answer->connections);
	}
}

// End the active order with this result, and answer it.
static void end(struct weir_shed *shed, enum weir_agent_shed_result result) {
	const struct weir_shed_order *entry = shed->orders.active;

	if (entry != NULL) {
		weir_shed_orders_end(&shed->orders, result);
		log_end(shed, entry);
		shed->ended += entry->answer.ended;
		send_answer(shed, &entry->answer, entry->order.key_id, &shed->path);
	}
	uv_timer_stop(&shed->timer);
}

// --- batches ------------------------------------------------------------------------------

// Sends a request to the helper: count the connections, and end at most `count` of them.
static void request(struct weir_shed *shed, uint32_t count) {
	const struct weir_agent_shed *order = &shed->orders.active->order;
	struct weir_shed_helper_request message = {.order = shed->order_number,
		.bind_count = order->bind_count,
		.idle_ms = order->idle_ms,
		.keep = order->keep,
		.count = count < WEIR_SHED_BATCH ? count : WEIR_SHED_BATCH,
		.deadline_ms = shed->params.started_ms + last_ms(shed)};
	int r;

	shed->requests += shed->requests == UINT32_MAX ? 2 : 1; // never 0
	message.number = shed->requests;
	memcpy(message.binds, order->binds, sizeof(message.binds));
	r = shed->helper < 0 ? -EPIPE : weir_shed_helper_send(shed->helper, &message);
	if (r < 0) {
		set_problem(shed,
			"cannot send a request to the helper process for shedding connections: %s",
			strerror(-r));
		end(shed, WEIR_AGENT_SHED_FAILED);
		return;
	}
	shed->requested = true;
}

static void on_timer(uv_timer_t *timer) {
	struct weir_shed *shed = timer->data;
	uint32_t count;

	if (shed->orders.active == NULL || shed->requested || shed->hook.running) {
		return;
	}
	if (weir_shed_orders_is_over(&shed->orders, clock_ms(shed))) {
		end(shed, WEIR_AGENT_SHED_DONE);
		return;
	}
	if (has_hook(shed) && shed->hook_ms != 0 &&
		uv_now(shed->loop) < shed->hook_ms + WEIR_SHED_HOOK_EVERY_MS) {
		return;
	}
	if (clock_ms(shed) >= last_ms(shed)) {
		return;
	}
	count = weir_shed_orders_allowance(&shed->orders, clock_ms(shed), burst_ms(shed));
	if (count > 0) {
		request(shed, count);
	}
}

static void on_hook_ended(void *context, bool ok) {
	struct weir_shed *shed = context;

	if (!ok) {
		end(shed, WEIR_AGENT_SHED_HOOK_FAILED);
	} else if (weir_shed_orders_is_over(&shed->orders, clock_ms(shed))) {
		end(shed, WEIR_AGENT_SHED_DONE);
	}
}

// Runs the hook with the connections of the helper's last answer. At the deadline of the order, the
// hook is killed, because the balancer waits for the result only until shortly after the deadline.
static void run_hook(struct weir_shed *shed) {
	const struct weir_agent_shed *order = &shed->orders.active->order;
	const uint64_t now_ms = clock_ms(shed);

	shed->hook_ms = uv_now(shed->loop);
	if (weir_shed_hook_run(&shed->hook, order->service, shed->answer.connection,
		    shed->answer.ended,
		    order->deadline_ms > now_ms ? order->deadline_ms - now_ms : 0) < 0) {
		end(shed, WEIR_AGENT_SHED_HOOK_FAILED);
	}
}

static void take_error(struct weir_shed *shed, int error) {
	bool unsupported = error == -EOPNOTSUPP;

	set_problem(shed, "cannot %s connections: %s%s", unsupported ? "end" : "list or end",
		strerror(-error),
		unsupported ? "; the kernel has no CONFIG_INET_DIAG_DESTROY; use --shed-hook" : "");
	end(shed, unsupported ? WEIR_AGENT_SHED_UNSUPPORTED : WEIR_AGENT_SHED_FAILED);
}

static void take_answer(struct weir_shed *shed) {
	const struct weir_shed_helper_answer *answer = &shed->answer;
	struct weir_shed_order *active = shed->orders.active;
	bool first;

	if (active == NULL) {
		return;
	}
	weir_shed_orders_spend(&shed->orders, answer->ended, clock_ms(shed), burst_ms(shed));
	active->answer.connections = answer->connections;
	active->answer.candidates = answer->candidates;
	active->answer.leaving = answer->leaving;
	first = !active->looked;
	active->looked = true;
	if (answer->error != 0) {
		take_error(shed, answer->error);
		return;
	}
	shed->problem[0] = '\0';
	if (has_hook(shed) && answer->ended > 0) {
		run_hook(shed);
	} else if (weir_shed_orders_is_over(&shed->orders, clock_ms(shed))) {
		end(shed, WEIR_AGENT_SHED_DONE);
	}
	if (first && shed->orders.active != NULL) {
		send_answer(shed, &active->answer, active->order.key_id, &shed->path);
	}
}

// --- orders -------------------------------------------------------------------------------

static bool has_port(const struct weir_shed *shed, const struct weir_agent_shed *order) {
	for (uint32_t i = 0; i < shed->params.port_count; i++) {
		for (uint8_t j = 0; j < order->bind_count; j++) {
			if (shed->params.ports[i] >= order->binds[j].port_first &&
				shed->params.ports[i] <= order->binds[j].port_last) {
				return true;
			}
		}
	}
	return false;
}

static void begin(struct weir_shed *shed, const struct weir_path *path) {
	shed->path = *path;
	shed->taken += shed->orders.active->order.count > 0;
	shed->order_number += shed->order_number == UINT32_MAX ? 2 : 1; // never 0
	uv_timer_start(&shed->timer, on_timer, WEIR_SHED_TICK_MS, WEIR_SHED_TICK_MS);
	request(shed, 0);
}

enum weir_agent_refusal weir_shed_take(
	struct weir_shed *shed, const struct weir_agent_shed *order, const struct weir_path *path) {
	enum weir_agent_refusal refusal = WEIR_AGENT_REFUSAL_NONE;
	struct weir_shed_order *entry;

	if (shed->params.method == WEIR_AGENT_SHED_NO_METHOD || !has_port(shed, order)) {
		answer_at_once(shed, order,
			shed->params.method == WEIR_AGENT_SHED_NO_METHOD ? WEIR_AGENT_SHED_OFF
									 : WEIR_AGENT_SHED_NO_PORT,
			path);
		return WEIR_AGENT_REFUSAL_NONE;
	}
	switch (weir_shed_orders_take(
		&shed->orders, order, shed->params.number, clock_ms(shed), &entry, &refusal)) {
	case WEIR_SHED_NEW:
		begin(shed, path);
		break;
	case WEIR_SHED_KNOWN:
		if (entry->looked || entry != shed->orders.active) {
			send_answer(shed, &entry->answer, order->key_id, path);
		}
		break;
	case WEIR_SHED_LATE:
		answer_at_once(shed, order, WEIR_AGENT_SHED_LATE, path);
		break;
	case WEIR_SHED_REFUSED:
		return refusal;
	}
	return WEIR_AGENT_REFUSAL_NONE;
}

// --- the helper ---------------------------------------------------------------------------

static void take_failed_start(
	struct weir_shed *shed, const struct weir_shed_helper_answer *answer) {
	bool privileges = answer->step == WEIR_SHED_HELPER_PRIVILEGES;

	set_problem(shed, "the helper process for shedding connections cannot %s: %s; %s",
		privileges ? "switch to its user" : "list sockets (sock_diag)",
		strerror(-answer->error),
		privileges ? "run as root, or with config/systemd/weir-agent-shed.conf"
			   : "the helper needs AF_NETLINK (RestrictAddressFamilies= of its unit) "
			     "and a kernel with CONFIG_INET_DIAG");
}

static void lose_helper(struct weir_shed *shed, int error) {
	if (shed->problem[0] == '\0') { // otherwise the helper has reported the cause
		set_problem(shed,
			"the helper process for shedding connections has exited: %s; restart "
			"weir-agent",
			strerror(-error));
	}
	uv_poll_stop(&shed->poll);
	close(shed->helper);
	shed->helper = -1;
	end(shed, WEIR_AGENT_SHED_FAILED);
}

static void on_answer(uv_poll_t *poll, int status, int events) {
	struct weir_shed *shed = poll->data;
	int r;

	(void)status;
	(void)events;
	uv_update_time(shed->loop);
	while ((r = weir_shed_helper_answer(shed->helper, &shed->answer)) == 0) {
		if (shed->answer.number == 0) {
			take_failed_start(shed, &shed->answer);
		} else {
			shed->requested = false;
			take_answer(shed);
		}
	}
	if (r != -EAGAIN) {
		shed->requested = false;
		lose_helper(shed, r);
	}
}

// --- start and stop -----------------------------------------------------------------------

int weir_shed_start(
	uv_loop_t *loop, const struct weir_shed_params *params, int helper, struct weir_shed *ret) {
	int r;

	*ret = (struct weir_shed){.params = *params, .loop = loop, .helper = helper};
	if (params->method == WEIR_AGENT_SHED_NO_METHOD) {
		return 0;
	}
	weir_shed_hook_init(loop, params->log, params->hook, on_hook_ended, ret, &ret->hook);
	uv_timer_init(loop, &ret->timer);
	ret->timer.data = ret;
	r = uv_poll_init(loop, &ret->poll, helper);
	if (r == 0) {
		ret->poll.data = ret;
		uv_poll_start(&ret->poll, UV_READABLE, on_answer);
	}
	return r;
}

void weir_shed_stop(struct weir_shed *shed) {
	if (shed->loop == NULL) {
		return; // weir_shed_start was not called
	}
	if (shed->timer.data != NULL) {
		weir_shed_hook_stop(&shed->hook);
		uv_close((uv_handle_t *)&shed->timer, NULL);
	}
	if (shed->poll.data != NULL) {
		uv_close((uv_handle_t *)&shed->poll, NULL);
	}
	if (shed->helper >= 0) {
		close(shed->helper);
	}
}

json_t *weir_shed_status(const struct weir_shed *shed) {
	return json_pack("{s:s, s:I, s:I, s:s*}", "method",
		weir_agent_shed_method_name(shed->params.method), "orders", (json_int_t)shed->taken,
		"ended", (json_int_t)shed->ended, "problem",
		shed->problem[0] != '\0' ? shed->problem : NULL);
}
