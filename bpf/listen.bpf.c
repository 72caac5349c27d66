// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
//
// Listening sockets: reports in a ring buffer that a TCP socket at a watched port begins or ceases
// to listen, in one network namespace. Attached to the tracepoint of socket state changes; all
// other changes cost two comparisons.
//
// The kernel removes a listening socket from its tables before this tracepoint, and adds one after
// it. So a reader that looks at once finds a death, and must look again later for a birth.
//
// Kernel structures are declared here with the members that are used; libbpf finds where the
// running kernel has them.
#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/in.h>

#include <bpf/bpf_helpers.h>

#include "listen.h"

enum { CLOSE = 7, LISTEN = 10 }; // as in net/tcp_states.h

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
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
};
#pragma clang attribute pop

const volatile __u32 network_namespace = 0; // inode number
const volatile __u64 ports[WEIR_LISTEN_PORT_WORDS] = {0};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WEIR_LISTEN_RING_BYTES);
} weir_listen_events SEC(".maps");

static __always_inline bool is_ours(const struct sock *sk) {
	return sk->sk_protocol == IPPROTO_TCP &&
	       sk->__sk_common.skc_net.net->ns.inum == network_namespace;
}

SEC("tp_btf/inet_sock_set_state")
int weir_listen(__u64 *ctx) { // sock, previous state, new state
	struct sock *sk = (struct sock *)ctx[0];
	int from = ctx[1], to = ctx[2];
	__u16 port;

	// The socket of a new connection begins as a copy of the listening one.
	if (to != LISTEN && (from != LISTEN || to != CLOSE)) {
		return 0;
	}
	port = sk->__sk_common.skc_num;
	if (ports[port / 64] >> (port % 64) & 1 && is_ours(sk)) {
		struct weir_listen_event event = {.port = port, .listens = to == LISTEN};

		// A full ring: the reader is awake already.
		bpf_ringbuf_output(&weir_listen_events, &event, sizeof(event), BPF_RB_FORCE_WAKEUP);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
