/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// For BPF programs: functions that check whether a socket belongs to the service. The sockets of
// the service are the TCP sockets in one network namespace on the ports that user space has set.
//
// The kernel structures below declare only the members that the programs use. libbpf finds the
// offsets of these members in the running kernel.
#pragma once

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/in.h>

#include <bpf/bpf_helpers.h>

enum { ESTABLISHED = 1, SYN_RECV = 3, CLOSE = 7, CLOSE_WAIT = 8, LISTEN = 10 }; // net/tcp_states.h

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__u16 skc_num; // local port, host order
	unsigned char skc_state;
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	int sk_err;
};
#pragma clang attribute pop

const volatile __u32 network_namespace = 0; // inode number
const volatile __u64 ports[1024] = {0}; // one bit for each of the 65,536 ports

static __always_inline bool is_set(__u16 port) {
	return ports[port / 64] >> (port % 64) & 1;
}

static __always_inline bool is_ours(const struct sock *sk) {
	return sk->sk_protocol == IPPROTO_TCP &&
	       sk->__sk_common.skc_net.net->ns.inum == network_namespace;
}
