// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
//
// Listening sockets of one network namespace: writes a record to a ring buffer when a TCP socket on
// a watched port starts or stops listening. Attached to the tracepoint of socket state changes. A
// state change that does not involve LISTEN costs only two comparisons.
//
// The kernel removes a listening socket from its tables before this tracepoint, but adds a
// listening socket after the tracepoint. When a reader gets a record, the tables therefore no
// longer contain a removed socket, but may not yet contain an added socket. The reader must read
// the tables again later.
#include "listen.h"
#include "socket.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WEIR_LISTEN_RING_BYTES);
} weir_listen_events SEC(".maps");

SEC("tp_btf/inet_sock_set_state")
int weir_listen(__u64 *ctx) { // ctx: the socket, its previous state, its new state
	struct sock *sk = (struct sock *)ctx[0];
	int from = ctx[1], to = ctx[2];
	__u16 port;

	// Handle only changes to LISTEN, and changes from LISTEN to CLOSE. The socket of a new
	// connection is a copy of the listening socket. This copy also leaves the state LISTEN, but
	// does not change to CLOSE.
	if (to != LISTEN && (from != LISTEN || to != CLOSE)) {
		return 0;
	}
	port = sk->__sk_common.skc_num;
	if (is_set(port) && is_ours(sk)) {
		struct weir_listen_event event = {.port = port, .listens = to == LISTEN};

		// Ignore errors: if the ring is full, earlier records have already woken the
		// reader.
		bpf_ringbuf_output(&weir_listen_events, &event, sizeof(event), BPF_RB_FORCE_WAKEUP);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
