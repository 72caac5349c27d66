// SPDX-License-Identifier: BSD-3-Clause
#include "port_watch.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clocks.h"
#include "duration.h"
#include "listeners.h"
#include "meter_helper.h"
#include "saved_state.h"

#define BUDGET_SHARE 10 // listing the sockets may use 1/10 of a CPU
#define BUDGET_BURST_NS 10000000u
#define HELPER_MS 5000 // maximum wait for the helper to load the BPF program
#define PERIOD_MS 1000 // time between two lists of the sockets if there is no event
#define PERIOD_WITHOUT_EVENTS_MS 100
#define MISSING_MS 5000 // time until a port that never had a listening socket is logged

// After an event, the check is repeated after each of these delays. The event of a new listening
// socket arrives before the kernel lists the socket, so the first check may not find the socket.
static const uint32_t repeat_ms[] = {1, 10, 50};

static bool is_udp(const struct weir_port_watch *watch, uint32_t index) {
	return watch->ports.port[index].protocol == IPPROTO_UDP;
}

// --- log ----------------------------------------------------------------------------------

static void log_port(const struct weir_port_watch *watch, const struct weir_watched_port *port,
	const char *state, const char *reason) {
	char name[WEIR_WATCHED_NAME_BYTES];

	weir_watched_port_name(port, name);
	weir_log_event(watch->params.log, WEIR_LOG_INFO,
		&(struct weir_log_fields){
			.port = name + strlen("port "), .state = state, .reason = reason},
		"%s: %s: %s", name, reason, state);
}

static void log_change(const struct weir_port_watch *watch, const struct weir_watched_port *port,
	enum weir_port_state before, uint64_t now_ms) {
	char reason[96], left[WEIR_DURATION_BYTES];

	if (port->state == before) {
		return;
	}
	switch ((enum weir_port_state)port->state) {
	case WEIR_PORT_UNKNOWN:
		break;
	case WEIR_PORT_OPEN:
		log_port(watch, port, "ready",
			before == WEIR_PORT_UNKNOWN ? "listening" : "listening again");
		break;
	case WEIR_PORT_CLOSED:
		log_port(watch, port, "down",
			before == WEIR_PORT_UNKNOWN ? "no listening socket; a socket listened "
						      "before the agent's restart"
						    : "no listening socket");
		break;
	case WEIR_PORT_HELD:
		// The text does not contain the number of times that the port was closed. With this
		// number, each line would differ, and log_limit.h suppresses only equal lines.
		snprintf(reason, sizeof(reason),
			"listening again, but held down for %s: the port was closed too often",
			weir_duration_text(weir_watched_port_left_ms(port, now_ms), left));
		log_port(watch, port, "down", reason);
		break;
	}
}

static void log_missing(struct weir_port_watch *watch, uint64_t now_ms) {
	char name[WEIR_WATCHED_NAME_BYTES];

	if (watch->missing_logged || now_ms - watch->started_ms < MISSING_MS) {
		return;
	}
	watch->missing_logged = true;
	for (uint32_t i = 0; i < watch->ports.count; i++) {
		if (watch->ports.port[i].state == WEIR_PORT_UNKNOWN &&
			!watch->ports.port[i].had_listener) {
			weir_log_write(watch->params.log, WEIR_LOG_WARN,
				"%s: no listening socket in this network namespace since the start "
				"of the agent: the state of the port is unknown",
				weir_watched_port_name(&watch->ports.port[i], name));
		}
	}
}

// --- saved state --------------------------------------------------------------------------

// Saves the ports as a text. Each port has one of three formats: "80/tcp"; "80/tcp=3", where 3 is
// the state that the application has announced; "-80/tcp=3", if the port had no listening socket.
// An earlier version of weir-agent reads only "80/tcp" from the first two formats, and ignores the
// third format.
static void save(const struct weir_port_watch *watch) {
	char text[WEIR_SAVED_PORTS_BYTES] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < watch->ports.count; i++) {
		const struct weir_watched_port *port = &watch->ports.port[i];
		char word[4] = "";

		if (port->word != WEIR_HEALTH_WORD_NONE) {
			snprintf(word, sizeof(word), "=%u", port->word % 10u);
		}
		if ((port->had_listener || word[0] != '\0') && used < sizeof(text)) {
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u/%s%s ",
				port->had_listener ? "" : "-", port->port,
				is_udp(watch, i) ? "udp" : "tcp", word);
		}
	}
	weir_saved_state_write_ports(watch->params.saved, text);
}

static void restore_port(struct weir_port_watch *watch, const char *text) {
	const bool had_listener = text[0] != '-';
	unsigned int port, word = 0;
	char name[4];
	int found = sscanf(text + !had_listener, "%5u/%3[a-z]=%1u", &port, name, &word);
	uint8_t protocol = IPPROTO_TCP;

	if (found < 2 || port > UINT16_MAX || word >= WEIR_HEALTH_WORD_COUNT) {
		return;
	}
	if (strcmp(name, "udp") == 0) {
		protocol = IPPROTO_UDP;
	}
	if (had_listener) {
		weir_watched_ports_had_listener(&watch->ports, (uint16_t)port, protocol);
	}
	weir_watched_ports_set_word(
		&watch->ports, (uint16_t)port, protocol, (enum weir_health_word)word);
}

