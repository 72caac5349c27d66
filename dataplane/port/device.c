// SPDX-License-Identifier: BSD-3-Clause
#include "device.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include <rte_dev.h>
#include <rte_ethdev.h>

#include "driver_names.h"
#include "netdev.h"
#include "plural.h"
#include "port_statistics.h"

#define FRAME_BYTES 18u // Ethernet header and FCS, as counted by DPDK
#define PACKET_SOCKET_HEADER 64

static int refuse(char *why, size_t why_bytes, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int refuse(char *why, size_t why_bytes, int error, const char *format, ...) {
	va_list args;

	va_start(args, format);
	vsnprintf(why, why_bytes, format, args);
	va_end(args);
	return error < 0 ? error : -EIO;
}

// --- configuration ------------------------------------------------------------------------

// Returns true for a PCI device that keeps the packets of a flow on one queue. Always false for a
// virtual device: net_tap reports RSS, but the kernel moves flows between its queues.
static bool has_rss(const struct weir_device_plan *plan, const struct rte_eth_dev_info *info) {
	return plan->devargs.pci &&
	       (info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP)) != 0;
}

static void choose_queues(const struct weir_device_plan *plan, const struct rte_eth_dev_info *info,
	uint32_t workers, struct weir_device *device) {
	device->rx_queues = MIN(plan->queues, info->max_rx_queues);
	device->spreads = plan->spreads;
	if (plan->devargs.pci) {
		if (!has_rss(plan, info)) {
			device->rx_queues = 1;
		}
		device->tx_queues = (uint16_t)MIN(workers, info->max_tx_queues);
		device->spreads = device->rx_queues > 1;
		return;
	}
	// Several virtual drivers require as many transmit queues as receive queues.
	device->rx_queues = MIN(device->rx_queues, info->max_tx_queues);
	device->tx_queues = device->rx_queues;
}

static bool uses_rss(const struct weir_device *device, const struct rte_eth_dev_info *info) {
	return device->rx_queues > 1 && device->spreads && info->flow_type_rss_offloads != 0;
}

// Returns the largest MTU that the device supports. Some virtual drivers report only a maximum
// frame length.
static uint16_t mtu_max(const struct rte_eth_dev_info *info) {
	uint32_t mtu = info->max_mtu != 0 ? info->max_mtu : UINT16_MAX;

	if (info->max_rx_pktlen > FRAME_BYTES && info->max_rx_pktlen - FRAME_BYTES < mtu) {
		mtu = info->max_rx_pktlen - FRAME_BYTES;
	}
	return (uint16_t)mtu;
}

// Sets the MTU of a net_af_packet device. Raises the MTU of its interface if this MTU is lower. The
// driver reports the standard Ethernet frame length as its maximum, so DPDK would reject a larger
// MTU for the device. However, the driver accepts longer frames if they fit its framesz and the
// interface.
static int set_packet_socket_mtu(const struct weir_device_plan *plan, struct weir_device *device,
	char *why, size_t why_bytes) {
	char value[16] = "2048";
	int frame, r;

	(void)weir_devargs_get(&plan->devargs, "framesz", value, sizeof(value));
	frame = atoi(value);
	if (plan->mtu + WEIR_FRAME_OVERHEAD + PACKET_SOCKET_HEADER > frame) {
		return refuse(why, why_bytes, -EINVAL,
			"device %s: mtu %u does not fit framesz=%d: use a larger framesz",
			device->name, plan->mtu, frame);
	}
	r = weir_netdev_mtu(plan->interface);
	if (r >= 0 && r < plan->mtu) {
		r = weir_netdev_set_mtu(plan->interface, plan->mtu);
	}
	if (r < 0) {
		return refuse(why, why_bytes, r, "interface %s: cannot set mtu %u: %s",
			plan->interface, plan->mtu, strerror(-r));
	}
	device->mtu = plan->mtu;
	return 0;
}

static int set_mtu(const struct weir_device_plan *plan, struct weir_device *device, char *why,
	size_t why_bytes) {
	int r;

	if (weir_devargs_is(&plan->devargs, "net_af_packet")) {
		return set_packet_socket_mtu(plan, device, why, why_bytes);
	}
	if (device->mtu < plan->mtu && !plan->exception) {
		return refuse(why, why_bytes, -EINVAL,
			"device %s: mtu %u is too large for the device: use at most %u",
			device->name, plan->mtu, device->mtu);
	}
	r = rte_eth_dev_set_mtu(device->id, device->mtu);
	if (r < 0 && r != -ENOTSUP) {
		return refuse(why, why_bytes, r, "device %s: cannot set mtu %u: %s", device->name,
			device->mtu, strerror(-r));
	}
	return 0;
}

