// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the interfaces of the ports.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config_host.h"
#include "device.h"
#include "doctor.h"
#include "kernel.h"
#include "plural.h"
#include "tree.h"

#define NET "/sys/class/net"

typedef void (*port_fn)(struct weir_doctor *doctor, const struct weir_config_port *port,
	const struct weir_doctor_device *device);

// Calls the function for each port whose device has a kernel interface that exists.
static void each_interface(struct weir_doctor *doctor, port_fn look) {
	for (uint32_t i = 0; doctor->config != NULL && i < doctor->config->port_count; i++) {
		const struct weir_config_port *port = &doctor->config->ports[i];
		const struct weir_doctor_device device = weir_doctor_device_of(port);

		if (device.interface[0] &&
			weir_tree_has(doctor->root, NET "/%s", device.interface)) {
			look(doctor, port, &device);
		}
	}
}

static void look_at_state(struct weir_doctor *doctor, const struct weir_config_port *port,
	const struct weir_doctor_device *device) {
	char state[32], flags_text[32];
	unsigned int flags = 0;

	weir_tree_text(doctor->root, state, sizeof(state), NET "/%s/operstate", device->interface);
	weir_tree_text(
		doctor->root, flags_text, sizeof(flags_text), NET "/%s/flags", device->interface);
	(void)sscanf(flags_text, "%x", &flags);
	if ((flags & IFF_UP) == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, device->interface,
			"interface of port %s is down", port->name);
		weir_findings_cure(&doctor->findings, "ip link set %s up", device->interface);
	} else if (strcmp(state, "down") == 0 || strcmp(state, "lowerlayerdown") == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, device->interface,
			"interface of port %s has no carrier: check the cable, the transceiver and "
			"the link partner",
			port->name);
		weir_findings_cure(&doctor->findings, "ethtool %s", device->interface);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, device->interface, "is up");
	}
}

void weir_doctor_check_interface(struct weir_doctor *doctor) {
	for (uint32_t i = 0; doctor->config != NULL && i < doctor->config->port_count; i++) {
		const struct weir_config_port *port = &doctor->config->ports[i];
		const struct weir_doctor_device device = weir_doctor_device_of(port);

		if (device.interface[0] &&
			!weir_tree_has(doctor->root, NET "/%s", device.interface)) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, device.interface,
				"interface of port %s does not exist: configure an interface that "
				"\"ip -br link\" lists, then restart weir-dataplane",
				port->name);
			weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
		} else if (device.pci[0] &&
			   !weir_tree_has(doctor->root, "/sys/bus/pci/devices/%s", device.pci)) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, device.pci,
				"PCI device of port %s does not exist; \"dpdk-devbind.py -s\" "
				"lists the devices",
				port->name);
			weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
		}
	}
	each_interface(doctor, look_at_state);
}

static void look_at_mtu(struct weir_doctor *doctor, const struct weir_config_port *port,
	const struct weir_doctor_device *device) {
	int64_t mtu;

	if (weir_tree_number(doctor->root, &mtu, NET "/%s/mtu", device->interface)) {
		return;
	}
	if (mtu >= port->mtu) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, device->interface,
			"MTU %" PRId64 "; mtu of port %s is %u", mtu, port->name, port->mtu);
	} else if (device->af_xdp && (doctor->dataplane == 0 || doctor->candidate)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, device->interface,
			"MTU %" PRId64 "; weir-dataplane sets %u when it starts", mtu, port->mtu);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, device->interface,
			"MTU %" PRId64
			" is below the mtu of port %s (%u): packets longer than the MTU are lost",
			mtu, port->name, port->mtu);
		weir_findings_cure(
			&doctor->findings, "ip link set %s mtu %u", device->interface, port->mtu);
	}
}

void weir_doctor_check_mtu(struct weir_doctor *doctor) {
	each_interface(doctor, look_at_mtu);
}

