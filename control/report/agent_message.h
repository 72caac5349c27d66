// SPDX-License-Identifier: BSD-3-Clause
//
// Agent messages: the datagrams between weir-control and weir-agent. A probe requests a report, and
// an answer contains the report. If the probe requests TCP figures (values from the tcp_info of
// connections), a datagram with these figures follows the answer. A steal request requests
// permission to move a TCP flow that is possibly not established on the backend yet. The steal
// answer permits or refuses the move. All datagrams are WEIR_AGENT_MESSAGE_BYTES long, so that an
// agent cannot be used for amplification. They are authenticated, but not encrypted.
//
//   offset  bytes
//   0       4      "WEIR"
//   4       1      version, 1
//   5       1      kind: 1 = probe, 2 = answer, 3 = steal request, 4 = steal answer,
//                  5 = TCP figures, 6 = shed order, 7 = shed answer
//   6       2      key id, 1 to 65535
//   8              the fields of the kind, WEIR_AGENT_PROBE_FIELDS and so on
//   ...            zero up to 224
//   224     32     HMAC-SHA-512-256 (libsodium's crypto_auth) of bytes 0 to 223, with that key
//
// Numbers are integers in network byte order. docs/reference/agent-protocol.md also lists the
// fields, and a test compares both lists. A change that an older program would misinterpret needs a
// new version.
//
// The agent immediately announces a change of the state of the backend (starting, ready, lame duck,
// down), or of the state of a port: it sends an unsolicited answer to each known balancer, with the
// challenge of the balancer's newest probe. The agent repeats this answer until a probe
// acknowledges the serial of the answer. When weir-control receives a new serial, it sends an extra
// probe immediately, unless that would exceed a rate limit (agents_prober.c).
//
// An answer contains the announced states of ports (port words) only if the balancer requests them
// (WEIR_AGENT_PORT_WORDS), because older versions of weir-control reject an answer with port words.
// For the same reason, an answer contains the speed and the model of the CPUs only on request (bit
// WEIR_REPORT_BIT_GCU of `wants`).
//
// TCP figures are in a separate datagram, because an answer has no room left. An agent sends this
// datagram after the answer, and only to a registered balancer that requests it
// (WEIR_AGENT_TCP_FIGURES). A balancer is registered only after it has received an answer at its
// address. Therefore a forged probe cannot make the agent send two datagrams to a third host.
//
// A probe, a steal request and a shed order contain their destination address. An agent ignores
// such a datagram if it arrives at another address. Otherwise an attacker could send a datagram for
// another agent to this agent, and use this agent's answer as the answer of the other agent.
//
// A steal request is executed once. If the request is repeated, the agent repeats its first answer.
// The agent refuses a request whose id was used for another flow. It executes no request after the
// deadline in the request, which is a time of the agent's clock. Therefore a replayed request has
// no effect. Without an answer, the flow must not be moved.
//
// A shed order requests that the agent ends at most `count` connections of a service before a
// deadline, at a limited rate, and that at least `keep` connections stay open. An order is executed
// once: if it is repeated, the agent repeats the answer with the current numbers. Therefore the
// agent never ends more than `count` connections, even if a datagram is lost or repeated, or if the
// sender exits.
//
// Threads: any; no shared state. Call weir_agent_crypto_start() first.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_keys.h"
#include "report.h"

#define WEIR_AGENT_MESSAGE_BYTES 256
#define WEIR_AGENT_VERSION 1
#define WEIR_AGENT_FIELDS_START 8
#define WEIR_AGENT_MAC_START 224
#define WEIR_AGENT_MAC_BYTES 32
#define WEIR_AGENT_CHALLENGE_BYTES 16
#define WEIR_AGENT_RECIPIENT_BYTES 16
#define WEIR_AGENT_WHY_BYTES 32
#define WEIR_AGENT_PORT 4777 // default UDP port of the agent
#define WEIR_AGENT_INTERVAL_MOST_MS 3600000
// maximum time from the current time of the agent's clock to a deadline
#define WEIR_AGENT_STEAL_AHEAD_MS 5000
#define WEIR_AGENT_SHED_BINDS 5 // maximum number of binds in a shed order
#define WEIR_AGENT_SHED_COUNT_MOST 10000 // maximum number of connections of a shed order
#define WEIR_AGENT_SHED_RATE_MILLI_MOST 1000000 // maximum rate of a shed order: 1000/s
#define WEIR_AGENT_SHED_IDLE_LEAST_MS 1000 // minimum idle time in a shed order
// An agent removes a balancer after this number of probe intervals without a probe.
#define WEIR_AGENT_SILENT_PROBES 4

