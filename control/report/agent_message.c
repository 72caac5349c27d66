// SPDX-License-Identifier: BSD-3-Clause
#include "agent_message.h"

#include <netinet/in.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "health_state.h"

_Static_assert(WEIR_AGENT_MAC_BYTES == crypto_auth_BYTES,
	"the authentication code must have the size that crypto_auth uses");
_Static_assert(WEIR_AGENT_KEY_BYTES == crypto_auth_KEYBYTES,
	"the key must have the size that crypto_auth uses");
_Static_assert(WEIR_AGENT_MAC_START + WEIR_AGENT_MAC_BYTES == WEIR_AGENT_MESSAGE_BYTES,
	"the authentication code must be at the end of the message");
_Static_assert(WEIR_REPORT_FIELD_COUNT <= WEIR_AGENT_TCP_FIGURES_BIT,
	"report fields must not use the bits of the TCP figures and of the states of ports");

static const uint8_t magic[4] = {'W', 'E', 'I', 'R'};

// --- numbers ---

static void put_number(uint8_t **at, uint64_t value, size_t bytes) {
	for (size_t i = 0; i < bytes; i++) {
		(*at)[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	}
	*at += bytes;
}

static uint64_t get_number(const uint8_t **at, size_t bytes) {
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++) {
		value = value << 8 | (*at)[i];
	}
	*at += bytes;
	return value;
}

// Copies the text only up to its first NUL, so that bytes of the caller's memory after the NUL are
// not sent.
static void put_text(uint8_t **at, const char *text) {
	memcpy(*at, text, strnlen(text, WEIR_AGENT_WHY_BYTES - 1));
	*at += WEIR_AGENT_WHY_BYTES;
}

static void put_bytes(uint8_t **at, const uint8_t *bytes) {
	memcpy(*at, bytes, WEIR_AGENT_CHALLENGE_BYTES);
	*at += WEIR_AGENT_CHALLENGE_BYTES;
}

static void put_port_words(uint8_t **at, const struct weir_port_word *words, uint8_t count) {
	for (uint8_t i = 0; i < WEIR_PORT_WORDS_MOST; i++) {
		bool used = i < count;

		put_number(at, used ? words[i].port : 0, 2);
		put_number(at, used ? words[i].protocol : 0, 1);
		put_number(at, used ? words[i].word | words[i].reason << 4 : 0, 1);
	}
}

static void get_port_words(const uint8_t **at, struct weir_port_word *words) {
	for (uint8_t i = 0; i < WEIR_PORT_WORDS_MOST; i++) {
		uint8_t both;

		words[i].port = (uint16_t)get_number(at, 2);
		words[i].protocol = (uint8_t)get_number(at, 1);
		both = (uint8_t)get_number(at, 1);
		words[i].word = both & 0xf;
		words[i].reason = both >> 4;
	}
}

static void get_bytes(const uint8_t **at, void *to, size_t bytes) {
	memcpy(to, *at, bytes);
	*at += bytes;
}

static void put_family(uint8_t **at, const struct weir_agent_tcp_family *family) {
#define X(type, field, meaning) put_number(at, family->field, sizeof(family->field));
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
#undef X
}

