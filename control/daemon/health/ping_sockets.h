// SPDX-License-Identifier: BSD-3-Clause
//
// Sockets for ICMP echo requests, one for each family. weir-control opens them before it drops its
// privileges. A ping socket needs no privileges, but the group of the process must be in
// net.ipv4.ping_group_range; otherwise a raw socket is opened, which needs CAP_NET_RAW and receives
// only echo replies.
//
// Threads: any.
#pragma once

#include <stdbool.h>

struct weir_ping_socket {
	int fd; // non-blocking; -1 = none
	bool raw; // IPv4: received messages include the IP header
};

struct weir_ping_sockets {
	struct weir_ping_socket ipv4, ipv6;
};

#define WEIR_PING_SOCKETS_NONE ((struct weir_ping_sockets){.ipv4 = {.fd = -1}, .ipv6 = {.fd = -1}})

// Opens the sockets. Returns 0, or negative errno if the IPv4 socket cannot be opened. The IPv6
// socket can be missing in both cases.
int weir_ping_sockets_open(struct weir_ping_sockets *ret);
void weir_ping_sockets_close(struct weir_ping_sockets *sockets); // allowed if none are open
