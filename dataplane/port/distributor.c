// SPDX-License-Identifier: BSD-3-Clause
#include "distributor.h"

#include <errno.h>
#include <stdio.h>

#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

_Static_assert((WEIR_DISTRIBUTOR_BUCKETS & (WEIR_DISTRIBUTOR_BUCKETS - 1)) == 0,
	"the number of buckets must be a power of two");
_Static_assert(WEIR_WORKERS_MAX <= 256, "the index of a worker must fit in a byte");

// Creates the ring from a distributor to a worker, in separately allocated memory. rte_ring_create
// is not used, because it needs a memzone for each ring: DPDK has only 2,560 memzones, but 64
// workers with 64 queues need more rings than that.
static struct rte_ring *create_ring(uint32_t number, uint32_t worker, int socket) {
	ssize_t bytes = rte_ring_get_memsize(WEIR_DISTRIBUTOR_RING);
	struct rte_ring *ring =
		rte_zmalloc_socket("handoff", (size_t)bytes, RTE_CACHE_LINE_SIZE, socket);
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "handoff_%u_%u", number, worker);
	if (ring != NULL && rte_ring_init(ring, name, WEIR_DISTRIBUTOR_RING,
				    RING_F_SP_ENQ | RING_F_SC_DEQ) < 0) {
		rte_free(ring);
		ring = NULL;
	}
	return ring;
}

int weir_distributor_create(uint32_t number, uint32_t workers, uint32_t owner, int socket,
	struct weir_distributor **ret) {
	struct weir_distributor *distributor;

	if (workers == 0 || workers > WEIR_WORKERS_MAX || owner >= workers ||
		number >= WEIR_DISTRIBUTORS_MAX) {
		return -EINVAL;
	}
	distributor = rte_zmalloc_socket(
		"distributor", sizeof(*distributor), RTE_CACHE_LINE_SIZE, socket);
	if (distributor == NULL) {
		return -ENOMEM;
	}
	distributor->workers = workers;
	distributor->owner = owner;
	distributor->number = number;
	for (uint32_t i = 0; i < WEIR_DISTRIBUTOR_BUCKETS; i++) {
		distributor->worker[i] = (uint8_t)weir_distributor_first_worker(i, workers);
	}
	for (uint32_t w = 0; w < workers; w++) {
		if (w == owner) {
			continue;
		}
		distributor->ring[w] = create_ring(number, w, socket);
		if (distributor->ring[w] == NULL) {
			weir_distributor_free(distributor);
			return -ENOMEM;
		}
	}
	*ret = distributor;
	return 0;
}

void weir_distributor_free(struct weir_distributor *distributor) {
	if (distributor == NULL) {
		return;
	}
	for (uint32_t w = 0; w < distributor->workers; w++) {
		struct rte_mbuf *m;

		if (distributor->ring[w] == NULL) {
			continue;
		}
		while (rte_ring_dequeue(distributor->ring[w], (void **)&m) == 0) {
			rte_pktmbuf_free(m);
		}
		rte_free(distributor->ring[w]);
	}
	rte_free(distributor);
}

// --- switches -------------------------------------------------------------------------------

void weir_distributor_request(
	struct weir_distributor *distributor, uint32_t victim, uint32_t bucket, uint32_t thief) {
	struct weir_switch *request = &distributor->switches[victim];

	request->bucket = bucket;
	request->thief = thief;
	__atomic_fetch_or(&distributor->requested, UINT64_C(1) << victim, __ATOMIC_RELEASE);
}

bool weir_distributor_switched(
	const struct weir_distributor *distributor, uint32_t victim, uint64_t taken) {
	uint64_t requested = __atomic_load_n(&distributor->requested, __ATOMIC_ACQUIRE);

	return (requested >> victim & 1) == 0 && taken >= distributor->switches[victim].end;
}

static void switch_buckets(struct weir_distributor *distributor, uint64_t requested) {
	for (uint64_t left = requested; left != 0; left &= left - 1) {
		uint32_t victim = (uint32_t)__builtin_ctzll(left);
		struct weir_switch *request = &distributor->switches[victim];

		request->end = distributor->put[victim];
		distributor->worker[request->bucket] = (uint8_t)request->thief;
	}
	__atomic_fetch_and(&distributor->requested, ~requested, __ATOMIC_RELEASE);
}

// --- drains ---------------------------------------------------------------------------------

void weir_distributor_drain(struct weir_distributor *distributor, uint32_t target) {
	distributor->drain.target = target;
	__atomic_store_n(&distributor->draining, 1, __ATOMIC_RELEASE);
}

bool weir_distributor_drained(const struct weir_distributor *distributor, uint64_t *ret_end) {
	if (__atomic_load_n(&distributor->draining, __ATOMIC_ACQUIRE) != 0) {
		return false;
	}
	*ret_end = distributor->drain.end;
	return true;
}

static void drain_queue(struct weir_distributor *distributor) {
	struct weir_drain *drain = &distributor->drain;

	if (!drain->begun) {
		drain->begun = true;
		drain->left = WEIR_DISTRIBUTOR_DRAIN;
	} else if (drain->left == 0) {
		drain->begun = false;
		drain->end = distributor->put[drain->target];
		__atomic_store_n(&distributor->draining, 0, __ATOMIC_RELEASE);
	}
}

// --- both -----------------------------------------------------------------------------------

void weir_distributor_switch_slow(struct weir_distributor *distributor) {
	uint64_t requested = __atomic_load_n(&distributor->requested, __ATOMIC_ACQUIRE);

	if (requested != 0) {
		switch_buckets(distributor, requested);
	}
	if (__atomic_load_n(&distributor->draining, __ATOMIC_ACQUIRE) != 0) {
		drain_queue(distributor);
	}
}