static void get_family(const uint8_t **at, struct weir_agent_tcp_family *family) {
#define NUMBER_U32 uint32_t
#define NUMBER_U64 uint64_t
#define X(type, field, meaning) \
	family->field = (NUMBER_##type)get_number(at, sizeof(family->field));
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
#undef X
#undef NUMBER_U32
#undef NUMBER_U64
}

static void put_binds(uint8_t **at, const struct weir_agent_shed_bind *binds, uint8_t count) {
	static const struct weir_agent_shed_bind none;

	for (uint8_t i = 0; i < WEIR_AGENT_SHED_BINDS; i++) {
		const struct weir_agent_shed_bind *bind = i < count ? &binds[i] : &none;

		put_bytes(at, bind->vip);
		put_number(at, bind->port_first, 2);
		put_number(at, bind->port_last, 2);
	}
}

static void get_binds(const uint8_t **at, struct weir_agent_shed_bind *binds) {
	for (uint8_t i = 0; i < WEIR_AGENT_SHED_BINDS; i++) {
		get_bytes(at, binds[i].vip, sizeof(binds[i].vip));
		binds[i].port_first = (uint16_t)get_number(at, 2);
		binds[i].port_last = (uint16_t)get_number(at, 2);
	}
}

// --- encode ---

static uint8_t *put_header(
	uint8_t *to, enum weir_agent_kind kind, const struct weir_agent_key *key) {
	uint8_t *at = to + sizeof(magic);

	memset(to, 0, WEIR_AGENT_MESSAGE_BYTES);
	memcpy(to, magic, sizeof(magic));
	put_number(&at, WEIR_AGENT_VERSION, 1);
	put_number(&at, kind, 1);
	put_number(&at, key->id, 2);
	return at;
}

static void authenticate(uint8_t *message, const struct weir_agent_key *key) {
	crypto_auth(message + WEIR_AGENT_MAC_START, message, WEIR_AGENT_MAC_START, key->secret);
}

#define PUT_U8(field) put_number(&at, from->field, 1);
#define PUT_U16(field) put_number(&at, from->field, 2);
#define PUT_U24(field) put_number(&at, from->field, 3);
#define PUT_U32(field) put_number(&at, from->field, 4);
#define PUT_U64(field) put_number(&at, from->field, 8);
#define PUT_BYTES(field) put_bytes(&at, from->field);
#define PUT_TEXT(field) put_text(&at, from->field);
#define PUT_PORTS(field) put_port_words(&at, from->field, from->port_word_count);
#define PUT_FAMILY(field) put_family(&at, &from->field);
#define PUT_BINDS(field) put_binds(&at, from->field, from->bind_count);
#define X(type, field, meaning) PUT_##type(field)

void weir_agent_probe_encode(const struct weir_agent_probe *from, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	uint8_t *at = put_header(to, WEIR_AGENT_PROBE, key);

	WEIR_AGENT_PROBE_FIELDS(X)
	authenticate(to, key);
}

void weir_agent_answer_encode(const struct weir_agent_answer *from,
	const struct weir_agent_key *key, uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	uint8_t *at = put_header(to, WEIR_AGENT_ANSWER, key);

	WEIR_AGENT_ANSWER_FIELDS(X)
	authenticate(to, key);
}

void weir_agent_steal_encode(const struct weir_agent_steal *from, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	uint8_t *at = put_header(to, WEIR_AGENT_STEAL, key);

	WEIR_AGENT_STEAL_FIELDS(X)
	authenticate(to, key);
}

void weir_agent_steal_answer_encode(const struct weir_agent_steal_answer *from,
	const struct weir_agent_key *key, uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	uint8_t *at = put_header(to, WEIR_AGENT_STEAL_ANSWER, key);

	WEIR_AGENT_STEAL_ANSWER_FIELDS(X)
	authenticate(to, key);
}

void weir_agent_tcp_encode(const struct weir_agent_tcp *from, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	uint8_t *at = put_header(to, WEIR_AGENT_TCP, key);

	WEIR_AGENT_TCP_FIELDS(X)
	authenticate(to, key);
}

void weir_agent_shed_encode(const struct weir_agent_shed *from, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	uint8_t *at = put_header(to, WEIR_AGENT_SHED, key);

	WEIR_AGENT_SHED_FIELDS(X)
	authenticate(to, key);
}

void weir_agent_shed_answer_encode(const struct weir_agent_shed_answer *from,
	const struct weir_agent_key *key, uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	uint8_t *at = put_header(to, WEIR_AGENT_SHED_ANSWER, key);

	WEIR_AGENT_SHED_ANSWER_FIELDS(X)
	authenticate(to, key);
}
#undef X

// --- decode ---

uint8_t weir_agent_message_kind(const uint8_t *bytes, size_t count) {
	return count > sizeof(magic) + 1 ? bytes[sizeof(magic) + 1] : 0;
}

static enum weir_agent_refusal check_header(const uint8_t *bytes, size_t count,
	enum weir_agent_kind kind, const struct weir_agent_keys *keys, uint16_t *ret_id) {
	const uint8_t *at = bytes + sizeof(magic);
	const struct weir_agent_key *key;

	if (count != WEIR_AGENT_MESSAGE_BYTES) {
		return WEIR_AGENT_REFUSAL_LENGTH;
	}
	if (memcmp(bytes, magic, sizeof(magic)) != 0) {
		return WEIR_AGENT_REFUSAL_MAGIC;
	}
	if (get_number(&at, 1) != WEIR_AGENT_VERSION) {
		return WEIR_AGENT_REFUSAL_VERSION;
	}
	if (get_number(&at, 1) != kind) {
		return WEIR_AGENT_REFUSAL_KIND;
	}
	*ret_id = (uint16_t)get_number(&at, 2);
	key = weir_agent_keys_find(keys, *ret_id);
	if (key == NULL) {
		return WEIR_AGENT_REFUSAL_KEY;
	}
	if (crypto_auth_verify(
		    bytes + WEIR_AGENT_MAC_START, bytes, WEIR_AGENT_MAC_START, key->secret) != 0) {
		return WEIR_AGENT_REFUSAL_MAC;
	}
	return WEIR_AGENT_REFUSAL_NONE;
}

static bool is_zero(const uint8_t *from, const uint8_t *to) {
	while (from < to && *from == 0) {
		from++;
	}
	return from == to;
}

// Returns whether a field contains printable characters up to a NUL, and then only NULs.
static bool is_text(const char *text, size_t bytes) {
	size_t i = 0;

	while (i < bytes && text[i] >= ' ' && text[i] <= '~') {
		i++;
	}
	return i < bytes && is_zero((const uint8_t *)text + i, (const uint8_t *)text + bytes);
}

static bool is_possible_probe(const struct weir_agent_probe *probe) {
	return probe->balancer != 0 && probe->interval_ms >= 1 &&
	       probe->interval_ms <= WEIR_AGENT_INTERVAL_MOST_MS;
}

static bool is_possible_answer(const struct weir_agent_answer *answer) {
	return answer->agent != 0 && answer->balancer != 0 && answer->serial != 0 &&
	       (answer->given & ~(WEIR_AGENT_GIVEN | WEIR_AGENT_PORT_WORDS)) == 0 &&
	       answer->word < WEIR_HEALTH_WORD_COUNT && answer->unasked <= 1 &&
	       is_text(answer->why, sizeof(answer->why)) &&
	       weir_port_words_are_valid(answer->port_words, answer->port_word_count);
}

// Returns whether port_word_count is 0 unless `given` has the bit WEIR_AGENT_PORT_WORDS, gcu_milli
// and cpu_model are 0 unless it has the bit WEIR_REPORT(GCU), and all unused elements of port_words
// are zero. Other fields may have any value without their bit.
static bool has_zero_rest(const struct weir_agent_answer *answer) {
	uint8_t used = answer->port_word_count < WEIR_PORT_WORDS_MOST ? answer->port_word_count
								      : WEIR_PORT_WORDS_MOST;

	if ((answer->given & WEIR_AGENT_PORT_WORDS) == 0 && answer->port_word_count > 0) {
		return false;
	}
	if ((answer->given & WEIR_REPORT(GCU)) == 0 &&
		(answer->gcu_milli != 0 || answer->cpu_model != 0)) {
		return false;
	}
	return is_zero((const uint8_t *)(answer->port_words + used),
		(const uint8_t *)(answer->port_words + WEIR_PORT_WORDS_MOST));
}

static bool is_port(uint32_t port) {
	return port >= 1 && port <= UINT16_MAX;
}

// Returns whether a flow has protocol TCP, valid ports, and a client and a VIP of the same address
// family.
static bool is_possible_flow(const struct weir_agent_steal_answer *flow) {
	const uint8_t *bytes;

	return flow->protocol == IPPROTO_TCP && is_port(flow->client_port) &&
	       is_port(flow->vip_port) &&
	       weir_agent_address_family(flow->client, &bytes) ==
		       weir_agent_address_family(flow->vip, &bytes);
}

static bool is_possible_steal(const struct weir_agent_steal *steal) {
	struct weir_agent_steal_answer flow;

	weir_agent_steal_answer_begin(steal, &flow);
	return steal->balancer != 0 && steal->id != 0 && steal->agent != 0 &&
	       is_possible_flow(&flow);
}

static bool is_possible_steal_answer(const struct weir_agent_steal_answer *answer) {
	return answer->balancer != 0 && answer->id != 0 && answer->agent != 0 &&
	       answer->result > WEIR_AGENT_STEAL_NO_RESULT &&
	       answer->result < WEIR_AGENT_STEAL_RESULT_COUNT && is_possible_flow(answer);
}

static bool is_possible_family(const struct weir_agent_tcp_family *family) {
	const uint64_t all = family->segments | family->retransmitted | family->sent_bytes |
			     family->delivery_rate;

	return all <= INT64_MAX;
}

static bool is_possible_tcp(const struct weir_agent_tcp *tcp) {
	return tcp->agent != 0 && tcp->balancer != 0 && tcp->partial <= 1 &&
	       is_possible_family(&tcp->ipv4) && is_possible_family(&tcp->ipv6);
}

// Returns whether no bind has a last port below its first port, and all unused binds are zero.
static bool has_possible_binds(const struct weir_agent_shed *shed) {
	for (uint8_t i = 0; i < shed->bind_count; i++) {
		if (shed->binds[i].port_last < shed->binds[i].port_first) {
			return false;
		}
	}
	return is_zero((const uint8_t *)(shed->binds + shed->bind_count),
		(const uint8_t *)(shed->binds + WEIR_AGENT_SHED_BINDS));
}

static bool is_possible_shed(const struct weir_agent_shed *shed) {
	return shed->balancer != 0 && shed->id != 0 && shed->agent != 0 &&
	       shed->count <= WEIR_AGENT_SHED_COUNT_MOST && shed->rate_milli_per_s >= 1 &&
	       shed->rate_milli_per_s <= WEIR_AGENT_SHED_RATE_MILLI_MOST &&
	       shed->idle_ms >= WEIR_AGENT_SHED_IDLE_LEAST_MS &&
	       is_text(shed->service, sizeof(shed->service)) && shed->bind_count >= 1 &&
	       shed->bind_count <= WEIR_AGENT_SHED_BINDS && has_possible_binds(shed);
}

static bool is_possible_shed_answer(const struct weir_agent_shed_answer *answer) {
	return answer->balancer != 0 && answer->id != 0 && answer->agent != 0 &&
	       answer->ended <= WEIR_AGENT_SHED_COUNT_MOST &&
	       answer->method < WEIR_AGENT_SHED_METHOD_COUNT &&
	       answer->result > WEIR_AGENT_SHED_NO_RESULT &&
	       answer->result < WEIR_AGENT_SHED_RESULT_COUNT;
}

#define GET_U8(field) to.field = (uint8_t)get_number(&at, 1);
#define GET_U16(field) to.field = (uint16_t)get_number(&at, 2);
#define GET_U24(field) to.field = (uint32_t)get_number(&at, 3);
#define GET_U32(field) to.field = (uint32_t)get_number(&at, 4);
#define GET_U64(field) to.field = get_number(&at, 8);
#define GET_BYTES(field) get_bytes(&at, to.field, sizeof(to.field));
#define GET_TEXT(field) get_bytes(&at, to.field, sizeof(to.field));
#define GET_PORTS(field) get_port_words(&at, to.field);
#define GET_FAMILY(field) get_family(&at, &to.field);
#define GET_BINDS(field) get_binds(&at, to.field);
#define X(type, field, meaning) GET_##type(field)

enum weir_agent_refusal weir_agent_probe_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_probe *ret) {
	const uint8_t *at = bytes + WEIR_AGENT_FIELDS_START;
	struct weir_agent_probe to = {0};
	enum weir_agent_refusal refusal =
		check_header(bytes, count, WEIR_AGENT_PROBE, keys, &to.key_id);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	WEIR_AGENT_PROBE_FIELDS(X)
	if (!is_zero(at, bytes + WEIR_AGENT_MAC_START)) {
		return WEIR_AGENT_REFUSAL_REST;
	}
	if (!is_possible_probe(&to)) {
		return WEIR_AGENT_REFUSAL_VALUE;
	}
	*ret = to;
	return WEIR_AGENT_REFUSAL_NONE;
}

