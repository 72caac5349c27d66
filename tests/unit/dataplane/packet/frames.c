// SPDX-License-Identifier: BSD-3-Clause
#include "frames.h"

#include <stdlib.h>
#include <string.h>

const uint8_t frame_client4[16] = {192, 0, 2, 7};
const uint8_t frame_vip4[16] = {198, 51, 100, 10};
const uint8_t frame_stranger4[16] = {203, 0, 113, 99};
const uint8_t frame_client6[16] = {0x20, 1, 0xd, 0xb8, 0, 1, [15] = 7};
const uint8_t frame_vip6[16] = {0x20, 1, 0xd, 0xb8, 0, 2, [15] = 0x10};
const uint8_t frame_stranger6[16] = {0x20, 1, 0xd, 0xb8, 0, 3, [15] = 0x99};
const uint8_t frame_client_mac[6] = {2, 0, 0, 0, 0, 1};
const uint8_t frame_our_mac[6] = {2, 0, 0, 0, 0, 2};

void frame_put16(uint8_t *at, uint16_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

void frame_put32(uint8_t *at, uint32_t value) {
	frame_put16(at, (uint16_t)(value >> 16));
	frame_put16(at + 2, (uint16_t)value);
}

uint16_t frame_get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

uint32_t frame_get32(const uint8_t *at) {
	return (uint32_t)frame_get16(at) << 16 | frame_get16(at + 2);
}

uint16_t frame_sum(const uint8_t *at, uint32_t bytes, uint32_t sum) {
	for (uint32_t i = 0; i < bytes; i++) {
		sum += i % 2 == 0 ? (uint32_t)at[i] << 8 : at[i];
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

uint16_t frame_pseudo_sum6(const uint8_t *ip, uint32_t bytes, uint8_t protocol) {
	return frame_sum(ip + 8, 32, bytes + protocol);
}

// --- building -------------------------------------------------------------------------------

static void put(struct frame *f, const void *bytes, uint32_t n) {
	memcpy(f->bytes + f->n, bytes, n);
	f->n += n;
}

static void put_ethernet(const struct frame_spec *spec, struct frame *f) {
	uint8_t word[2];

	put(f, frame_our_mac, 6);
	put(f, frame_client_mac, 6);
	for (unsigned int i = 0; i < spec->tags; i++) {
		frame_put16(word, spec->tag_type[i] != 0 ? spec->tag_type[i] : 0x8100);
		put(f, word, 2);
		frame_put16(word, (uint16_t)(100 + i));
		put(f, word, 2);
	}
	frame_put16(word, spec->family == 6 ? 0x86dd : 0x0800);
	put(f, word, 2);
	f->l3 = f->n;
}

static void put_ip(const struct frame_spec *spec, struct frame *f) {
	uint8_t *ip = f->bytes + f->n;
	const uint8_t *source = spec->source;
	const uint8_t *destination = spec->destination;

	if (spec->family == 6) {
		frame_put32(ip, 6u << 28 | (uint32_t)spec->tos << 20 | 0x12345);
		ip[6] = spec->option_bytes > 0 ? spec->first_header : spec->protocol;
		ip[7] = 64;
		memcpy(ip + 8, source != NULL ? source : frame_client6, 16);
		memcpy(ip + 24, destination != NULL ? destination : frame_vip6, 16);
		f->n += 40;
	} else {
		ip[0] = (uint8_t)(0x45 + spec->option_bytes / 4);
		ip[1] = spec->tos;
		frame_put16(ip + 4, 0xbeef);
		frame_put16(ip + 6, 0x4000);
		ip[8] = 64;
		ip[9] = spec->protocol;
		memcpy(ip + 12, source != NULL ? source : frame_client4, 4);
		memcpy(ip + 16, destination != NULL ? destination : frame_vip4, 4);
		f->n += 20;
	}
	if (spec->option_bytes > 0) {
		put(f, spec->options, spec->option_bytes);
	}
	f->l4 = f->n;
}

static void put_l4(const struct frame_spec *spec, struct frame *f) {
	uint8_t *l4 = f->bytes + f->n;

	frame_put16(l4, spec->source_port != 0 ? spec->source_port : 40000);
	frame_put16(l4 + 2, spec->destination_port != 0 ? spec->destination_port : 80);
	switch (spec->protocol) {
	case 6:
		frame_put32(l4 + 4, 0x11223344);
		l4[12] = (uint8_t)((5 + spec->tcp_options / 4) << 4);
		l4[13] = spec->tcp_flags;
		frame_put16(l4 + 14, 0xffff);
		memset(l4 + 20, 1, spec->tcp_options); // NOP options
		f->n += 20u + spec->tcp_options;
		break;
	case 17:
		frame_put16(l4 + 4, (uint16_t)(8 + spec->payload));
		f->n += 8;
		break;
	case 1:
	case 58:
		frame_put32(l4, (uint32_t)spec->icmp_type << 24 | (uint32_t)spec->icmp_code << 16);
		frame_put32(l4 + 4, 0x00010002);
		f->n += 8;
		break;
	default:
		break;
	}
}

static void finish(const struct frame_spec *spec, struct frame *f) {
	uint8_t *ip = f->bytes + f->l3;
	uint8_t *l4 = f->bytes + f->l4;
	uint32_t l4_bytes = f->n - f->l4;
	uint32_t pseudo = 0;

	f->ip_bytes = f->n - f->l3;
	if (spec->family == 6) {
		frame_put16(ip + 4, (uint16_t)(f->ip_bytes - 40));
		pseudo = frame_pseudo_sum6(ip, l4_bytes, spec->protocol);
	} else {
		frame_put16(ip + 2, (uint16_t)f->ip_bytes);
		frame_fix_ipv4(f);
		pseudo = frame_sum(ip + 12, 8, l4_bytes + spec->protocol);
	}
	if (spec->protocol == 1) {
		frame_put16(l4 + 2, (uint16_t)~frame_sum(l4, l4_bytes, 0));
	} else if (spec->protocol == 58) {
		frame_put16(l4 + 2, (uint16_t)~frame_sum(l4, l4_bytes, pseudo));
	} else if (spec->protocol == 6) {
		frame_put16(l4 + 16, (uint16_t)~frame_sum(l4, l4_bytes, pseudo));
	} else if (spec->protocol == 17) {
		frame_put16(l4 + 6, (uint16_t)~frame_sum(l4, l4_bytes, pseudo));
	}
	memset(f->bytes + f->n, 0xee, spec->padding);
	f->n += spec->padding;
}

void frame_build(const struct frame_spec *spec, struct frame *ret) {
	memset(ret, 0, sizeof(*ret));
	put_ethernet(spec, ret);
	put_ip(spec, ret);
	put_l4(spec, ret);
	for (uint32_t i = 0; i < spec->payload; i++) {
		ret->bytes[ret->n++] = spec->body != NULL ? spec->body[i] : (uint8_t)(i * 7 + 3);
	}
	finish(spec, ret);
}

void frame_fix_ipv4(struct frame *f) {
	uint8_t *ip = f->bytes + f->l3;

	frame_put16(ip + 10, 0);
	frame_put16(ip + 10, (uint16_t)~frame_sum(ip, (uint32_t)(ip[0] & 0x0f) * 4, 0));
}

// --- buffers --------------------------------------------------------------------------------

uint64_t frame_random(uint64_t *state) {
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

struct rte_mbuf *frame_mbuf(const uint8_t *bytes, uint32_t n, uint16_t headroom) {
	struct rte_mbuf *m = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*m));

	if (m == NULL) {
		abort();
	}
	memset((void *)m, 0, sizeof(*m));
	m->buf_addr = malloc((size_t)headroom + n + (headroom + n == 0));
	if (m->buf_addr == NULL) {
		abort();
	}
	memset(m->buf_addr, 0xaa, headroom);
	if (n > 0) {
		memcpy((uint8_t *)m->buf_addr + headroom, bytes, n);
	}
	m->buf_len = (uint16_t)(headroom + n);
	m->data_off = headroom;
	m->data_len = (uint16_t)n;
	m->pkt_len = n;
	m->nb_segs = 1;
	m->refcnt = 1;
	return m;
}

void frame_mbuf_free(struct rte_mbuf *m) {
	if (m == NULL) {
		return;
	}
	free(m->buf_addr);
	free(m);
}
