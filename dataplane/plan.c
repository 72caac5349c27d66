// SPDX-License-Identifier: BSD-3-Clause
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/random.h>
#include <unistd.h>

#include <rte_mbuf.h>

#include "affinity.h"
#include "distributor.h"
#include "fragment_table.h"
#include "moves.h"
#include "netdev.h"
#include "options.h"
#include "peers.h"
#include "pipeline_setup.h"
#include "pipelines.h"
#include "plural.h"
#include "verdict.h"

#define DESCRIPTORS 1024
#define LAYER2_BYTES (14 + 2 * 4) // bytes of the Ethernet header and two VLAN tags
#define FCS_BYTES 4
#define ROOM_MIN RTE_MBUF_DEFAULT_BUF_SIZE
#define ROOM_MAX 65472
#define ROOM_STEP 128
#define MBUF_CACHE 256

// AF_XDP: the kernel stores a packet 256 bytes after the headroom. One frame of the socket holds
// a buffer, its mbuf and the mempool's object header. A frame must not be larger than a page,
// which is 64 cache lines. Only 63 lines can be used: the mempool rounds the number of lines up
// to an odd number, to spread buffers over memory channels.
#define XDP_HEADROOM_BYTES 256
#define XDP_ROOM_MAX (63 * 64 - 64 - 128)
_Static_assert(RTE_PKTMBUF_HEADROOM + XDP_HEADROOM_BYTES + LAYER2_BYTES +
			       WEIR_CONFIG_AF_XDP_MTU_MOST + FCS_BYTES ==
		       XDP_ROOM_MAX,
	"an AF_XDP buffer must have room for the largest configurable MTU");
// Buffers in a queue's rings in addition to the descriptors: half of the fill ring, and the
// completion ring.
#define XDP_QUEUE_BUFFERS (2048 + 2048)

#define BUFFER_OVERHEAD (64 + 128) // object header of the mempool, and mbuf
#define WORKER_BYTES (1 << 20) // bytes of a worker's pipeline, worker object and reader
#define RING_BYTES(packets) (512 + 8ull * (packets))
// Bytes of a mempool in addition to its buffers, for the caches of all lcores and the ring
#define POOL_BYTES (4 << 20)
#define DEVICE_BYTES (4 << 20) // a tap has its own mempools
#define SLACK_BYTES (16ull << 20) // memory that DPDK itself needs

