// SPDX-License-Identifier: BSD-3-Clause
#include "dataplane.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "device_watch.h"
#include "eal.h"
#include "netdev.h"
#include "peers.h"
#include "pipeline.h"
#include "pipelines.h"
#include "port_statistics.h"
#include "queue_tables.h"
#include "spreading.h"
#include "steer_attach.h"
#include "transmit.h"
#include "worker.h"

#define WHY_BYTES 512

struct weir_dataplane {
	const struct weir_config *config;
	const struct weir_plan *plan;
	const struct weir_log *log;
	uint32_t workers;
	uint32_t ports;
	uint32_t devices;
	bool running;
	uint32_t any_mac_ports; // bit p: port p accepts frames to any unicast MAC address
	int claim[WEIR_DEVICES_MAX]; // descriptors of claims of AF_XDP interfaces; -1 = no claim
	struct weir_device device[WEIR_DEVICES_MAX]; // devices in the order of the plan
	struct weir_device_watch watch[WEIR_DEVICES_MAX];
	struct weir_port_statistics statistics[WEIR_PORTS_MAX];
	struct weir_port port[WEIR_PORTS_MAX];
	struct weir_port_info info[WEIR_PORTS_MAX];
	struct weir_spreading spreading;
	struct weir_distribution distribution;
	struct weir_queue_tables *queue_tables; // NULL = not needed
	struct weir_peers *peers; // NULL = not needed
	struct weir_buffers buffers;
	struct weir_handover offer;
	bool short_of_memory; // there is no memory for the counters of more backends
	struct weir_segment *segment;
	struct weir_transmit *transmit;
	struct weir_pipelines pipelines;
	struct weir_worker *worker[WEIR_WORKERS_MAX];
};

// Returns the worker that polls the first queue of a device. An exception device is polled by the
// worker of its port.
static uint32_t owner_of(const struct weir_dataplane *dataplane, const struct weir_device *device) {
	return device->port % dataplane->workers;
}

static int node_of(uint32_t worker) {
	return (int)rte_lcore_to_socket_id(weir_eal_lcore(worker));
}

// --- devices ------------------------------------------------------------------------------

static void keep_tags(struct weir_dataplane *dataplane, const char *interface) {
	int r = weir_netdev_keep_tags(interface);

	if (r != 0) {
		weir_log_write(dataplane->log, r < 0 ? WEIR_LOG_WARN : WEIR_LOG_INFO,
			r < 0 ? "interface %s: cannot disable VLAN stripping (rxvlan): replies to "
				"tagged frames have no tag"
			      : "interface %s: disabled VLAN stripping (rxvlan)",
			interface);
	}
}

// Prepares the interface of an AF_XDP device, before the driver opens it: claims the interface for
// this process, detaches the XDP program that a killed dataplane may have left, and disables VLAN
// stripping. Does nothing for other devices, or if the interface does not exist. Returns 0, or
// negative errno (logged).
static int prepare_steering(struct weir_dataplane *dataplane, uint32_t d) {
	const struct weir_device_plan *plan = &dataplane->plan->device[d];
	char program[WEIR_DEVARGS_BYTES];
	char why[WHY_BYTES] = "";
	uint32_t ifindex;
	int r;

	if (!weir_devargs_is(&plan->devargs, "net_af_xdp")) {
		return 0;
	}
	ifindex = if_nametoindex(plan->interface);
	if (ifindex == 0) {
		// The interface does not exist. weir_device_open reports a more detailed error.
		return 0;
	}
	r = weir_steer_claim(ifindex, plan->interface, why, sizeof(why));
	if (r >= 0) {
		dataplane->claim[d] = r;
		r = weir_steer_clear(ifindex, plan->interface, why, sizeof(why));
	}
	// The interface has another XDP program. This is an error only for a device with a steer
	// program (xdp_prog). The driver of any other device uses its own program or the program
	// that is still attached.
	if (r == -EBUSY && dataplane->claim[d] >= 0 &&
		!weir_devargs_get(&plan->devargs, "xdp_prog", program, sizeof(program))) {
		r = 0;
	}
	if (r < 0) {
		weir_log_write(
			dataplane->log, WEIR_LOG_ERROR, "%s", why[0] != '\0' ? why : strerror(-r));
		return r;
	}
	if (r > 0) {
		weir_log_write(dataplane->log, WEIR_LOG_INFO,
			"interface %s: detached stale XDP program", plan->interface);
	}
	keep_tags(dataplane, plan->interface);
	return 0;
}