enum weir_agent_kind {
	WEIR_AGENT_PROBE = 1,
	WEIR_AGENT_ANSWER,
	WEIR_AGENT_STEAL,
	WEIR_AGENT_STEAL_ANSWER,
	WEIR_AGENT_TCP,
	WEIR_AGENT_SHED,
	WEIR_AGENT_SHED_ANSWER
};

// Reasons to refuse a datagram; refused datagrams are counted by reason. X(NAME, "name",
// "meaning"). The decode functions check the reasons that are listed before REPLAY. The callers of
// these functions check REPLAY and the reasons after it, which depend on more than the datagram.
// The callers also refuse some values (VALUE).
#define WEIR_AGENT_REFUSALS(X) \
	X(NONE, "none", "the datagram is accepted") \
	X(LENGTH, "length", "the datagram is not 256 bytes long") \
	X(MAGIC, "magic", "the datagram does not begin with WEIR") \
	X(VERSION, "version", "the receiver does not support the version of the datagram") \
	X(KIND, "kind", "the receiver does not accept this kind of datagram") \
	X(KEY, "key", "the key id is not in the receiver's key file") \
	X(MAC, "mac", "the authentication code is wrong: the datagram is forged or damaged") \
	X(REST, "rest", "the unused bytes are not zero") \
	X(VALUE, "value", "a field is out of range") \
	X(REPLAY, "replay", "the sequence number, or a higher number, was received before") \
	X(RECIPIENT, "recipient", \
		"a probe, steal request or shed order that arrived at another address or port " \
		"than its `recipient`") \
	X(FULL, "full", \
		"a probe from a new balancer, while the agent already has its maximum number of " \
		"balancers") \
	X(SENDER, "sender", "the sender is not the address and port of a backend with an agent") \
	X(BALANCER, "balancer", \
		"an answer for another balancer, for an earlier weir-control process, or for a " \
		"request to another address") \
	X(CHALLENGE, "challenge", "an answer without a probe in flight, or a duplicate") \
	X(SERIAL, "serial", \
		"an unsolicited answer whose state is not newer than the last state received") \
	X(OFTEN, "often", \
		"an unsolicited answer with a new state too soon after the previous state") \
	X(AGENT, "agent", "a steal request or shed order with the ID of another agent process") \
	X(FLOW, "flow", \
		"a steal request with an id that was used for another flow, or a steal answer " \
		"about a flow that was not requested") \
	X(RATE, "rate", \
		"steal requests exceed the agent's rate limit, or the agent cannot store a shed " \
		"order") \
	X(STEAL, "steal", \
		"a steal answer without a request in flight: late, a duplicate, or unsolicited") \
	X(SHED, "shed", "a shed answer without an order in progress, or older than the last answer")

enum weir_agent_refusal {
#define X(name, text, meaning) WEIR_AGENT_REFUSAL_##name,
	WEIR_AGENT_REFUSALS(X)
#undef X
		WEIR_AGENT_REFUSAL_COUNT
};
const char *weir_agent_refusal_name(enum weir_agent_refusal refusal);
const char *weir_agent_refusal_meaning(enum weir_agent_refusal refusal);