static void restore(struct weir_port_watch *watch) {
	char text[WEIR_SAVED_PORTS_BYTES], *left = text, *word;

	weir_saved_state_read_ports(watch->params.saved, text);
	while ((word = strsep(&left, " ")) != NULL) {
		restore_port(watch, word);
	}
}

bool weir_port_watch_set_word(struct weir_port_watch *watch, uint16_t port, uint8_t protocol,
	enum weir_health_word word) {
	bool changed = weir_watched_ports_set_word(&watch->ports, port, protocol, word);

	save(watch); // saves the announced state even if the port is down for another reason
	return changed;
}

// --- a check ------------------------------------------------------------------------------

// Returns whether one of these ports has lost its last listening socket. first: index of the first
// port in watch->ports. counts: current number of listening sockets of each port.
static bool is_death(const struct weir_port_watch *watch, uint32_t first, const uint32_t *counts,
	uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		if (counts[i] == 0 && watch->ports.port[first + i].listeners > 0) {
			return true;
		}
	}
	return false;
}

static int count_listeners(
	struct weir_port_watch *watch, bool udp, uint32_t first, uint32_t *ret_counts) {
	const struct weir_port_watch_params *params = &watch->params;
	const uint16_t *ports = udp ? params->udp_ports : params->tcp_ports;
	uint32_t count = udp ? params->udp_count : params->tcp_count;
	uint8_t protocol = udp ? IPPROTO_UDP : IPPROTO_TCP;
	int r;

	if (watch->listeners < 0) {
		watch->listeners = weir_socket_diag_open();
	}
	if (watch->listeners < 0) {
		return watch->listeners;
	}
	r = weir_listeners_count(watch->listeners, protocol, ports, count, ret_counts);
	// If sockets are closed while the kernel lists them, other sockets may be missing from the
	// list. Therefore list the sockets again.
	if (r == 0 && is_death(watch, first, ret_counts, count)) {
		r = weir_listeners_count(watch->listeners, protocol, ports, count, ret_counts);
	}
	return r;
}

static void set_blind(struct weir_port_watch *watch, bool udp, int error) {
	const char *text = error ? strerror(-error) : "";

	if (strcmp(watch->blind[udp], text) != 0) {
		snprintf(watch->blind[udp], sizeof(watch->blind[udp]), "%s", text);
		if (error) {
			weir_log_write(watch->params.log, WEIR_LOG_ERROR,
				"cannot list %s sockets: %s; the states of the ports stay "
				"unchanged",
				udp ? "UDP" : "TCP", text);
		}
	}
}

// Process the current number of listening sockets of all UDP ports or all TCP ports. *ret_save: set
// to true if the ports must be saved. Returns whether the announced state of a port has changed.
static bool look_at(struct weir_port_watch *watch, bool udp, bool *ret_save) {
	uint32_t first = udp ? watch->params.tcp_count : 0;
	uint32_t count = udp ? watch->params.udp_count : watch->params.tcp_count;
	uint64_t now_ms = uv_now(watch->turn.loop);
	uint32_t counts[WEIR_WATCHED_PORTS_MAX];
	bool changed = false;
	int r = count == 0 ? 0 : count_listeners(watch, udp, first, counts);

	set_blind(watch, udp, r);
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		const struct weir_watched_port *port = &watch->ports.port[first + i];
		enum weir_port_state before = port->state;
		bool had_listener = port->had_listener;
		uint8_t word = port->word;

		changed |= weir_watched_ports_take(&watch->ports, first + i, counts[i], now_ms);
		*ret_save |= (port->had_listener && !had_listener) || port->word != word;
		log_change(watch, port, before, now_ms);
	}
	return changed;
}

static bool look(struct weir_port_watch *watch) {
	bool is_new = false;
	bool changed = look_at(watch, false, &is_new);

	changed |= look_at(watch, true, &is_new);
	if (is_new) {
		save(watch);
	}
	return changed;
}

static void on_turn(uv_timer_t *timer);

static void schedule(struct weir_port_watch *watch) {
	uint64_t now_ms = uv_now(watch->turn.loop);
	uint64_t next_ms = weir_watched_ports_next_ms(&watch->ports);
	uint64_t rest_ms = weir_look_budget_rest_ms(&watch->budget, uv_hrtime());
	uint64_t delay_ms = watch->reader == NULL || watch->params.udp_count > 0
				    ? PERIOD_WITHOUT_EVENTS_MS
				    : PERIOD_MS;

	if (watch->repeats < sizeof(repeat_ms) / sizeof(repeat_ms[0])) {
		delay_ms = repeat_ms[watch->repeats];
	}
	// next_ms is in the past only if the sockets cannot be listed.
	if (next_ms > now_ms && next_ms < now_ms + delay_ms) {
		delay_ms = next_ms - now_ms;
	}
	delay_ms = delay_ms > rest_ms ? delay_ms : rest_ms;
	uv_timer_start(&watch->turn, on_turn, delay_ms, 0);
}