static int refuse(char *why, size_t why_bytes, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int refuse(char *why, size_t why_bytes, int error, const char *format, ...) {
	va_list args;

	va_start(args, format);
	vsnprintf(why, why_bytes, format, args);
	va_end(args);
	return error;
}

// --- devices ------------------------------------------------------------------------------

// Returns the data room of a buffer for the longest frame of a port with this MTU, including
// headroom. af_xdp: the driver is net_af_xdp, which needs more headroom.
static uint32_t room_for(uint16_t mtu, bool af_xdp) {
	uint32_t room = RTE_PKTMBUF_HEADROOM + LAYER2_BYTES + mtu + FCS_BYTES;

	if (af_xdp) {
		room += XDP_HEADROOM_BYTES;
	}
	room = (room + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP;
	return MAX(room, (uint32_t)ROOM_MIN);
}

static int af_xdp_queues_wrong(const struct weir_config_port *port,
	const struct weir_device_plan *plan, int error, char *why, size_t why_bytes) {
	if (error == -EMLINK) {
		return refuse(why, why_bytes, error,
			"port %s: interface %s has several separate receive queues, but AF_XDP can "
			"use only one; run \"ethtool -L %s rx 1\"",
			port->name, plan->interface, plan->interface);
	}
	return refuse(why, why_bytes, error, "port %s: cannot query the queues of interface %s: %s",
		port->name, plan->interface, strerror(-error));
}

// Determines the number of queues of an AF_XDP device. Unless the configuration or the device's
// arguments specify a number, all queues of the interface are used, because VIP packets on unused
// queues go to the kernel. With the argument start_queue alone, one queue is used.
static int plan_af_xdp_queues(const struct weir_config_port *port, struct weir_device_plan *plan,
	char *why, size_t why_bytes) {
	int present = weir_netdev_queues(plan->interface);
	int queues = present;
	int first = 0;
	bool given = false;
	char value[16];

	if (present < 0) {
		return af_xdp_queues_wrong(port, plan, present, why, why_bytes);
	}
	plan->spreads = present == 1 || weir_netdev_spreads(plan->interface);
	if (weir_devargs_get(&plan->devargs, "start_queue", value, sizeof(value))) {
		first = MIN(MAX(atoi(value), 0), present);
		queues = 1;
	}
	if (weir_devargs_get(&plan->devargs, "queue_count", value, sizeof(value))) {
		queues = atoi(value);
		given = true;
	} else if (port->queues > 0) {
		queues = port->queues;
	}
	if (queues < 1 || queues > present - first) {
		return refuse(why, why_bytes, -EINVAL,
			"port %s: %d queue%s requested, but interface %s has %d%s; if the device "
			"supports more, run \"ethtool -L %s combined N\"",
			port->name, queues, weir_plural((uint64_t)queues), plan->interface,
			present - first, first > 0 ? " from start_queue on" : "", plan->interface);
	}
	if (queues > WEIR_QUEUES_MAX) {
		return refuse(why, why_bytes, -E2BIG,
			"port %s: interface %s has %d queues, but at most %d can be used; run "
			"\"ethtool -L %s combined %d\"",
			port->name, plan->interface, queues, WEIR_QUEUES_MAX, plan->interface,
			WEIR_QUEUES_MAX);
	}
	plan->queues = (uint16_t)queues;
	if (given) {
		return 0;
	}
	snprintf(value, sizeof(value), "%d", queues);
	// The argument fits: a parsed string takes at most half of the text.
	return weir_devargs_append(&plan->devargs, "queue_count", value);
}

static int plan_af_xdp(const struct weir_config_port *port, const char *steer_object,
	struct weir_device_plan *plan, char *why, size_t why_bytes) {
	char path[WEIR_DEVARGS_BYTES];
	int r;

	if (plan->interface[0] == '\0') {
		return refuse(why, why_bytes, -EINVAL,
			"port %s: device %s needs the argument iface=INTERFACE", port->name,
			plan->devargs.name);
	}
	r = plan_af_xdp_queues(port, plan, why, why_bytes);
	if (r < 0) {
		return r;
	}
	if (plan->exception || strcmp(steer_object, WEIR_STEER_OBJECT_NONE) == 0 ||
		weir_devargs_get(&plan->devargs, "xdp_prog", path, sizeof(path))) {
		return 0;
	}
	if (access(steer_object, R_OK) < 0) {
		return refuse(why, why_bytes, -errno,
			"port %s: cannot read XDP program %s: %s (set the path with "
			"--steer-object)",
			port->name, steer_object, strerror(errno));
	}
	r = weir_devargs_append(&plan->devargs, "xdp_prog", steer_object);
	return r < 0 ? refuse(why, why_bytes, r,
			       "port %s: the path of --steer-object is too long: %s", port->name,
			       steer_object)
		     : 0;
}

static void plan_interface(struct weir_device_plan *plan) {
	const struct weir_devargs *devargs = &plan->devargs;

	if (!weir_devargs_get(devargs, "iface", plan->interface, sizeof(plan->interface)) &&
		weir_devargs_is(devargs, "net_pcap")) {
		weir_devargs_get(devargs, "rx_iface", plan->interface, sizeof(plan->interface));
	}
}

static int plan_device(const struct weir_config_port *port, uint32_t workers,
	const char *steer_object, struct weir_device_plan *plan, char *why, size_t why_bytes) {
	const char *device = plan->exception ? port->exception : port->device;
	bool af_xdp;
	uint32_t room;
	int r;

	r = weir_devargs_parse(device, &plan->devargs);
	if (r < 0) {
		return refuse(why, why_bytes, r,
			"port %s: %s \"%s\" is not a DPDK device: use a PCI address or a driver "
			"with a number, such as net_af_xdp0,iface=lb0",
			port->name, plan->exception ? "exception" : "device", device);
	}
	af_xdp = weir_devargs_is(&plan->devargs, "net_af_xdp");
	plan_interface(plan);
	plan->mtu = port->mtu;
	plan->descriptors = DESCRIPTORS;
	plan->queues = 1;
	plan->spreads = false;
	if (plan->exception) {
		plan->queues = 1;
	} else if (port->queues > 0) {
		plan->queues = port->queues;
	} else if (plan->devargs.pci) {
		plan->queues = (uint16_t)workers;
	}
	if (af_xdp) {
		r = plan_af_xdp(port, steer_object, plan, why, why_bytes);
		if (r < 0) {
			return r;
		}
	}
	room = room_for(port->mtu, af_xdp);
	plan->room = (uint16_t)MIN(room, (uint32_t)ROOM_MAX);
	return 0;
}

// --- memory -------------------------------------------------------------------------------

static uint32_t queue_buffers(const struct weir_device_plan *device) {
	return 2 * device->descriptors +
	       (weir_devargs_is(&device->devargs, "net_af_xdp") ? XDP_QUEUE_BUFFERS : 0);
}

// Returns the maximum number of buffers of each size that can be in use outside of receive queues.
static uint32_t travelling_buffers(const struct weir_plan *plan) {
	// WEIR_HOLD_PACKETS: packets that are held while the receive queue of a bucket changes
	// (shift.h)
	uint32_t buffers =
		plan->workers * (MBUF_CACHE * 3 / 2 + 4 * WEIR_BURST) + WEIR_HOLD_PACKETS;

	for (uint32_t i = 0; i < plan->devices; i++) {
		buffers += plan->device[i].descriptors;
		if (plan->workers > 1) {
			buffers += (plan->workers - 1) * WEIR_TX_RING;
		}
		if (i == 0 && plan->workers > 1) {
			// Add only the larger number: a dataplane either offers packets or moves
			// buckets, never both.
			buffers += plan->workers * MAX(WEIR_PEER_RING, WEIR_HOLD_PACKETS);
		}
		// Count the rings of one distributor per device. This is also enough for a device
		// that spreads flows and has a distributor for each queue, because most packets
		// reach the right worker without a ring.
		if (plan->workers > 1 && !plan->device[i].exception) {
			buffers += (plan->workers - 1) * WEIR_DISTRIBUTOR_RING;
		}
	}
	return buffers;
}

static struct weir_pool_plan *pool_of(struct weir_plan *plan, uint16_t room) {
	for (uint32_t i = 0; i < plan->pools; i++) {
		if (plan->pool[i].room == room) {
			return &plan->pool[i];
		}
	}
	if (plan->pools == WEIR_POOLS_MAX) {
		return NULL;
	}
	plan->pool[plan->pools].room = room;
	return &plan->pool[plan->pools++];
}

static int plan_pools(struct weir_plan *plan, char *why, size_t why_bytes) {
	for (uint32_t i = 0; i < plan->devices; i++) {
		const struct weir_device_plan *device = &plan->device[i];
		struct weir_pool_plan *pool = pool_of(plan, device->room);

		if (pool == NULL) {
			return refuse(why, why_bytes, -E2BIG,
				"the ports need packet buffers of more than %d sizes: configure "
				"fewer different MTUs",
				WEIR_POOLS_MAX);
		}
		pool->buffers += device->queues * queue_buffers(device);
	}
	for (uint32_t i = 0; i < plan->pools; i++) {
		struct weir_pool_plan *pool = &plan->pool[i];

		pool->buffers += travelling_buffers(plan);
		plan->buffer_bytes +=
			POOL_BYTES +
			(uint64_t)pool->buffers * (pool->room + BUFFER_OVERHEAD + 64u + 16u);
	}
	return 0;
}

static uint64_t ring_bytes(const struct weir_plan *plan) {
	uint64_t distributors = 0;

	for (uint32_t i = 0; i < plan->devices; i++) {
		distributors += plan->device[i].devargs.pci ? plan->device[i].queues : 1;
	}
	return (uint64_t)plan->devices * (plan->workers - 1) * RING_BYTES(WEIR_TX_RING) +
	       distributors * (plan->workers - 1) * RING_BYTES(WEIR_DISTRIBUTOR_RING) +
	       plan->workers * (RING_BYTES(WEIR_PEER_RING) + sizeof(struct weir_mover));
}

static int draw_rss_key(struct weir_plan *plan) {
	uint8_t key[WEIR_RSS_KEY_ROOM];

	if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key)) {
		return -EIO;
	}
	for (uint32_t i = 0; i < plan->devices; i++) {
		memcpy(plan->device[i].rss_key, key, sizeof(key));
	}
	return 0;
}

