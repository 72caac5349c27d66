// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the settings of instance, ports and segment for errors that the table of keys cannot
// detect.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config_host.h"
#include "config_keys.h"

void weir_config_check_instance(struct weir_json_reader *reader,
	const struct weir_json_place *place, void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_instance *instance = into;

	if (weir_json_valid(read, "client_id") && weir_json_valid(read, "clients") &&
		instance->client_id >= instance->clients) {
		weir_json_error_at(reader, place, "client_id",
			"%u is not below clients (%u); groups of instances are numbered from 0",
			instance->client_id, instance->clients);
	}
	if (weir_json_valid(read, "member") && weir_json_valid(read, "members") &&
		instance->member >= instance->members) {
		weir_json_error_at(reader, place, "member",
			"%u is not below members (%u); the instances of a group are numbered from "
			"0",
			instance->member, instance->members);
	}
}

static void check_source(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *key, const struct weir_address *address) {
	const uint8_t *b = address->bytes;
	const uint8_t loopback6[16] = {[15] = 1}, none[16] = {0};
	bool bad;

	if (address->family == 4) {
		bad = b[0] == 0 || b[0] == 127 || b[0] >= 224;
	} else {
		bad = b[0] == 0xff || memcmp(b, none, 16) == 0 || memcmp(b, loopback6, 16) == 0;
	}
	if (address->family && bad) {
		weir_json_error_at(reader, place, key,
			"cannot be a source address; use a unicast address of this machine");
	}
}

void weir_config_check_port(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_port *port = into;
	static const uint8_t zero[6];

	(void)read;
	if (port->has_gateway_mac && port->gateway_mac[0] & 1) {
		weir_json_error_at(reader, place, "gateway_mac",
			"is a multicast or broadcast address; give the MAC address of one router");
	} else if (port->has_gateway_mac && memcmp(port->gateway_mac, zero, sizeof(zero)) == 0) {
		weir_json_error_at(reader, place, "gateway_mac",
			"is all zeros; use the MAC address of the router, or null");
	}
	check_source(reader, place, "source_ipv4", &port->source_ipv4);
	check_source(reader, place, "source_ipv6", &port->source_ipv6);
}

void weir_config_check_segment(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_segment *segment = into;

	if (weir_json_valid(read, "heap_bytes") && segment->heap_bytes % 4096 != 0) {
		weir_json_error_at(reader, place, "heap_bytes",
			"%" PRIu64 " is not a multiple of 4096; use %" PRIu64, segment->heap_bytes,
			(segment->heap_bytes + 4095) / 4096 * 4096);
	}
}

// Returns whether two devices have equal names. Arguments are not compared: the name in
// "net_af_xdp0,iface=lb0" is "net_af_xdp0".
static bool same_device(const char *a, const char *b) {
	size_t bytes = strcspn(a, ",");

	return bytes > 0 && bytes == strcspn(b, ",") && memcmp(a, b, bytes) == 0;
}

// Returns whether a device seems to be the name of a network interface. A name of a DPDK device is
// an address with colons, or contains the driver ("net_tap0") or the bus ("dpni.1").
static bool is_interface_name(const char *device) {
	const size_t length = strlen(device);

	return length > 0 && length < 16 && strpbrk(device, ":=,/") == NULL &&
	       strncmp(device, "net_", 4) != 0 && strncmp(device, "eth_", 4) != 0 &&
	       strncmp(device, "dpni", 4) != 0;
}

// Checks the interface of a port whose driver opens an interface. weir-dataplane does not start if
// the device names no interface, or if two ports have the same interface.
static void check_interface(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config *config, uint32_t i) {
	const char *device = config->ports[i].device;
	char name[IF_NAMESIZE], other[IF_NAMESIZE];

	if (!weir_config_device_opens_interface(device)) {
		return;
	}
	if (!weir_config_device_interface(device, name)) {
		weir_json_error_at(reader, place, "device",
			"has no interface of 1 to 15 characters; append it: "
			"\"%.*s,iface=INTERFACE\"",
			(int)strcspn(device, ","), device);
		return;
	}
	for (uint32_t j = 0; j < i; j++) {
		if (weir_config_device_interface(config->ports[j].device, other) &&
			strcmp(name, other) == 0) {
			weir_json_error_at(reader, place, "device",
				"interface %s is already used by ports[%u]; give each port its own "
				"interface",
				name, j);
		}
	}
}

void weir_config_check_ports(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config) {
	const struct weir_json_place ports = weir_json_place_member(root, "ports");

	for (uint32_t i = 0; i < config->port_count; i++) {
		const struct weir_config_port *port = &config->ports[i];
		const struct weir_json_place place = weir_json_place_element(&ports, i);

		if (is_interface_name(port->device)) {
			weir_json_error_at(reader, &place, "device",
				"\"%s\" is the name of an interface; use "
				"\"net_af_xdp%u,iface=%s\", or its PCI address",
				port->device, i, port->device);
		}
		if (is_interface_name(port->exception)) {
			weir_json_error_at(reader, &place, "exception",
				"\"%s\" is the name of an interface; use "
				"\"net_tap%u,iface=%s\", which creates the interface",
				port->exception, i, port->exception);
		}
		check_interface(reader, &place, config, i);
		if (strncmp(port->device, "net_af_xdp", strlen("net_af_xdp")) == 0 &&
			port->mtu > WEIR_CONFIG_AF_XDP_MTU_MOST) {
			weir_json_error_at(reader, &place, "mtu",
				"%u is too large for AF_XDP; use at most %u", port->mtu,
				WEIR_CONFIG_AF_XDP_MTU_MOST);
		}
		if (same_device(port->device, port->exception)) {
			weir_json_error_at(reader, &place, "exception",
				"is the device of the port itself; use another device, such as "
				"\"net_tap0,iface=weir0\"");
		}
		for (uint32_t j = 0; j < i; j++) {
			const struct weir_config_port *other = &config->ports[j];

			if (port->name[0] && strcmp(port->name, other->name) == 0) {
				weir_json_error_at(reader, &place, "name",
					"\"%s\" is already used by ports[%u]; port names must "
					"be unique",
					port->name, j);
			}
			if (same_device(port->device, other->device) ||
				same_device(port->device, other->exception)) {
				weir_json_error_at(reader, &place, "device",
					"is already used by ports[%u]; give each port its own "
					"device (net_af_xdp0, net_af_xdp1)",
					j);
			}
			if (same_device(port->exception, other->device) ||
				same_device(port->exception, other->exception)) {
				weir_json_error_at(reader, &place, "exception",
					"is already used by ports[%u]; give each port its own "
					"device (net_tap0, net_tap1)",
					j);
			}
		}
	}
}

void weir_config_identify_port(const void *element, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", ((const struct weir_config_port *)element)->name);
}

void weir_config_describe_port(const void *element, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", ((const struct weir_config_port *)element)->device);
}
