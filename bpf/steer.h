/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Steer: definitions for steer.bpf.c and user space.
//
// The map weir_vips describes the traffic that goes to the dataplane. The map has five kinds of
// keys. All keys contain the VIP's address:
//   protocol, port           a single port                                       TCP and UDP
//   protocol, 0              every port, if the value is WEIR_STEER_EVERY_PORT; otherwise bit k of
//                            the value is set if blocks of 2^k ports exist     TCP and UDP
//   protocol, first port     a block of 2^k ports, k from 1 to 15, that starts at a multiple of
//                            2^k; the family is WEIR_STEER_BLOCK(family, k)    TCP and UDP
//   0, 0                     the address is a VIP: ICMP echo requests and errors, fragments, and
//                            packets without a readable port
//   LEAVING, port            a TCP port whose bind was removed. Each block of such ports has the
//                            key `LEAVING, first port`. The value of the key `LEAVING, 0` has a
//                            bit for each size of these blocks
// A range with too many ports for single keys is stored as blocks. An address also has the key
// `0, 0`, unless all its other keys are LEAVING keys. The value of the keys `protocol, 0` and
// `LEAVING, 0` is the set of bits described above. The value of a leaving port or block is the time
// of the last packet, in seconds of CLOCK_MONOTONIC. All other keys have the value 1.
//
// A TCP packet to a leaving port goes to the kernel if the packet begins a connection, belongs to a
// connection of the kernel, or answers a SYN cookie of the kernel. All other TCP packets to a
// leaving port go to the dataplane.
//
// DPDK's driver net_af_xdp, with xdp_prog=, requires an XSKMAP with the name xsks_map. The program
// stays attached when the process that attached it exits; the next dataplane must first detach the
// program. Loading needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (for packet pointers with variable
// offsets).
#pragma once

#include <linux/types.h>

#define WEIR_STEER_VIPS_MAX 65536
#define WEIR_STEER_QUEUES_MAX 64
#define WEIR_STEER_VIPS_MAP "weir_vips"
#define WEIR_STEER_XSKS_MAP "xsks_map"
#define WEIR_STEER_WIDE_RANGE 1024 // a bind with up to this many ports gets a key for each port
// Used instead of WEIR_STEER_WIDE_RANGE if the keys do not fit into the map.
#define WEIR_STEER_SHORT_RANGE 16
#define WEIR_STEER_EVERY_PORT 1u
// The value of `protocol` in the keys of removed binds, instead of IPPROTO_TCP.
#define WEIR_STEER_LEAVING (0x80 | 6)
#define WEIR_STEER_BLOCK_MAX 15 // k of the largest block
#define WEIR_STEER_BLOCK(family, k) ((__u8)((family) | (k) << 4))

struct weir_vip_key {
	__u8 address[16]; // IPv4 in the first 4 bytes, remaining bytes 0
	__u8 family; // lower 4 bits: 4 or 6; upper 4 bits: k of a block, otherwise 0
	__u8 protocol; // IPPROTO_TCP, IPPROTO_UDP, WEIR_STEER_LEAVING or 0
	__be16 port;
};
_Static_assert(sizeof(struct weir_vip_key) == 20, "the key of weir_vips must not have padding");

typedef __u32 weir_vip_value;
