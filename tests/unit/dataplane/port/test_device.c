// SPDX-License-Identifier: BSD-3-Clause
#include "device.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>

#include "device_lab.h"
#include "device_watch.h"
#include "netdev.h"
#include "test.h"

struct lab {
	struct weir_plan plan;
	struct weir_buffers buffers;
	struct weir_device device;
	char why[512];
};

static int open_lab(void **state) {
	*state = calloc(1, sizeof(struct lab));
	return *state == NULL ? -1 : 0;
}

static int close_lab(void **state) {
	struct lab *lab = *state;

	weir_device_close(&lab->device);
	weir_buffers_fini(&lab->buffers);
	free(lab);
	return 0;
}

static int open_device(struct lab *lab, uint32_t workers) {
	weir_buffers_fini(&lab->buffers);
	weir_buffers_init(&lab->buffers, lab->plan.pool, lab->plan.pools);
	return weir_device_open(&lab->plan.device[0], &lab->buffers, workers, &lab->device,
		lab->why, sizeof(lab->why));
}

static int open_named(struct lab *lab, const char *device, uint16_t queues) {
	device_lab_plan(device, queues, &lab->plan);
	return open_device(lab, 1);
}

TEST_GROUP(device_lab_eal);
TEST_EACH(open_lab, close_lab);

TEST(a_device_moves_packets_both_ways) {
	const uint8_t frame[60] = "frame";
	struct lab *lab = *state;
	struct ring_device ring;
	struct rte_mbuf *m;

	ring_device_make("moves", 2, &ring);
	assert_int_equal(open_named(lab, ring.name, 2), 0);
	assert_int_equal(lab->device.rx_queues, 2);
	assert_int_equal(lab->device.tx_queues, 2);
	assert_false(lab->device.spreads);
	assert_int_equal(lab->device.frame_max, 1522);
	assert_int_equal(lab->device.ifindex, 0);
	assert_true(weir_device_link(&lab->device));
	assert_true(ring_device_feed(&ring, 1, frame, sizeof(frame)));
	assert_int_equal(rte_eth_rx_burst(lab->device.id, 0, &m, 1), 0);
	assert_int_equal(rte_eth_rx_burst(lab->device.id, 1, &m, 1), 1);
	assert_int_equal(rte_eth_tx_burst(lab->device.id, 0, &m, 1), 1);
	assert_ptr_equal(ring_device_take(&ring, 0), m);
	rte_pktmbuf_free(m);
	weir_device_close(&lab->device);
	assert_false(lab->device.open);
	ring_device_free(&ring);
}

TEST(queues_are_limited_to_those_of_the_device) {
	struct lab *lab = *state;
	struct ring_device ring;

	ring_device_make("fewer", 2, &ring);
	assert_int_equal(open_named(lab, ring.name, 4), 0);
	assert_int_equal(lab->device.rx_queues, 2);
	weir_device_close(&lab->device);
	ring_device_free(&ring);
}

TEST(a_packet_socket_finds_its_interface_and_sets_its_mtu) {
	struct lab *lab = *state;

	device_lab_need_root();
	SHELL("ip link add dv0 type veth peer name dv1");
	SHELL("ip link set dv0 up");
	device_lab_plan("net_af_packet0,iface=dv0,framesz=2048,blocksz=4096", 1, &lab->plan);
	lab->plan.device[0].mtu = 1600;
	assert_int_equal(open_device(lab, 1), 0);
	assert_string_equal(lab->device.interface, "dv0");
	assert_int_equal(lab->device.ifindex, if_nametoindex("dv0"));
	assert_true(lab->device.kernel_has_copy);
	assert_int_equal(weir_netdev_mtu("dv0"), 1600);
	assert_int_equal(lab->device.frame_max, 1622);
	weir_device_close(&lab->device);
	device_lab_plan("net_af_packet1,iface=dv0,framesz=2048,blocksz=4096", 1, &lab->plan);
	lab->plan.device[0].mtu = 2000;
	assert_int_equal(open_device(lab, 1), -EINVAL);
	assert_non_null(strstr(lab->why, "framesz=2048"));
	SHELL("ip link del dv0");
}