static void describe_device(
	const struct weir_dataplane *dataplane, const struct weir_device *device) {
	const char *name = dataplane->config->ports[device->port].name;

	weir_log_write(dataplane->log, WEIR_LOG_INFO,
		"port %s: %s%s, " RTE_ETHER_ADDR_PRT_FMT ", mtu %u, %u receive queue%s%s", name,
		device->name, device->exception ? " (to the kernel)" : "", device->mac[0],
		device->mac[1], device->mac[2], device->mac[3], device->mac[4], device->mac[5],
		device->mtu, device->rx_queues, device->rx_queues == 1 ? "" : "s",
		!device->exception && dataplane->workers > 1
			? device->spreads && device->rx_queues > 1 ? ", spread by RSS"
								   : ", spread by the distributor"
			: "");
	if (device->ifindex != 0 && !weir_netdev_is_up(device->interface)) {
		weir_log_write(dataplane->log, WEIR_LOG_WARN,
			"port %s: interface %s is down; run \"ip link set dev %s up\"", name,
			device->interface, device->interface);
	}
	if (device->mtu < dataplane->config->ports[device->port].mtu) {
		weir_log_write(dataplane->log, WEIR_LOG_WARN,
			"port %s: packets longer than %u bytes cannot be punted to the kernel "
			"through %s",
			name, device->mtu, device->name);
	}
}

static int open_devices(struct weir_dataplane *dataplane) {
	char why[WHY_BYTES] = "";

	for (uint32_t d = 0; d < dataplane->plan->devices; d++) {
		int r = prepare_steering(dataplane, d);

		if (r < 0) {
			return r;
		}
		r = weir_device_open(&dataplane->plan->device[d], &dataplane->buffers,
			dataplane->workers, &dataplane->device[d], why, sizeof(why));
		if (r < 0) {
			weir_log_write(dataplane->log, WEIR_LOG_ERROR, "port %s: %s",
				dataplane->config->ports[dataplane->plan->device[d].port].name,
				why);
			return r;
		}
		dataplane->devices++;
		dataplane->watch[d].link = true;
		describe_device(dataplane, &dataplane->device[d]);
	}
	return 0;
}

// --- ports --------------------------------------------------------------------------------

static void find_vip_map(struct weir_dataplane *dataplane, uint32_t p) {
	const struct weir_device *wire = &dataplane->device[dataplane->port[p].wire];
	int fd;

	if (!weir_devargs_is(
		    &dataplane->plan->device[dataplane->port[p].wire].devargs, "net_af_xdp")) {
		return;
	}
	fd = weir_steer_map(wire->ifindex);
	if (fd < 0) {
		weir_log_write(dataplane->log, WEIR_LOG_WARN,
			"port %s: the XDP program has no map of VIPs, so it redirects all packets "
			"to weir-dataplane; the kernel receives none",
			dataplane->info[p].name);
		return;
	}
	dataplane->offer.vip_map_fd[p] = fd;
	dataplane->info[p].steered = 1;
}

