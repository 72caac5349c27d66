// SPDX-License-Identifier: BSD-3-Clause
//
// Echo: requests to a backend, directly and through the tunnel as the dataplane sends them, with
// DF. The unanswered ones locate the problem: the backend's address, its decapsulation, the VIP on
// its loopback interface, or the packet size.
//
// Any host can send replies and errors here: only those that quote the random data of a request are
// accepted.
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
	struct weir_address backend, source; // outer header; of a direct probe: the only one
	struct weir_address inner, inner_source; // after the outer header
	uint16_t bytes; // of the packet as sent; 0 = a small one
	bool answered;
	uint32_t advertised_mtu; // MTU from a router's "too big" message; 0 = none
	int error; // negative errno of sending; 0 = sent
};

struct weir_echo_sockets {
	int out4, out6; // raw sockets for whole packets; -1 = none
	int in4, in6; // ICMP
	// random; sent in each request, so that only a host that received one can answer it
	uint8_t token[WEIR_ECHO_TOKEN_BYTES];
};

// Returns 0, or negative errno with no socket open: -EPERM, and those of getrandom.
int weir_echo_open(struct weir_echo_sockets *ret);
void weir_echo_close(struct weir_echo_sockets *sockets);

// Send all probes and wait until each is answered or the deadline has passed; unanswered ones are
// repeated meanwhile. At most 65,535 probes.
void weir_echo_round(const struct weir_echo_sockets *sockets, struct weir_echo *probes,
	uint32_t count, int deadline_ms);