// The former name of the interface is now that of another one, with another MAC address and MTU.
TEST(a_renamed_interface_is_still_watched) {
	struct weir_device_watch watch = {.link = true};
	struct lab *lab = *state;
	struct weir_log log = {.fd = -1, .level = WEIR_LOG_ERROR};

	device_lab_need_root();
	SHELL("ip link add dv0 type veth peer name dv1");
	assert_int_equal(open_named(lab, "net_af_packet2,iface=dv0", 1), 0);
	SHELL("ip link set dv0 down && ip link set dv0 name dv2");
	SHELL("ip link add dv0 mtu 1400 type veth peer name dv3");
	assert_int_equal(weir_device_watch(&watch, &lab->device, "wan", &log), 0);
	assert_false(watch.mac_changed);
	assert_false(watch.mtu_lowered);
	SHELL("ip link set dv2 mtu 1400 && ip link set dv2 address 02:00:00:00:00:02");
	assert_int_equal(weir_device_watch(&watch, &lab->device, "wan", &log), 0);
	assert_true(watch.mac_changed);
	assert_true(watch.mtu_lowered);
	weir_device_close(&lab->device);
	SHELL("ip link del dv0 && ip link del dv2");
}

TEST(a_tap_for_the_kernel_becomes_its_ports_twin) {
	struct lab *lab = *state;
	struct weir_device tap;
	struct ring_device ring;
	struct rte_ether_addr mac;

	device_lab_need_root();
	ring_device_make("twin", 1, &ring);
	assert_int_equal(open_named(lab, ring.name, 1), 0);
	device_lab_plan("net_tap7,iface=dvtap", 1, &lab->plan);
	lab->plan.device[0].exception = true;
	lab->plan.device[0].mtu = 20000; // larger than any version of the driver supports
	if (weir_device_open(
		    &lab->plan.device[0], &lab->buffers, 1, &tap, lab->why, sizeof(lab->why)) < 0) {
		fail_msg("%s", lab->why);
	}
	assert_string_equal(tap.interface, "dvtap");
	assert_true(tap.mtu < 20000); // the maximum that the driver supports, without an error
	memcpy(lab->device.mac, (uint8_t[]){2, 0, 0, 0, 7, 7}, 6); // net_ring has no MAC address
	assert_int_equal(weir_device_pair(&lab->device, &tap, lab->why, sizeof(lab->why)), 0);
	assert_int_equal(rte_eth_macaddr_get(tap.id, &mac), 0);
	assert_memory_equal(mac.addr_bytes, lab->device.mac, 6);
	SHELL("ip link show dvtap | grep -qi %02x:%02x:%02x:%02x:%02x:%02x", tap.mac[0], tap.mac[1],
		tap.mac[2], tap.mac[3], tap.mac[4], tap.mac[5]);
	weir_device_close(&tap);
	weir_device_close(&lab->device);
	ring_device_free(&ring);
}

TEST(a_port_with_too_large_an_mtu_is_refused) {
	struct lab *lab = *state;
	uint16_t id;

	device_lab_plan("net_memif8,role=server", 1, &lab->plan);
	lab->plan.device[0].mtu = 9000;
	assert_int_equal(open_device(lab, 1), -EINVAL);
	assert_non_null(strstr(lab->why, "mtu 9000 is too large for the device: use at most 1500"));
	assert_int_equal(rte_eth_dev_get_port_by_name("net_memif8", &id), -ENODEV);
}

TEST(failed_opens_name_the_device) {
	struct lab *lab = *state;

	assert_int_equal(open_named(lab, "net_af_packet5,iface=no-such-if", 1), -ENODEV);
	assert_non_null(strstr(lab->why, "no-such-if"));
	assert_int_equal(open_named(lab, "net_nonsense0", 1), -EFAULT);
	assert_string_equal(lab->why, "device net_nonsense0: no driver of DPDK has this name");
	assert_int_equal(open_named(lab, "net_afxdp3,iface=eth0", 1), -EFAULT);
	assert_string_equal(lab->why,
		"device net_afxdp3: no driver of DPDK has this name; did you mean net_af_xdp3?");
	// A driver that is known, but not built into DPDK for this machine.
	assert_int_equal(open_named(lab, "net_mvpp2,iface=eth0", 1), -EFAULT);
	assert_string_equal(lab->why,
		"device net_mvpp2: the DPDK driver of this device is not installed; install its "
		"package (Debian: librte-net-...)");
	assert_true(open_named(lab, "net_pcap0,rx_pcap=/no/such/file.pcap", 1) < 0);
	assert_non_null(strstr(lab->why, "net_pcap0"));
	assert_true(open_named(lab, "0000:7f:1f.7", 1) < 0);
	assert_non_null(strstr(lab->why, "vfio-pci"));
	assert_false(lab->device.open);
}

TEST(too_little_memory_for_buffers_is_reported) {
	struct lab *lab = *state;
	struct ring_device ring;

	ring_device_make("memory", 1, &ring);
	device_lab_plan(ring.name, 1, &lab->plan);
	lab->plan.pool[0].buffers = 10000000;
	assert_int_equal(open_device(lab, 1), -ENOMEM);
	assert_non_null(strstr(lab->why, "no memory for packet buffers"));
	ring_device_free(&ring);
}