static void describe_port(struct weir_dataplane *dataplane, uint32_t p) {
	const struct weir_config_port *config = &dataplane->config->ports[p];
	struct weir_port *port = &dataplane->port[p];
	struct weir_port_info *info = &dataplane->info[p];
	const struct weir_device *wire = &dataplane->device[port->wire];
	const struct weir_device *kernel = wire;

	if (port->exception != WEIR_NO_DEVICE) {
		kernel = &dataplane->device[port->exception];
	}
	snprintf(info->name, sizeof(info->name), "%s", config->name);
	snprintf(info->kernel_interface, sizeof(info->kernel_interface), "%s", kernel->interface);
	info->kernel_ifindex = kernel->ifindex;
	info->mtu = config->mtu;
	info->vlan = config->vlan;
	memcpy(info->mac, wire->mac, sizeof(info->mac));
	port->kernel_has_copy = wire->kernel_has_copy;
	dataplane->any_mac_ports |= (uint32_t)wire->any_mac << p;
	find_vip_map(dataplane, p);
}

static void connect_ports(struct weir_dataplane *dataplane) {
	char why[WHY_BYTES];

	for (uint32_t d = 0; d < dataplane->devices; d++) {
		struct weir_device *device = &dataplane->device[d];
		struct weir_port *port = &dataplane->port[device->port];

		if (!device->exception) {
			port->wire = (uint8_t)d;
			port->exception = WEIR_NO_DEVICE;
			continue;
		}
		port->exception = (uint8_t)d;
		if (weir_device_pair(&dataplane->device[port->wire], device, why, sizeof(why)) <
			0) {
			weir_log_write(dataplane->log, WEIR_LOG_WARN, "port %s: %s",
				dataplane->config->ports[device->port].name, why);
		}
	}
	dataplane->offer.vip_maps = dataplane->ports;
	for (uint32_t p = 0; p < dataplane->ports; p++) {
		describe_port(dataplane, p);
	}
}

// --- segment and pipelines ----------------------------------------------------------------

static void plan_spreading(struct weir_dataplane *dataplane) {
	const struct weir_device *wire[WEIR_PORTS_MAX];

	for (uint32_t p = 0; p < dataplane->ports; p++) {
		wire[p] = &dataplane->device[dataplane->port[p].wire];
	}
	weir_spreading_plan(wire, dataplane->ports, dataplane->workers,
		weir_pipelines_may_share(dataplane->config), &dataplane->spreading);
}

static int create_segment(struct weir_dataplane *dataplane) {
	const struct weir_config *config = dataplane->config;
	struct weir_segment_params params = {
		.workers = dataplane->workers,
		.ports = dataplane->ports,
		.max_services = config->segment.max_services,
		.max_backends = config->segment.max_backends,
		.heap_bytes = config->segment.heap_bytes,
		.tsc_hz = rte_get_tsc_hz(),
		.hash_seed = config->instance.hash_seed,
		.bucketing = dataplane->spreading.bucketing,
		.huge_pages = config->segment.huge_pages,
		.port_info = dataplane->info,
	};
	int r = weir_segment_create(&params, &dataplane->segment);

	if (r < 0) {
		weir_log_write(dataplane->log, WEIR_LOG_ERROR,
			"cannot create the shared memory (segment): %s%s", strerror(-r),
			r == -ENOMEM && params.huge_pages
				? ": not enough huge pages for the counters and rows of "
				  "segment.max_backends"
				: "");
		return r;
	}
	r = weir_segment_lock(dataplane->segment);
	if (r < 0) {
		weir_log_write(dataplane->log, WEIR_LOG_INFO,
			"cannot lock the shared memory (segment) in RAM: %s (see LimitMEMLOCK=)",
			strerror(-r));
	}
	dataplane->offer.statistics_fd = dataplane->segment->statistics_fd;
	dataplane->offer.tables_fd = dataplane->segment->tables_fd;
	for (uint32_t p = 0; p < dataplane->ports; p++) {
		weir_port_statistics_init(&dataplane->statistics[p],
			&dataplane->device[dataplane->port[p].wire],
			&dataplane->segment->port_counters[p]);
	}
	return 0;
}

