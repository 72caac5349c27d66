// SPDX-License-Identifier: BSD-3-Clause
//
// Agent messages: the datagrams between weir-control and weir-agent. A probe requests a report, an
// answer contains it; TCP figures, from the tcp_info of connections, follow it on request.
// A steal request names a TCP flow that may not be established on the backend yet, a steal answer
// says whether it may be moved. All are WEIR_AGENT_MESSAGE_BYTES long, so that an agent cannot be
// used for amplification, and authenticated; none is encrypted.
//
//   offset  bytes
//   0       4      "WEIR"
//   4       1      version, 1
//   5       1      kind: 1 = probe, 2 = answer, 3 = steal request, 4 = steal answer, 5 = TCP
//                  figures
//   6       2      key id, 1 to 65535
//   8              the fields of the kind, WEIR_AGENT_PROBE_FIELDS and so on
//   ...            zero up to 224
//   224     32     HMAC-SHA-512-256 (libsodium's crypto_auth) of all before it, under that key
//
// Numbers are integers in network byte order. docs/reference/agent-protocol.md has the same list,
// and a test compares them. A change that an older program would misinterpret needs a new version.
//
// A change of the backend's state (starting, ready, lame duck, down), or of one of its ports, is
// announced at once: the agent sends each known balancer an unsolicited answer, with the challenge
// of its newest probe, and repeats it until a probe acknowledges its serial; weir-control sends a
// probe as soon as it receives a new serial.
//
// The words of ports are in an answer only if the balancer wants them (WEIR_AGENT_PORT_WORDS): an
// earlier weir-control rejects an answer with them. The same holds for the speed and the model of
// the CPUs (the bit of GCU).
//
// TCP figures are in a datagram of their own, because an answer has no room left. An agent sends it
// after the answer to a balancer that wants it (WEIR_AGENT_TCP_FIGURES) and is registered, so that
// it has received an answer at its address before: no other address gets two datagrams for one.
//
// A probe contains its destination address: an agent ignores probes for another address, because
// its answer could be passed off as the other agent's. The same holds for steal requests.
//
// A steal request is executed once: an agent repeats its first answer to the same request, refuses
// a known id with another flow, and does nothing after the deadline, which is in the agent's own
// clock. So a replayed request has no effect. No answer means no.
//
// Threads: pure functions; call weir_agent_crypto_start() first.
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
#define WEIR_AGENT_STEAL_AHEAD_MS 5000 // maximum time from an agent's clock to a deadline
#define WEIR_AGENT_SILENT_PROBES 4 // an agent removes a balancer after this many silent intervals

enum weir_agent_kind {
	WEIR_AGENT_PROBE = 1,
	WEIR_AGENT_ANSWER,
	WEIR_AGENT_STEAL,
	WEIR_AGENT_STEAL_ANSWER,
	WEIR_AGENT_TCP
};

// Reasons to refuse a datagram; each is counted. X(NAME, "name", "meaning") REPLAY and those after
// it are found by callers, which have state beyond the datagram.
#define WEIR_AGENT_REFUSALS(X) \
	X(NONE, "none", "taken") \
	X(LENGTH, "length", "not 256 bytes long") \
	X(MAGIC, "magic", "does not begin with WEIR") \
	X(VERSION, "version", "of another version") \
	X(KIND, "kind", "not of the kind that the receiver accepts") \
	X(KEY, "key", "its key id is not in the receiver's key file") \
	X(MAC, "mac", "forged or damaged: the authentication code is wrong") \
	X(REST, "rest", "not zero where required") \
	X(VALUE, "value", "a field is out of range") \
	X(REPLAY, "replay", "its sequence number, or a higher one, was seen before") \
	X(RECIPIENT, "recipient", \
		"a probe or a steal request for another address or port than it arrived at") \
	X(FULL, "full", "from a new balancer, and the agent's limit of balancers is reached") \
	X(SENDER, "sender", "not from the address and port of a backend with an agent") \
	X(BALANCER, "balancer", \
		"an answer to another balancer, to an earlier process, or to a request to " \
		"another address") \
	X(CHALLENGE, "challenge", "an answer to no probe in flight, or a duplicate") \
	X(SERIAL, "serial", "unsolicited, but its word is not newer than the last one received") \
	X(OFTEN, "often", "unsolicited, with a new word too soon after the previous one") \
	X(AGENT, "agent", "a steal request to another process of the agent") \
	X(FLOW, "flow", \
		"a steal request with the id of another flow, or a steal answer about another " \
		"flow than requested") \
	X(RATE, "rate", "steal requests exceed the agent's rate limit") \
	X(STEAL, "steal", \
		"a steal answer to no request in flight: late, a duplicate, or unsolicited")

