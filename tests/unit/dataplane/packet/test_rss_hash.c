// SPDX-License-Identifier: BSD-3-Clause
//
// RSS hash: the test vectors that Microsoft publishes for drivers ("Verifying the RSS Hash
// Calculation"). Device vendors use the same vectors.
#include "rss_hash.h"
#include "test.h"

#include <arpa/inet.h>
#include <string.h>

static const struct weir_rss_key rss = {{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77,
	0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa}};

static const struct vector {
	int family;
	const char *source, *destination;
	uint16_t source_port, destination_port;
	uint32_t hash;
} vectors[] = {
	{AF_INET, "66.9.149.187", "161.142.100.80", 2794, 1766, 0x51ccc178},
	{AF_INET, "199.92.111.2", "65.69.140.83", 14230, 4739, 0xc626b0ea},
	{AF_INET, "24.19.198.95", "12.22.207.184", 12898, 38024, 0x5c2b394a},
	{AF_INET, "38.27.205.30", "209.142.163.6", 48228, 2217, 0xafc7327f},
	{AF_INET, "153.39.163.191", "202.188.127.2", 44251, 1303, 0x10e828a2},
	{AF_INET6, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x40207d3d},
	{AF_INET6, "3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0xdde51bbf},
	{AF_INET6, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024,
		0x02d1feef},
};

TEST(hash_equals_that_of_devices) {
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		struct weir_flow_key key = {.family = v->family == AF_INET ? 4 : 6,
			.protocol = 6,
			.source_port = htons(v->source_port),
			.destination_port = htons(v->destination_port)};

		assert_int_equal(inet_pton(v->family, v->source, key.source), 1);
		assert_int_equal(inet_pton(v->family, v->destination, key.destination), 1);
		assert_int_equal(weir_rss_hash(&rss, &key), v->hash);
		assert_int_equal(weir_rss_part(v->hash), v->hash % WEIR_FLOW_PARTS);
	}
}