static int create_pipelines(struct weir_dataplane *dataplane) {
	struct weir_pipelines_params params = {
		.config = dataplane->config,
		.segment = dataplane->segment,
		.log = dataplane->log,
		.any_mac_ports = dataplane->any_mac_ports,
		.bucketed = dataplane->segment->bucketing == WEIR_BUCKETING_YES,
		.first_worker = dataplane->spreading.first_worker,
		.rss = weir_spreading_key(&dataplane->spreading),
	};

	if (params.bucketed) {
		weir_log_write(dataplane->log, WEIR_LOG_INFO,
			"%u workers share one flow table, divided into %u buckets",
			dataplane->workers, WEIR_DISTRIBUTOR_BUCKETS);
	}
	return weir_pipelines_create(&params, &dataplane->pipelines);
}

// --- workers ------------------------------------------------------------------------------

static int create_workers(struct weir_dataplane *dataplane) {
	for (uint32_t w = 0; w < dataplane->workers; w++) {
		struct weir_worker_params params = {
			.index = w,
			.segment = dataplane->segment,
			.pipeline = dataplane->pipelines.pipeline[w],
			.transmit = dataplane->transmit,
			.ports = dataplane->port,
			.ports_count = dataplane->ports,
			.idle = dataplane->config->workers.idle,
			.socket = node_of(w),
		};
		int r = weir_worker_create(&params, &dataplane->worker[w]);

		if (r < 0) {
			return r;
		}
		if (dataplane->distribution.moves != NULL) {
			weir_worker_join_moves(dataplane->worker[w], dataplane->distribution.moves);
		}
	}
	return 0;
}

static int add_device_sources(struct weir_dataplane *dataplane, const struct weir_device *device) {
	uint32_t owner = owner_of(dataplane, device);
	int r = 0;

	for (uint16_t q = 0; q < device->rx_queues && r == 0; q++) {
		struct weir_distributor *distributor =
			weir_distribution_of(&dataplane->distribution, device->port, q);
		struct weir_source source = {.kind = WEIR_SOURCE_QUEUE,
			.port = device->port,
			.device = device->id,
			.queue = q};
		uint32_t worker = (owner + q) % dataplane->workers;

		if (device->exception) {
			source.kind = WEIR_SOURCE_KERNEL;
		} else if (distributor != NULL) {
			// Each ring of a distributor has a single producer. Therefore one worker
			// polls all queues that share a distributor. This also keeps the packets of
			// a flow in order when the kernel moves the flow to another queue.
			source.kind = WEIR_SOURCE_SHARED;
			source.distributor = distributor;
			worker = distributor->owner;
		}
		r = weir_worker_add_source(dataplane->worker[worker], &source);
		if (r == 0) {
			weir_worker_wake_by(dataplane->worker[worker], device, q);
		}
	}
	return r;
}

// Connects each worker to the next worker by a ring, for offered packets (offer.h): workers pass an
// ICMP error or a fragment to each other, until a worker has the flow of the packet. Creates rings
// only if a NIC spreads flows and flows are not in buckets.
static int connect_peers(struct weir_dataplane *dataplane) {
	uint32_t workers = dataplane->workers, spreading = 0;
	int r = 0;

	for (uint32_t p = 0; p < dataplane->ports; p++) {
		spreading += dataplane->distribution.distributor[p] == NULL;
	}
	if (workers < 2 || spreading == 0) {
		return 0;
	}
	r = weir_peers_create(workers, SOCKET_ID_ANY, &dataplane->peers);
	for (uint32_t w = 0; w < workers && r == 0; w++) {
		struct weir_source source = {
			.kind = WEIR_SOURCE_OFFERED, .ring = dataplane->peers->ring[w]};

		weir_pipeline_offer_to(dataplane->pipelines.pipeline[w], workers);
		weir_worker_offer_to(
			dataplane->worker[w], dataplane->peers->ring[(w + 1) % workers]);
		r = weir_worker_add_source(dataplane->worker[w], &source);
	}
	return r;
}

