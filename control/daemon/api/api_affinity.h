// SPDX-License-Identifier: BSD-3-Clause
//
// The affinity of a service (api_affinity_kind.c), for the handlers of affinity.show,
// affinity.lookup and affinity.clear (api_affinity.c, api_affinity_client.c) and of flow.lookup.
//
// Threads: the thread of the loop.
#pragma once

#include "api_request.h"
#include "daemon.h"

enum weir_api_affinity {
	WEIR_API_AFFINITY_NONE,
	WEIR_API_AFFINITY_HASH, // the hash of the client's address selects the backend
	WEIR_API_AFFINITY_TABLE, // the affinity table stores the backend of each client
};

// Returns the affinity of a service with its policy in effect. *ret_state: the state of the
// service; its settings contain the prefix lengths that define a client.
enum weir_api_affinity weir_api_affinity_of(
	const struct weir_tables *tables, uint16_t service, struct weir_service_state *ret_state);

// Calls weir_api_find_service, and also fails the call if the service has no affinity. deletes: the
// call deletes entries, so policy maglev, which has no entries, is also an error. *ret_state: see
// weir_api_affinity_of.
int weir_api_find_affinity(struct weir_daemon *daemon, struct weir_api_call *call, bool deletes,
	struct weir_service_state *ret_state);
// Fails a call that would delete the affinity entries of a service without such entries: its policy
// is maglev, or the dataplane has no affinity table.
void weir_api_affinity_by_hash(
	const struct weir_daemon *daemon, struct weir_api_call *call, uint16_t service);
// Answers affinity.clear. backend: name, or NULL. client: prefix, or NULL.
void weir_api_answer_forgotten(struct weir_api_call *call, uint64_t clients, bool incomplete,
	const char *backend, const char *client);

// The part of affinity.clear with the argument `client`: deletes the entry of this client. With the
// argument `backend`, deletes the entry only if it has this backend.
void weir_api_affinity_clear_client(struct weir_daemon *daemon, struct weir_api_call *call);