// Configures a device, if possible with interrupts and an RSS key. Not all drivers support these
// two settings. Therefore, if the device rejects the configuration, it is configured again without
// the key, then without interrupts, then without both. The key is omitted first, because all
// devices may still have the same key: their default key.
static int configure_with(const struct weir_device *device, struct rte_eth_conf *conf) {
	struct rte_eth_rss_conf key = conf->rx_adv_conf.rss_conf;
	struct rte_eth_rss_conf no_key = {.rss_hf = key.rss_hf};
	int r = rte_eth_dev_configure(device->id, device->rx_queues, device->tx_queues, conf);

	if (r < 0 && key.rss_key != NULL) {
		conf->rx_adv_conf.rss_conf = no_key;
		r = rte_eth_dev_configure(device->id, device->rx_queues, device->tx_queues, conf);
	}
	if (r < 0 && conf->intr_conf.rxq != 0) {
		conf->intr_conf.rxq = 0;
		conf->rx_adv_conf.rss_conf = key;
		r = rte_eth_dev_configure(device->id, device->rx_queues, device->tx_queues, conf);
	}
	if (r < 0 && conf->rx_adv_conf.rss_conf.rss_key != NULL) {
		conf->rx_adv_conf.rss_conf = no_key;
		r = rte_eth_dev_configure(device->id, device->rx_queues, device->tx_queues, conf);
	}
	return r;
}

