// SPDX-License-Identifier: BSD-3-Clause
//
// Echo: sends ICMP echo requests with DF to a backend, directly and in the forwarding mode that
// weir-dataplane uses. The set of requests without a reply shows the fault: the address of the
// backend, the decapsulation, the VIP on the backend's loopback interface, or the packet size.
//
// Any host can send forged replies and errors, so the module accepts a reply or an error only if it
// contains random data of a request.
//
// Threads: one; blocks until the deadline of each round. Needs CAP_NET_RAW.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

#define WEIR_ECHO_TOKEN_BYTES 16

enum weir_echo_kind {
	WEIR_ECHO_DIRECT, // sent to the address of the backend
	// sent through the tunnel, to the address of the backend; not used with forwarding l2
	WEIR_ECHO_TUNNEL,
	WEIR_ECHO_VIP, // sent in the forwarding mode of the backend, to the VIP
};

struct weir_echo {
	enum weir_echo_kind kind;
	// Addresses of the outer header, or of the only header in a direct probe.
	struct weir_address backend, source;
	struct weir_address inner, inner_source; // inner header; not used in a direct probe
	struct weir_forwarding forwarding;
	uint32_t interface; // index of the interface of the backend's link; used with l2
	uint16_t bytes; // length of the packet to send; 0 = a small packet
	bool answered;
	uint32_t advertised_mtu; // MTU in a "too big" message from a router; 0 = none
	int error; // negative errno if sending failed; 0 = sent, or no MAC address yet with l2
};

struct weir_echo_sockets {
	int out4, out6; // raw sockets to send whole packets; -1 = none
	int link; // packet socket to send to MAC addresses
	int in4, in6; // ICMP sockets to receive replies
	// Random data in each request, so that only a host that received a request can answer it.
	uint8_t token[WEIR_ECHO_TOKEN_BYTES];
};

// Opens the sockets. Returns 0. On an error, leaves no socket open and returns negative errno: for
// example -EPERM, or an error of getrandom.
int weir_echo_open(struct weir_echo_sockets *ret);
void weir_echo_close(struct weir_echo_sockets *sockets);

// Sends all probes, at most 65,535, and repeats probes that are not answered. Returns after
// deadline_ms, or earlier if each probe is answered, has an advertised_mtu or has an error.
void weir_echo_round(const struct weir_echo_sockets *sockets, struct weir_echo *probes,
	uint32_t count, int deadline_ms);