enum weir_agent_refusal {
#define X(name, text, meaning) WEIR_AGENT_REFUSAL_##name,
	WEIR_AGENT_REFUSALS(X)
#undef X
		WEIR_AGENT_REFUSAL_COUNT
};
const char *weir_agent_refusal_name(enum weir_agent_refusal refusal);
const char *weir_agent_refusal_meaning(enum weir_agent_refusal refusal);

// The fields in their order, without gaps. X(bits, field, "meaning"); U8 to U64 are numbers, BYTES
// arrays, PORTS the words of ports, 4 bytes each: port (2), protocol, word + 16 * reason.
#define WEIR_AGENT_PROBE_FIELDS(X) \
	X(U64, balancer, \
		"number of the sender, not 0: random for each local address of a process") \
	X(U64, sequence, "increases by one with each probe to this agent") \
	X(BYTES, challenge, "random; returned in the answer") \
	X(U64, agent, "number of the agent that `heard` refers to, 0 = none") \
	X(U64, clock_ms, "milliseconds since the start of the sending process") \
	X(U32, interval_ms, "maximum time until the next probe, 1 to 3600000") \
	X(U32, heard, "serial of the newest word that was received, 0 = none") \
	X(U32, wants, "fields (bits as in `given`) that a policy uses; unknown bits are ignored") \
	X(BYTES, recipient, "destination address; IPv4 as ::ffff:a.b.c.d") \
	X(U32, recipient_port, "destination port")

#define WEIR_AGENT_ANSWER_FIELDS(X) \
	X(U64, agent, "number of the answering process, random at its start, not 0") \
	X(U64, balancer, "of the probe") \
	X(BYTES, challenge, "of the newest probe of that balancer") \
	X(U64, clock_ms, "milliseconds since the start of the answering process") \
	X(U32, serial, "increases by one with each change of the word or of a port's, from 1") \
	X(U32, given, "which of the fields below are valid, one bit each") \
	X(U64, service_sum_us, "sum of service times, since the agent's start") \
	X(U64, service_count, "requests in that sum") \
	X(U64, busy_sum_us, "sum of busy times (CPU), since the agent's start") \
	X(U64, busy_count, "requests in that sum") \
	X(U64, requests_milli_per_s, "requests per 1000 s") \
	X(U64, errors_milli_per_s, "requests per 1000 s that failed") \
	X(U32, service_median_us, "median of recent service times") \
	X(U32, utilization_ppm, "1000000 = fully used") \
	X(U32, active, "requests in progress") \
	X(U32, accept_queue, "connections in the accept queue") \
	X(U32, accept_queue_limit, "limit of the accept queue") \
	X(U32, cpu_milli, "CPUs available to the service, 1000 = one") \
	X(U32, cpu_mhz, "their speed") \
	X(U32, max_active_flows, "limit of the application, over all balancers") \
	X(U8, word, "0 = nothing, 1 = starting, 2 = ready, 3 = lame duck, 4 = down") \
	X(U8, unasked, \
		"1 = unsolicited: a new word, or its repetition; 0 = the answer to a probe") \
	X(TEXT, why, "printable ASCII, padded with at least one zero") \
	X(U8, port_word_count, "ports with a word of their own, 0 to 12") \
	X(PORTS, port_words, "of each a port, its protocol, word and reason; then zeros") \
	X(U16, gcu_milli, "measured speed of one CPU, 1000 = 1 GCU, 0 = unknown") \
	X(U24, cpu_model, "number of its model, 0 = unknown")