enum weir_agent_refusal weir_agent_answer_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_answer *ret) {
	const uint8_t *at = bytes + WEIR_AGENT_FIELDS_START;
	struct weir_agent_answer to = {0};
	enum weir_agent_refusal refusal =
		check_header(bytes, count, WEIR_AGENT_ANSWER, keys, &to.key_id);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	WEIR_AGENT_ANSWER_FIELDS(X)
	if (!is_zero(at, bytes + WEIR_AGENT_MAC_START) || !has_zero_rest(&to)) {
		return WEIR_AGENT_REFUSAL_REST;
	}
	if (!is_possible_answer(&to)) {
		return WEIR_AGENT_REFUSAL_VALUE;
	}
	*ret = to;
	return WEIR_AGENT_REFUSAL_NONE;
}

enum weir_agent_refusal weir_agent_steal_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_steal *ret) {
	const uint8_t *at = bytes + WEIR_AGENT_FIELDS_START;
	struct weir_agent_steal to = {0};
	enum weir_agent_refusal refusal =
		check_header(bytes, count, WEIR_AGENT_STEAL, keys, &to.key_id);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	WEIR_AGENT_STEAL_FIELDS(X)
	if (!is_zero(at, bytes + WEIR_AGENT_MAC_START)) {
		return WEIR_AGENT_REFUSAL_REST;
	}
	if (!is_possible_steal(&to)) {
		return WEIR_AGENT_REFUSAL_VALUE;
	}
	*ret = to;
	return WEIR_AGENT_REFUSAL_NONE;
}