// The fields of each kind, in the order of the datagram, without gaps. X(type, field, "meaning").
// U8 to U64 are numbers of that many bits; BYTES are 16 bytes; TEXT is 32 bytes with at least one
// NUL at the end. PORTS are the announced states (words) of ports, with 4 bytes for each port: port
// number (2 bytes), protocol (1 byte), and word + 16 * reason (1 byte). BINDS have 20 bytes for
// each bind. FAMILY are the fields of WEIR_AGENT_TCP_FAMILY_FIELDS.
#define WEIR_AGENT_PROBE_FIELDS(X) \
	X(U64, balancer, \
		"ID of the sending balancer, not 0; random for each `weir-control` process and " \
		"each address of an agent") \
	X(U64, sequence, "increases by one with each probe to this agent") \
	X(BYTES, challenge, "random; returned in the answer") \
	X(U64, agent, "ID of the agent process that sent the serial in `acknowledged`, 0 = none") \
	X(U64, clock_ms, "milliseconds since the start of the sending process") \
	X(U32, interval_ms, "maximum time until the next probe, 1 to 3600000") \
	X(U32, acknowledged, "serial of the newest state received from the agent, 0 = none") \
	X(U32, wants, "fields (bits as in `given`) that a policy uses; unknown bits are ignored") \
	X(BYTES, recipient, "destination address; IPv4 as ::ffff:a.b.c.d") \
	X(U32, recipient_port, "destination port")

#define WEIR_AGENT_ANSWER_FIELDS(X) \
	X(U64, agent, "ID of the answering agent process, random, not 0") \
	X(U64, balancer, "`balancer` of the probe") \
	X(BYTES, challenge, "`challenge` of the newest probe of `balancer`") \
	X(U64, clock_ms, "milliseconds since the start of the answering process") \
	X(U32, serial, \
		"starts at 1, increases by one with each change of the state in `word` or of a " \
		"state in `port_words`") \
	X(U32, given, "which of the fields below are valid, one bit for each field") \
	X(U64, service_sum_us, "sum of service times, since the agent's start") \
	X(U64, service_count, "requests in `service_sum_us`") \
	X(U64, busy_sum_us, "sum of busy times (CPU), since the agent's start") \
	X(U64, busy_count, "requests in `busy_sum_us`") \
	X(U64, requests_milli_per_s, "requests per 1000 s") \
	X(U64, errors_milli_per_s, "requests per 1000 s that failed") \
	X(U32, service_median_us, "median of recent service times") \
	X(U32, utilization_ppm, "utilization of the service, 1000000 = fully used") \
	X(U32, active, "requests in progress") \
	X(U32, accept_queue, "connections in the accept queue") \
	X(U32, accept_queue_limit, "limit of the accept queue") \
	X(U32, cpu_milli, "CPUs available to the service, 1000 = one") \
	X(U32, cpu_mhz, "speed of the CPUs in MHz") \
	X(U32, max_active_flows, "maximum number of flows of the application, over all balancers") \
	X(U8, word, \
		"state of the host: 0 = none, 1 = starting, 2 = ready, 3 = lame duck, 4 = down") \
	X(U8, unasked, \
		"1 = unsolicited: announces a new state, or repeats the announcement; 0 = the " \
		"answer to a probe") \
	X(TEXT, why, "reason for the state in printable ASCII, padded with at least one zero") \
	X(U8, port_word_count, "number of ports in `port_words`, 0 to 12") \
	X(PORTS, port_words, "for each port: number, protocol, state and reason; then zeros") \
	X(U16, gcu_milli, "measured speed of one CPU, 1000 = 1 GCU, 0 = unknown") \
	X(U24, cpu_model, "hash of the name of the CPU model, 0 = unknown")

#define WEIR_AGENT_STEAL_FIELDS(X) \
	X(U64, balancer, "ID of the sending balancer, as in the probes of that balancer") \
	X(U64, id, "higher than in any earlier steal request of `balancer`, not 0") \
	X(U64, agent, \
		"ID of the agent process, not 0; after a restart, the agent has another ID and " \
		"refuses the request") \
	X(U64, deadline_ms, \
		"deadline, as `clock_ms` of the agent; after the deadline the agent answers " \
		"`late`") \
	X(BYTES, recipient, "destination address; IPv4 as ::ffff:a.b.c.d") \
	X(U32, recipient_port, "destination port") \
	X(BYTES, client, "address of the client, of the same family as `vip`") \
	X(BYTES, vip, "address that the client connects to") \
	X(U32, client_port, "port of the client, 1 to 65535") \
	X(U32, vip_port, "port that the client connects to, 1 to 65535") \
	X(U8, protocol, "6 = TCP")

