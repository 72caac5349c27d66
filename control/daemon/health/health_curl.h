// SPDX-License-Identifier: BSD-3-Clause
//
// Engine of all probes that use libcurl: runs transfers on the loop, without threads or signals,
// and keeps a pool of idle transfers.
// A curl multi handle caches the CA certificates of only one file, and curl takes tens of
// milliseconds to read the system's CA file. Therefore transfers with different CA files use
// separate multi handles.
//
// Threads: only the event loop's thread.
#pragma once

#include <curl/curl.h>
#include <sys/queue.h>
#include <uv.h>

struct weir_health_curl;
struct weir_health_group;

// First member of a probe. The functions are set once, when the probe is allocated.
struct weir_health_transfer {
	CURL *easy; // NULL while idle
	// Called from the loop when the transfer has ended and was removed from the engine.
	void (*ended)(struct weir_health_transfer *transfer, CURLcode code);
	void (*free)(struct weir_health_transfer *transfer);
	SLIST_ENTRY(weir_health_transfer) link; // internal to the engine
	struct weir_health_group *group; // internal to the engine; NULL = the transfer does not run
};

// Returns 0 or -ENOMEM.
int weir_health_curl_create(uv_loop_t *loop, struct weir_health_curl **ret);
// Frees the engine. All transfers must have ended or been stopped. The libuv handles are closed in
// the next iterations of the loop.
void weir_health_curl_free(struct weir_health_curl *curl); // NULL is allowed

uv_loop_t *weir_health_curl_loop(const struct weir_health_curl *curl);

// Starts a transfer. ca_file: the CA file set in the transfer; "" = the system's CA file, or the
// server is not verified. Returns 0, or -ENOMEM; `ended` is then not called.
int weir_health_curl_start(
	struct weir_health_curl *curl, const char *ca_file, struct weir_health_transfer *transfer);
// Stops a transfer without calling `ended`. Does nothing if the transfer was not started.
void weir_health_curl_stop(struct weir_health_transfer *transfer);

// weir_health_curl_take returns an idle transfer from the pool. It returns NULL if the pool is
// empty; the caller then allocates a transfer. weir_health_curl_keep returns a stopped transfer to
// the pool, or frees the transfer if the pool is full.
struct weir_health_transfer *weir_health_curl_take(struct weir_health_curl *curl);
void weir_health_curl_keep(struct weir_health_curl *curl, struct weir_health_transfer *transfer);