static int connect_workers(struct weir_dataplane *dataplane) {
	struct weir_transmit *transmit = dataplane->transmit;
	int r = 0;

	for (uint32_t d = 0; d < dataplane->devices && r == 0; d++) {
		r = add_device_sources(dataplane, &dataplane->device[d]);
	}
	for (uint32_t p = 0; p < dataplane->ports && r == 0; p++) {
		const struct weir_device *wire = &dataplane->device[dataplane->port[p].wire];

		r = weir_distribution_connect(&dataplane->distribution, wire->port, wire->rx_queues,
			dataplane->worker, dataplane->workers);
	}
	for (uint32_t i = 0; i < transmit->outlets && r == 0; i++) {
		r = weir_worker_add_outlet(
			dataplane->worker[transmit->outlet_owner[i]], &transmit->outlet[i]);
	}
	return r;
}

static void describe_idle(const struct weir_dataplane *dataplane) {
	for (uint32_t w = 0; w < dataplane->workers; w++) {
		if (dataplane->config->workers.idle == WEIR_IDLE_SLEEP) {
			weir_log_write(dataplane->log, WEIR_LOG_INFO, "worker %u: %s", w,
				weir_worker_is_woken(dataplane->worker[w])
					? "woken by packets"
					: "falls back to idle mode yield: it polls a device "
					  "without "
					  "receive interrupts, or a ring of another worker");
		}
	}
}

static int make_workers(struct weir_dataplane *dataplane) {
	uint32_t owner[WEIR_DEVICES_MAX];
	int r;

	for (uint32_t d = 0; d < dataplane->devices; d++) {
		owner[d] = owner_of(dataplane, &dataplane->device[d]);
	}
	r = weir_transmit_create(dataplane->device, owner, dataplane->devices, dataplane->workers,
		&dataplane->transmit);
	if (r == 0) {
		r = weir_distribution_create(dataplane->segment, dataplane->spreading.port,
			dataplane->pipelines.parcel, &dataplane->distribution);
	}
	if (r == 0) {
		r = create_workers(dataplane);
	}
	if (r == 0) {
		r = connect_workers(dataplane);
	}
	if (r == 0) {
		r = connect_peers(dataplane);
	}
	if (r == 0) {
		describe_idle(dataplane);
		r = weir_queue_tables_create(&dataplane->spreading, &dataplane->distribution,
			dataplane->config, dataplane->log, &dataplane->queue_tables);
	}
	if (r < 0) {
		weir_log_write(dataplane->log, WEIR_LOG_ERROR, "cannot create the workers: %s",
			strerror(-r));
	}
	return r;
}

// --- open and close -----------------------------------------------------------------------

int weir_dataplane_open(const struct weir_config *config, const struct weir_plan *plan,
	const struct weir_log *log, struct weir_dataplane **ret) {
	struct weir_dataplane *dataplane = calloc(1, sizeof(*dataplane));
	int r;

	if (dataplane == NULL) {
		weir_log_write(log, WEIR_LOG_ERROR, "out of memory");
		return -ENOMEM;
	}
	dataplane->config = config;
	dataplane->plan = plan;
	dataplane->log = log;
	dataplane->workers = config->workers.count;
	dataplane->ports = config->port_count;
	dataplane->offer.statistics_fd = -1;
	dataplane->offer.tables_fd = -1;
	for (unsigned int d = 0; d < WEIR_DEVICES_MAX; d++) {
		dataplane->claim[d] = -1;
	}
	for (unsigned int p = 0; p < WEIR_PORTS_MAX; p++) {
		dataplane->offer.vip_map_fd[p] = -1;
	}
	weir_buffers_init(&dataplane->buffers, plan->pool, plan->pools);
	r = open_devices(dataplane);
	if (r == 0) {
		connect_ports(dataplane);
		plan_spreading(dataplane);
		r = create_segment(dataplane);
	}
	if (r == 0) {
		r = create_pipelines(dataplane);
	}
	if (r == 0) {
		r = make_workers(dataplane);
	}
	if (r < 0) {
		weir_dataplane_close(dataplane, true);
		return r;
	}
	*ret = dataplane;
	return 0;
}