#define WEIR_AGENT_STEAL_ANSWER_FIELDS(X) \
	X(U64, agent, "`agent` of the request") \
	X(U64, balancer, "`balancer` of the request") \
	X(U64, id, "`id` of the request") \
	X(U64, clock_ms, "milliseconds since the start of the answering process") \
	X(BYTES, client, "`client` of the request") \
	X(BYTES, vip, "`vip` of the request") \
	X(U32, client_port, "`client_port` of the request") \
	X(U32, vip_port, "`vip_port` of the request") \
	X(U8, protocol, "`protocol` of the request") \
	X(U8, result, "result of the request, 1 to 9")

// ipv4 and ipv6 are each a struct weir_agent_tcp_family: the values for the connections with IPv4
// clients and with IPv6 clients.
#define WEIR_AGENT_TCP_FIELDS(X) \
	X(U64, agent, "ID of the answering agent process") \
	X(U64, balancer, "`balancer` of the probe") \
	X(BYTES, challenge, "`challenge` of the newest probe of `balancer`") \
	X(U64, clock_ms, "milliseconds since the start of the answering process") \
	X(U32, age_ms, "age of the values: milliseconds since the end of the socket dump") \
	X(FAMILY, ipv4, "values for the connections with IPv4 clients") \
	X(FAMILY, ipv6, "values for the connections with IPv6 clients") \
	X(U8, partial, "1 = the socket dump did not contain all connections")

// The values for one address family. 64-bit numbers are below 2^63.
#define WEIR_AGENT_TCP_FAMILY_FIELDS(X) \
	X(U64, segments, "data segments sent since the agent's start") \
	X(U64, retransmitted, "data segments retransmitted since the agent's start") \
	X(U64, sent_bytes, "bytes in the data segments sent since the agent's start") \
	X(U64, delivery_rate, \
		"median delivery rate of the connections that are not application-limited, in " \
		"bytes per second; 0 = unknown") \
	X(U32, connections, "connections that are open now") \
	X(U32, rtt_median_us, "median of the connections' smoothed round trip times; 0 = unknown") \
	X(U32, rtt_p99_us, "99th percentile of the connections' smoothed round trip times") \
	X(U32, rated, "number of connections from which `delivery_rate` was computed")

// An order with a count of 0 is a dry run: no connection is ended, and the answer contains the
// numbers of connections.
#define WEIR_AGENT_SHED_FIELDS(X) \
	X(U64, balancer, "ID of the sending balancer, as in the probes of that balancer") \
	X(U64, id, "higher than in any earlier shed order of `balancer`, not 0") \
	X(U64, agent, \
		"ID of the agent process, not 0; after a restart, the agent has another ID and " \
		"refuses the order") \
	X(U64, deadline_ms, \
		"deadline, as `clock_ms` of the agent; after the deadline the agent ends no " \
		"connection") \
	X(BYTES, recipient, "destination address; IPv4 as ::ffff:a.b.c.d") \
	X(U32, recipient_port, "destination port") \
	X(U32, count, "maximum number of connections to end, up to 10000; 0 = dry run") \
	X(U32, rate_milli_per_s, "maximum number of connections to end per 1000 s, 1 to 1000000") \
	X(U32, keep, "number of connections of `binds` that must stay open") \
	X(U32, idle_ms, "minimum time without data in either direction, at least 1000") \
	X(TEXT, service, "name of the service, up to 31 characters, padded with zeros") \
	X(U8, bind_count, "number of binds in `binds`, 1 to 5") \
	X(BINDS, binds, "for each bind: VIP, first port and last port; then zeros")

