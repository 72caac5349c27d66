// SPDX-License-Identifier: BSD-3-Clause
//
// Datagram: the common code of all probes over UDP. Sends one datagram, and passes each received
// datagram to the type of the probe, until a datagram decides the outcome or the timeout has
// passed.
//
// The socket is connected: it receives only datagrams from the address and port of the backend, and
// ICMP errors about its datagram. The kernel chooses a random source port for each probe, except
// via the data path, where the connection has a port already.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "health_probe.h"

#define WEIR_HEALTH_DATAGRAM_BYTES 4096u // maximum number of bytes read of a datagram

struct weir_health_datagram_result {
	size_t bytes; // length of the whole datagram, even if only a part of it was read
	enum weir_probe_outcome outcome;
	char detail[96];
};

struct weir_health_datagram;

struct weir_health_datagram_type {
	// Returns whether this datagram decides the outcome; *ret is then set. data: the datagram,
	// or the first WEIR_HEALTH_DATAGRAM_BYTES of a longer datagram.
	bool (*take)(struct weir_health_datagram *datagram, const uint8_t *data, size_t bytes,
		struct weir_health_datagram_result *ret);
	// Sets the outcome after the timeout.
	void (*expire)(
		struct weir_health_datagram *datagram, struct weir_health_datagram_result *ret);
};

// First member of the struct of a probe. The struct must be allocated with malloc.
struct weir_health_datagram {
	uv_poll_t poll;
	uv_timer_t timer;
	const struct weir_health_datagram_type *type;
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	int fd;
	unsigned int open_handles;
	bool ended;
};

// Sends the datagram. Returns 0, or negative errno; `done` is then not called. Frees the struct of
// the probe on failure, or when the probe has ended.
int weir_health_datagram_start(struct weir_health_datagram *datagram, uv_loop_t *loop,
	const struct weir_health_datagram_type *type, const struct weir_probe_params *params,
	const void *request, size_t bytes);

// Cancels the probe without calling done. Its libuv handles are closed in the next iterations of
// the loop.
void weir_health_datagram_cancel(struct weir_health_datagram *datagram);
