// SPDX-License-Identifier: BSD-3-Clause
#include "judge.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ip.h>

#define FLOWS 65536u // number of slots, of which at most a quarter are used
#define ETHERNET_BYTES 14u
#define IPV4_BYTES 20u
#define TCP_FLAGS 13u
#define TCP_SYN 0x02

struct key {
	uint32_t source, destination;
	uint32_t ports;
	uint32_t protocol;
};

struct flow {
	struct key key;
	bool used;
	bool came_back; // whether a packet of the flow has come back
	uint32_t arrived, departed; // sequence number of the next packet in each direction
	uint32_t backend; // address of the outer header, 0 = none yet
};

struct judge {
	struct nic_state *state;
	struct flow flow[FLOWS];
};

struct judge *judge_create(struct nic_state *state) {
	struct judge *judge = calloc(1, sizeof(*judge));

	if (judge != NULL) {
		judge->state = state;
	}
	return judge;
}

void judge_free(struct judge *judge) {
	free(judge);
}

// Reads the flow key of an IP packet. n: bytes from its header to the end of the frame. Returns
// true only for an IPv4 packet with TCP or UDP that is not a fragment and has no IP options.
static bool read_key(const uint8_t *at, uint32_t n, struct key *ret) {
	if (n < IPV4_BYTES + 8 || at[0] != 0x45 || (at[6] & 0x3f) != 0 || at[7] != 0 ||
		(at[9] != IPPROTO_TCP && at[9] != IPPROTO_UDP)) {
		return false;
	}
	memcpy(&ret->source, at + 12, 4);
	memcpy(&ret->destination, at + 16, 4);
	memcpy(&ret->ports, at + IPV4_BYTES, 4);
	ret->protocol = at[9];
	return true;
}

static uint32_t place_of(const struct key *key) {
	uint64_t x = ((uint64_t)key->source << 32 | key->destination) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 29 ^ (uint64_t)key->ports << 8 ^ key->protocol) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(x >> 40) % FLOWS;
}

static struct flow *find(struct judge *judge, const struct key *key, bool add) {
	uint32_t place = place_of(key);

	while (judge->flow[place].used) {
		if (memcmp(&judge->flow[place].key, key, sizeof(*key)) == 0) {
			return &judge->flow[place];
		}
		place = (place + 1) % FLOWS;
	}
	if (!add || judge->state->flows >= FLOWS / 4) {
		return NULL;
	}
	judge->flow[place] = (struct flow){.key = *key, .used = true};
	nic_add(&judge->state->flows, 1);
	return &judge->flow[place];
}

void judge_arrival(struct judge *judge, uint8_t *frame, uint32_t n) {
	uint8_t *at = frame + ETHERNET_BYTES;
	struct flow *flow;
	uint16_t number;
	struct key key;

	if (n < ETHERNET_BYTES || frame[12] != 0x08 || frame[13] != 0x00 ||
		!read_key(at, n - ETHERNET_BYTES, &key)) {
		return;
	}
	flow = find(judge, &key, true);
	if (flow == NULL) {
		return;
	}
	if (key.protocol == IPPROTO_TCP && n > ETHERNET_BYTES + IPV4_BYTES + TCP_FLAGS &&
		(at[IPV4_BYTES + TCP_FLAGS] & TCP_SYN) != 0) {
		flow->backend = 0; // a new connection can get another backend
	}
	number = rte_cpu_to_be_16((uint16_t)flow->arrived++);
	memcpy(at + 4, &number, 2);
	memset(at + 10, 0, 2);
	number = rte_ipv4_cksum((const struct rte_ipv4_hdr *)at);
	memcpy(at + 10, &number, 2);
	if (flow->came_back) {
		nic_add(&judge->state->pending, 1);
	}
}

// Counts as lost all earlier packets that have not come back yet. If a packet comes back after it
// was counted as lost, it is late.
static void compare(struct judge *judge, struct flow *flow, uint16_t number) {
	struct nic_state *state = judge->state;
	int16_t ahead = (int16_t)(number - (uint16_t)flow->departed);

	if (!flow->came_back) {
		flow->came_back = true;
		nic_add(&state->pending, flow->arrived);
	}
	if (ahead < 0) {
		nic_add(&state->reordered, 1);
		nic_add(&state->lost, (uint64_t)-1);
		return;
	}
	nic_add(&state->lost, (uint64_t)ahead);
	nic_add(&state->pending, -((uint64_t)ahead + 1));
	flow->departed += (uint32_t)ahead + 1;
}

void judge_departure(struct judge *judge, const uint8_t *frame, uint32_t n) {
	const uint8_t *outer = frame + ETHERNET_BYTES, *inner = outer + IPV4_BYTES;
	struct flow *flow;
	uint32_t backend;
	uint16_t number;
	struct key key;

	if (n < ETHERNET_BYTES + IPV4_BYTES || frame[12] != 0x08 || frame[13] != 0x00 ||
		outer[0] != 0x45 || outer[9] != IPPROTO_IPIP ||
		!read_key(inner, n - ETHERNET_BYTES - IPV4_BYTES, &key)) {
		return;
	}
	flow = find(judge, &key, false);
	if (flow == NULL) {
		nic_add(&judge->state->unknown, 1);
		return;
	}
	memcpy(&backend, outer + 16, 4);
	memcpy(&number, inner + 4, 2);
	nic_add(&judge->state->judged, 1);
	nic_add(&judge->state->strayed, flow->backend != 0 && flow->backend != backend);
	flow->backend = backend;
	compare(judge, flow, rte_be_to_cpu_16(number));
}
