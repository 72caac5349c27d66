// SPDX-License-Identifier: BSD-3-Clause
//
// Tests ICMP: echo replies, "too big" replies, the flow that an ICMP error refers to, and the rate
// limit of replies. The tests recompute the checksums of the replies.
#include "icmp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "distribute.h"
#include "frames.h"
#include "parse.h"
#include "pipeline_lab.h"
#include "test.h"

#define SEED 5
#define SECOND 1000000000ull

static const uint8_t nops[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
static const uint8_t chain_icmp[16] = {43, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4};
static const uint8_t chain_tcp[8] = {6, 0, 1, 4};

// --- echo -----------------------------------------------------------------------------------

static struct frame_spec echo_of(uint8_t family, uint16_t payload) {
	return (struct frame_spec){.family = family,
		.protocol = family == 4 ? 1 : 58,
		.icmp_type = family == 4 ? 8 : 128,
		.tos = 0xb8,
		.payload = payload};
}

// Check the reply to the echo request in f.
static void check_reply(
	const struct rte_mbuf *m, const struct frame_spec *spec, const struct frame *f) {
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint8_t *ip = p + f->l3;
	uint32_t header_bytes = spec->family == 4 ? 20 : 40;
	uint32_t icmp_bytes = f->ip_bytes - (f->l4 - f->l3);
	const uint8_t *icmp = ip + header_bytes;

	uint32_t length = f->l3 + header_bytes + icmp_bytes;

	// The reply is padded if the buffer has room.
	assert_true(m->pkt_len == length || (length < 60 && m->pkt_len == 60));
	assert_int_equal(m->data_len, m->pkt_len);
	assert_memory_equal(p, frame_client_mac, 6);
	assert_memory_equal(p + 6, frame_our_mac, 6);
	// The reply has the VLAN tags of the received packet.
	assert_memory_equal(p + 12, f->bytes + 12, f->l3 - 12);
	if (spec->family == 4) {
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(frame_get16(ip + 2), 20 + icmp_bytes);
		assert_int_equal(ip[8], 64);
		assert_int_equal(frame_sum(ip, 20, 0), 0xffff);
		assert_memory_equal(ip + 12, frame_vip4, 4);
		assert_memory_equal(ip + 16, frame_client4, 4);
		assert_int_equal(icmp[0], 0);
		assert_int_equal(frame_sum(icmp, icmp_bytes, 0), 0xffff);
	} else {
		assert_int_equal(ip[0] >> 4, 6);
		assert_int_equal(frame_get16(ip + 4), icmp_bytes);
		assert_int_equal(ip[6], 58);
		assert_int_equal(ip[7], 64);
		assert_memory_equal(ip + 8, frame_vip6, 16);
		assert_memory_equal(ip + 24, frame_client6, 16);
		assert_int_equal(icmp[0], 129);
		assert_int_equal(
			frame_sum(icmp, icmp_bytes, frame_pseudo_sum6(ip, icmp_bytes, 58)), 0xffff);
	}
	// Code, identifier, sequence number and data are returned unchanged.
	assert_int_equal(icmp[1], f->bytes[f->l4 + 1]);
	assert_memory_equal(icmp + 4, f->bytes + f->l4 + 4, icmp_bytes - 4);
}

static void check_echo(const struct frame_spec *spec, uint8_t ttl) {
	struct weir_descriptor d;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(spec, &f);
	f.bytes[f.l3 + (spec->family == 4 ? 8 : 7)] = ttl;
	if (spec->family == 4) {
		frame_fix_ipv4(&f);
	}
	m = frame_mbuf(f.bytes, f.n, 0);
	weir_parse(m, SEED, &d);
	assert_int_equal(d.kind, WEIR_PACKET_ECHO);
	assert_int_equal(weir_icmp_echo_reply(m, &d), 0);
	check_reply(m, spec, &f);
	frame_mbuf_free(m);
}

TEST_GROUP(lab_eal);

TEST(icmp_echo_reply_of_every_size_is_correct) {
	for (unsigned int payload = 0; payload < 1400; payload++) {
		for (uint8_t family = 4; family <= 6; family += 2) {
			struct frame_spec spec = echo_of(family, (uint16_t)payload);

			spec.tags = (uint8_t)(payload % 3);
			spec.padding = (uint16_t)(payload % 7);
			check_echo(&spec, (uint8_t)(1 + payload % 255));
		}
	}
}

TEST(icmp_echo_reply_has_no_options_or_extensions) {
	struct frame_spec spec4 = echo_of(4, 40);
	struct frame_spec spec6 = echo_of(6, 41);

	spec4.options = nops;
	spec4.option_bytes = sizeof(nops);
	check_echo(&spec4, 3);
	spec6.first_header = 0;
	spec6.options = chain_icmp;
	spec6.option_bytes = sizeof(chain_icmp);
	check_echo(&spec6, 3);
}

TEST(icmp_echo_reply_refuses_every_wrong_byte) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct frame_spec spec = echo_of(family, 21);
		struct frame f;

		frame_build(&spec, &f);
		for (uint32_t at = f.l4 + 1; at < f.n; at++) {
			struct weir_descriptor d;
			struct rte_mbuf *m;

			f.bytes[at] ^= 0x10;
			m = frame_mbuf(f.bytes, f.n, 0);
			weir_parse(m, SEED, &d);
			assert_int_equal(weir_icmp_echo_reply(m, &d), -EBADMSG);
			assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
			frame_mbuf_free(m);
			f.bytes[at] ^= 0x10;
		}
	}
}

