// SPDX-License-Identifier: BSD-3-Clause
#include "edges.h"

#include <string.h>

// A row uses the macro of a default packet, and overrides the fields that differ.
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10
#define URG 0x20
#define ECE 0x40
#define CWR 0x80

#define TCP4 .family = 4, .protocol = 6, .tcp_flags = SYN
#define ACK4 .family = 4, .protocol = 6, .tcp_flags = ACK, .payload = 32
#define UDP4 .family = 4, .protocol = 17, .destination_port = 53, .payload = 24
#define TCP6 .family = 6, .protocol = 6, .tcp_flags = SYN
#define UDP6 .family = 6, .protocol = 17, .destination_port = 53, .payload = 24
#define ECHO4 .family = 4, .protocol = 1, .icmp_type = 8, .payload = 32
#define ECHO6 .family = 6, .protocol = 58, .icmp_type = 128, .payload = 32
#define ERROR4 .family = 4, .protocol = 1, .icmp_type = 3, .icmp_code = 4
#define ERROR6 .family = 6, .protocol = 58, .icmp_type = 2
#define IP EDGE_IP
#define L4 EDGE_L4

#define FORWARD .action = WEIR_ACTION_FORWARD
#define REPLY .action = WEIR_ACTION_REPLY
#define KERNEL .action = WEIR_ACTION_KERNEL
#define DROP(r) .action = WEIR_ACTION_DROP, .reason = WEIR_DROP_##r

static const uint8_t multicast4[16] = {224, 0, 0, 5};
static const uint8_t broadcast4[16] = {255, 255, 255, 255};
static const uint8_t loopback4[16] = {127, 0, 0, 1};
static const uint8_t zero[16];
static const uint8_t class_e4[16] = {240, 0, 0, 1};
static const uint8_t multicast6[16] = {0xff, 2, [15] = 1};
static const uint8_t loopback6[16] = {[15] = 1};
static const uint8_t mapped6[16] = {[10] = 0xff, 0xff, 192, 0, 2, 7};
// IPv4-translated address (RFC 2765)
static const uint8_t translated6[16] = {[8] = 0xff, 0xff, [12] = 192, 0, 2, 7};
static const uint8_t compatible6[16] = {[12] = 192, 0, 2, 7};