// Adds the command that sets the number of queues. weir-dataplane must be stopped for the change:
// the kernel refuses to remove a queue that AF_XDP uses. If a queue were added while weir-dataplane
// runs, packets to VIPs that arrive on this queue would go to the kernel until weir-dataplane
// restarts.
static void cure_queues(struct weir_doctor *doctor, const char *interface, uint32_t queues) {
	const bool runs = doctor->dataplane != 0;

	weir_findings_cure(&doctor->findings, "%sethtool -L %s combined %u%s",
		runs ? "systemctl stop weir-dataplane; " : "", interface, queues,
		runs ? "; systemctl start weir-dataplane" : "");
}

// Reports that the number of hardware queues differs from the number of workers.
static void report_queues(struct weir_doctor *doctor, const char *interface, uint32_t queues) {
	const uint32_t workers = doctor->config->workers.count;
	const int most = doctor->root[0] == '\0' ? weir_kernel_queues_most(interface) : -1;
	const bool all = most > 0 && queues >= (uint32_t)most;

	if (queues > workers) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, interface,
			"queues: %u, workers: %u: some workers poll several queues", queues,
			workers);
		cure_queues(doctor, interface, workers);
	} else if (queues == 1) {
		weir_findings_add(&doctor->findings, all ? WEIR_FINDING_OK : WEIR_FINDING_NOTICE,
			interface,
			"queues: 1%s, workers: %u: one worker receives all packets, and "
			"distributes them to the other workers",
			all ? ", the maximum of the device" : "", workers);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, interface,
			"queues: %u%s, workers: %u: some workers get no packets from this "
			"interface",
			queues, all ? ", the maximum of the device" : "", workers);
	}
	if (queues < workers && !all) {
		cure_queues(doctor, interface,
			most > 0 && (uint32_t)most < workers ? (uint32_t)most : workers);
	} else if (queues > 1 && queues < workers) {
		weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
	}
}

static void look_at_queues(struct weir_doctor *doctor, const struct weir_config_port *port,
	const struct weir_doctor_device *device) {
	const uint32_t queues = weir_config_count_queues(doctor->root, device->interface);
	const uint32_t workers = doctor->config->workers.count;
	// veth and other virtual devices have separate receive and transmit queues.
	const bool hardware = weir_tree_has(doctor->root, NET "/%s/device", device->interface);

	if (!device->af_xdp || queues == 0) {
		return;
	}
	if (weir_config_lacks_queues(port, queues)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, device->interface,
			"has %u queue%s, and port %s needs %u: weir-dataplane would not start",
			queues, weir_plural(queues), port->name, port->queues);
		weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
	} else if (!hardware && queues > 1) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, device->interface,
			"has %u receive queues without a transmit queue: AF_XDP cannot use them",
			queues);
		weir_findings_cure(&doctor->findings, "ethtool -L %s rx 1", device->interface);
	} else if (hardware && port->queues > 0 && port->queues < queues) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, device->interface,
			"has %u queues, and port %s uses %u: packets to VIPs that arrive on the "
			"other queues go to the kernel",
			queues, port->name, port->queues);
		cure_queues(doctor, device->interface, port->queues);
	} else if (hardware && port->queues == 0 && queues != workers) {
		report_queues(doctor, device->interface, queues);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, device->interface,
			"queues: %u, workers: %u", queues, workers);
	}
}

void weir_doctor_check_queues(struct weir_doctor *doctor) {
	each_interface(doctor, look_at_queues);
}