TEST(icmp_echo_reply_restores_a_stripped_tag) {
	struct frame_spec spec = echo_of(4, 20);
	struct weir_descriptor d;
	struct rte_mbuf *m;
	struct frame f, reply;
	uint8_t *p;

	frame_build(&spec, &f);
	for (uint16_t headroom = 3; headroom <= 4; headroom++) {
		m = frame_mbuf(f.bytes, f.n, headroom);
		m->ol_flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
		m->vlan_tci = 0x6123;
		weir_parse(m, SEED, &d);
		if (headroom == 3) {
			assert_int_equal(weir_icmp_echo_reply(m, &d), -ENOBUFS);
			assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
			frame_mbuf_free(m);
			continue;
		}
		assert_int_equal(weir_icmp_echo_reply(m, &d), 0);
		assert_int_equal(m->ol_flags, 0);
		assert_int_equal(m->pkt_len, f.n + 4);
		p = rte_pktmbuf_mtod(m, uint8_t *);
		assert_int_equal(frame_get32(p + 12), 0x81006123);
		// If its VLAN tag is removed, the reply equals the reply to the untagged request.
		memcpy(reply.bytes, p, 12);
		memcpy(reply.bytes + 12, p + 16, m->pkt_len - 16);
		frame_mbuf_free(m);
		m = frame_mbuf(reply.bytes, f.n, 0);
		check_reply(m, &spec, &f);
		frame_mbuf_free(m);
	}
}

// --- too big --------------------------------------------------------------------------------

static void check_too_big(const struct rte_mbuf *m, const struct frame_spec *spec,
	const struct frame *f, uint16_t mtu) {
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint8_t *ip = p + f->l3;
	uint32_t head = spec->family == 4 ? 28 : 48;
	uint32_t most = (spec->family == 4 ? 576 : 1280) - head;
	uint32_t quoted = f->ip_bytes < most ? f->ip_bytes : most;

	assert_int_equal(m->pkt_len, f->l3 + head + quoted);
	assert_int_equal(m->data_len, m->pkt_len);
	assert_memory_equal(p, frame_client_mac, 6);
	assert_memory_equal(p + 6, frame_our_mac, 6);
	assert_memory_equal(p + 12, f->bytes + 12, f->l3 - 12);
	if (spec->family == 4) {
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(frame_get16(ip + 2), head + quoted);
		assert_int_equal(ip[8], 64);
		assert_int_equal(ip[9], 1);
		assert_int_equal(frame_sum(ip, 20, 0), 0xffff);
		assert_memory_equal(ip + 12, frame_vip4, 4);
		assert_memory_equal(ip + 16, frame_client4, 4);
		assert_int_equal(frame_get16(ip + 20), 0x0304);
		assert_int_equal(frame_get16(ip + 24), 0);
		assert_int_equal(frame_get16(ip + 26), mtu);
		assert_int_equal(frame_sum(ip + 20, 8 + quoted, 0), 0xffff);
	} else {
		assert_int_equal(frame_get32(ip), 0x60000000);
		assert_int_equal(frame_get16(ip + 4), 8 + quoted);
		assert_int_equal(ip[6], 58);
		assert_int_equal(ip[7], 64);
		assert_memory_equal(ip + 8, frame_vip6, 16);
		assert_memory_equal(ip + 24, frame_client6, 16);
		assert_int_equal(frame_get16(ip + 40), 0x0200);
		assert_int_equal(frame_get32(ip + 44), mtu);
		assert_int_equal(
			frame_sum(ip + 40, 8 + quoted, frame_pseudo_sum6(ip, 8 + quoted, 58)),
			0xffff);
	}
	assert_memory_equal(ip + head, f->bytes + f->l3, quoted);
}

