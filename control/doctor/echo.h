// SPDX-License-Identifier: BSD-3-Clause
//
// Echo: requests to a backend, straight and through the tunnel as the dataplane sends them,
// with DF. Which of them are answered tells where the way ends: at the backend's address, at its
// decapsulator, at the VIP on its loopback interface, or at a size.
//
// Anybody can send answers and errors to this host: only those count that quote what is random in
// the request.
//
// Threads: one; blocks for the deadline of each round. Needs CAP_NET_RAW.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

#define WEIR_ECHO_TOKEN_BYTES 16

enum weir_echo_kind {
	WEIR_ECHO_DIRECT, // to the backend's address
	WEIR_ECHO_TUNNEL, // encapsulated, to the backend's address
	WEIR_ECHO_VIP, // encapsulated, to the VIP
};

struct weir_echo {
	enum weir_echo_kind kind;
	struct weir_address backend, source; // outer header; of a direct one: the only one
	struct weir_address inner, inner_source; // behind the outer header
	uint16_t bytes; // of the packet that leaves; 0 = a small one
	bool answered;
	uint32_t advertised_mtu; // by a router that the packet does not fit; 0 = none has
	int error; // negative errno of sending it; 0 = it was sent
};

struct weir_echo_sockets {
	int out4, out6; // raw, which take whole packets; -1 = none
	int in4, in6; // ICMP
	// Drawn: in each request, so that only who saw one can answer it.
	uint8_t token[WEIR_ECHO_TOKEN_BYTES];
};

// Returns 0, or negative errno with no socket open: -EPERM, and those of getrandom.
int weir_echo_open(struct weir_echo_sockets *ret);
void weir_echo_close(struct weir_echo_sockets *sockets);

// Send all probes and wait until each is answered or the deadline is over; what is not answered is
// sent again meanwhile. At most 65,535 probes.
void weir_echo_round(const struct weir_echo_sockets *sockets, struct weir_echo *probes,
	uint32_t count, int deadline_ms);