#define WEIR_AGENT_SHED_ANSWER_FIELDS(X) \
	X(U64, agent, "`agent` of the order") \
	X(U64, balancer, "`balancer` of the order") \
	X(U64, id, "`id` of the order") \
	X(U64, clock_ms, "milliseconds since the start of the answering process") \
	X(U32, connections, "established connections of the order's binds") \
	X(U32, candidates, "how many of `connections` could be ended now") \
	X(U32, leaving, "how many of `connections` were passed to the hook") \
	X(U32, ended, "connections that this order has ended, or passed to the hook") \
	X(U8, method, "how connections are ended: 0 = not at all, 1 = idle, 2 = hook") \
	X(U8, result, "state of the order, 1 to 9")

// State of a shed order. X(NAME, "name", "meaning")
#define WEIR_AGENT_SHED_RESULTS(X) \
	X(ACTIVE, "active", "the order is being carried out") \
	X(DONE, "done", "the order has ended: its count or its deadline was reached") \
	X(OFF, "off", "shedding is not permitted on this agent (--shed-idle, --shed-hook)") \
	X(NO_PORT, "no-port", "no --port of the agent is a port of the order's binds") \
	X(LATE, "late", "the deadline had passed when the order arrived") \
	X(BUSY, "busy", "the agent is carrying out another order") \
	X(UNSUPPORTED, "unsupported", \
		"the kernel cannot end connections (CONFIG_INET_DIAG_DESTROY)") \
	X(FAILED, "failed", "connections cannot be listed or ended; see the agent's log") \
	X(HOOK_FAILED, "hook-failed", "the hook failed; see the agent's log")

enum weir_agent_shed_result {
	WEIR_AGENT_SHED_NO_RESULT,
#define X(name, text, meaning) WEIR_AGENT_SHED_##name,
	WEIR_AGENT_SHED_RESULTS(X)
#undef X
		WEIR_AGENT_SHED_RESULT_COUNT
};
const char *weir_agent_shed_result_name(enum weir_agent_shed_result result);
const char *weir_agent_shed_result_meaning(enum weir_agent_shed_result result);

// The method by which an agent ends connections.
enum weir_agent_shed_method {
	WEIR_AGENT_SHED_NO_METHOD,
	WEIR_AGENT_SHED_IDLE, // the kernel ends idle connections, with an RST
	WEIR_AGENT_SHED_HOOK, // the application ends connections when the hook command requests it
	WEIR_AGENT_SHED_METHOD_COUNT
};
// Returns the name of a method: "none", "idle" or "hook".
const char *weir_agent_shed_method_name(enum weir_agent_shed_method method);

struct weir_agent_shed_bind {
	uint8_t vip[WEIR_AGENT_RECIPIENT_BYTES]; // IPv4 as ::ffff:a.b.c.d
	uint16_t port_first, port_last;
};

// Result of a steal request. The balancer may move the flow only if the result is NOTHING or
// REMOVED. X(NAME, "name", "meaning")
#define WEIR_AGENT_STEAL_RESULTS(X) \
	X(NOTHING, "nothing-here", \
		"the flow has no socket, and its port has a listener: the flow may be moved") \
	X(REMOVED, "removed", \
		"a handshake in progress was removed without a reset: the flow may be moved") \
	X(RUNNING, "running", \
		"the flow has a connection: accepted by the application, in the accept queue, or " \
		"closing") \
	X(UNSETTLED, "unsettled", \
		"a SYN+ACK was just sent, and the client's ACK may be in flight") \
	X(COOKIES, "cookies", \
		"SYN cookies are in use: a connection may be established without a socket") \
	X(NO_LISTENER, "no-listener", \
		"no socket listens on the flow's port in the agent's network namespace") \
	X(CANNOT_TELL, "cannot-tell", \
		"the kernel did not answer, or could not remove the handshake") \
	X(LATE, "late", "the deadline has passed") \
	X(OFF, "off", "steals are not permitted on this agent or on this port")