static void turn(struct weir_port_watch *watch) {
	uint64_t start_ns = weir_thread_cpu_ns();
	bool changed = look(watch);

	weir_look_budget_spend(&watch->budget, weir_thread_cpu_ns() - start_ns);
	if (changed) {
		watch->params.changed(watch->params.context);
	}
	log_missing(watch, uv_now(watch->turn.loop));
}

static void take_events(struct weir_port_watch *watch);

static void on_turn(uv_timer_t *timer) {
	struct weir_port_watch *watch = timer->data;

	watch->repeats++;
	turn(watch);
	schedule(watch);
	take_events(watch);
}

// --- events -------------------------------------------------------------------------------

static void on_events(uv_poll_t *poll, int status, int events) {
	struct weir_port_watch *watch = poll->data;
	struct weir_listen_event event;
	uint64_t rest_ms = weir_look_budget_rest_ms(&watch->budget, uv_hrtime());

	(void)status;
	(void)events;
	watch->repeats = 0;
	if (rest_ms > 0) { // the CPU budget is used up: handle all events later
		uv_poll_stop(poll);
		uv_timer_start(&watch->turn, on_turn, rest_ms, 0);
		return;
	}
	while (weir_listen_take(watch->reader, &event)) {
	}
	turn(watch);
	schedule(watch);
}

static void take_events(struct weir_port_watch *watch) {
	if (watch->reader != NULL && !uv_is_active((const uv_handle_t *)&watch->events)) {
		uv_poll_start(&watch->events, UV_READABLE, on_events);
	}
}

// --- start and stop -----------------------------------------------------------------------

static void start_events(uv_loop_t *loop, struct weir_port_watch *watch) {
	const struct weir_port_watch_params *params = &watch->params;
	int r = -ENOENT;

	if (params->tcp_count == 0) {
		return;
	}
	if (params->helper >= 0) {
		r = weir_meter_helper_watch(params->helper, HELPER_MS, &watch->program,
			watch->problem, sizeof(watch->problem));
	}
	if (r == 0) {
		r = weir_listen_open(watch->program.ring, &watch->reader);
	}
	if (r == 0) {
		r = uv_poll_init(loop, &watch->events, watch->program.ring);
	}
	if (r == 0) {
		watch->events.data = watch;
		uv_poll_start(&watch->events, UV_READABLE, on_events);
		return;
	}
	weir_listen_close(watch->reader);
	watch->reader = NULL;
	weir_listen_unload(&watch->program);
	if (watch->problem[0] == '\0') {
		snprintf(watch->problem, sizeof(watch->problem), "%s", strerror(-r));
	}
	weir_log_write(params->log, WEIR_LOG_WARN,
		"cannot monitor listening sockets by events, so all sockets are listed every %d "
		"ms: %s",
		PERIOD_WITHOUT_EVENTS_MS, watch->problem);
}

static int add_ports(struct weir_port_watch *watch) {
	const struct weir_port_watch_params *params = &watch->params;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < params->tcp_count; i++) {
		r = weir_watched_ports_add(&watch->ports, params->tcp_ports[i], IPPROTO_TCP);
	}
	for (uint32_t i = 0; r == 0 && i < params->udp_count; i++) {
		r = weir_watched_ports_add(&watch->ports, params->udp_ports[i], IPPROTO_UDP);
	}
	return r;
}

int weir_port_watch_start(
	uv_loop_t *loop, const struct weir_port_watch_params *params, struct weir_port_watch *ret) {
	int r;

	*ret = (struct weir_port_watch){.params = *params,
		.program = {.ring = -1, .attachment = -1},
		.listeners = -1,
		.budget = {.share = BUDGET_SHARE, .burst_ns = BUDGET_BURST_NS},
		.started_ms = uv_now(loop)};
	weir_watched_ports_init(&ret->ports, params->grace_ms);
	r = add_ports(ret);
	if (r || ret->ports.count == 0) {
		return r;
	}
	restore(ret);
	r = uv_timer_init(loop, &ret->turn);
	if (r) {
		return r;
	}
	ret->turn.data = ret;
	start_events(loop, ret); // before the first check, so that no change is missed
	(void)look(ret);
	schedule(ret);
	return 0;
}

void weir_port_watch_stop(struct weir_port_watch *watch) {
	if (watch->turn.data != NULL) {
		uv_close((uv_handle_t *)&watch->turn, NULL);
	}
	if (watch->events.data != NULL) {
		uv_close((uv_handle_t *)&watch->events, NULL);
		weir_listen_close(watch->reader);
		weir_listen_unload(&watch->program);
	}
	if (watch->listeners > 0) {
		close(watch->listeners);
	}
}