static int configure(const struct weir_device_plan *plan, const struct rte_eth_dev_info *info,
	struct weir_device *device, char *why, size_t why_bytes) {
	struct rte_eth_conf conf = {0};
	uint8_t key[WEIR_RSS_KEY_ROOM];
	int r;

	memcpy(key, plan->rss_key, sizeof(key));
	if (uses_rss(device, info)) {
		weir_rss_request(info, key, &conf);
	}
	device->multi_segment = (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	if (device->multi_segment) {
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	}
	device->mtu = MIN(plan->mtu, mtu_max(info));
	conf.rxmode.mtu = device->mtu;
	conf.intr_conf.rxq = plan->interrupts;
	r = configure_with(device, &conf);
	device->rss.why = (conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0
				  ? WEIR_BUCKETING_YES
				  : WEIR_BUCKETING_RSS_HASH;
	if (r < 0) {
		return refuse(why, why_bytes, r,
			"device %s: cannot configure %u receive queue%s and %u transmit queue%s: "
			"%s",
			device->name, device->rx_queues, weir_plural(device->rx_queues),
			device->tx_queues, weir_plural(device->tx_queues), strerror(-r));
	}
	return set_mtu(plan, device, why, why_bytes);
}

static int set_up_queues(const struct weir_device_plan *plan, struct weir_buffers *buffers,
	struct weir_device *device, char *why, size_t why_bytes) {
	int socket = rte_eth_dev_socket_id(device->id);
	uint16_t rx_descriptors = plan->descriptors;
	uint16_t tx_descriptors = plan->descriptors;
	struct rte_mempool *pool;
	int r;

	r = weir_buffers_pool(buffers, plan->room, socket, &pool);
	if (r < 0) {
		return refuse(
			why, why_bytes, r, "device %s: no memory for packet buffers", device->name);
	}
	if (weir_devargs_is(&plan->devargs, "net_af_xdp") && !weir_buffers_are_packed(pool)) {
		return refuse(why, why_bytes, -EINVAL,
			"device %s: AF_XDP together with a PCI device needs an IOMMU, so that DPDK "
			"can use virtual addresses",
			device->name);
	}
	r = rte_eth_dev_adjust_nb_rx_tx_desc(device->id, &rx_descriptors, &tx_descriptors);
	for (uint16_t q = 0; q < device->rx_queues && r == 0; q++) {
		r = rte_eth_rx_queue_setup(
			device->id, q, rx_descriptors, (unsigned int)socket, NULL, pool);
	}
	for (uint16_t q = 0; q < device->tx_queues && r == 0; q++) {
		r = rte_eth_tx_queue_setup(
			device->id, q, tx_descriptors, (unsigned int)socket, NULL);
	}
	if (r < 0) {
		return refuse(why, why_bytes, r, "device %s: cannot set up its queues: %s%s",
			device->name, strerror(-r),
			plan->interface[0] != '\0' ? " (is another program using the interface?)"
						   : "");
	}
	device->tx_descriptors = tx_descriptors;
	return 0;
}

// --- the kernel's interface ---------------------------------------------------------------

// Find the kernel's interface of the device. Ignores the interface of a net_tap port, because this
// interface is the other end of the link.
static void find_interface(const struct weir_device_plan *plan, const struct rte_eth_dev_info *info,
	struct weir_device *device) {
	char name[IF_NAMESIZE];
	uint32_t ifindex = info->if_index;

	if (ifindex == 0 && plan->interface[0] != '\0') {
		ifindex = if_nametoindex(plan->interface);
	}
	if (ifindex == 0 || if_indextoname(ifindex, name) == NULL ||
		(!plan->exception && weir_devargs_is(&plan->devargs, "net_tap"))) {
		return;
	}
	device->ifindex = ifindex;
	snprintf(device->interface, sizeof(device->interface), "%s", name);
	device->kernel_has_copy = weir_devargs_is(&plan->devargs, "net_af_packet") ||
				  weir_devargs_is(&plan->devargs, "net_pcap");
	if (weir_devargs_is(&plan->devargs, "net_af_packet")) {
		// Without this filter, the driver receives the frames that the kernel sends, and
		// the worker drops and counts each of them as other_mac. An error has no other
		// effect.
		(void)weir_netdev_ignore_outgoing(ifindex);
	}
}

// --- open and close -----------------------------------------------------------------------

// Writes to `why` the reason why DPDK has not created a device. Returns `error`. error: the error
// of DPDK; -EFAULT if DPDK has no driver for the device.
static int refuse_probe(
	const struct weir_device_plan *plan, int error, char *why, size_t why_bytes) {
	const char *name = plan->devargs.name, *text = plan->devargs.text;
	char guess[WEIR_DRIVER_GUESS_BYTES] = "";

	if (error != -EFAULT) {
		return refuse(why, why_bytes, error,
			"device %s: DPDK cannot create the device \"%s\": %s", name, text,
			strerror(-error));
	}
	if (weir_driver_is_known(text)) {
		return refuse(why, why_bytes, error,
			"device %s: the DPDK driver of this device is not installed; install its "
			"package (Debian: librte-net-...)",
			name);
	}
	weir_driver_guess(text, guess);
	return refuse(why, why_bytes, error, "device %s: no driver of DPDK has this name%s%s%s",
		name, guess[0] != '\0' ? "; did you mean " : "", guess,
		guess[0] != '\0' ? "?" : "");
}

static int probe(const struct weir_device_plan *plan, struct weir_device *device, char *why,
	size_t why_bytes) {
	int r = 0;

	if (plan->interface[0] != '\0' && !plan->exception &&
		if_nametoindex(plan->interface) == 0 &&
		(weir_devargs_is(&plan->devargs, "net_af_xdp") ||
			weir_devargs_is(&plan->devargs, "net_af_packet"))) {
		return refuse(why, why_bytes, -ENODEV, "device %s: no such interface: %s",
			device->name, plan->interface);
	}
	// DPDK probed PCI devices when it started. Probe other devices now.
	if (!plan->devargs.pci && rte_eth_dev_get_port_by_name(device->name, &device->id) < 0) {
		r = rte_dev_probe(plan->devargs.text);
	}
	if (r < 0) {
		return refuse_probe(plan, r, why, why_bytes);
	}
	r = rte_eth_dev_get_port_by_name(device->name, &device->id);
	if (r < 0) {
		return refuse(why, why_bytes, -ENODEV, "device %s: %s", device->name,
			plan->devargs.pci ? "DPDK cannot use the device; check with "
					    "\"dpdk-devbind.py -s\" that it is bound to vfio-pci"
					  : "its driver created no Ethernet device");
	}
	return 0;
}

// Stores the MAC address of a device. mac: the address that DPDK reports. net_pcap reports a
// generated address, so the address of the opened interface is used instead. Capture files,
// net_null and net_ring have no address, so the device accepts frames to any address.
static void take_mac(const struct weir_device_plan *plan, const struct rte_ether_addr *mac,
	struct weir_device *device) {
	bool pcap = weir_devargs_is(&plan->devargs, "net_pcap");

	memcpy(device->mac, mac->addr_bytes, sizeof(device->mac));
	if (pcap && device->ifindex != 0 && weir_netdev_mac(device->interface, device->mac) == 0) {
		return;
	}
	device->any_mac = pcap || weir_devargs_is(&plan->devargs, "net_null") ||
			  weir_devargs_is(&plan->devargs, "net_ring");
}

static int start(const struct weir_device_plan *plan, struct weir_device *device, char *why,
	size_t why_bytes) {
	struct rte_ether_addr mac;
	int r = rte_eth_dev_start(device->id);

	if (r < 0) {
		return refuse(why, why_bytes, r, "device %s: cannot start: %s", device->name,
			strerror(-r));
	}
	r = rte_eth_macaddr_get(device->id, &mac);
	if (r < 0) {
		return refuse(why, why_bytes, r, "device %s: cannot read its MAC address: %s",
			device->name, strerror(-r));
	}
	take_mac(plan, &mac, device);
	return 0;
}

int weir_device_open(const struct weir_device_plan *plan, struct weir_buffers *buffers,
	uint32_t workers, struct weir_device *ret, char *why, size_t why_bytes) {
	struct weir_device device = {.port = plan->port, .exception = plan->exception};
	int others[WEIR_DEVICES_MAX * WEIR_QUEUES_MAX];
	uint32_t other_sockets = weir_xdp_sockets(NULL, 0, others, RTE_DIM(others));
	struct rte_eth_dev_info info;
	int r;

	memset(ret, 0, sizeof(*ret));
	snprintf(device.name, sizeof(device.name), "%s", plan->devargs.name);
	r = probe(plan, &device, why, why_bytes);
	if (r < 0) {
		return r;
	}
	device.open = true;
	r = rte_eth_dev_info_get(device.id, &info);
	if (r < 0) {
		r = refuse(why, why_bytes, r, "device %s: cannot query device info: %s",
			device.name, strerror(-r));
		goto close_device;
	}
	choose_queues(plan, &info, workers, &device);
	r = configure(plan, &info, &device, why, why_bytes);
	if (r < 0) {
		goto close_device;
	}
	device.frame_max = device.mtu + WEIR_FRAME_OVERHEAD;
	r = set_up_queues(plan, buffers, &device, why, why_bytes);
	if (r < 0) {
		goto close_device;
	}
	find_interface(plan, &info, &device);
	r = start(plan, &device, why, why_bytes);
	if (r < 0) {
		goto close_device;
	}
	device.rss = uses_rss(&device, &info) ? weir_rss_find(device.id, &info, device.rx_queues,
							device.rss.why == WEIR_BUCKETING_YES)
					      : (struct weir_rss){.why = WEIR_BUCKETING_UNKNOWN};
	device.xdp_sockets =
		weir_xdp_sockets(others, other_sockets, device.xdp_socket, WEIR_QUEUES_MAX);
	*ret = device;
	return 0;

close_device:
	weir_device_close(&device);
	return r;
}

void weir_device_close(struct weir_device *device) {
	if (!device->open) {
		return;
	}
	rte_eth_dev_stop(device->id);
	rte_eth_dev_close(device->id);
	device->open = false;
}

int weir_device_pair(
	struct weir_device *port, struct weir_device *exception, char *why, size_t why_bytes) {
	struct rte_ether_addr mac;
	int r;

	memcpy(mac.addr_bytes, port->mac, sizeof(port->mac));
	r = rte_eth_dev_default_mac_addr_set(exception->id, &mac);
	if (r < 0) {
		return refuse(why, why_bytes, r,
			"device %s: cannot set the MAC address of %s: %s; set the address with "
			"the device argument mac= or with ip link",
			exception->name, port->name, strerror(-r));
	}
	memcpy(exception->mac, port->mac, sizeof(port->mac));
	r = rte_eth_allmulticast_enable(port->id);
	if (r == -ENOTSUP) {
		r = rte_eth_promiscuous_enable(port->id);
	}
	// A virtual device without a MAC filter receives all frames, so -ENOTSUP is no error.
	if (r < 0 && r != -ENOTSUP) {
		return refuse(why, why_bytes, r,
			"device %s: cannot receive multicast, which IPv6 neighbour discovery "
			"needs: %s",
			port->name, strerror(-r));
	}
	return 0;
}

// Returns whether the kernel's interface of a device has a carrier; true for exception devices and
// for devices without an interface. The check is needed because the drivers of AF_XDP and AF_PACKET
// always report a link. The interface may have been renamed, so its name is found by its index.
static bool has_carrier(const struct weir_device *device) {
	char name[IF_NAMESIZE];

	return device->ifindex == 0 || device->exception ||
	       (if_indextoname(device->ifindex, name) != NULL && weir_netdev_has_carrier(name));
}

bool weir_device_link(const struct weir_device *device) {
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(device->id, &link) == 0 &&
	       link.link_status == RTE_ETH_LINK_UP && has_carrier(device);
}

enum weir_device_interface weir_device_interface(const struct weir_device *device) {
	char name[IF_NAMESIZE];

	if (device->ifindex == 0 || if_indextoname(device->ifindex, name) != NULL ||
		errno != ENXIO) {
		return WEIR_INTERFACE_PRESENT;
	}
	return if_nametoindex(device->interface) != 0 ? WEIR_INTERFACE_REPLACED
						      : WEIR_INTERFACE_REMOVED;
}