enum weir_agent_steal_result {
	WEIR_AGENT_STEAL_NO_RESULT,
#define X(name, text, meaning) WEIR_AGENT_STEAL_##name,
	WEIR_AGENT_STEAL_RESULTS(X)
#undef X
		WEIR_AGENT_STEAL_RESULT_COUNT
};
const char *weir_agent_steal_result_name(enum weir_agent_steal_result result);
const char *weir_agent_steal_result_meaning(enum weir_agent_steal_result result);

// Returns whether the flow may be moved after this result.
static inline bool weir_agent_steal_permits(enum weir_agent_steal_result result) {
	return result == WEIR_AGENT_STEAL_NOTHING || result == WEIR_AGENT_STEAL_REMOVED;
}

#define WEIR_AGENT_U8(field) uint8_t field;
#define WEIR_AGENT_U16(field) uint16_t field;
#define WEIR_AGENT_U24(field) uint32_t field;
#define WEIR_AGENT_U32(field) uint32_t field;
#define WEIR_AGENT_U64(field) uint64_t field;
#define WEIR_AGENT_BYTES(field) uint8_t field[WEIR_AGENT_CHALLENGE_BYTES];
#define WEIR_AGENT_TEXT(field) char field[WEIR_AGENT_WHY_BYTES];
#define WEIR_AGENT_PORTS(field) struct weir_port_word field[WEIR_PORT_WORDS_MOST];
#define WEIR_AGENT_FAMILY(field) struct weir_agent_tcp_family field;
#define WEIR_AGENT_BINDS(field) struct weir_agent_shed_bind field[WEIR_AGENT_SHED_BINDS];
#define X(type, field, meaning) WEIR_AGENT_##type(field)

struct weir_agent_probe {
	uint16_t key_id; // id of the key of a received datagram; the encode functions ignore it
	WEIR_AGENT_PROBE_FIELDS(X)
};

struct weir_agent_answer {
	uint16_t key_id; // id of the key of a received datagram; the encode functions ignore it
	WEIR_AGENT_ANSWER_FIELDS(X)
};

struct weir_agent_steal {
	uint16_t key_id; // id of the key of a received datagram; the encode functions ignore it
	WEIR_AGENT_STEAL_FIELDS(X)
};

struct weir_agent_steal_answer {
	uint16_t key_id; // id of the key of a received datagram; the encode functions ignore it
	WEIR_AGENT_STEAL_ANSWER_FIELDS(X)
};

struct weir_agent_tcp_family {
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
};

struct weir_agent_tcp {
	uint16_t key_id; // id of the key of a received datagram; the encode functions ignore it
	WEIR_AGENT_TCP_FIELDS(X)
};

struct weir_agent_shed {
	uint16_t key_id; // id of the key of a received datagram; the encode functions ignore it
	WEIR_AGENT_SHED_FIELDS(X)
};

struct weir_agent_shed_answer {
	uint16_t key_id; // id of the key of a received datagram; the encode functions ignore it
	WEIR_AGENT_SHED_ANSWER_FIELDS(X)
};
#undef X
#undef WEIR_AGENT_U8
#undef WEIR_AGENT_U16
#undef WEIR_AGENT_U24
#undef WEIR_AGENT_U32
#undef WEIR_AGENT_U64
#undef WEIR_AGENT_BYTES
#undef WEIR_AGENT_TEXT
#undef WEIR_AGENT_PORTS
#undef WEIR_AGENT_FAMILY
#undef WEIR_AGENT_BINDS

// The bit in `given` and `wants` for port words (port_words). It is higher than the bits for the
// fields of a report.
#define WEIR_AGENT_PORT_WORDS_BIT 31
#define WEIR_AGENT_PORT_WORDS (1u << WEIR_AGENT_PORT_WORDS_BIT)

// The bit in `wants` for TCP figures. It is never set in `given`.
#define WEIR_AGENT_TCP_FIGURES_BIT 30
#define WEIR_AGENT_TCP_FIGURES (1u << WEIR_AGENT_TCP_FIGURES_BIT)

