// SPDX-License-Identifier: BSD-3-Clause
//
// Import: the result of reading the configuration of another load balancer (ipvs.h, keepalived.h).
// The result has three parts: a configuration of Weir, notes, and errors in the source. A note
// names a setting that has no exact counterpart, or that is left out because Weir does not support
// it or because the other load balancer ignores it. Only errors prevent the output of a
// configuration.
//
// Threads: any. No files, no output. After a failed allocation, `failed` is set.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "forwarding_mode.h"

#define WEIR_IMPORT_BINDS_MAX 256 // maximum number of binds of a service
#define WEIR_IMPORT_SERVICES_MAX 4096
#define WEIR_IMPORT_ERRORS_MAX 100 // further errors are only counted
#define WEIR_IMPORT_TEXT_BYTES 64 // enough for an address with port
#define WEIR_IMPORT_TIMEOUT_S (31u * 86400) // maximum timeout of IPVS, in seconds

struct weir_import_place {
	const char *file;
	int line; // 0 = the whole file
};

// X(NAME, "text in the report"), the most serious kind first
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

struct weir_import { // initialised by weir_import_init
	json_t *instance, *timeouts; // members of the result, may be empty
	json_t *services;
	json_t *places; // positions of services in the source: [{place: {file, line}, binds: [...],
			// backends: [...]}]
	json_t *notes; // [{kind, file, line, what, why}]
	// List that gets new notes: `notes`, or the notes of the current service; borrowed.
	json_t *sink;
	json_t *errors; // [{file, line, reason}]
	json_t *names, *binds; // used names and binds: {name: true}, {bind: line}
	json_t *hashed; // servers of the services with scheduler sh: {addresses and weights: line}
	uint32_t backends, more_errors;
	bool failed; // out of memory
};

// Returns 0 or -ENOMEM. Call weir_import_fini in both cases.
int weir_import_init(struct weir_import *import);
void weir_import_fini(struct weir_import *import);

