// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
//
// Meter: counts the TCP connections to the ports of a service, in one network namespace, and
// measures how long they are open. Attached to the tracepoint of socket state changes, so that the
// program does not run for each packet.
#include <asm/errno.h>

#include "meter.h"
#include "socket.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_iter__tcp {
	struct sock_common *sk_common;
};
#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_METER_CONNECTIONS);
	__type(key, __u64);
	__type(value, struct weir_meter_connection);
} weir_meter_connections SEC(".maps");

struct weir_meter_shard weir_meter_shards[WEIR_METER_SHARDS];

static __always_inline void add(__u64 *counter, __u64 value) {
	__sync_fetch_and_add(counter, value);
}

static __always_inline struct weir_meter_shard *own_shard(void) {
	return &weir_meter_shards[bpf_get_smp_processor_id() % WEIR_METER_SHARDS];
}

static __always_inline void open_connection(__u64 key, __u64 start_ns) {
	struct weir_meter_connection connection = {.start_ns = start_ns};
	long r = bpf_map_update_elem(&weir_meter_connections, &key, &connection, BPF_NOEXIST);

	if (r == 0) {
		add(&own_shard()->counter[WEIR_METER_OPENED], 1);
	} else if (r != -EEXIST) {
		add(&own_shard()->counter[WEIR_METER_UNTRACKED], 1);
	}
}

static __always_inline enum weir_meter_counter how_it_ended(int error, int state) {
	if (state != CLOSE) {
		return WEIR_METER_FINISHED; // this server has sent a FIN
	}
	switch (error) {
	case 0:
		return WEIR_METER_ABORTED;
	case ECONNRESET:
	case EPIPE:
		return WEIR_METER_RESET;
	default:
		return WEIR_METER_LOST;
	}
}

static __always_inline void time_connection(struct weir_meter_shard *shard, __u64 start_ns) {
	__u64 took_ns = bpf_ktime_get_ns() - start_ns;
	__u32 bucket;

	if (start_ns == 0) {
		return;
	}
	add(&shard->counter[WEIR_METER_TIMED], 1);
	bucket = weir_meter_bucket(took_ns / 1000);
	add(&shard->service_ns, took_ns);
	if (bucket < WEIR_METER_BUCKETS) { // always true, but the verifier needs a bound
		add(&shard->bucket[bucket], 1);
	}
}

static __always_inline void close_connection(__u64 key, int error, int state) {
	struct weir_meter_connection *connection =
		bpf_map_lookup_elem(&weir_meter_connections, &key);
	struct weir_meter_shard *shard = own_shard();
	enum weir_meter_counter end;
	__u64 start_ns;

	if (!connection) {
		return;
	}
	start_ns = connection->start_ns;
	if (bpf_map_delete_elem(&weir_meter_connections, &key)) {
		return;
	}
	end = how_it_ended(error, state);
	add(&shard->counter[WEIR_METER_CLOSED], 1);
	add(&shard->counter[end], 1);
	if (end == WEIR_METER_FINISHED) {
		time_connection(shard, start_ns);
	}
}

SEC("tp_btf/inet_sock_set_state")
int weir_meter(__u64 *ctx) { // ctx: the socket, its previous state, its new state
	struct sock *sk = (struct sock *)ctx[0];
	int from = ctx[1], to = ctx[2];
	bool was_open = from == ESTABLISHED || from == CLOSE_WAIT;
	bool is_open = to == ESTABLISHED || to == CLOSE_WAIT;

	if (from == SYN_RECV && is_open) {
		if (is_set(sk->__sk_common.skc_num) && is_ours(sk)) {
			open_connection((__u64)sk, bpf_ktime_get_ns());
		}
	} else if (was_open && !is_open) {
		// Do not check the port on a change to CLOSE: the socket may already have released
		// its port.
		if (to == CLOSE || is_set(sk->__sk_common.skc_num)) {
			close_connection((__u64)sk, sk->sk_err, to);
		}
	}
	return 0;
}

// Counts a connection that was already open when measuring began. User space runs this iterator
// once over all TCP sockets of the network namespace, after the tracepoint is attached.
SEC("iter/tcp")
int weir_meter_existing(struct bpf_iter__tcp *ctx) {
	struct sock_common *sk = ctx->sk_common;

	if (sk && (sk->skc_state == ESTABLISHED || sk->skc_state == CLOSE_WAIT) &&
		is_set(sk->skc_num)) {
		open_connection((__u64)sk, 0);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
