// SPDX-License-Identifier: BSD-3-Clause
//
// The engine of all probes that libcurl makes: its transfers on the loop, without threads or
// signals, and a store of idle ones.
//
// curl remembers the authorities of one file only, and reads those of the system in 30 ms:
// transfers with different files are kept apart.
//
// Threads: that of the loop.
#pragma once

#include <curl/curl.h>
#include <sys/queue.h>
#include <uv.h>

struct weir_health_curl;

// What a probe begins with. The functions are set once, by whoever makes it.
struct weir_health_transfer {
	CURL *easy; // while it is not idle
	// It is over, and out of the engine. Called from the loop.
	void (*ended)(struct weir_health_transfer *transfer, CURLcode code);
	void (*free)(struct weir_health_transfer *transfer);
	SLIST_ENTRY(weir_health_transfer) link; // of the engine
	CURLM *multi; // of the engine, while it runs
};

// Returns 0 or -ENOMEM.
int weir_health_curl_create(uv_loop_t *loop, struct weir_health_curl **ret);
// All transfers must have ended or been stopped. Handles close in the next iterations of the loop.
void weir_health_curl_free(struct weir_health_curl *curl); // NULL is fine

uv_loop_t *weir_health_curl_loop(const struct weir_health_curl *curl);

// authorities: the file that its server's certificate is verified with; "" = that of the system, or
// none. Returns 0 or -ENOMEM: `ended` is not called then.
int weir_health_curl_start(struct weir_health_curl *curl, const char *authorities,
	struct weir_health_transfer *transfer);
// Ends it without calling `ended`.
void weir_health_curl_stop(struct weir_health_transfer *transfer);

// An idle transfer, or NULL: there is none, make one. Keep puts one back that is not running; it is
// freed if there are enough.
struct weir_health_transfer *weir_health_curl_take(struct weir_health_curl *curl);
void weir_health_curl_keep(struct weir_health_curl *curl, struct weir_health_transfer *transfer);