void weir_dataplane_close(struct weir_dataplane *dataplane, bool frees) {
	weir_dataplane_stop(dataplane);
	for (uint32_t w = 0; w < dataplane->workers; w++) {
		weir_worker_free(dataplane->worker[w]);
	}
	weir_queue_tables_free(dataplane->queue_tables);
	weir_distribution_free(&dataplane->distribution);
	if (frees) {
		weir_pipelines_free(&dataplane->pipelines);
	} else {
		weir_pipelines_abandon(&dataplane->pipelines);
	}
	for (uint32_t p = 0; p < dataplane->ports; p++) {
		if (dataplane->offer.vip_map_fd[p] >= 0) {
			close(dataplane->offer.vip_map_fd[p]);
		}
	}
	weir_peers_free(dataplane->peers);
	weir_transmit_free(dataplane->transmit);
	for (uint32_t d = dataplane->devices; d-- > 0;) {
		weir_device_close(&dataplane->device[d]);
	}
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++) {
		if (dataplane->claim[d] >= 0) {
			close(dataplane->claim[d]);
		}
	}
	if (frees) {
		weir_buffers_fini(&dataplane->buffers);
	}
	weir_segment_free(dataplane->segment);
	free(dataplane);
}

int weir_dataplane_start(struct weir_dataplane *dataplane) {
	for (uint32_t w = 0; w < dataplane->workers; w++) {
		int r = rte_eal_remote_launch(
			weir_worker_run, dataplane->worker[w], weir_eal_lcore(w));

		if (r < 0) {
			weir_log_write(dataplane->log, WEIR_LOG_ERROR,
				"worker %u: cannot start: %s", w, strerror(-r));
			return r;
		}
		dataplane->running = true;
	}
	return 0;
}

void weir_dataplane_stop(struct weir_dataplane *dataplane) {
	if (!dataplane->running) {
		return;
	}
	for (uint32_t w = 0; w < dataplane->workers; w++) {
		weir_worker_stop(dataplane->worker[w]);
	}
	rte_eal_mp_wait_lcore();
	dataplane->running = false;
}

const struct weir_segment *weir_dataplane_segment(const struct weir_dataplane *dataplane) {
	return dataplane->segment;
}

const struct weir_handover *weir_dataplane_offer(const struct weir_dataplane *dataplane) {
	return &dataplane->offer;
}

void weir_dataplane_follow(struct weir_dataplane *dataplane) {
	bool short_of_memory = weir_segment_follow(dataplane->segment) < 0;

	if (short_of_memory && !dataplane->short_of_memory) {
		weir_log_write(dataplane->log, WEIR_LOG_ERROR,
			"out of memory for the counters of additional backends: workers do not use "
			"new tables until memory is available");
	}
	dataplane->short_of_memory = short_of_memory;
}

void weir_dataplane_update_queue_tables(struct weir_dataplane *dataplane, uint64_t now_ns) {
	weir_queue_tables_turn(dataplane->queue_tables, now_ns);
}

int weir_dataplane_watch_links(struct weir_dataplane *dataplane) {
	int r = 0;

	for (uint32_t d = 0; d < dataplane->devices && r == 0; d++) {
		const struct weir_device *device = &dataplane->device[d];

		r = weir_device_watch(&dataplane->watch[d], device,
			dataplane->config->ports[device->port].name, dataplane->log);
		if (!device->exception) {
			__atomic_store_n(&dataplane->segment->port_counters[device->port].link,
				dataplane->watch[d].link ? WEIR_DEVICE_LINK_UP
							 : WEIR_DEVICE_LINK_DOWN,
				__ATOMIC_RELAXED);
		}
	}
	return r;
}

void weir_dataplane_read_ports(struct weir_dataplane *dataplane, uint64_t now_ns) {
	for (uint32_t p = 0; p < dataplane->ports; p++) {
		weir_port_statistics_read(
			&dataplane->statistics[p], now_ns, &dataplane->segment->port_counters[p]);
	}
}
