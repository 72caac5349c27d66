// SPDX-License-Identifier: BSD-3-Clause
#include "netdev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device_lab.h"
#include "test.h"

TEST_GROUP(device_lab_eal);

TEST(interfaces_are_described) {
	device_lab_need_root();
	SHELL("ip link add nd0 mtu 1400 numrxqueues 1 type veth peer name nd1 numrxqueues 1");
	SHELL("ip link set nd0 up");
	assert_int_equal(weir_netdev_queues("nd0"), 1);
	assert_false(weir_netdev_spreads("nd0"));
	assert_int_equal(weir_netdev_mtu("nd0"), 1400);
	assert_true(weir_netdev_is_up("nd0"));
	assert_false(weir_netdev_is_up("nd1"));
	assert_int_equal(weir_netdev_set_mtu("nd0", 1450), 0);
	assert_int_equal(weir_netdev_mtu("nd0"), 1450);
	SHELL("ip link del nd0");
}

TEST(mac_addresses_are_read) {
	uint8_t mac[6];

	device_lab_need_root();
	SHELL("ip link add nd0 address 02:5e:00:00:00:77 type veth peer name nd1");
	assert_int_equal(weir_netdev_mac("nd0", mac), 0);
	assert_memory_equal(mac, ((uint8_t[]){2, 0x5e, 0, 0, 0, 0x77}), 6);
	assert_true(weir_netdev_mac("no-such-if", mac) < 0);
	SHELL("ip link del nd0");
}

TEST(vlan_tags_are_kept) {
	device_lab_need_root();
	SHELL("ip link add nd0 type veth peer name nd1");
	SHELL("ethtool -K nd0 rxvlan on");
	assert_int_equal(weir_netdev_keep_tags("nd0"), 1);
	SHELL("ethtool -k nd0 | grep -q 'rx-vlan-offload: off'");
	assert_int_equal(weir_netdev_keep_tags("nd0"), 0);
	assert_true(weir_netdev_keep_tags("no-such-if") < 0);
	SHELL("ip link del nd0");
}

TEST(unpaired_receive_queues_are_reported) {
	device_lab_need_root();
	SHELL("ip link add nd0 numrxqueues 2 numtxqueues 2 type veth peer name nd1 "
	      "numrxqueues 2 numtxqueues 2");
	SHELL("ethtool -L nd0 rx 2 tx 2");
	assert_int_equal(weir_netdev_queues("nd0"), -EMLINK);
	SHELL("ethtool -L nd0 rx 1");
	assert_int_equal(weir_netdev_queues("nd0"), 1);
	SHELL("ip link del nd0");
}

TEST(missing_interfaces_are_reported) {
	assert_int_equal(weir_netdev_queues("no-such-if"), -ENODEV);
	assert_int_equal(weir_netdev_mtu("no-such-if"), -ENODEV);
	assert_false(weir_netdev_is_up("no-such-if"));
	assert_false(weir_netdev_spreads("no-such-if"));
	assert_true(weir_netdev_set_mtu("no-such-if", 1500) < 0);
}

static int packet_socket(const char *interface) {
	const struct sockaddr_ll address = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

// Sends a frame. Returns how many frames of this test the receiver has got, after it has waited
// for `wanted` frames, at most 10 s.
static int send_and_count(int sender, int receiver, int wanted) {
	struct pollfd wait = {.fd = receiver, .events = POLLIN};
	static const uint8_t sent[60] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5};
	uint8_t frame[2048];
	int count = 0;

	assert_true(send(sender, sent, sizeof(sent), 0) == sizeof(sent));
	while (poll(&wait, 1, count < wanted ? 10000 : 0) > 0 &&
		recv(receiver, frame, sizeof(frame), MSG_DONTWAIT) > 0) {
		count += memcmp(frame, sent, 14) == 0;
	}
	return count;
}

TEST(outgoing_frames_are_ignored_by_sockets_of_the_interface) {
	int watching, here, there;

	device_lab_need_root();
	SHELL("ip link add nd0 type veth peer name nd1; ip link set nd0 up; ip link set nd1 up;"
	      "for i in nd0 nd1; do until ip link show $i | grep -q 'state UP'; do sleep "
	      "0.01; done; done"); // until then, the kernel drops frames
	watching = packet_socket("nd0");
	here = packet_socket("nd0");
	there = packet_socket("nd1");
	assert_int_equal(send_and_count(here, watching, 1), 1);
	assert_int_equal(weir_netdev_ignore_outgoing(if_nametoindex("nd0")), 2);
	assert_int_equal(send_and_count(here, watching, 0), 0);
	assert_int_equal(send_and_count(there, watching, 1), 1);
	assert_int_equal(send_and_count(there, here, 2), 2);
	close(watching);
	close(here);
	assert_int_equal(weir_netdev_ignore_outgoing(if_nametoindex("nd0")), 0);
	close(there);
	SHELL("ip link del nd0");
}
