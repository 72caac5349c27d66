// SPDX-License-Identifier: BSD-3-Clause
//
// Decap loader: loads decap.bpf.c, attaches it to an interface, fills its maps and reads its
// counters. The kernel detaches the program when the process exits for any reason (BPF link).
//
// Threads: one. No logging; `why` receives one line: the error and its remedy.
#pragma once

#include "decap.h"
#include "options.h"

struct weir_decap;

struct weir_decap_modes { // forwarding modes to decapsulate
	bool ipip, gre;
	uint16_t gue_port; // 0: do not decapsulate GUE packets
	uint32_t gre_key; // 0: packets with any key, or without a key
};

struct weir_decap_params {
	const char *interface;
	const struct weir_prefix *sources; // empty: any source
	uint32_t source_count;
	struct weir_decap_modes modes;
	enum weir_agent_mode mode;
};

// Load the program and attach it. The address list is empty at first, so no packet is decapsulated
// yet. Returns 0, -ENODEV (no such interface), -EPERM, -EBUSY (another XDP program is attached),
// ...
int weir_decap_attach(const struct weir_decap_params *params, struct weir_decap **ret, char *why,
	size_t why_bytes);
void weir_decap_free(struct weir_decap *decap); // detaches; NULL is allowed

bool weir_decap_is_native(const struct weir_decap *decap);
// Returns false if the interface was removed, or moved to another network namespace. name: has
// IF_NAMESIZE bytes; is set to the current name of the interface, or unchanged if the name cannot
// be read.
bool weir_decap_is_attached(const struct weir_decap *decap, char *name);

// Set the list of outer destinations: only packets to these addresses are decapsulated. Returns 0,
// -ENOSPC (too many), or another negative errno.
int weir_decap_set_addresses(
	struct weir_decap *decap, const struct weir_address *addresses, uint32_t n);

// Lists the addresses of an interface that can be outer destinations, at most `room`. Leaves out
// link-local addresses of IPv6. Returns the number of addresses, or negative errno.
int weir_decap_interface_addresses(
	const char *interface, struct weir_address *addresses, uint32_t room);

struct weir_decap_stats {
	struct weir_decap_counter result[WEIR_DECAP_RESULT_COUNT]; // sums over CPUs
};

int weir_decap_stats(const struct weir_decap *decap, struct weir_decap_stats *ret);
// Read the counters of the decap program on an interface. Any process may have attached the
// program. Returns 0, -ENODEV, -ENOENT (no decap program), -EPERM, ...
int weir_decap_stats_of(
	const char *interface, struct weir_decap_stats *ret, char *why, size_t why_bytes);

// Read the outer sources of the packets last counted as WEIR_DECAP_SOURCE, newest first: at most
// one for each CPU, and each source once. Return values as for weir_decap_stats_of; the list is
// empty after an error.
#define WEIR_DECAP_REFUSED_MAX 4u
struct weir_decap_sources {
	struct weir_address source[WEIR_DECAP_REFUSED_MAX];
	uint32_t count;
};
int weir_decap_refused_of(const char *interface, struct weir_decap_sources *ret);
// Writes sources as text, separated by commas, or "unknown" for none. buffer: has
// WEIR_DECAP_SOURCES_BYTES bytes. Returns buffer.
#define WEIR_DECAP_SOURCES_BYTES (WEIR_DECAP_REFUSED_MAX * 48)
const char *weir_decap_sources_text(const struct weir_decap_sources *sources, char *buffer);

// Read the forwarding modes of the decap program on an interface. Return values as for
// weir_decap_stats_of.
int weir_decap_modes_of(
	const char *interface, struct weir_decap_modes *ret, char *why, size_t why_bytes);
// Writes forwarding modes as text, such as "ipip, gue (port 6080), gre (key 7)". modes: at least
// one mode. buffer: has WEIR_DECAP_MODES_BYTES bytes. Returns buffer.
#define WEIR_DECAP_MODES_BYTES 64
const char *weir_decap_modes_text(const struct weir_decap_modes *modes, char *buffer);

// Remove the decap program of an interface, if no running process uses the program. Returns 0,
// -ENODEV, -ENOENT (no XDP program), -EBUSY (a process uses the program, or another program is
// attached), ...
int weir_decap_remove(const char *interface, char *why, size_t why_bytes);

const char *weir_decap_result_name(enum weir_decap_result result);
const char *weir_decap_result_text(enum weir_decap_result result);