enum weir_agent_refusal weir_agent_steal_answer_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_steal_answer *ret) {
	const uint8_t *at = bytes + WEIR_AGENT_FIELDS_START;
	struct weir_agent_steal_answer to = {0};
	enum weir_agent_refusal refusal =
		check_header(bytes, count, WEIR_AGENT_STEAL_ANSWER, keys, &to.key_id);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	WEIR_AGENT_STEAL_ANSWER_FIELDS(X)
	if (!is_zero(at, bytes + WEIR_AGENT_MAC_START)) {
		return WEIR_AGENT_REFUSAL_REST;
	}
	if (!is_possible_steal_answer(&to)) {
		return WEIR_AGENT_REFUSAL_VALUE;
	}
	*ret = to;
	return WEIR_AGENT_REFUSAL_NONE;
}

enum weir_agent_refusal weir_agent_tcp_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_tcp *ret) {
	const uint8_t *at = bytes + WEIR_AGENT_FIELDS_START;
	struct weir_agent_tcp to = {0};
	enum weir_agent_refusal refusal =
		check_header(bytes, count, WEIR_AGENT_TCP, keys, &to.key_id);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	WEIR_AGENT_TCP_FIELDS(X)
	if (!is_zero(at, bytes + WEIR_AGENT_MAC_START)) {
		return WEIR_AGENT_REFUSAL_REST;
	}
	if (!is_possible_tcp(&to)) {
		return WEIR_AGENT_REFUSAL_VALUE;
	}
	*ret = to;
	return WEIR_AGENT_REFUSAL_NONE;
}