TEST(icmp_too_big_quotes_the_packet) {
	static const uint16_t payloads[] = {0, 1, 100, 507, 508, 509, 1171, 1172, 1173, 1460, 8000};

	for (unsigned int i = 0; i < 2 * RTE_DIM(payloads); i++) {
		struct frame_spec spec = {.family = i % 2 == 0 ? 4 : 6,
			.protocol = i % 3 == 0 ? 17 : 6,
			.tcp_flags = 0x10,
			.payload = payloads[i / 2],
			.tags = (uint8_t)(i % 3),
			.padding = (uint16_t)(i % 4)};
		uint16_t head = spec.family == 4 ? 28 : 48;
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, head - 1);
		weir_parse(m, SEED, &d);
		assert_int_equal(weir_icmp_too_big(m, &d, 1400), -ENOBUFS);
		assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
		frame_mbuf_free(m);
		m = frame_mbuf(f.bytes, f.n, head);
		weir_parse(m, SEED, &d);
		assert_int_equal(weir_icmp_too_big(m, &d, (uint16_t)(1200 + i)), 0);
		check_too_big(m, &spec, &f, (uint16_t)(1200 + i));
		frame_mbuf_free(m);
	}
}

// --- errors ---------------------------------------------------------------------------------

static void error_about(const struct frame_spec *quoted_spec, uint32_t bytes, struct frame *ret) {
	struct frame_spec spec = {.family = quoted_spec->family,
		.protocol = quoted_spec->family == 4 ? 1 : 58,
		.icmp_type = quoted_spec->family == 4 ? 3 : 2};
	struct frame quoted;

	frame_build(quoted_spec, &quoted);
	spec.body = quoted.bytes + quoted.l3;
	spec.payload = (uint16_t)RTE_MIN(bytes, quoted.ip_bytes);
	frame_build(&spec, ret);
}

TEST(icmp_error_flow_is_the_clients) {
	static const struct frame_spec quoted[] = {
		{.family = 4, .protocol = 6, .tcp_flags = 0x10, .payload = 30},
		{.family = 4, .protocol = 17, .payload = 30, .options = nops, .option_bytes = 12},
		{.family = 6, .protocol = 17, .payload = 30},
		{.family = 6,
			.protocol = 6,
			.first_header = 0,
			.options = chain_tcp,
			.option_bytes = sizeof(chain_tcp)},
	};

	for (unsigned int i = 0; i < RTE_DIM(quoted); i++) {
		struct frame_spec spec = quoted[i];
		bool ipv4 = spec.family == 4;
		uint32_t enough = (ipv4 ? 20u : 40u) + spec.option_bytes + 8;

		spec.source = ipv4 ? frame_vip4 : frame_vip6;
		spec.destination = ipv4 ? frame_client4 : frame_client6;
		spec.source_port = 443;
		spec.destination_port = 50123;
		// Try every number of quoted bytes. An error that quotes too few bytes is refused,
		// and no byte beyond the quoted bytes is read.
		for (uint32_t bytes = 0; bytes <= enough + 10; bytes++) {
			struct weir_flow_key key = {.protocol = 99};
			struct weir_descriptor d;
			struct rte_mbuf *m;
			struct frame f;
			int r;

			error_about(&spec, bytes, &f);
			m = frame_mbuf(f.bytes, f.n, 0);
			weir_parse(m, SEED, &d);
			assert_int_equal(d.kind, WEIR_PACKET_ICMP_ERROR);
			r = weir_icmp_error_flow(m, &d, &key);
			if (bytes < enough) {
				assert_int_equal(r, -EBADMSG);
				assert_int_equal(key.protocol, 99);
			} else {
				assert_int_equal(r, 0);
				assert_int_equal(key.family, spec.family);
				assert_int_equal(key.protocol, spec.protocol);
				assert_memory_equal(key.source, spec.destination, 16);
				assert_memory_equal(key.destination, spec.source, 16);
				assert_int_equal(rte_be_to_cpu_16(key.source_port), 50123);
				assert_int_equal(rte_be_to_cpu_16(key.destination_port), 443);
			}
			frame_mbuf_free(m);
		}
	}
}

