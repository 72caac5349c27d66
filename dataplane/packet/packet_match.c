// SPDX-License-Identifier: BSD-3-Clause
#include "packet_match.h"

#include <rte_common.h>

#include "parse.h"

#define TAGS_MAX 2u
#define FRAGMENT_OFFSET 0x1fff // mask in the IPv4 header

// Skip VLAN tags. Returns the offset after the EtherType, or 0 if bytes are missing.
static uint32_t find_l3(const uint8_t *frame, uint32_t bytes, uint16_t *ret_type) {
	uint32_t offset = WEIR_ETHERNET_BYTES;
	uint16_t type;

	if (bytes < offset) {
		return 0;
	}
	type = rte_be_to_cpu_16(weir_load16(frame + offset - 2));
	for (unsigned int tags = 0; tags < TAGS_MAX; tags++) {
		if (type != WEIR_ETHERTYPE_VLAN && type != 0x88a8 && type != 0x9100) {
			break;
		}
		offset += WEIR_VLAN_BYTES;
		if (bytes < offset) {
			return 0;
		}
		type = rte_be_to_cpu_16(weir_load16(frame + offset - 2));
	}
	*ret_type = type;
	return offset;
}

static void read_ports(const uint8_t *l4, uint32_t bytes, struct weir_flow_key *key) {
	if (bytes >= 4 &&
		(key->protocol == WEIR_PROTOCOL_TCP || key->protocol == WEIR_PROTOCOL_UDP)) {
		key->source_port = weir_load16(l4);
		key->destination_port = weir_load16(l4 + 2);
	}
}

static void read_ipv4(const uint8_t *ip, uint32_t bytes, struct weir_flow_key *key) {
	uint32_t header_bytes;

	if (bytes < WEIR_IPV4_BYTES) {
		return;
	}
	key->family = 4;
	key->protocol = ip[9];
	memcpy(key->source, ip + 12, 4);
	memcpy(key->destination, ip + 16, 4);
	header_bytes = (uint32_t)(ip[0] & 0x0f) * 4;
	if (header_bytes >= WEIR_IPV4_BYTES && header_bytes <= bytes &&
		(weir_load16(ip + 6) & RTE_BE16(FRAGMENT_OFFSET)) == 0) {
		read_ports(ip + header_bytes, bytes - header_bytes, key);
	}
}

static void read_ipv6(const uint8_t *ip, uint32_t bytes, struct weir_flow_key *key) {
	struct weir_ipv6_chain chain;

	if (bytes < WEIR_IPV6_BYTES) {
		return;
	}
	key->family = 6;
	memcpy(key->source, ip + 8, 16);
	memcpy(key->destination, ip + 24, 16);
	if (weir_parse_ipv6_chain(ip, bytes, &chain) < 0) {
		return;
	}
	key->protocol = chain.protocol;
	if (!chain.later && chain.offset <= bytes) {
		read_ports(ip + chain.offset, bytes - chain.offset, key);
	}
}

void weir_packet_key_read(const uint8_t *frame, uint32_t bytes, struct weir_flow_key *ret) {
	uint16_t type = 0;
	uint32_t offset = find_l3(frame, bytes, &type);

	*ret = (struct weir_flow_key){0};
	if (offset == 0) {
		return;
	}
	if (type == WEIR_ETHERTYPE_IPV4) {
		read_ipv4(frame + offset, bytes - offset, ret);
	} else if (type == WEIR_ETHERTYPE_IPV6) {
		read_ipv6(frame + offset, bytes - offset, ret);
	}
}

bool weir_address_has_prefix(const uint8_t *address, const uint8_t *prefix, unsigned int bits) {
	const unsigned int bytes = bits / 8, rest = bits % 8;

	return memcmp(address, prefix, bytes) == 0 &&
	       (rest == 0 || ((address[bytes] ^ prefix[bytes]) & (0xff00u >> rest) & 0xff) == 0);
}

static bool has_protocol(uint8_t wanted, const struct weir_flow_key *key) {
	if (wanted != WEIR_CAPTURE_ICMP) {
		return wanted == 0 || wanted == key->protocol;
	}
	return (key->family == 4 && key->protocol == WEIR_PROTOCOL_ICMP) ||
	       (key->family == 6 && key->protocol == WEIR_PROTOCOL_ICMPV6);
}

bool weir_packet_matches(const struct weir_capture_terms *terms, const struct weir_flow_key *key) {
	if (!has_protocol(terms->protocol, key) ||
		(terms->source_port != 0 &&
			terms->source_port != rte_be_to_cpu_16(key->source_port)) ||
		(terms->destination_port != 0 &&
			terms->destination_port != rte_be_to_cpu_16(key->destination_port))) {
		return false;
	}
	if (terms->client_family != 0 &&
		(terms->client_family != key->family ||
			!weir_address_has_prefix(key->source, terms->client, terms->client_bits))) {
		return false;
	}
	return terms->destination_family == 0 ||
	       (terms->destination_family == key->family &&
		       memcmp(terms->destination, key->destination, key->family == 4 ? 4 : 16) ==
			       0);
}
