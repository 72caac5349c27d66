/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Steer: what steer.bpf.c and user space share.
//
// weir_vips holds the traffic of the dataplane. Three kinds of key, all with the VIP's address:
//   protocol, port   that port                                       TCP and UDP
//   protocol, 0      every port, or a range too wide to list         TCP and UDP
//   0, 0             the address is a VIP: ICMP echo requests and errors, fragments, and packets
//                    too broken to tell their port
// Whoever enters a key of the first two kinds enters the third, too.
//
// net_af_xdp's xdp_prog= wants the XSKMAP to be called xsks_map. It keeps the program attached when
// its process dies; the next dataplane has to take it off first. Loading takes CAP_BPF,
// CAP_NET_ADMIN and CAP_PERFMON (for packet pointers of varying offset).
#pragma once

#include <linux/types.h>

#define WEIR_STEER_VIPS_MAX 65536
#define WEIR_STEER_QUEUES_MAX 64
#define WEIR_STEER_VIPS_MAP "weir_vips"
#define WEIR_STEER_XSKS_MAP "xsks_map"
#define WEIR_STEER_WIDE_RANGE 1024 // ports; a bind of more is entered as "every port"

struct weir_vip_key {
	__u8 address[16]; // IPv4 in the first 4 bytes, rest 0
	__u8 family; // 4 or 6
	__u8 protocol; // IPPROTO_TCP, IPPROTO_UDP, 0
	__be16 port;
};
_Static_assert(sizeof(struct weir_vip_key) == 20, "key of weir_vips");

typedef __u32 weir_vip_value; // 1; no meaning yet