// Returns the number of bytes to reserve for the flow tables of all workers. Whether the workers
// share one flow memory is known only after the devices are open. Therefore this is the maximum of
// the sizes with a shared memory and with private memories.
static uint64_t flow_bytes(const struct weir_config *config) {
	uint64_t own = weir_pipelines_flow_bytes(config, false);

	return weir_pipelines_may_share(config) ? MAX(own, weir_pipelines_flow_bytes(config, true))
						: own;
}

int weir_plan_make(const struct weir_config *config, const char *steer_object,
	struct weir_plan *ret, char *why, size_t why_bytes) {
	struct weir_plan *plan = calloc(1, sizeof(*plan));
	int r = 0;

	if (plan == NULL) {
		return refuse(why, why_bytes, -ENOMEM, "out of memory");
	}
	plan->workers = config->workers.count;
	for (uint32_t pass = 0; pass < 2 && r == 0; pass++) {
		for (uint32_t p = 0; p < config->port_count && r == 0; p++) {
			const struct weir_config_port *port = &config->ports[p];
			struct weir_device_plan *device = &plan->device[plan->devices];

			if (pass == 1 && port->exception[0] == '\0') {
				continue;
			}
			device->port = (uint8_t)p;
			device->exception = pass == 1;
			r = plan_device(port, plan->workers, steer_object, device, why, why_bytes);
			device->interrupts = config->workers.idle == WEIR_IDLE_SLEEP;
			plan->devices++;
		}
	}
	if (r == 0 && draw_rss_key(plan) < 0) {
		r = refuse(why, why_bytes, -EIO, "cannot get a random number");
	}
	if (r == 0) {
		r = plan_pools(plan, why, why_bytes);
	}
	if (r == 0) {
		plan->flow_bytes = flow_bytes(config);
		plan->total_bytes =
			plan->buffer_bytes + plan->flow_bytes + ring_bytes(plan) + SLACK_BYTES +
			plan->devices * (uint64_t)DEVICE_BYTES +
			weir_affinity_bytes(config->flow_table.affinity_sources) +
			plan->workers *
				(WORKER_BYTES +
					weir_fragment_table_bytes(config->fragments.entries) +
					weir_pipeline_bytes(config->segment.max_services,
						config->segment.max_backends));
		*ret = *plan;
	}
	free(plan);
	return r;
}
