// SPDX-License-Identifier: BSD-3-Clause
//
// Idle modes `yield` and `sleep`: after iterations without packets, the worker yields its CPU.
// These system calls are exceptions to guarantee S1 (docs/design/architecture.md).
//
// With `yield` the worker sleeps for at most a tenth of a millisecond at a time. With `sleep` the
// worker waits in epoll until a queue has a packet, but for at most a millisecond. This limit is
// needed, because requests and new tables from control do not wake the worker, and a grace period
// must wait for every worker.
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_pause.h>

#include "worker_private.h"

// Number of iterations without packets before the next longer kind of pause.
#define SPIN_TURNS 32 // each iteration executes a pause instruction
// Each iteration calls sched_yield, which costs little if no other thread needs the CPU.
#define YIELD_TURNS 64
// The worker sleeps briefly in each of these iterations, in total about a millisecond. In idle mode
// `yield` their number is not limited.
#define SLEEP_TURNS 16
#define SLEEP_FIRST_NS 8000
#define SLEEP_LAST_NS 100000
#define WAIT_MS 1
#define EVENTS 8

void weir_idle_init(struct weir_idle *idle, enum weir_config_idle mode) {
	idle->mode = mode;
	idle->epoll = -1;
}

void weir_idle_fini(struct weir_idle *idle) {
	if (idle->epoll >= 0) {
		close(idle->epoll);
	}
}

// --- what wakes a worker --------------------------------------------------------------------

// Makes the AF_XDP sockets of a device wake the worker: the driver has no interrupts, but its
// sockets can be polled. The driver does not report which socket belongs to the queue. Therefore
// the worker waits for all sockets, and packets of queues that it does not poll also wake it.
// Returns false if the device has no AF_XDP sockets, or if a socket cannot be polled.
static bool watch_sockets(struct weir_idle *idle, const struct weir_device *device) {
	struct epoll_event event = {.events = EPOLLIN};

	for (uint32_t i = 0; i < device->xdp_sockets; i++) {
		if (epoll_ctl(idle->epoll, EPOLL_CTL_ADD, device->xdp_socket[i], &event) < 0 &&
			errno != EEXIST) {
			return false;
		}
	}
	return device->xdp_sockets > 0;
}

static bool watch_interrupt(
	struct weir_idle *idle, const struct weir_device *device, uint16_t queue) {
	if (idle->interrupts == RTE_DIM(idle->interrupt) ||
		rte_eth_dev_rx_intr_ctl_q(
			device->id, queue, idle->epoll, RTE_INTR_EVENT_ADD, NULL) < 0) {
		return false;
	}
	idle->interrupt[idle->interrupts].device = device->id;
	idle->interrupt[idle->interrupts].queue = queue;
	idle->interrupts++;
	return true;
}

void weir_worker_wake_by(
	struct weir_worker *worker, const struct weir_device *device, uint16_t queue) {
	struct weir_idle *idle = &worker->idle;

	if (idle->mode != WEIR_IDLE_SLEEP || idle->not_woken) {
		return;
	}
	if (idle->epoll < 0) {
		idle->epoll = epoll_create1(EPOLL_CLOEXEC);
	}
	idle->not_woken = idle->epoll < 0 ||
			  (!watch_sockets(idle, device) && !watch_interrupt(idle, device, queue));
}

bool weir_worker_is_woken(const struct weir_worker *worker) {
	return worker->idle.epoll >= 0 && !worker->idle.not_woken;
}

// --- pauses ---------------------------------------------------------------------------------

// Enables the interrupts of all queues that the worker polls. An interrupt is raised only for a
// packet that arrives after interrupts were enabled. Therefore the next iteration polls once more
// before the worker waits.
static void arm(struct weir_idle *idle) {
	idle->armed = true;
	for (uint16_t i = 0; i < idle->interrupts; i++) {
		(void)rte_eth_dev_rx_intr_enable(
			idle->interrupt[i].device, idle->interrupt[i].queue);
	}
}

void weir_idle_end_slow(struct weir_idle *idle) {
	idle->armed = false;
	for (uint16_t i = 0; i < idle->interrupts; i++) {
		(void)rte_eth_dev_rx_intr_disable(
			idle->interrupt[i].device, idle->interrupt[i].queue);
	}
}

static void wait_for_packets(struct weir_idle *idle) {
	struct rte_epoll_event events[EVENTS];

	if (!idle->armed) {
		arm(idle);
		return;
	}
	(void)rte_epoll_wait(idle->epoll, events, EVENTS, WAIT_MS);
}

void weir_idle_pause(struct weir_idle *idle) {
	struct timespec sleep = {0};
	uint32_t turns = idle->turns++;

	if (idle->mode == WEIR_IDLE_POLL || turns < SPIN_TURNS) {
		rte_pause();
		return;
	}
	if (turns < SPIN_TURNS + YIELD_TURNS) {
		sched_yield();
		return;
	}
	turns -= SPIN_TURNS + YIELD_TURNS;
	if (turns >= SLEEP_TURNS && idle->epoll >= 0 && !idle->not_woken) {
		wait_for_packets(idle);
		return;
	}
	sleep.tv_nsec = RTE_MIN(SLEEP_FIRST_NS << RTE_MIN(turns, 8u), SLEEP_LAST_NS);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, NULL);
}
