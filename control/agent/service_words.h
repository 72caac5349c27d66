// SPDX-License-Identifier: BSD-3-Clause
//
// Service words: applies the states that applications announce (words/words.h) to the watched ports
// and to the announcement.
//
// Threads: one, the event loop's.
#pragma once

#include "announcement.h"
#include "port_watch.h"
#include "words.h"

struct weir_service_words {
	struct weir_words words;
	struct weir_port_watch *watch;
	struct weir_announcement *announcement;
	// value of announcement->serial when the state of each service last changed
	uint32_t serial[WEIR_NAMED_SERVICES_MAX];
};

// Start. Call this function after the watch was started with all ports of the services, and before
// the first probe is received. Removes saved states of ports that no longer belong to a service.
// All pointers must outlive ret. Returns 0 or negative errno.
int weir_service_words_start(uv_loop_t *loop, struct weir_log *log,
	const struct weir_named_services *services, const struct weir_word_listeners *listeners,
	struct weir_port_watch *watch, struct weir_announcement *announcement,
	struct weir_service_words *ret);
// Stop. Run the event loop after this call, so that libuv can close the handles.
void weir_service_words_stop(struct weir_service_words *words);
