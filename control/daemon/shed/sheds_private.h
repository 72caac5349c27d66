// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the files of the sheds: sheds_list.c (the list, texts, begins and ends), sheds_run.c
// (the mean, orders and their results) and sheds.c (starts and stops); each uses those before it.
//
// Threads: one.
#pragma once

#include "sheds.h"

struct weir_sheds {
	struct weir_sheds_of of;
	struct weir_tables *tables; // NULL until the first weir_sheds_follow
	struct weir_shed **shed; // [count], owned
	uint32_t count, room;
	uint64_t now_ms; // time of the last call that has a time
};

// sheds_list.c: adds an empty shed to the list, or returns NULL if out of memory.
struct weir_shed *weir_sheds_add(struct weir_sheds *sheds);
// sheds_list.c: frees a shed.
void weir_sheds_forget(struct weir_sheds *sheds, const struct weir_shed *shed);
// sheds_list.c: sets why a shed waits or ends.
void weir_shed_note(struct weir_shed *shed, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
// sheds_list.c: ends a shed with this state, and calls `begun` if it was not called yet. shed->why
// has the reason. A dry run is freed.
void weir_shed_end(struct weir_sheds *sheds, struct weir_shed *shed, enum weir_shed_state state);
// sheds_list.c: calls `begun`, and logs the start.
void weir_shed_begin(struct weir_sheds *sheds, struct weir_shed *shed);

// sheds_run.c: compares a backend with the mean of its service. leaving: those of its flows that
// the hook has got: they count for the mean, because their clients connect again, but not for the
// backend. Returns 0 or -ENOENT (no other backend takes new flows).
int weir_shed_measure(const struct weir_sheds *sheds, const struct weir_backend_state *backend,
	uint64_t leaving, struct weir_shed_level *ret);
// sheds_run.c: sends the next order of a shed, or ends the shed. count 0 is sent while it is
// STARTING.
void weir_shed_advance(struct weir_sheds *sheds, struct weir_shed *shed);
// sheds_run.c: a weir_agents_shed_ended; context: the sheds.
void weir_shed_take_result(void *context, const struct weir_agents_shed *order,
	const struct weir_agents_shed_result *result);
