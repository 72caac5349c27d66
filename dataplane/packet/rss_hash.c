// SPDX-License-Identifier: BSD-3-Clause
#include "rss_hash.h"

#include <rte_byteorder.h>
#include <rte_thash.h>

#include "checksum.h"

uint32_t weir_rss_hash(const struct weir_rss_key *rss, const struct weir_flow_key *key) {
	const uint32_t address_words = key->family == 4 ? 1 : 4;
	uint32_t tuple[9];
	uint32_t n = 0;

	for (uint32_t i = 0; i < address_words; i++) {
		tuple[n++] = rte_be_to_cpu_32(weir_load32(key->source + 4 * i));
	}
	for (uint32_t i = 0; i < address_words; i++) {
		tuple[n++] = rte_be_to_cpu_32(weir_load32(key->destination + 4 * i));
	}
	tuple[n++] = (uint32_t)rte_be_to_cpu_16(key->source_port) << 16 |
		     rte_be_to_cpu_16(key->destination_port);
	return rte_softrss(tuple, n, rss->bytes);
}
