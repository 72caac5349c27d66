// SPDX-License-Identifier: BSD-3-Clause
#include "neighbours_lab.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct seen *seen_of(struct lab *lab, const struct weir_address *address) {
	for (uint32_t i = 0; i < lab->seen_count; i++) {
		if (memcmp(&lab->seen[i].address, address, sizeof(*address)) == 0) {
			return &lab->seen[i];
		}
	}
	return NULL;
}

void on_next_hop(void *context, const struct weir_address *address, const struct weir_next_hop *hop,
	const char *why) {
	struct lab *lab = context;
	struct seen *seen = seen_of(lab, address);

	lab->calls++;
	if (seen == NULL && lab->seen_count < REPORTS_MAX) {
		seen = &lab->seen[lab->seen_count++];
		seen->address = *address;
	}
	if (seen != NULL) {
		seen->hop = *hop;
		seen->calls++;
		strncpy(seen->why, why, sizeof(seen->why) - 1);
	}
	if (lab->clear_in_callback) {
		assert_int_equal(weir_neighbours_configure(
					 lab->neighbours, lab->ports, 2, lab->addresses, 0),
			0);
	}
}

void peer_sh(const struct lab *lab, const char *command) {
	SHELL("nsenter -t %d -n sh -c '%s'", lab->peer, command);
}

static void make_peer(struct lab *lab) {
	static const char *const words[] = {"unshare", "--net", "sleep", "600", NULL};

	lab->peer = watch_lab_start(words);
	SHELL("for i in $(seq 500); do [ \"$(readlink /proc/%d/ns/net)\" != "
	      "\"$(readlink /proc/%d/ns/net)\" ] && exit; sleep 0.01; done; exit 1",
		lab->peer, getpid());
	for (int i = 0; i < 2; i++) {
		SHELL("ip link add lb%d type veth peer name eth%d netns %d &&"
		      "ip link set lb%d up && ip addr add 10.%d.0.2/24 dev lb%d &&"
		      "ip addr add 2001:db8:%d::2/64 dev lb%d nodad",
			i, i, lab->peer, i, i, i, i, i);
	}
	peer_sh(lab,
		"ip link set eth0 address " MAC0 " up && ip link set eth1 address " MAC1 " up &&"
		"ip addr add 10.0.0.11/24 dev eth0 && ip addr add 10.1.0.11/24 dev eth1 &&"
		"ip addr add 2001:db8:0::11/64 dev eth0 nodad &&"
		"ip addr add 2001:db8:1::11/64 dev eth1 nodad");
}

int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	make_peer(lab);
	uv_loop_init(&lab->loop);
	assert_int_equal(weir_neighbours_create(&lab->loop, on_next_hop, lab, &lab->neighbours), 0);
	for (int i = 0; i < 2; i++) {
		struct weir_port_info *info = &lab->ports[i].info;

		snprintf(info->name, sizeof(info->name), "port-%d", i);
		snprintf(info->kernel_interface, sizeof(info->kernel_interface), "lb%d", i);
		info->kernel_ifindex = if_nametoindex(info->kernel_interface);
	}
	*state = lab;
	return 0;
}

int teardown(void **state) {
	struct lab *lab = *state;

	weir_neighbours_free(lab->neighbours);
	watch_lab_close(&lab->loop);
	SHELL("ip link del lb0; ip link del lb1");
	watch_lab_stop(lab->peer);
	free(lab);
	return 0;
}

void watch(struct lab *lab, const char *address) {
	lab->addresses[lab->address_count++] = watch_lab_address(address);
}

void configure(struct lab *lab) {
	assert_int_equal(weir_neighbours_configure(lab->neighbours, lab->ports, 2, lab->addresses,
				 lab->address_count),
		0);
}

void format_mac(const uint8_t mac[6], char text[18]) {
	snprintf(text, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		mac[5]);
}

bool is_as_wanted(void *context) {
	struct lab *lab = context;
	struct weir_address address = watch_lab_address(lab->wanted);
	struct seen *seen = seen_of(lab, &address);
	char mac[18];

	if (seen == NULL || seen->hop.resolved != (lab->wanted_mac != NULL)) {
		return false;
	}
	format_mac(seen->hop.mac, mac);
	return lab->wanted_mac == NULL || strcmp(mac, lab->wanted_mac) == 0;
}

struct seen *expect(struct lab *lab, const char *address, const char *mac) {
	struct weir_address parsed = watch_lab_address(address);

	lab->wanted = address;
	lab->wanted_mac = mac;
	watch_lab_run(&lab->loop, is_as_wanted, lab, 8000, address);
	return seen_of(lab, &parsed);
}

void assert_source(const struct seen *seen, const char *text) {
	char buffer[64];

	assert_string_equal(weir_address_format(&seen->hop.source, buffer, sizeof(buffer)), text);
}
