// SPDX-License-Identifier: BSD-3-Clause
#include "frame_text.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ipv6_chain.h"

#define ETHERNET_BYTES 14u
#define VLAN_BYTES 4u
#define IPV4 0x0800 // EtherTypes
#define IPV6 0x86dd
#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define TCP_BYTES 20u
#define UDP_BYTES 8u

// The part of a frame that was not parsed yet.
struct rest {
	const uint8_t *data;
	size_t bytes; // bytes present
	size_t length; // bytes according to the headers, including bytes that were cut off
};

struct ip {
	const char *name; // "IPv4", "IPv6"
	uint8_t protocol;
	bool later; // a fragment that is not the first
};

static uint32_t u16(const uint8_t *data) {
	return (uint32_t)data[0] << 8 | data[1];
}

static uint32_t u32(const uint8_t *data) {
	return u16(data) << 16 | u16(data + 2);
}

// Skip a header. Returns false if the frame ends within the header.
static bool skip(struct rest *rest, size_t bytes) {
	if (bytes > rest->bytes || bytes > rest->length) {
		return false;
	}
	rest->data += bytes;
	rest->bytes -= bytes;
	rest->length -= bytes;
	return true;
}

static bool read_ipv4(struct rest *rest, struct ip *ip) {
	const uint8_t *header = rest->data;

	if (rest->bytes < IPV4_BYTES) {
		return false;
	}
	ip->protocol = header[9];
	ip->later = (u16(header + 6) & 0x1fff) != 0;
	rest->length = u16(header + 2);
	return (header[0] & 15u) * 4u >= IPV4_BYTES && skip(rest, (header[0] & 15u) * 4u);
}

static bool read_ipv6(struct rest *rest, struct ip *ip) {
	if (rest->bytes < IPV6_BYTES) {
		return false;
	}
	ip->protocol = rest->data[6];
	rest->length = IPV6_BYTES + u16(rest->data + 4);
	if (!skip(rest, IPV6_BYTES)) {
		return false;
	}
	for (int i = 0; i < WEIR_IPV6_EXTENSIONS_MAX && !ip->later; i++) {
		const uint8_t *header = rest->data;

		if (!weir_ipv6_is_extension(ip->protocol)) {
			break;
		}
		if (rest->bytes < WEIR_IPV6_EXTENSION_MIN ||
			!skip(rest, weir_ipv6_extension_bytes(ip->protocol, header[1]))) {
			return false;
		}
		ip->later = ip->protocol == WEIR_IPV6_FRAGMENT &&
			    (u16(header + 2) & WEIR_IPV6_FRAGMENT_OFFSET) != 0;
		ip->protocol = header[0];
	}
	return true;
}

static void write_data(size_t length, char *buffer, size_t bytes) {
	if (length == 0) {
		snprintf(buffer, bytes, "no data");
	} else {
		snprintf(buffer, bytes, "%zu byte%s of data", length, length == 1 ? "" : "s");
	}
}

static void write_tcp(struct rest *rest, char *buffer, size_t bytes) {
	static const char *const names[] = {"FIN", "SYN", "RST", "PSH", "ACK", "URG"};
	// Order in the text: SYN ACK, RST ACK, FIN ACK
	static const uint8_t order[] = {1, 2, 0, 3, 4, 5};
	const uint8_t *header = rest->data;
	char flags[32] = "", text[48] = "truncated";
	size_t used = 0;

	if (rest->bytes < TCP_BYTES) {
		snprintf(buffer, bytes, "TCP, truncated");
		return;
	}
	for (size_t i = 0; i < sizeof(order); i++) {
		if (header[13] & 1u << order[i]) {
			used += (size_t)snprintf(
				flags + used, sizeof(flags) - used, " %s", names[order[i]]);
		}
	}
	if ((header[12] >> 4) * 4u <= rest->length) {
		write_data(rest->length - (header[12] >> 4) * 4u, text, sizeof(text));
	}
	snprintf(buffer, bytes, "TCP%s seq %u, %s", used > 0 ? flags : " without flags",
		u32(header + 4), text);
}

static void write_ip(struct rest *rest, const struct ip *ip, char *buffer, size_t bytes) {
	char text[48];

	if (ip->later &&
		weir_ipv6_is_extension(ip->protocol)) { // only the first fragment has the protocol
		snprintf(buffer, bytes, "%s, later fragment", ip->name);
	} else if (ip->later) {
		snprintf(
			buffer, bytes, "%s, later fragment of protocol %u", ip->name, ip->protocol);
	} else if (ip->protocol == IPPROTO_TCP) {
		write_tcp(rest, buffer, bytes);
	} else if (ip->protocol == IPPROTO_UDP && rest->length >= UDP_BYTES) {
		write_data(rest->length - UDP_BYTES, text, sizeof(text));
		snprintf(buffer, bytes, "UDP, %s", text);
	} else if ((ip->protocol == IPPROTO_ICMP || ip->protocol == IPPROTO_ICMPV6) &&
		   rest->bytes >= 2) {
		snprintf(buffer, bytes, "%s type %u code %u",
			ip->protocol == IPPROTO_ICMP ? "ICMP" : "ICMPv6", rest->data[0],
			rest->data[1]);
	} else {
		snprintf(buffer, bytes, "%s, protocol %u", ip->name, ip->protocol);
	}
}

// Skip the Ethernet header and VLAN tags. Returns the EtherType after them, -1 if the Ethernet
// header is incomplete, or the EtherType of a VLAN tag that is incomplete.
static int skip_ethernet(struct rest *rest) {
	uint32_t type;

	if (!skip(rest, ETHERNET_BYTES)) {
		return -1;
	}
	type = u16(rest->data - 2);
	while ((type == 0x8100 || type == 0x88a8 || type == 0x9100) && skip(rest, VLAN_BYTES)) {
		type = u16(rest->data - 2);
	}
	return (int)type;
}

int weir_frame_ip_version(const uint8_t *data, size_t data_bytes) {
	struct rest rest = {.data = data, .bytes = data_bytes, .length = data_bytes};
	int type = skip_ethernet(&rest);

	return type == IPV4 ? 4 : type == IPV6 ? 6 : 0;
}

const char *weir_frame_text(const uint8_t *data, size_t data_bytes, char *buffer, size_t bytes) {
	struct rest rest = {.data = data, .bytes = data_bytes, .length = data_bytes};
	int type = skip_ethernet(&rest);
	struct ip ip = {0};

	if (type < 0) {
		snprintf(buffer, bytes, "incomplete Ethernet header");
		return buffer;
	}
	if (type != IPV4 && type != IPV6) {
		snprintf(buffer, bytes, "EtherType 0x%04x", (unsigned int)type);
		return buffer;
	}
	ip.name = type == IPV4 ? "IPv4" : "IPv6";
	if (type == IPV4 ? read_ipv4(&rest, &ip) : read_ipv6(&rest, &ip)) {
		write_ip(&rest, &ip, buffer, bytes);
	} else {
		snprintf(buffer, bytes, "%s, truncated", ip.name);
	}
	return buffer;
}
