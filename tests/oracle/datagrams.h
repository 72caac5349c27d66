// SPDX-License-Identifier: BSD-3-Clause
//
// Datagrams: the oracle's own fragment table (docs/reference/packet-formats.md, "Fragments").
//
// Threads: one.
#pragma once

#include "read.h"

#define DATAGRAM_PARTS 3
#define DATAGRAM_PORTS 16

enum datagram_fate { DATAGRAM_UNDECIDED, DATAGRAM_FORWARD, DATAGRAM_KERNEL, DATAGRAM_DROP };

struct datagram {
	struct key key; // key of the first fragment, with protocol and ports
	uint32_t id;
	uint64_t born_ms;
	enum datagram_fate fate;
	uint16_t backend; // backend, if the verdict is FORWARD
	uint8_t choice; // enum weir_choice of later fragments, if the verdict is FORWARD
	uint64_t reasons; // possible reasons, if the verdict is DROP
	// Ports of the latest first fragments, needed if entries are evicted
	uint8_t ports[DATAGRAM_PORTS][4];
	uint8_t protocols[DATAGRAM_PORTS];
	uint32_t firsts; // number of first fragments so far
	uint32_t end; // 0 = not known
	uint32_t parts;
	struct {
		uint32_t from, to;
	} part[DATAGRAM_PARTS]; // received ranges in ascending order; adjacent ranges are merged
	bool used;
};

#define DATAGRAMS_MAX (1u << 14)

struct datagrams {
	struct datagram *slots; // [DATAGRAMS_MAX]
	struct datagram *spare;
	uint32_t count;
};

void datagrams_init(struct datagrams *datagrams);
void datagrams_fini(struct datagrams *datagrams);
void datagrams_clear(struct datagrams *datagrams);
// Returns the datagram to which a fragment belongs, or NULL.
struct datagram *datagrams_find(
	struct datagrams *datagrams, const struct plan *plan, const struct view *view, uint64_t ms);
// Returns the datagram of a first fragment. Creates it if there is none; replaces a datagram that
// is already complete.
struct datagram *datagrams_enter(
	struct datagrams *datagrams, const struct plan *plan, const struct view *view, uint64_t ms);
// Record a fragment. Returns 0, or the bit of the reason why the fragment is dropped.
uint64_t datagram_cover(struct datagram *datagram, const struct view *view);