#define WEIR_AGENT_STEAL_FIELDS(X) \
	X(U64, balancer, "number of the sender, as in its probes") \
	X(U64, id, "increases by one with each steal request to this agent, not 0") \
	X(U64, agent, \
		"the agent's number, not 0; another process of the agent refuses the request") \
	X(U64, deadline_ms, "after that time, by `clock_ms` of the agent, nothing is done") \
	X(BYTES, recipient, "destination address; IPv4 as ::ffff:a.b.c.d") \
	X(U32, recipient_port, "destination port") \
	X(BYTES, client, "address of the client, of the same family as `vip`") \
	X(BYTES, vip, "address that the client connects to") \
	X(U32, client_port, "port of the client, 1 to 65535") \
	X(U32, vip_port, "port that the client connects to, 1 to 65535") \
	X(U8, protocol, "6 = TCP")

#define WEIR_AGENT_STEAL_ANSWER_FIELDS(X) \
	X(U64, agent, "of the request") \
	X(U64, balancer, "of the request") \
	X(U64, id, "of the request") \
	X(U64, clock_ms, "milliseconds since the start of the answering process") \
	X(BYTES, client, "of the request") \
	X(BYTES, vip, "of the request") \
	X(U32, client_port, "of the request") \
	X(U32, vip_port, "of the request") \
	X(U8, protocol, "of the request") \
	X(U8, result, "result of the lookup, 1 to 9")

// ipv4, ipv6: the connections with clients of that family, in a struct weir_agent_tcp_family.
#define WEIR_AGENT_TCP_FIELDS(X) \
	X(U64, agent, "number of the answering process") \
	X(U64, balancer, "of the probe") \
	X(BYTES, challenge, "of the newest probe of that balancer") \
	X(U64, clock_ms, "milliseconds since the start of the answering process") \
	X(U32, age_ms, "time since the end of the look that the figures are from") \
	X(FAMILY, ipv4, "connections with clients of IPv4") \
	X(FAMILY, ipv6, "connections with clients of IPv6") \
	X(U8, partial, "1 = there are more connections than were looked at")

// Numbers of 64 bits are below 2^63.
#define WEIR_AGENT_TCP_FAMILY_FIELDS(X) \
	X(U64, segments, "data segments sent, a sum since the agent's start") \
	X(U64, retransmitted, "of these: sent again, the same") \
	X(U64, sent_bytes, "bytes in these segments, the same") \
	X(U64, delivery_rate, \
		"median of the connections that the application does not limit, bytes per " \
		"second; 0 = unknown") \
	X(U32, connections, "open now") \
	X(U32, rtt_median_us, "median of their smoothed round trip times; 0 = unknown") \
	X(U32, rtt_p99_us, "their 99th percentile") \
	X(U32, rated, "connections that `delivery_rate` is the median of")

// Result of an agent's lookup. Only the first two permit moving the flow. X(NAME, "name",
// "meaning")
#define WEIR_AGENT_STEAL_RESULTS(X) \
	X(NOTHING, "nothing-here", "no socket of the flow, and a listener: it may be moved") \
	X(REMOVED, "removed", \
		"a handshake in progress was removed without a reset: the flow may be moved") \
	X(RUNNING, "running", \
		"the connection is established, in the application or the accept queue") \
	X(UNSETTLED, "unsettled", \
		"a SYN+ACK was just sent, and the client's ACK may be in flight") \
	X(COOKIES, "cookies", \
		"SYN cookies are in use: a connection may be established without a socket") \
	X(NO_LISTENER, "no-listener", "no listener in the agent's network namespace") \
	X(CANNOT_TELL, "cannot-tell", "the kernel did not answer, or could not remove it") \
	X(LATE, "late", "the deadline has passed") \
	X(OFF, "off", "not permitted on this agent, or on this port")