// Add a note to the current service, or to the import if there is no current service.
void weir_import_note(struct weir_import *import, const struct weir_import_place *place,
	enum weir_import_kind kind, const char *what, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
// Add an error. reason: one line with the error and its remedy.
void weir_import_error(struct weir_import *import, const struct weir_import_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

// --- services ---

// Persistence of IPVS: new connections of a client go to the server of its earlier connections.
struct weir_import_persistence {
	struct weir_import_place place;
	uint32_t timeout_s;
	uint8_t ipv4_prefix, ipv6_prefix; // 0 = whole addresses
	bool is_set;
	char what[WEIR_IMPORT_TEXT_BYTES]; // text of the setting, for notes
};

struct weir_import_service {
	struct weir_import_place place;
	char name[WEIR_IMPORT_TEXT_BYTES]; // wanted name; an invalid name is replaced
	json_t *binds, *backends; // JSON as in the configuration
	json_t *places; // positions in the source: {place, binds: [{file, line}], backends: [{file,
			// line}]}
	json_t *notes; // added to import->notes at the end of the service
	json_t *keys; // keys of the binds of this service in import->binds
	json_t *by_address; // {address: backend}, borrowed backends
	json_int_t taken_line; // line of an earlier service with the same address; 0 = none
	char scheduler[WEIR_IMPORT_TEXT_BYTES];
	struct weir_import_persistence persistence;
	uint16_t port; // port of the first bind; 0 = every port
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	bool hashes_ports; // the scheduler has the flag sh-port or mh-port, and hashes ports
	bool one_packet; // one-packet scheduling: a server is chosen for each UDP datagram
	bool left_out; // the service is left out, and a note with the reason was added
	// The note about direct routing, or about NAT, was already added.
	bool direct_noted, nat_noted;
	// The weights of the backends differ, or weights of a duplicate server were added up.
	// Weight 0 is ignored, because a server with weight 0 gets no connections.
	bool weights_differ;
	json_int_t weight; // weight of the first backend whose weight is not 0; 0 = none
	uint32_t upper, uppers; // highest connection limit; number of backends that have a limit
	bool uppers_differ;
	uint32_t backups; // number of backends that are backups
	uint32_t quorum, hysteresis; // as in the configuration; 0 = not set
	json_t *health_check; // NULL = none
	bool was_checked; // the source has a health check for the service
};

// Initialise a service and make it the current service, to which the next notes are added. Returns
// 0 or -ENOMEM.
int weir_import_service_begin(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *name);
// Set the current service, to which the next notes are added. NULL: no service.
void weir_import_select(struct weir_import *import, const struct weir_import_service *service);
// Leave the service out of the result, and add a note of the kind MISSING. weir_import_service_end
// then discards the notes of the service that have another kind.
void weir_import_leave_out(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *what, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
// Add an address to the service. port_first 0 = every port. service->protocol must be set. If
// another service or this service already has the address, or if the service has
// WEIR_IMPORT_BINDS_MAX addresses, adds only a note.
void weir_import_bind(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_address *address,
	uint16_t port_first, uint16_t port_last);

// Returns the policy that is most similar to an IPVS scheduler. name: name of the scheduler, such
// as "wrr". Returns NULL if IPVS has no such scheduler.
const char *weir_import_scheduler_policy(const char *name);

// How packets are sent to a server.
struct weir_import_forwarding {
	// The method is NAT. Weir does not support NAT, so `mode` is IPIP. Only NAT translates the
	// destination port; with other methods, packets arrive at the port of the VIP.
	bool nat;
	uint8_t mode; // enum weir_forwarding_mode
	uint16_t gue_port; // destination port of GUE
};

struct weir_import_backend {
	struct weir_address address;
	uint16_t port; // 0 = the port of the service
	struct weir_import_forwarding forwarding;
	json_int_t weight;
	uint32_t upper; // connection limit; 0 = none
	bool backup; // used only if no other server is healthy; `weight` is ignored
};
// Returns the JSON of the backend, borrowed; NULL if the service already has a backend with this
// address, or if memory runs out.
json_t *weir_import_backend(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_import_backend *backend);

// Add a note about the checksum option of a tunnel: "csum" or "remcsum". "nocsum" needs no note.
// what: text of the option, for the note.
void weir_import_checksum(struct weir_import *import, const struct weir_import_place *place,
	const char *what, enum weir_forwarding_mode mode, const char *option);
// Set the persistence of a service, which becomes its affinity. timeout_s: at most
// WEIR_IMPORT_TIMEOUT_S. what: text of the setting, for notes.
void weir_import_persistence(struct weir_import_service *service,
	const struct weir_import_place *place, const char *what, uint32_t timeout_s);
// Set which addresses count as one client of a persistent service. text: a netmask for family 4, a
// prefix length for family 6. Adds a note if the netmask is not a prefix. what: text of the
// setting, for notes. Returns false if the text is not a netmask or a prefix length.
bool weir_import_granularity(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *what, uint8_t family, const char *text);
// Add a note that the service has no health check: Weir supports none of the checks in the source,
// or the converted check is invalid.
void weir_import_note_unchecked(struct weir_import *import, const struct weir_import_place *place);
// Add the service to the result, unless it was left out, has no addresses or no backends, or would
// exceed WEIR_IMPORT_SERVICES_MAX. Frees the service.
void weir_import_service_end(struct weir_import *import, struct weir_import_service *service);

// --- timeouts ---

// Set a timeout by its name in IPVS: "tcp", "tcpfin" or "udp". 0 seconds leaves the timeout
// unchanged; a timeout above the maximum of Weir becomes this maximum, with a note. Returns whether
// the name is known.
bool weir_import_timeout(struct weir_import *import, const struct weir_import_place *place,
	const char *name, uint64_t seconds);

// --- the result ---

// Validate the result with the rules of the configuration. Leaves out each invalid part, and adds a
// note with its line in the source. Returns the text of the configuration, which the caller frees.
// Returns NULL if there are errors, or if out of memory.
char *weir_import_finish(struct weir_import *import, const struct weir_import_place *source);

// --- text ---

bool weir_import_number(const char *text, uint64_t most, uint64_t *ret); // 1 to 18 digits
// Returns a position as JSON: {file, line}. A file name that is not UTF-8 becomes "-". NULL: out of
// memory.
json_t *weir_import_place_json(const struct weir_import_place *place);
// Parse "192.0.2.1:80", "[2001:db8::1]:80", or an address without a port (port 0). Returns 0 or
// -EINVAL.
int weir_import_endpoint(const char *text, struct weir_address *ret, uint16_t *ret_port);
