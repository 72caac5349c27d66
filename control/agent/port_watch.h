// SPDX-License-Identifier: BSD-3-Clause
//
// Port watch: looks which of the service's ports have a listening socket, when the kernel reports a
// change (listen.bpf.c) and once a second; without the BPF program, and for UDP, every 100 ms. An
// event only causes a look: lost or duplicate ones do no harm. The ports that had a listening
// socket are saved, so that an agent that starts while the server is dead announces it as down, and
// the words of their applications.
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
	int helper; // of weir_meter_helper_start, owned by the caller; -1 = none
	int saved; // of weir_saved_state_open, owned by the caller; -1 = none
	void (*changed)(void *context); // the words of the ports have changed
	void *context;
};

struct weir_port_watch {
	struct weir_port_watch_params params;
	struct weir_watched_ports ports; // first those of TCP, in the order of params
	struct weir_listen_program program;
	struct weir_listen_reader *reader; // NULL = no events: looks every 100 ms
	char problem[192]; // why there are no events; "" = there are, or there is no TCP port
	char blind[2][64]; // why the sockets of TCP, of UDP cannot be listed; "" = they can
	int listeners; // netlink; negative = none yet, each look tries to open it
	bool missing_logged; // ports without a listening socket since the start
	uint64_t started_ms;
	struct weir_look_budget budget;
	uint32_t repeats; // looks since the last event
	uv_poll_t events;
	uv_timer_t turn;
};

// Look for the first time, without `changed`. Waits for the helper. Returns 0 or negative errno.
int weir_port_watch_start(
	uv_loop_t *loop, const struct weir_port_watch_params *params, struct weir_port_watch *ret);
// The application's word for a port, saved. Without `changed` and without a line in the log.
// Returns like weir_watched_ports_set_word.
bool weir_port_watch_set_word(
	struct weir_port_watch *watch, uint16_t port, uint8_t protocol, enum weir_health_word word);
// Run the loop afterwards to close its handles.
void weir_port_watch_stop(struct weir_port_watch *watch);