enum weir_agent_refusal weir_agent_shed_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_shed *ret) {
	const uint8_t *at = bytes + WEIR_AGENT_FIELDS_START;
	struct weir_agent_shed to = {0};
	enum weir_agent_refusal refusal =
		check_header(bytes, count, WEIR_AGENT_SHED, keys, &to.key_id);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	WEIR_AGENT_SHED_FIELDS(X)
	if (!is_zero(at, bytes + WEIR_AGENT_MAC_START)) {
		return WEIR_AGENT_REFUSAL_REST;
	}
	if (!is_possible_shed(&to)) {
		return WEIR_AGENT_REFUSAL_VALUE;
	}
	*ret = to;
	return WEIR_AGENT_REFUSAL_NONE;
}

enum weir_agent_refusal weir_agent_shed_answer_decode(const uint8_t *bytes, size_t count,
	const struct weir_agent_keys *keys, struct weir_agent_shed_answer *ret) {
	const uint8_t *at = bytes + WEIR_AGENT_FIELDS_START;
	struct weir_agent_shed_answer to = {0};
	enum weir_agent_refusal refusal =
		check_header(bytes, count, WEIR_AGENT_SHED_ANSWER, keys, &to.key_id);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	WEIR_AGENT_SHED_ANSWER_FIELDS(X)
	if (!is_zero(at, bytes + WEIR_AGENT_MAC_START)) {
		return WEIR_AGENT_REFUSAL_REST;
	}
	if (!is_possible_shed_answer(&to)) {
		return WEIR_AGENT_REFUSAL_VALUE;
	}
	*ret = to;
	return WEIR_AGENT_REFUSAL_NONE;
}
#undef X