// IPv4 options and IPv6 extension headers. `to` is the protocol after the chain.
static const uint8_t nops[40] = {[0 ... 38] = 1};
#define CHAIN(name, to, ...) static const uint8_t name[] = {__VA_ARGS__}
CHAIN(hop_tcp, 6, 6, 0, 1, 4, 0, 0, 0, 0);
CHAIN(hop_icmp, 58, 58, 0, 5, 2, 0, 0, 1, 0);
CHAIN(long_tcp, 6, 6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
CHAIN(auth_tcp, 6, 6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
CHAIN(auth_long, 6, 6, 9, 0, 0, 0, 0, 0, 1);
CHAIN(three_udp, 17, 43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0);
CHAIN(hop_second, 6, 0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0);
CHAIN(atomic_tcp, 6, 6, 0, 0, 0, 0, 0, 0, 9);
CHAIN(atomic_udp, 17, 17, 0, 0, 6, 0, 0, 0, 9); // atomic fragment with reserved bits set
CHAIN(fragment_first, 6, 6, 0, 0, 1, 0, 0, 0, 9);
CHAIN(fragment_later, 6, 6, 0, 0, 8, 0, 0, 0, 9);
CHAIN(fragment_middle, 6, 6, 0, 5, 1, 0, 0, 0, 8);
CHAIN(hop_fragment, 6, 44, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 9);
// The fragmentable part starts with another extension header.
#define FRAGMENT(next, offset, id) (next), 0, (offset) >> 8, (offset) & 255, 0, 0, 0, (id)
CHAIN(first_options, 6, FRAGMENT(60, 1, 31), 6, 0, 1, 4, 0, 0, 0, 0);
CHAIN(first_auth, 6, FRAGMENT(51, 1, 32), 6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7,
	8, 9, 10, 11, 12);
CHAIN(first_routing_options, 17, FRAGMENT(43, 1, 33), 60, 0, 0, 0, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0,
	0);
CHAIN(first_options_icmp, 58, FRAGMENT(60, 1, 34), 58, 0, 1, 4, 0, 0, 0, 0);
CHAIN(first_options_cut, 6, FRAGMENT(60, 1, 35), 6, 9, 1, 4, 0, 0, 0, 0);
CHAIN(first_first, 6, FRAGMENT(44, 1, 36), FRAGMENT(6, 1, 37));
CHAIN(first_hop, 6, FRAGMENT(0, 1, 38), 6, 0, 1, 4, 0, 0, 0, 0);
CHAIN(options_first_options, 6, 44, 0, 1, 4, 0, 0, 0, 0, FRAGMENT(60, 1, 39), 6, 0, 1, 4, 0, 0, 0,
	0);
CHAIN(later_options, 60, FRAGMENT(60, 0x101, 40));
CHAIN(later_auth, 51, FRAGMENT(51, 0x101, 41));
CHAIN(later_fragment, 44, FRAGMENT(44, 0x101, 42));
CHAIN(later_hop, 0, FRAGMENT(0, 0x101, 43));
CHAIN(later_icmp, 58, FRAGMENT(58, 0x101, 44));
CHAIN(later_esp, 50, FRAGMENT(50, 0x101, 45));
CHAIN(hop_huge, 6, 6, 255, 1, 4, 0, 0, 0, 0);
CHAIN(hop_none, 59, 59, 0, 1, 4, 0, 0, 0, 0);
CHAIN(hop_esp, 50, 50, 0, 1, 4, 0, 0, 0, 0);
CHAIN(mobility, 135, 135, 0, 1, 4, 0, 0, 0, 0);
#define OPTION60 60, 0, 1, 4, 0, 0, 0, 0
#define OPTION6 6, 0, 1, 4, 0, 0, 0, 0
CHAIN(eight, 6, OPTION60, OPTION60, OPTION60, OPTION60, OPTION60, OPTION60, OPTION60, OPTION6);
CHAIN(nine, 6, OPTION60, OPTION60, OPTION60, OPTION60, OPTION60, OPTION60, OPTION60, OPTION60,
	OPTION6);
#define EXT(first, name) .first_header = (first), .options = (name), .option_bytes = sizeof(name)

// A packet from a backend to a client, as quoted by ICMP errors.
#define BACK4 .family = 4, .source = frame_vip4, .destination = frame_client4, .payload = 16
#define BACK6 .family = 6, .source = frame_vip6, .destination = frame_client6, .payload = 16
#define TO_CLIENT .source_port = 80, .destination_port = 40000
static const struct frame_spec back_tcp4 = {BACK4, .protocol = 6, .tcp_flags = ACK, TO_CLIENT};
static const struct frame_spec back_udp4 = {
	BACK4, .protocol = 17, .source_port = 53, .destination_port = 40000};
static const struct frame_spec back_options4 = {
	BACK4, .protocol = 6, TO_CLIENT, .options = nops, .option_bytes = 8};
static const struct frame_spec back_gre4 = {BACK4, .protocol = 47};
static const struct frame_spec back_port4 = {
	BACK4, .protocol = 6, .source_port = 81, .destination_port = 40000};
static const struct frame_spec back_other4 = {.family = 4,
	.protocol = 6,
	.source = frame_stranger4,
	.destination = frame_client4,
	TO_CLIENT,
	.payload = 16};
static const struct frame_spec back_tcp6 = {BACK6, .protocol = 6, .tcp_flags = ACK, TO_CLIENT};
static const struct frame_spec back_udp6 = {
	BACK6, .protocol = 17, .source_port = 53, .destination_port = 40000};
static const struct frame_spec back_chain6 = {BACK6, .protocol = 6, TO_CLIENT, EXT(60, hop_tcp)};
static const struct frame_spec back_fragment6 = {
	BACK6, .protocol = 6, TO_CLIENT, EXT(44, fragment_later)};
static const struct frame_spec back_bad_chain6 = {
	BACK6, .protocol = 6, TO_CLIENT, EXT(60, hop_huge)};
static const struct frame_spec back_port6 = {
	BACK6, .protocol = 17, .source_port = 54, .destination_port = 40000};

// clang-format off
const struct edge edges[] = {
	// Ethernet
	{"frame of no bytes", {TCP4}, .length = EDGE_EMPTY, DROP(FRAME_TOO_SHORT)},
	{"frame of one byte", {TCP4}, .length = 1, DROP(FRAME_TOO_SHORT)},
	{"frame ends in the addresses", {TCP4}, .length = 11, DROP(FRAME_TOO_SHORT)},
	{"frame ends in the type", {TCP4}, .length = 13, DROP(FRAME_TOO_SHORT)},
	{"frame is a bare IPv4 type", {TCP4}, .length = 14, DROP(IPV4_TRUNCATED)},
	{"frame is a bare IPv6 type", {TCP6}, .length = 14, DROP(IPV6_TRUNCATED)},
	{"ARP", {TCP4}, {{12, 8}, {13, 6}}, KERNEL},
	{"ARP of no bytes", {TCP4}, {{12, 8}, {13, 6}}, .length = 14, KERNEL},
	{"LLDP", {TCP4}, {{12, 0x88}, {13, 0xcc}}, KERNEL},
	{"MPLS", {TCP4}, {{12, 0x88}, {13, 0x47}}, KERNEL},
	{"PPPoE", {TCP4}, {{12, 0x88}, {13, 0x64}}, KERNEL},
	{"802.3 length instead of a type", {TCP4}, {{12, 0}, {13, 40}}, KERNEL},
	{"IPv4 type, IPv6 packet", {TCP6}, {{12, 8}, {13, 0}}, .stale = true, DROP(IPV4_VERSION)},
	{"IPv6 type, IPv4 packet", {TCP4, .payload = 40}, {{12, 0x86}, {13, 0xdd}},
		DROP(IPV6_VERSION)},
	// VLAN
	{"one tag", {TCP4, .tags = 1}, FORWARD},
	{"one tag, IPv6", {TCP6, .tags = 1}, FORWARD},
	{"one service tag", {TCP4, .tags = 1, .tag_type = {0x88a8}}, FORWARD},
	{"one old service tag", {UDP4, .tags = 1, .tag_type = {0x9100}}, FORWARD},
	{"two tags", {TCP4, .tags = 2, .tag_type = {0x88a8, 0x8100}}, FORWARD},
	{"two tags of one type", {UDP6, .tags = 2}, FORWARD},
	{"three tags", {TCP4, .tags = 3}, DROP(VLAN_TOO_DEEP)},
	{"three tags, the third without a byte", {TCP4, .tags = 3}, .length = 22,
		DROP(VLAN_TOO_DEEP)},
	{"tag without a byte", {TCP4, .tags = 1}, .length = 14, DROP(VLAN_TRUNCATED)},
	{"tag of three bytes", {TCP4, .tags = 1}, .length = 17, DROP(VLAN_TRUNCATED)},
	{"second tag of one byte", {TCP4, .tags = 2}, .length = 19, DROP(VLAN_TRUNCATED)},
	{"tag and nothing else", {TCP4, .tags = 1}, .length = 18, DROP(IPV4_TRUNCATED)},
	{"two tags and a piece of IPv6", {TCP6, .tags = 2}, .length = 50, DROP(IPV6_TRUNCATED)},
	{"tagged ARP", {TCP4, .tags = 1}, {{16, 8}, {17, 6}}, KERNEL},
	{"tagged echo", {ECHO4, .tags = 1}, REPLY},
	{"doubly tagged echo", {ECHO6, .tags = 2}, REPLY},
	// IPv4 header
	{"IPv4 of 19 bytes", {TCP4}, .length = 33, DROP(IPV4_TRUNCATED)},
	{"IPv4 version 0", {TCP4}, {{IP(0), 0x05}}, DROP(IPV4_VERSION)},
	{"IPv4 version 5", {TCP4}, {{IP(0), 0x55}}, DROP(IPV4_VERSION)},
	{"IPv4 version 15", {TCP4}, {{IP(0), 0xf5}}, DROP(IPV4_VERSION)},
	{"IPv4 header length 0", {TCP4}, {{IP(0), 0x40}}, DROP(IPV4_HEADER_LENGTH)},
	{"IPv4 header length 16", {TCP4}, {{IP(0), 0x44}}, DROP(IPV4_HEADER_LENGTH)},
	{"IPv4 header beyond the frame", {TCP4}, {{IP(0), 0x4f}}, DROP(IPV4_HEADER_LENGTH)},
	{"IPv4 header beyond the packet", {TCP4, .padding = 40}, {{IP(0), 0x4f}},
		DROP(IPV4_TOTAL_LENGTH)},
	{"IPv4 total length 0", {TCP4}, {{IP(2), 0}, {IP(3), 0}}, DROP(IPV4_TOTAL_LENGTH)},
	{"IPv4 total length 19", {TCP4}, {{IP(3), 19}}, DROP(IPV4_TOTAL_LENGTH)},
	{"IPv4 total length one beyond", {TCP4}, {{IP(3), 41}}, DROP(IPV4_TOTAL_LENGTH)},
	{"IPv4 total length 65535", {TCP4}, {{IP(2), 255}, {IP(3), 255}}, DROP(IPV4_TOTAL_LENGTH)},
	{"IPv4 frame cut by a byte", {ACK4}, .length = 14 + 40 + 31, DROP(IPV4_TOTAL_LENGTH)},
	{"IPv4 checksum off by one", {TCP4}, {{IP(5), 1}}, .stale = true, DROP(IPV4_CHECKSUM)},
	{"IPv4 checksum of another TTL", {TCP4}, {{IP(8), 63}}, .stale = true, DROP(IPV4_CHECKSUM)},
	{"IPv4 bad checksum, not for us", {TCP4, .destination = frame_stranger4}, {{IP(8), 63}},
		.stale = true, DROP(IPV4_CHECKSUM)},
	{"IPv4 options, bad checksum", {TCP4, .options = nops, .option_bytes = 8},
		{{IP(20), 0}}, .stale = true, DROP(IPV4_CHECKSUM)},
	{"IPv4 padded frame", {TCP4, .padding = 6}, FORWARD},
	{"IPv4 much padding", {TCP4, .padding = 1000}, FORWARD},
	{"IPv4 one option", {TCP4, .options = nops, .option_bytes = 4}, FORWARD},
	{"IPv4 40 bytes of options", {UDP4, .options = nops, .option_bytes = 40}, FORWARD},
	{"IPv4 options and a tag", {TCP4, .options = nops, .option_bytes = 12, .tags = 1}, FORWARD},
	{"IPv4 reserved flag", {TCP4}, {{IP(6), 0x80}}, FORWARD},
	{"IPv4 no flags", {TCP4}, {{IP(6), 0}}, FORWARD},
	{"IPv4 TTL 0", {TCP4}, {{IP(8), 0}}, DROP(TTL_EXPIRED)},
	{"IPv4 TTL 1", {TCP4}, {{IP(8), 1}}, FORWARD},
	{"IPv4 TTL 0, not for us", {TCP4, .destination = frame_stranger4}, {{IP(8), 0}}, KERNEL},
	{"IPv4 first fragment", {TCP4, .payload = 4}, {{IP(6), 0x20}}, FORWARD},
	{"IPv4 first fragment of odd length", {UDP4, .payload = 4}, {{IP(6), 0x20}},
		DROP(FRAGMENT_TINY)},
	{"IPv4 first fragment, header cut", {TCP4, .tcp_options = 20, .payload = 4},
		{{IP(6), 0x20}, {L4(12), 0xf0}}, DROP(FRAGMENT_TINY)},
	{"IPv4 fragment over the TCP flags", {TCP4}, {{IP(6), 0x20}, {IP(7), 1}},
		DROP(FRAGMENT_TINY)},
	{"IPv4 last fragment", {UDP4}, {{IP(6), 0}, {IP(7), 185}}, DROP(FRAGMENT_FIRST_MISSING)},
	{"IPv4 DF and a fragment", {TCP4}, {{IP(6), 0x60}, {IP(7), 9}}, DROP(FRAGMENT_TINY)},
	{"IPv4 fragment of an echo", {ECHO4}, {{IP(6), 0x20}}, DROP(FRAGMENT)},
	{"IPv4 fragment, not for us", {TCP4, .destination = frame_stranger4}, {{IP(6), 0x20}},
		KERNEL},
	// IPv4 addresses
	{"IPv4 from multicast", {TCP4, .source = multicast4}, DROP(SOURCE_ADDRESS)},
	{"IPv4 from broadcast", {UDP4, .source = broadcast4}, DROP(SOURCE_ADDRESS)},
	{"IPv4 from loopback", {TCP4, .source = loopback4}, DROP(SOURCE_ADDRESS)},
	{"IPv4 from 0.0.0.0", {UDP4, .source = zero}, DROP(SOURCE_ADDRESS)},
	{"IPv4 from the VIP itself", {TCP4, .source = frame_vip4}, DROP(SOURCE_ADDRESS)},
	{"IPv4 echo from the VIP itself", {ECHO4, .source = frame_vip4}, DROP(SOURCE_ADDRESS)},
	{"IPv4 from 240.0.0.1", {TCP4, .source = class_e4}, FORWARD},
	{"DHCP", {UDP4, .source = zero, .destination = broadcast4}, KERNEL},
	{"IPv4 multicast", {UDP4, .destination = multicast4}, KERNEL},
	{"IPv4 to a stranger", {TCP4, .destination = frame_stranger4}, KERNEL},
	{"IPv4 from loopback to a stranger",
		{TCP4, .source = loopback4, .destination = frame_stranger4}, KERNEL},
	{"VIP, port without a service", {TCP4, .destination_port = 81}, KERNEL},
	{"VIP, other protocol's port", {TCP4, .destination_port = 53}, KERNEL},
	{"VIP, port below the range", {TCP4, .destination_port = 7999}, KERNEL},
	{"VIP, first port of the range", {TCP4, .destination_port = 8000}, FORWARD},
	{"VIP, last port of the range", {TCP4, .destination_port = 8999}, FORWARD},
	{"VIP, port above the range", {TCP4, .destination_port = 9000}, KERNEL},
	// protocols not supported for services
	{"IPv4 GRE", {.family = 4, .protocol = 47, .payload = 20}, KERNEL},
	{"IPv4 ESP", {.family = 4, .protocol = 50, .payload = 20}, KERNEL},
	{"IPv4 SCTP", {.family = 4, .protocol = 132, .payload = 20}, KERNEL},
	{"IPv4 IPIP", {.family = 4, .protocol = 4, .payload = 20}, KERNEL},
	{"IPv4 OSPF", {.family = 4, .protocol = 89, .destination = multicast4}, KERNEL},
	{"IPv4 VRRP of no bytes", {.family = 4, .protocol = 112}, KERNEL},
	{"IPv4 protocol 0", {.family = 4, .payload = 20}, KERNEL},
	{"IPv4 protocol 255", {.family = 4, .protocol = 255, .payload = 20}, KERNEL},
	{"ICMPv6 in IPv4", {ECHO6, .family = 4}, KERNEL},
	// TCP
	{"TCP of no bytes", {TCP4}, {{IP(3), 20}}, DROP(TCP_TRUNCATED)},
	{"TCP of one byte", {TCP4}, {{IP(3), 21}}, DROP(TCP_TRUNCATED)},
	{"TCP of 19 bytes", {TCP4}, {{IP(3), 39}}, DROP(TCP_TRUNCATED)},
	{"TCP cut frame of 19 bytes", {TCP4}, {{IP(3), 39}}, .length = 53, DROP(TCP_TRUNCATED)},
	{"TCP truncated, not for us", {TCP4, .destination = frame_stranger4}, {{IP(3), 30}}, KERNEL},
	{"TCP data offset 0", {TCP4}, {{L4(12), 0x00}}, DROP(TCP_HEADER_LENGTH)},
	{"TCP data offset 16", {TCP4}, {{L4(12), 0x40}}, DROP(TCP_HEADER_LENGTH)},
	{"TCP data offset one beyond", {TCP4}, {{L4(12), 0x60}}, DROP(TCP_HEADER_LENGTH)},
	{"TCP data offset 60 of 52", {ACK4}, {{L4(12), 0xf0}}, DROP(TCP_HEADER_LENGTH)},
	{"TCP data offset in the padding", {TCP4, .padding = 40}, {{L4(12), 0x60}},
		DROP(TCP_HEADER_LENGTH)},
	{"TCP data offset 0, not for us", {TCP4, .destination = frame_stranger4},
		{{L4(12), 0x00}}, KERNEL},
	{"TCP options", {TCP4, .tcp_options = 40}, FORWARD},
	{"TCP no flags", {ACK4, .tcp_flags = 0}, DROP(TCP_FLAGS)},
	{"TCP SYN FIN", {TCP4, .tcp_flags = SYN | FIN}, DROP(TCP_FLAGS)},
	{"TCP SYN RST", {TCP4, .tcp_flags = SYN | RST}, DROP(TCP_FLAGS)},
	{"TCP FIN RST ACK", {TCP4, .tcp_flags = FIN | RST | ACK}, DROP(TCP_FLAGS)},
	{"TCP FIN without ACK", {TCP4, .tcp_flags = FIN}, DROP(TCP_FLAGS)},
	{"TCP PSH without ACK", {TCP4, .tcp_flags = PSH}, DROP(TCP_FLAGS)},
	{"TCP Christmas tree", {TCP4, .tcp_flags = FIN | PSH | URG}, DROP(TCP_FLAGS)},
	{"TCP all flags", {TCP4, .tcp_flags = 0xff}, DROP(TCP_FLAGS)},
	{"TCP only ECE", {TCP4, .tcp_flags = ECE | CWR}, DROP(TCP_FLAGS)},
	{"TCP no flags, port without a service", {TCP4, .tcp_flags = 0, .destination_port = 81},
		DROP(TCP_FLAGS)},
	{"TCP no flags, not for us", {TCP4, .tcp_flags = 0, .destination = frame_stranger4}, KERNEL},
	{"TCP no flags, IPv6", {TCP6, .tcp_flags = 0}, DROP(TCP_FLAGS)},
	{"TCP SYN ECE CWR", {TCP4, .tcp_flags = SYN | ECE | CWR}, FORWARD},
	{"TCP SYN with data", {TCP4, .payload = 100}, FORWARD},
	{"TCP SYN ACK", {TCP4, .tcp_flags = SYN | ACK}, FORWARD},
	{"TCP RST", {TCP4, .tcp_flags = RST}, FORWARD},
	{"TCP RST ACK", {TCP4, .tcp_flags = RST | ACK}, FORWARD},
	{"TCP FIN ACK PSH", {TCP4, .tcp_flags = FIN | ACK | PSH}, FORWARD},
	{"TCP ACK PSH URG", {ACK4, .tcp_flags = ACK | PSH | URG}, FORWARD},
	{"TCP port 0", {TCP4}, {{L4(0), 0}, {L4(1), 0}}, FORWARD},
	// UDP
	{"UDP of no bytes", {UDP4}, {{IP(3), 20}}, DROP(UDP_TRUNCATED)},
	{"UDP of 7 bytes", {UDP4}, {{IP(3), 27}}, DROP(UDP_TRUNCATED)},
	{"UDP length 0", {UDP4}, {{L4(5), 0}}, DROP(UDP_LENGTH)},
	{"UDP length 7", {UDP4}, {{L4(5), 7}}, DROP(UDP_LENGTH)},
	{"UDP length one beyond", {UDP4}, {{L4(5), 33}}, DROP(UDP_LENGTH)},
	{"UDP length in the padding", {UDP4, .padding = 20}, {{L4(5), 33}}, DROP(UDP_LENGTH)},
	{"UDP length 65535", {UDP6}, {{L4(4), 255}, {L4(5), 255}}, DROP(UDP_LENGTH)},
	{"UDP length 0, not for us", {UDP4, .destination = frame_stranger4}, {{L4(5), 0}}, KERNEL},
	{"UDP length shorter than the packet", {UDP4}, {{L4(5), 8}}, FORWARD},
	{"UDP without data", {UDP4, .payload = 0}, FORWARD},
	{"UDP without data, padded", {UDP4, .payload = 0, .padding = 18}, FORWARD},
	{"UDP one byte", {UDP6, .payload = 1}, FORWARD},
	// IPv6 header
	{"IPv6 of 39 bytes", {TCP6}, .length = 53, DROP(IPV6_TRUNCATED)},
	{"IPv6 version 4", {TCP6}, {{IP(0), 0x40}}, .stale = true, DROP(IPV6_VERSION)},
	{"IPv6 version 0", {TCP6}, {{IP(0), 0x00}}, .stale = true, DROP(IPV6_VERSION)},
	{"IPv6 payload one beyond", {TCP6}, {{IP(5), 21}}, DROP(IPV6_PAYLOAD_LENGTH)},
	{"IPv6 payload 65535", {TCP6}, {{IP(4), 255}, {IP(5), 255}}, DROP(IPV6_PAYLOAD_LENGTH)},
	{"IPv6 frame cut by a byte", {UDP6}, .length = 14 + 40 + 31, DROP(IPV6_PAYLOAD_LENGTH)},
	{"IPv6 payload 0", {TCP6}, {{IP(5), 0}}, DROP(TCP_TRUNCATED)},
	{"IPv6 payload 19", {TCP6}, {{IP(5), 19}}, DROP(TCP_TRUNCATED)},
	{"IPv6 UDP payload 7", {UDP6}, {{IP(5), 7}}, DROP(UDP_TRUNCATED)},
	{"IPv6 payload 0, not for us", {TCP6, .destination = frame_stranger6}, {{IP(5), 0}}, KERNEL},
	{"IPv6 jumbogram", {TCP6, EXT(0, hop_tcp)}, {{IP(5), 0}}, DROP(IPV6_EXTENSION)},
	{"IPv6 padded", {TCP6, .padding = 4}, FORWARD},
	{"IPv6 hop limit 0", {TCP6}, {{IP(7), 0}}, DROP(TTL_EXPIRED)},
	{"IPv6 hop limit 1", {TCP6}, {{IP(7), 1}}, FORWARD},
	{"IPv6 from multicast", {TCP6, .source = multicast6}, DROP(SOURCE_ADDRESS)},
	{"IPv6 from loopback", {TCP6, .source = loopback6}, DROP(SOURCE_ADDRESS)},
	{"IPv6 from ::", {UDP6, .source = zero}, DROP(SOURCE_ADDRESS)},
	{"IPv6 from the VIP itself", {TCP6, .source = frame_vip6}, DROP(SOURCE_ADDRESS)},
	{"IPv6 from a mapped address", {TCP6, .source = mapped6}, DROP(SOURCE_ADDRESS)},
	{"IPv6 datagram from a mapped address", {UDP6, .source = mapped6}, DROP(SOURCE_ADDRESS)},
	{"IPv6 from a mapped address to a stranger",
		{TCP6, .source = mapped6, .destination = frame_stranger6}, KERNEL},
	{"IPv6 from a translated address", {TCP6, .source = translated6}, FORWARD},
	{"IPv6 from a compatible address", {TCP6, .source = compatible6}, FORWARD},
	{"IPv6 to a stranger", {TCP6, .destination = frame_stranger6}, KERNEL},
	{"IPv6 VIP, port without a service", {TCP6, .destination_port = 443}, KERNEL},
	{"IPv6 VIP, port in the range", {TCP6, .destination_port = 8500}, FORWARD},
	{"IPv6 no next header", {.family = 6, .protocol = 59, .payload = 8}, KERNEL},
	{"IPv6 ESP", {.family = 6, .protocol = 50, .payload = 40}, KERNEL},
	{"IPv6 protocol 255", {.family = 6, .protocol = 255}, KERNEL},
	{"ICMP in IPv6", {ECHO4, .family = 6}, KERNEL},
	// IPv6 extension headers
	{"hop-by-hop", {TCP6, EXT(0, hop_tcp)}, FORWARD},
	{"destination options", {TCP6, EXT(60, hop_tcp)}, FORWARD},
	{"routing", {TCP6, EXT(43, hop_tcp)}, FORWARD},
	{"destination options of 16 bytes", {TCP6, EXT(60, long_tcp)}, FORWARD},
	{"authentication", {TCP6, EXT(51, auth_tcp)}, FORWARD},
	{"hop-by-hop, routing, destination", {UDP6, EXT(0, three_udp)}, FORWARD},
	{"eight headers", {TCP6, EXT(60, eight)}, FORWARD},
	{"nine headers", {TCP6, EXT(60, nine)}, DROP(IPV6_EXTENSION)},
	{"hop-by-hop after another", {TCP6, EXT(60, hop_second)}, DROP(IPV6_EXTENSION)},
	{"two hop-by-hop", {TCP6, EXT(0, hop_second)}, DROP(IPV6_EXTENSION)},
	{"extension beyond the packet", {TCP6, EXT(0, hop_huge)}, DROP(IPV6_EXTENSION)},
	{"extension beyond, not for us",
		{TCP6, EXT(0, hop_huge), .destination = frame_stranger6}, KERNEL},
	{"authentication beyond the packet", {TCP6, EXT(51, auth_long)}, DROP(IPV6_EXTENSION)},
	{"extension of 7 bytes", {TCP6, EXT(0, hop_tcp)}, {{IP(5), 7}}, DROP(IPV6_EXTENSION)},
	{"extension and no TCP", {TCP6, EXT(0, hop_tcp)}, {{IP(5), 8}}, DROP(TCP_TRUNCATED)},
	{"extension in the padding", {TCP6, EXT(60, long_tcp)}, {{IP(5), 15}},
		DROP(IPV6_EXTENSION)},
	{"extension, then no next header", {TCP6, EXT(0, hop_none)}, KERNEL},
	{"extension, then ESP", {TCP6, EXT(0, hop_esp)}, KERNEL},
	{"mobility header", {TCP6, EXT(0, mobility)}, KERNEL},
	{"atomic fragment", {TCP6, EXT(44, atomic_tcp)}, FORWARD},
	{"atomic fragment with reserved bits", {UDP6, EXT(44, atomic_udp)}, FORWARD},
	{"IPv6 first fragment", {TCP6, .payload = 4, EXT(44, fragment_first)}, FORWARD},
	{"IPv6 first fragment of odd length", {TCP6, EXT(44, fragment_first)},
		DROP(FRAGMENT_TINY)},
	{"IPv6 later fragment", {TCP6, EXT(44, fragment_later)}, DROP(FRAGMENT_TINY)},
	{"IPv6 middle fragment", {TCP6, .payload = 4, EXT(44, fragment_middle)},
		DROP(FRAGMENT_FIRST_MISSING)},
	{"first fragment of options and TCP", {TCP6, .payload = 4, EXT(44, first_options)},
		FORWARD},
	{"first fragment of authentication and TCP", {TCP6, .payload = 4, EXT(44, first_auth)},
		FORWARD},
	{"first fragment of two headers and UDP",
		{UDP6, .payload = 16, EXT(44, first_routing_options)}, FORWARD},
	{"options around a fragment header", {TCP6, .payload = 4, EXT(60, options_first_options)},
		FORWARD},
	{"first fragment of options and ICMPv6", {ECHO6, EXT(44, first_options_icmp)},
		DROP(FRAGMENT)},
	{"first fragment that ends in options", {TCP6, .payload = 4, EXT(44, first_options_cut)},
		DROP(IPV6_EXTENSION)},
	{"fragment of a fragment", {TCP6, .payload = 4, EXT(44, first_first)},
		DROP(IPV6_EXTENSION)},
	{"first fragment of hop-by-hop options", {TCP6, .payload = 4, EXT(44, first_hop)},
		DROP(IPV6_EXTENSION)},
	{"later fragment of options", {TCP6, .payload = 4, EXT(44, later_options)},
		DROP(FRAGMENT_FIRST_MISSING)},
	{"later fragment of authentication", {TCP6, .payload = 4, EXT(44, later_auth)},
		DROP(FRAGMENT_FIRST_MISSING)},
	{"later fragment of a fragment", {TCP6, .payload = 4, EXT(44, later_fragment)},
		DROP(FRAGMENT_FIRST_MISSING)},
	{"later fragment of hop-by-hop options", {TCP6, .payload = 4, EXT(44, later_hop)},
		DROP(FRAGMENT_FIRST_MISSING)},
	{"later fragment of ICMPv6", {TCP6, .payload = 4, EXT(44, later_icmp)}, DROP(FRAGMENT)},
	{"later fragment of ESP", {TCP6, .payload = 4, EXT(44, later_esp)}, DROP(FRAGMENT)},
	{"later fragment of ESP, not for us",
		{TCP6, .payload = 4, EXT(44, later_esp), .destination = frame_stranger6}, KERNEL},
	{"hop-by-hop, then a fragment", {TCP6, EXT(0, hop_fragment)}, DROP(FRAGMENT_TINY)},
	{"IPv6 fragment, not for us",
		{TCP6, EXT(44, fragment_first), .destination = frame_stranger6}, KERNEL},
	// ICMP
	{"echo request", {ECHO4}, REPLY},
	{"echo request without data", {ECHO4, .payload = 0}, REPLY},
	{"echo request with odd data", {ECHO4, .payload = 31}, REPLY},
	{"echo request with options", {ECHO4, .options = nops, .option_bytes = 12}, REPLY},
	{"echo request, code 1", {ECHO4, .icmp_code = 1}, REPLY},
	{"echo request, padded", {ECHO4, .payload = 2, .padding = 16}, REPLY},
	{"echo request to a stranger", {ECHO4, .destination = frame_stranger4}, KERNEL},
	{"echo request, bad checksum", {ECHO4}, {{L4(8), 0}}, DROP(ICMP_CHECKSUM)},
	{"echo request, checksum 0", {ECHO4}, {{L4(2), 0}, {L4(3), 0}}, DROP(ICMP_CHECKSUM)},
	{"echo request of 7 bytes", {ECHO4}, {{IP(3), 27}}, DROP(ICMP_TRUNCATED)},
	{"ICMP of no bytes", {ECHO4}, {{IP(3), 20}}, DROP(ICMP_TRUNCATED)},
	{"ICMP of no bytes, not for us", {ECHO4, .destination = frame_stranger4}, {{IP(3), 20}},
		KERNEL},
	{"echo reply", {ECHO4, .icmp_type = 0}, KERNEL},
	{"redirect", {ECHO4, .icmp_type = 5}, KERNEL},
	{"timestamp request", {ECHO4, .icmp_type = 13}, KERNEL},
	{"ICMP type 255", {ECHO4, .icmp_type = 255}, KERNEL},
	{"ICMPv6 echo request", {ECHO6}, REPLY},
	{"ICMPv6 echo request, odd data", {ECHO6, .payload = 1}, REPLY},
	{"ICMPv6 echo request behind options", {ECHO6, EXT(0, hop_icmp)}, REPLY},
	{"ICMPv6 echo request to a stranger", {ECHO6, .destination = frame_stranger6}, KERNEL},
	{"ICMPv6 echo request, bad checksum", {ECHO6}, {{L4(9), 0}}, DROP(ICMP_CHECKSUM)},
	{"ICMPv6 of 7 bytes", {ECHO6}, {{IP(5), 7}}, DROP(ICMP_TRUNCATED)},
	{"ICMPv6 echo reply", {ECHO6, .icmp_type = 129}, KERNEL},
	{"neighbour solicitation to the VIP", {ECHO6, .icmp_type = 135}, KERNEL},
	{"duplicate address detection",
		{ECHO6, .icmp_type = 135, .source = zero, .destination = multicast6}, KERNEL},
	{"router advertisement", {ECHO6, .icmp_type = 134, .destination = multicast6}, KERNEL},
	{"multicast listener report",
		{ECHO6, .icmp_type = 143, .destination = multicast6, EXT(0, hop_icmp)}, KERNEL},
	{"ICMPv6 type 0", {ECHO6, .icmp_type = 0}, KERNEL},
	{"ICMPv6 type 5", {ECHO6, .icmp_type = 5}, KERNEL},
	// ICMP errors
	{"fragmentation needed", {ERROR4}, .quote = &back_tcp4, FORWARD},
	{"fragmentation needed, much quoted", {ERROR4}, .quote = &back_tcp4, .quote_bytes = 56,
		FORWARD},
	{"port unreachable", {ERROR4, .icmp_code = 3}, .quote = &back_udp4, FORWARD},
	{"time exceeded", {ERROR4, .icmp_type = 11}, .quote = &back_tcp4, FORWARD},
	{"parameter problem", {ERROR4, .icmp_type = 12}, .quote = &back_tcp4, FORWARD},
	{"source quench", {ERROR4, .icmp_type = 4}, .quote = &back_tcp4, KERNEL},
	{"error, quoted options", {ERROR4}, .quote = &back_options4, .quote_bytes = 36, FORWARD},
	{"error, quoted options cut", {ERROR4}, .quote = &back_options4, .quote_bytes = 35,
		DROP(ICMP_TRUNCATED)},
	{"error, tagged", {ERROR4, .tags = 2}, .quote = &back_tcp4, FORWARD},
	{"error to a stranger", {ERROR4, .destination = frame_stranger4}, .quote = &back_other4,
		KERNEL},
	{"error, nothing quoted", {ERROR4}, DROP(ICMP_TRUNCATED)},
	{"error, 19 bytes quoted", {ERROR4}, .quote = &back_tcp4, .quote_bytes = 19,
		DROP(ICMP_TRUNCATED)},
	{"error, no ports quoted", {ERROR4}, .quote = &back_tcp4, .quote_bytes = 20,
		DROP(ICMP_TRUNCATED)},
	{"error, 27 bytes quoted", {ERROR4}, .quote = &back_tcp4, .quote_bytes = 27,
		DROP(ICMP_TRUNCATED)},
	{"error, quoted version 6", {ERROR4}, {{L4(8), 0x65}}, .quote = &back_tcp4,
		DROP(ICMP_TRUNCATED)},
	{"error, quoted header length 4", {ERROR4}, {{L4(8), 0x41}}, .quote = &back_tcp4,
		DROP(ICMP_TRUNCATED)},
	{"error, quoted header length 60", {ERROR4}, {{L4(8), 0x4f}}, .quote = &back_tcp4,
		DROP(ICMP_TRUNCATED)},
	{"error, quoted total length 8", {ERROR4}, {{L4(11), 8}}, .quote = &back_tcp4,
		DROP(ICMP_TRUNCATED)},
	{"error, quoted later fragment", {ERROR4}, {{L4(15), 8}}, .quote = &back_tcp4,
		DROP(ICMP_UNMATCHED)},
	{"error, quoted first fragment", {ERROR4}, {{L4(14), 0x20}}, .quote = &back_tcp4, FORWARD},
	{"error, quoted GRE", {ERROR4}, .quote = &back_gre4, .quote_bytes = 36,
		DROP(ICMP_UNMATCHED)},
	{"error, quoted port of no service", {ERROR4}, .quote = &back_port4, DROP(ICMP_UNMATCHED)},
	{"error, quoted packet of a stranger", {ERROR4}, .quote = &back_other4,
		DROP(ICMP_UNMATCHED)},
	{"error, itself a fragment", {ERROR4}, {{IP(6), 0x20}}, .quote = &back_tcp4,
		DROP(FRAGMENT)},
	{"packet too big", {ERROR6}, .quote = &back_tcp6, FORWARD},
	{"ICMPv6 unreachable", {ERROR6, .icmp_type = 1}, .quote = &back_udp6, FORWARD},
	{"ICMPv6 time exceeded", {ERROR6, .icmp_type = 3}, .quote = &back_tcp6, FORWARD},
	{"ICMPv6 parameter problem", {ERROR6, .icmp_type = 4}, .quote = &back_tcp6, FORWARD},
	{"ICMPv6 error, quoted options", {ERROR6}, .quote = &back_chain6, .quote_bytes = 56,
		FORWARD},
	{"ICMPv6 error, quoted options cut", {ERROR6}, .quote = &back_chain6, .quote_bytes = 46,
		DROP(ICMP_TRUNCATED)},
	{"ICMPv6 error, quoted options too long", {ERROR6}, .quote = &back_bad_chain6,
		.quote_bytes = 60, DROP(ICMP_TRUNCATED)},
	{"ICMPv6 error, quoted fragment", {ERROR6}, .quote = &back_fragment6, .quote_bytes = 60,
		DROP(ICMP_UNMATCHED)},
	{"ICMPv6 error, nothing quoted", {ERROR6}, DROP(ICMP_TRUNCATED)},
	{"ICMPv6 error, 39 bytes quoted", {ERROR6}, .quote = &back_tcp6, .quote_bytes = 39,
		DROP(ICMP_TRUNCATED)},
	{"ICMPv6 error, 47 bytes quoted", {ERROR6}, .quote = &back_tcp6, .quote_bytes = 47,
		DROP(ICMP_TRUNCATED)},
	{"ICMPv6 error, quoted version 4", {ERROR6}, {{L4(8), 0x45}}, .quote = &back_tcp6,
		DROP(ICMP_TRUNCATED)},
	{"ICMPv6 error, quoted port of no service", {ERROR6}, .quote = &back_port6,
		DROP(ICMP_UNMATCHED)},
	{"ICMPv6 error to a stranger", {ERROR6, .destination = frame_stranger6},
		.quote = &back_tcp6, KERNEL},
};
// clang-format on

const unsigned int edge_count = sizeof(edges) / sizeof(edges[0]);

static uint32_t resolve(const struct frame *f, uint16_t at) {
	if (at >= 0x8000) {
		return f->l4 + at - 0x8000u;
	}
	return at >= 0x4000 ? f->l3 + at - 0x4000u : at;
}

void edge_build(const struct edge *edge, struct frame *ret) {
	struct frame_spec spec = edge->spec;
	struct frame quoted;

	if (edge->quote != NULL) {
		frame_build(edge->quote, &quoted);
		spec.body = quoted.bytes + quoted.l3;
		spec.payload = edge->quote_bytes != 0 ? edge->quote_bytes
						      : (uint16_t)(quoted.l4 - quoted.l3 + 8);
	}
	frame_build(&spec, ret);
	for (unsigned int i = 0; i < EDGE_SETS && edge->set[i].at != 0; i++) {
		ret->bytes[resolve(ret, edge->set[i].at)] = edge->set[i].value;
	}
	if (spec.family == 4 && !edge->stale) {
		frame_fix_ipv4(ret);
	}
	if (edge->length != 0) {
		ret->n = edge->length == EDGE_EMPTY ? 0 : (uint32_t)edge->length;
	}
}