// The software distributor must pass an ICMP error to the worker that has the flow.
TEST(icmp_error_hashes_like_its_flow) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct frame_spec from_client = {
			.family = family, .protocol = 6, .tcp_flags = 0x10, .payload = 5};
		struct frame_spec to_client = {.family = family,
			.protocol = 6,
			.tcp_flags = 0x10,
			.source = family == 4 ? frame_vip4 : frame_vip6,
			.destination = family == 4 ? frame_client4 : frame_client6,
			.source_port = 80,
			.destination_port = 40000};
		struct rte_mbuf *m;
		uint64_t hash;
		struct frame f;

		frame_build(&from_client, &f);
		m = frame_mbuf(f.bytes, f.n, 0);
		hash = weir_pipeline_distribution_hash(m, SEED);
		assert_true(hash != 0);
		frame_mbuf_free(m);
		error_about(&to_client, 48, &f);
		m = frame_mbuf(f.bytes, f.n, 0);
		assert_true(weir_pipeline_distribution_hash(m, SEED) == hash);
		frame_mbuf_free(m);
		error_about(&to_client, 10, &f);
		m = frame_mbuf(f.bytes, f.n, 0);
		assert_true(weir_pipeline_distribution_hash(m, SEED) == 0);
		frame_mbuf_free(m);
	}
}

// --- rate -----------------------------------------------------------------------------------

static unsigned int takes(struct weir_icmp_limit *limit, uint64_t now_ns, unsigned int attempts) {
	unsigned int taken = 0;

	for (unsigned int i = 0; i < attempts; i++) {
		if (weir_icmp_limit_ready(limit, now_ns)) {
			weir_icmp_limit_take(limit);
			taken++;
		}
	}
	return taken;
}

TEST(icmp_limit_allows_the_rate_and_one_seconds_burst) {
	struct weir_icmp_limit limit;
	unsigned int taken = 0;
	uint64_t now = 50 * SECOND;

	weir_icmp_limit_init(&limit, 100);
	assert_int_equal(takes(&limit, now, 1000), 100);
	assert_int_equal(takes(&limit, now + SECOND / 100 - 1, 10), 0);
	assert_int_equal(takes(&limit, now + SECOND / 100, 10), 1);
	now += SECOND / 100;
	for (unsigned int i = 1; i <= 1000; i++) { // a request every 10 ms for ten seconds
		taken += takes(&limit, now + i * SECOND / 100, 3);
	}
	assert_int_equal(taken, 1000);
	now += 100 * SECOND; // idle time adds tokens for one second at most
	assert_int_equal(takes(&limit, now, 1000), 100);
}

TEST(icmp_limit_zero_never_answers) {
	struct weir_icmp_limit limit;

	weir_icmp_limit_init(&limit, 0);
	for (uint64_t now = 0; now < 100 * SECOND; now += SECOND) {
		assert_int_equal(takes(&limit, now, 10), 0);
	}
	weir_icmp_limit_init(&limit, UINT32_MAX); // more than one reply per nanosecond
	assert_int_equal(takes(&limit, SECOND, 1000), 1000);
}
