// SPDX-License-Identifier: BSD-3-Clause
//
// Import: the common result of the readers of other load balancers' configurations (ipvs.h,
// keepalived.h): a configuration of Weir, notes about everything without an exact counterpart, and
// errors in the source. Only an error prevents a configuration: what Weir does not support, and
// what the other load balancer ignores, too, is left out with a note.
//
// Threads: any. Pure: no files, no output. After a failed allocation, `failed` is set.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"

#define WEIR_IMPORT_BINDS_MAX 256 // of a service
#define WEIR_IMPORT_SERVICES_MAX 4096
#define WEIR_IMPORT_ERRORS_MAX 100 // further errors are only counted
#define WEIR_IMPORT_TEXT_BYTES 64 // of an address with port, and more

struct weir_import_place {
	const char *file;
	int line; // 0 = the whole file
};

// X(NAME, "in the report"), the most serious first
#define WEIR_IMPORT_KINDS(X) \
	X(MISSING, "missing") /* a service, an address or a server is not in the result */ \
	X(ADJUST, "adjust") /* the operator must decide */ \
	X(LEFT_OUT, "left out") /* no counterpart */ \
	X(DIFFERS, "differs") /* a counterpart with different behaviour */

enum weir_import_kind {
#define X(name, text) WEIR_IMPORT_##name,
	WEIR_IMPORT_KINDS(X)
#undef X
		WEIR_IMPORT_KIND_COUNT,
};

extern const char *const weir_import_kind_names[WEIR_IMPORT_KIND_COUNT];

struct weir_import { // zeroed by weir_import_init
	json_t *instance, *timeouts; // members of the result, may be empty
	json_t *services;
	json_t *places; // of the services: [{place: {file, line}, binds: [...], backends: [...]}]
	json_t *notes; // [{kind, file, line, what, why}]
	json_t *sink; // where notes go: notes, or those of a service; borrowed
	json_t *errors; // [{file, line, reason}]
	json_t *names, *binds; // in use: {name: true}, {bind: line}
	uint32_t backends, more_errors;
	bool failed; // out of memory
};

int weir_import_init(struct weir_import *import); // 0 or -ENOMEM; call fini in either case
void weir_import_fini(struct weir_import *import);

// Of the current service, if there is one.
void weir_import_note(struct weir_import *import, const struct weir_import_place *place,
	enum weir_import_kind kind, const char *what, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
// reason: one line, the error and its remedy.
void weir_import_error(struct weir_import *import, const struct weir_import_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

// --- one service, from its first line on ---

struct weir_import_service {
	struct weir_import_place place;
	char name[WEIR_IMPORT_TEXT_BYTES]; // wanted name; an invalid one is replaced
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	json_t *binds, *backends; // as in the configuration
	json_t *places; // of them: {place, binds: [{file, line}], backends: [{file, line}]}
	json_t *notes; // added to the import's at the end
	json_t *keys; // of its binds in import->binds
	json_t *by_address; // the backends, borrowed
	uint16_t port; // of the first bind; 0 = every port
	json_int_t taken_line; // of an address that another service has already; 0 = none
	char scheduler[WEIR_IMPORT_TEXT_BYTES];
	bool hashes_ports; // sh-port, mh-port
	bool left_out; // noted already
	bool direct_noted, nat_noted; // weir_import_forwarding
	bool weights_differ; // weights above 0: a server of weight 0 gets no connections
	json_int_t weight; // of the first backend that has one
	uint32_t upper, uppers; // highest connection limit; number of backends with one
	bool uppers_differ;
	json_t *health_check; // NULL = none
	bool was_checked; // it had a health check in the source
};

// Makes it the current service, which gets the following notes. Returns 0 or -ENOMEM.
int weir_import_service_begin(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *name);
// The following notes belong to this service. NULL: to no service.
void weir_import_select(struct weir_import *import, const struct weir_import_service *service);
// The service is not in the result. Its notes of other kinds are discarded.
void weir_import_leave_out(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *what, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
// port_first 0 = every port. service->protocol is set.
void weir_import_bind(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_address *address,
	uint16_t port_first, uint16_t port_last);

// The policy for an IPVS scheduler ("wrr"), as far as there is one. NULL: no scheduler.
const char *weir_import_scheduler_policy(const char *name);

struct weir_import_backend {
	struct weir_address address;
	uint16_t port; // 0 = that of the service
	bool translated; // NAT: else packets arrive at the port of the VIP whatever is written
	json_int_t weight;
	uint32_t upper; // limit of connections; 0 = none
};
void weir_import_backend(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_import_backend *backend);

// How packets are forwarded: 'g' direct routing, 'i' IP in IP, 'm' NAT. Noted once for a service.
void weir_import_forwarding(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, char method);
// Persistence: clients stayed with a server for this many seconds.
void weir_import_persistence(
	struct weir_import *import, const struct weir_import_place *place, const char *what);
// One-packet scheduling: each UDP datagram was scheduled separately.
void weir_import_one_packet(
	struct weir_import *import, const struct weir_import_place *place, const char *what);
// The source checks the service, but Weir supports none of these checks.
void weir_import_note_unchecked(struct weir_import *import, const struct weir_import_place *place);
// Add the service to the result, unless it is empty. Frees it.
void weir_import_service_end(struct weir_import *import, struct weir_import_service *service);

// --- timeouts ---

#define WEIR_IMPORT_TIMEOUT_S (31u * 86400) // of IPVS

// The timeout of "tcp", "tcpfin" or "udp", in the terms of IPVS; 0 = unchanged. Returns whether it
// is one of these.
bool weir_import_timeout(struct weir_import *import, const struct weir_import_place *place,
	const char *name, uint64_t seconds);

// --- the end ---

// Validate against the configuration's own rules: what these refuse is left out with a note, at its
// line of the source. Returns the text of the configuration, which the caller frees, or NULL on
// errors or if out of memory.
char *weir_import_finish(struct weir_import *import, const struct weir_import_place *source);

// --- text ---

bool weir_import_number(const char *text, uint64_t most, uint64_t *ret); // digits only
// {file, line}; a file name that is not UTF-8 becomes "-". NULL: out of memory.
json_t *weir_import_place_json(const struct weir_import_place *place);
// "192.0.2.1:80", "[2001:db8::1]:80", or the same without a port (0). Returns 0 or -EINVAL.
int weir_import_endpoint(const char *text, struct weir_address *ret, uint16_t *ret_port);