enum weir_agent_steal_result {
	WEIR_AGENT_STEAL_NO_RESULT,
#define X(name, text, meaning) WEIR_AGENT_STEAL_##name,
	WEIR_AGENT_STEAL_RESULTS(X)
#undef X
		WEIR_AGENT_STEAL_RESULT_COUNT
};
const char *weir_agent_steal_result_name(enum weir_agent_steal_result result);
const char *weir_agent_steal_result_meaning(enum weir_agent_steal_result result);

// Whether the flow may be moved.
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
#define X(type, field, meaning) WEIR_AGENT_##type(field)

struct weir_agent_probe {
	uint16_t key_id; // received with; ignored by encoding
	WEIR_AGENT_PROBE_FIELDS(X)
};

struct weir_agent_answer {
	uint16_t key_id; // as above
	WEIR_AGENT_ANSWER_FIELDS(X)
};

struct weir_agent_steal {
	uint16_t key_id; // as above
	WEIR_AGENT_STEAL_FIELDS(X)
};

struct weir_agent_steal_answer {
	uint16_t key_id; // as above
	WEIR_AGENT_STEAL_ANSWER_FIELDS(X)
};

struct weir_agent_tcp_family {
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
};

struct weir_agent_tcp {
	uint16_t key_id; // as above
	WEIR_AGENT_TCP_FIELDS(X)
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

// The bit of the words of ports in `given` and `wants`, beyond the fields of a report.
#define WEIR_AGENT_PORT_WORDS_BIT 31
#define WEIR_AGENT_PORT_WORDS (1u << WEIR_AGENT_PORT_WORDS_BIT)

// The bit of TCP figures, in `wants` only.
#define WEIR_AGENT_TCP_FIGURES_BIT 30
#define WEIR_AGENT_TCP_FIGURES (1u << WEIR_AGENT_TCP_FIGURES_BIT)

// The fields of a report that an answer can have in `given`.
#define WEIR_AGENT_GIVEN (WEIR_REPORT_ALL & ~(WEIR_REPORT(WEIGHT_PERCENT) | WEIR_REPORT(WEIGHT)))

// Write a datagram with a key. The caller keeps the fields in their ranges (weir_agent_*_decode
// refuses others); why is truncated at its first NUL, and port_words after port_word_count.
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

// The kind that a datagram claims, before any check; 0 = too short. It selects the decode function.
uint8_t weir_agent_message_kind(const uint8_t *bytes, size_t count);

// Check and read a datagram of any length. Only the header is read before the authentication code
// is verified. Returns WEIR_AGENT_REFUSAL_NONE, or the reason to refuse it, up to VALUE; *ret is
// written only with NONE. Windows of sequence numbers (replay.h), challenges and serials are
// checked by the caller.
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

// The answer to a request, without a result: copies the fields that it repeats.
void weir_agent_steal_answer_begin(
	const struct weir_agent_steal *steal, struct weir_agent_steal_answer *ret);
// Whether an answer is about the flow of a request.
bool weir_agent_steal_is_same_flow(
	const struct weir_agent_steal *steal, const struct weir_agent_steal_answer *answer);

// Convert an address to the format of datagrams. family: 4 or 6; bytes: of that family.
void weir_agent_recipient(
	uint8_t family, const void *bytes, uint8_t recipient[WEIR_AGENT_RECIPIENT_BYTES]);

// The family of such an address: 4 or 6. *ret_bytes: the start of its bytes.
uint8_t weir_agent_address_family(
	const uint8_t address[WEIR_AGENT_RECIPIENT_BYTES], const uint8_t **ret_bytes);

// Random bytes for a challenge; a random number other than 0 for a process.
void weir_agent_random_challenge(uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES]);
uint64_t weir_agent_random_number(void);

// Convert an answer to a report. Times are those of the requests since `before`, the last accepted
// answer of that backend; none if it is NULL, of another process of the agent or not older, or if
// there was no request. Returns the fields that were left out because their values are impossible.
uint32_t weir_agent_answer_report(const struct weir_agent_answer *answer,
	const struct weir_agent_answer *before, struct weir_report *ret);