static void look_at_node(struct weir_doctor *doctor, const char *subject, int64_t node) {
	struct weir_cpus near, workers = {0}, far;
	char text[1024], list[WEIR_CPUS_TEXT_BYTES];

	if (node < 0 ||
		weir_tree_text(doctor->root, text, sizeof(text),
			"/sys/devices/system/node/node%" PRId64 "/cpulist", node) <= 0 ||
		weir_cpus_parse(text, &near)) {
		return;
	}
	for (uint32_t i = 0; i < doctor->config->workers.count; i++) {
		weir_cpus_add(&workers, doctor->config->workers.cores[i]);
	}
	far = weir_cpus_without(&workers, &near);
	if (weir_cpus_count(&far) == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, subject,
			"on NUMA node %" PRId64 ", like the workers", node);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, subject,
		"is on NUMA node %" PRId64 " (CPU %s), but worker CPU %s is on another node: each "
		"packet crosses NUMA nodes; change workers.cores",
		node, text, weir_cpus_format(&far, list));
	weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
}

void weir_doctor_check_numa(struct weir_doctor *doctor) {
	for (uint32_t i = 0; doctor->config != NULL && i < doctor->config->port_count; i++) {
		const struct weir_doctor_device device =
			weir_doctor_device_of(&doctor->config->ports[i]);
		int64_t node;

		if (device.pci[0] &&
			weir_tree_number(doctor->root, &node, "/sys/bus/pci/devices/%s/numa_node",
				device.pci) == 0) {
			look_at_node(doctor, device.pci, node);
		} else if (device.interface[0] &&
			   weir_tree_number(doctor->root, &node, NET "/%s/device/numa_node",
				   device.interface) == 0) {
			look_at_node(doctor, device.interface, node);
		}
	}
}

// Returns a setting of an interface, or of "all"; 0 if it is unknown.
static int64_t setting(
	const struct weir_doctor *doctor, int family, const char *interface, const char *key) {
	int64_t value = 0;

	(void)weir_tree_number(
		doctor->root, &value, "/proc/sys/net/ipv%d/conf/%s/%s", family, interface, key);
	return value;
}

// Appends " net.ipvN.conf.IF.KEY=0" to the list if the setting is not 0.
static void add_accepted(const struct weir_doctor *doctor, int family, const char *interface,
	const char *key, char *list, size_t bytes) {
	const size_t used = strlen(list);
	char name[WEIR_SYSCTL_NAME_BYTES];

	if (setting(doctor, family, interface, key) > 0) {
		snprintf(list + used, bytes - used, " net.ipv%d.conf.%s.%s=0", family,
			weir_sysctl_name(interface, name), key);
	}
}

static void look_at_redirects(struct weir_doctor *doctor, const struct weir_config_port *port,
	const struct weir_doctor_device *device) {
	const char *interface = device->interface, *redirects = "accept_redirects";
	const bool forwards6 = setting(doctor, 6, interface, "forwarding") > 0;
	char list[256] = "";

	(void)port;
	// IPv4: the kernel accepts redirects if the setting of "all" or of the interface is 1; with
	// forwarding, only if both are 1.
	if (setting(doctor, 4, interface, "forwarding") <= 0 ||
		(setting(doctor, 4, "all", redirects) > 0 &&
			setting(doctor, 4, interface, redirects) > 0)) {
		add_accepted(doctor, 4, "all", redirects, list, sizeof(list));
		add_accepted(doctor, 4, interface, redirects, list, sizeof(list));
	}
	// IPv6: the kernel uses only the settings of the interface. With forwarding, it accepts no
	// redirects, and router advertisements only if accept_ra is 2.
	if (!forwards6) {
		add_accepted(doctor, 6, interface, redirects, list, sizeof(list));
	}
	if (!forwards6 || setting(doctor, 6, interface, "accept_ra") == 2) {
		add_accepted(doctor, 6, interface, "accept_ra", list, sizeof(list));
	}
	if (list[0] == '\0') {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, device->interface,
			"accepts no ICMP redirects or router advertisements");
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, device->interface,
		"accepts ICMP redirects or router advertisements: any host on the link can divert "
		"packets that Weir sends to backends");
	weir_findings_cure(&doctor->findings, "sysctl -w%s", list);
}

void weir_doctor_check_redirects(struct weir_doctor *doctor) {
	each_interface(doctor, look_at_redirects);
}