// --- steals ---

void weir_agent_steal_answer_begin(
	const struct weir_agent_steal *steal, struct weir_agent_steal_answer *ret) {
	struct weir_agent_steal_answer answer = {
		.agent = steal->agent,
		.balancer = steal->balancer,
		.id = steal->id,
		.client_port = steal->client_port,
		.vip_port = steal->vip_port,
		.protocol = steal->protocol,
	};

	memcpy(answer.client, steal->client, sizeof(answer.client));
	memcpy(answer.vip, steal->vip, sizeof(answer.vip));
	*ret = answer;
}

bool weir_agent_steal_is_same_flow(
	const struct weir_agent_steal *steal, const struct weir_agent_steal_answer *answer) {
	return steal->protocol == answer->protocol && steal->client_port == answer->client_port &&
	       steal->vip_port == answer->vip_port &&
	       memcmp(steal->client, answer->client, sizeof(steal->client)) == 0 &&
	       memcmp(steal->vip, answer->vip, sizeof(steal->vip)) == 0;
}

// --- addresses ---

_Static_assert(WEIR_AGENT_RECIPIENT_BYTES == WEIR_AGENT_CHALLENGE_BYTES,
	"addresses and challenges must have the same size in a datagram");

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

void weir_agent_recipient(
	uint8_t family, const void *bytes, uint8_t recipient[WEIR_AGENT_RECIPIENT_BYTES]) {
	if (family == 6) {
		memcpy(recipient, bytes, WEIR_AGENT_RECIPIENT_BYTES);
	} else {
		memcpy(recipient, mapped, sizeof(mapped));
		memcpy(recipient + sizeof(mapped), bytes, 4);
	}
}

uint8_t weir_agent_address_family(
	const uint8_t address[WEIR_AGENT_RECIPIENT_BYTES], const uint8_t **ret_bytes) {
	bool is_ipv4 = memcmp(address, mapped, sizeof(mapped)) == 0;

	*ret_bytes = is_ipv4 ? address + sizeof(mapped) : address;
	return is_ipv4 ? 4 : 6;
}

// --- random numbers ---

void weir_agent_random_challenge(uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES]) {
	randombytes_buf(challenge, WEIR_AGENT_CHALLENGE_BYTES);
}

uint64_t weir_agent_random_number(void) {
	uint64_t number;

	do {
		randombytes_buf(&number, sizeof(number));
	} while (number == 0);
	return number;
}