// The report fields that an agent may set in `given` of an answer.
#define WEIR_AGENT_GIVEN (WEIR_REPORT_ALL & ~(WEIR_REPORT(WEIGHT_PERCENT) | WEIR_REPORT(WEIGHT)))

// Writes a datagram that is authenticated with a key. The caller must keep the fields in their
// ranges, because weir_agent_*_decode refuses other values. `why` and `service` are sent up to the
// first NUL, at most 31 bytes; only the first port_word_count elements of port_words and the first
// bind_count elements of binds are sent.
void weir_agent_probe_encode(const struct weir_agent_probe *probe, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);
void weir_agent_answer_encode(const struct weir_agent_answer *answer,
	const struct weir_agent_key *key, uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);
void weir_agent_steal_encode(const struct weir_agent_steal *steal, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);
void weir_agent_steal_answer_encode(const struct weir_agent_steal_answer *answer,
	const struct weir_agent_key *key, uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);
void weir_agent_tcp_encode(const struct weir_agent_tcp *tcp, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);
void weir_agent_shed_encode(const struct weir_agent_shed *shed, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);
void weir_agent_shed_answer_encode(const struct weir_agent_shed_answer *answer,
	const struct weir_agent_key *key, uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);

// Returns the kind in the header of a datagram. The datagram is not verified yet: the kind only
// selects the decode function. Returns 0 if the datagram is too short.
uint8_t weir_agent_message_kind(const uint8_t *bytes, size_t count);

// Checks and decodes a datagram of any length. Reads only the header until the authentication code
// is verified. If the datagram is valid, writes *ret and returns WEIR_AGENT_REFUSAL_NONE. Otherwise
// leaves *ret unchanged and returns the reason, which enum weir_agent_refusal lists before REPLAY.
// The caller must check sequence numbers (replay.h), challenges and serials.
enum weir_agent_refusal weir_agent_probe_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_probe *ret);
enum weir_agent_refusal weir_agent_answer_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_answer *ret);
enum weir_agent_refusal weir_agent_steal_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_steal *ret);
enum weir_agent_refusal weir_agent_steal_answer_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_steal_answer *ret);
enum weir_agent_refusal weir_agent_tcp_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_tcp *ret);
enum weir_agent_refusal weir_agent_shed_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_shed *ret);
enum weir_agent_refusal weir_agent_shed_answer_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_shed_answer *ret);

// Begins the answer to a steal request: copies the fields that the answer repeats from the request.
// Does not set the result.
void weir_agent_steal_answer_begin(
	const struct weir_agent_steal *steal, struct weir_agent_steal_answer *ret);
// Returns whether a steal answer is about the flow of this request.
bool weir_agent_steal_is_same_flow(
	const struct weir_agent_steal *steal, const struct weir_agent_steal_answer *answer);

// Convert an address to the format of datagrams. family: 4 or 6; bytes: the address, 4 or 16 bytes.
void weir_agent_recipient(
	uint8_t family, const void *bytes, uint8_t recipient[WEIR_AGENT_RECIPIENT_BYTES]);

// Returns the address family, 4 or 6, of an address in the format of datagrams. *ret_bytes: points
// to the 4 or 16 bytes of the address.
uint8_t weir_agent_address_family(
	const uint8_t address[WEIR_AGENT_RECIPIENT_BYTES], const uint8_t **ret_bytes);

// Random numbers: weir_agent_random_challenge fills a challenge with random bytes, and
// weir_agent_random_number returns a random process ID that is not 0.
void weir_agent_random_challenge(uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES]);
uint64_t weir_agent_random_number(void);

// Converts an answer to a report. before: the last accepted answer of the backend, or NULL. The
// mean times in the report are the means of the requests between `before` and the answer. They are
// not set if there was no such request, if one of the answers does not contain them, if `before` is
// NULL, if another agent process sent `before`, or if `before` is not older than the answer.
// Returns a bit set of the fields that are left out because their values are impossible; for a mean
// and its count, only the bit of the mean.
uint32_t weir_agent_answer_report(const struct weir_agent_answer *answer,
	const struct weir_agent_answer *before, struct weir_report *ret);
