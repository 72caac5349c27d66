// SPDX-License-Identifier: BSD-3-Clause
//
// Next hops on real veth pairs. lb0 and lb1 are ports. Their peers eth0 and eth1 are in a separate
// network namespace, which answers ARP requests and neighbour solicitations. Needs root, and
// TEST_GROUP(watch_lab_enter).
#pragma once

#include "neighbours.h"
#include "watch_lab.h"

#define REPORTS_MAX 32
#define MAC0 "02:00:00:00:00:10" // MAC address of eth0
#define MAC1 "02:00:00:00:00:11" // MAC address of eth1

struct seen { // last report about an address
	struct weir_address address;
	struct weir_next_hop hop;
	char why[256];
	int calls;
};

struct lab {
	uv_loop_t loop;
	struct weir_neighbours *neighbours;
	pid_t peer; // process that holds the other namespace
	struct seen seen[REPORTS_MAX];
	uint32_t seen_count;
	uint32_t calls;
	struct weir_neighbour_port ports[2];
	struct weir_address addresses[REPORTS_MAX];
	uint32_t address_count;
	const char *wanted; // address for which the test waits
	const char *wanted_mac; // expected MAC address; NULL = unresolved
	bool clear_in_callback;
};

// Creates the veth pairs with addresses .2 (ports) and .11 (peers) in 10.N.0.0/24 and
// 2001:db8:N::/64, where N is the number of the port. No address is watched yet.
int setup(void **state);
int teardown(void **state);
void peer_sh(const struct lab *lab, const char *command); // in the namespace of the peers
void watch(struct lab *lab, const char *address); // from the next configure() on
void configure(struct lab *lab); // with the ports and addresses of the lab

// Callback of weir_neighbours_create(): keeps the report. context: a struct lab
void on_next_hop(void *context, const struct weir_address *address, const struct weir_next_hop *hop,
	const char *why);
bool is_as_wanted(void *lab); // whether the last report of lab->wanted has lab->wanted_mac

// Wait until the last report of an address has this MAC address (NULL: unresolved).
struct seen *expect(struct lab *lab, const char *address, const char *mac);

void format_mac(const uint8_t mac[6], char text[18]);
void assert_source(const struct seen *seen, const char *text);
