// SPDX-License-Identifier: BSD-3-Clause
//
// Port watch: checks which of the service's ports have a listening socket. A check runs when the
// kernel reports a change (listen.bpf.c), and once a second. If the BPF program is not loaded, or
// UDP ports are watched, a check runs every 100 ms. An event only starts a check, so lost or
// duplicate events do no harm. The watch saves the ports that had a listening socket: if the server
// has died while the agent was restarted, the agent announces these ports as down. The watch also
// saves the states that applications have announced (called words in the code).
//
// Threads: one, the event loop's.
#pragma once

#include <uv.h>

#include "listen_loader.h"
#include "listen_reader.h"
#include "log.h"
#include "look_budget.h"
#include "watched_ports.h"

struct weir_port_watch_params { // pointers: must outlive the watch
	struct weir_log *log;
	const uint16_t *tcp_ports;
	uint32_t tcp_count;
	const uint16_t *udp_ports;
	uint32_t udp_count;
	uint32_t grace_ms;
	int helper; // descriptor of weir_meter_helper_start, owned by the caller; -1 = none
	int saved; // descriptor of weir_saved_state_open, owned by the caller; -1 = none
	void (*changed)(void *context); // called when states of ports have changed
	void *context;
};

struct weir_port_watch {
	struct weir_port_watch_params params;
	struct weir_watched_ports ports; // TCP ports first, in the order of params
	struct weir_listen_program program;
	struct weir_listen_reader *reader; // NULL = no events: checks every 100 ms
	// Why the kernel sends no events; "" = the kernel sends events, or there is no TCP port.
	char problem[192];
	// Why TCP sockets [0] and UDP sockets [1] cannot be listed; "" = they can be listed.
	char blind[2][64];
	// netlink socket; negative = not open yet: each check tries to open the socket
	int listeners;
	bool missing_logged; // the ports without a listening socket were logged
	uint64_t started_ms;
	struct weir_look_budget budget;
	// Number of checks since the last event. After an event, checks are repeated with
	// increasing delays (repeat_ms).
	uint32_t repeats;
	uv_poll_t events;
	uv_timer_t turn;
};

// Start the watch and run the first check, which does not call `changed`. Waits for the helper to
// load the BPF program. Returns 0 or negative errno.
int weir_port_watch_start(
	uv_loop_t *loop, const struct weir_port_watch_params *params, struct weir_port_watch *ret);
// Sets and saves the state that the application has announced for a port. Does not call `changed`,
// and logs nothing. Return value: see weir_watched_ports_set_word.
bool weir_port_watch_set_word(
	struct weir_port_watch *watch, uint16_t port, uint8_t protocol, enum weir_health_word word);
// Stop. Run the event loop after this call, so that libuv can close the handles.
void weir_port_watch_stop(struct weir_port_watch *watch);
