// SPDX-License-Identifier: BSD-3-Clause
//
// Checks that are possible only on the running machine: weir-control, the clock, offloads, and how
// the kernel handles packets to and from the VIPs.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

#include "device.h"
#include "doctor.h"
#include "kernel.h"
#include "tree.h"

static void report_unreachable(struct weir_doctor *doctor) {
	const bool forbidden = doctor->error == -EACCES || doctor->error == -EPERM;
	const bool absent = doctor->error == -ENOENT || doctor->error == -ECONNREFUSED;
	const bool refuses = doctor->error == 0; // and the reason says what to do
	char why[320];

	if (absent && weir_processes_explain(&doctor->found_control, WEIR_PROGRAM_CONTROL,
			      doctor->run_dir, why, sizeof(why))) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, "weir-control", "%s", why);
		if (doctor->found_control.here != 0) {
			weir_findings_cure(&doctor->findings, "systemctl restart weir-control");
		} else {
			weir_doctor_cure_elsewhere(doctor, &doctor->found_control.elsewhere);
		}
		return;
	}
	weir_findings_add(&doctor->findings,
		forbidden || refuses ? WEIR_FINDING_WARNING : WEIR_FINDING_FAULT, "weir-control",
		"%s", doctor->unreachable);
	if (forbidden) {
		weir_findings_cure(&doctor->findings, "sudo weirctl doctor");
	} else if (!refuses) {
		// A weir-control that hangs can be restarted safely: weir-dataplane continues to
		// forward.
		weir_findings_cure(&doctor->findings, "systemctl %s weir-control",
			absent ? "start" : "restart");
	}
}

// Reports that weir-control is not attached to weir-dataplane; a fault only if weir-dataplane is
// running. The remedy shows the log of weir-control, and does not restart weir-dataplane, which
// forwards with its current tables and would lose its flows.
static void report_detached(struct weir_doctor *doctor) {
	const json_t *dataplane = json_object_get(doctor->status, "dataplane");
	const char *why = json_string_value(json_object_get(dataplane, "why"));

	if (doctor->dataplane == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "weir-control",
			"responds on its socket in %.100s; no weir-dataplane is running there",
			doctor->run_dir);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, "weir-control",
		"is not attached to weir-dataplane (pid %d), which forwards with its last tables, "
		"if any%s%s",
		(int)doctor->dataplane, why != NULL ? ": " : "; see the log of weir-control",
		why != NULL ? why : "");
	weir_findings_cure(&doctor->findings, "journalctl -u weir-control -n 20");
}

void weir_doctor_check_control(struct weir_doctor *doctor) {
	const json_t *dataplane = json_object_get(doctor->version, "dataplane");
	const char *version = json_string_value(json_object_get(doctor->version, "version"));
	struct weir_findings *findings = &doctor->findings;

	if (doctor->version == NULL) {
		report_unreachable(doctor);
		return;
	}
	if (version != NULL && strcmp(version, doctor->own_version) != 0) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, "weir-control",
			"has version %s, but weirctl has version %s", version, doctor->own_version);
		weir_findings_cure(findings, "systemctl restart weir-control");
	}
	if (!json_is_true(json_object_get(dataplane, "attached"))) {
		report_detached(doctor);
		return;
	}
	if (json_is_string(json_object_get(doctor->status, "not_published"))) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, "weir-control",
			"changes are not published yet: %s",
			json_string_value(json_object_get(doctor->status, "not_published")));
		weir_findings_cure(findings, "weirctl worker show");
		return;
	}
	weir_findings_add(findings, WEIR_FINDING_OK, "weir-control",
		"responds on its socket in %.100s, version %s, attached to the dataplane",
		doctor->run_dir, version != NULL ? version : "unknown");
}

void weir_doctor_check_clock(struct weir_doctor *doctor) {
	struct timex state = {0};
	int r = adjtimex(&state); // modes is 0: only reads the state

	if (r < 0) {
		return;
	}
	if (r == TIME_ERROR || (state.status & STA_UNSYNC) != 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "CLOCK_REALTIME",
			"is not synchronised: timestamps of logs may be wrong, and checks of "
			"certificates may fail (forwarding does not use this clock)");
		weir_findings_cure(&doctor->findings, "timedatectl set-ntp true");
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "CLOCK_REALTIME",
			"synchronised, within %ld us", state.maxerror);
	}
}

// --- offloads -----------------------------------------------------------------------------

static void report_merging(
	struct weir_doctor *doctor, const char *interface, bool lro, int gro_hw) {
	struct weir_findings *findings = &doctor->findings;
	const bool fixed = !lro && gro_hw == WEIR_KERNEL_FIXED;

	weir_findings_add(findings, WEIR_FINDING_WARNING, interface,
		"%s merges packets on receive: the merged packets are too long to forward%s",
		lro ? "LRO" : "hardware GRO",
		fixed ? "; disable the offload where the virtual device is defined (in QEMU: "
			"guest_tso4=off,guest_tso6=off)"
		      : "");
	if (!fixed) {
		weir_findings_cure(findings, "ethtool -K %s%s%s", interface, lro ? " lro off" : "",
			gro_hw == 1 ? " rx-gro-hw off" : "");
	}
}

static void look_at_offloads(struct weir_doctor *doctor, const struct weir_doctor_device *device) {
	const char *interface = device->interface;
	const bool lro = weir_kernel_flag(interface, ETH_FLAG_LRO) > 0;
	int gro_hw = weir_kernel_feature(interface, "rx-gro-hw");
	char driver[33] = "";

	(void)weir_kernel_driver(interface, driver, sizeof(driver));
	if (device->af_xdp && strcmp(driver, "virtio_net") == 0 && gro_hw == 1) {
		// The kernel reports "on", but the feature is off while an XDP program is attached.
		gro_hw = 0;
	}
	if (lro || gro_hw > 0) {
		report_merging(doctor, interface, lro, gro_hw);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"no receive offload (LRO, hardware GRO) merges packets");
	}
	if (strcmp(driver, "veth") == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, interface,
			"is a veth interface: packets of local sockets have partial checksums "
			"unless checksum offload (tx) is off on its peer; weirctl cannot check the "
			"peer");
		weir_findings_cure(&doctor->findings, "ethtool -K PEER tx off");
	}
}

void weir_doctor_check_offloads(struct weir_doctor *doctor) {
	for (uint32_t i = 0; doctor->config != NULL && i < doctor->config->port_count; i++) {
		const struct weir_doctor_device device =
			weir_doctor_device_of(&doctor->config->ports[i]);

		if (device.interface[0] && weir_kernel_mtu(device.interface) > 0) {
			look_at_offloads(doctor, &device);
		}
	}
}

// --- VIPs ---------------------------------------------------------------------------------

typedef void (*vip_fn)(struct weir_doctor *doctor, const struct weir_address *vip);

// Returns whether an earlier bind has the same address, which means that this VIP was already
// handled. service, bind: indexes of the bind.
static bool is_again(const struct weir_config *config, uint32_t service, uint32_t bind) {
	const struct weir_address *vip = &config->services[service].binds[bind].address;

	for (uint32_t s = 0; s <= service; s++) {
		const struct weir_config_bind *binds = config->services[s].binds;
		uint32_t count = s < service ? config->services[s].bind_count : bind;

		for (uint32_t b = 0; binds != NULL && b < count; b++) {
			if (memcmp(&binds[b].address, vip, sizeof(*vip)) == 0) {
				return true;
			}
		}
	}
	return false;
}

// Calls the function once for each VIP of the configuration.
static void each_vip(struct weir_doctor *doctor, vip_fn look) {
	const struct weir_config *config = doctor->config;

	for (uint32_t s = 0; config != NULL && s < config->service_count; s++) {
		const struct weir_config_service *service = &config->services[s];

		for (uint32_t b = 0; service->binds != NULL && b < service->bind_count; b++) {
			if (!is_again(config, s, b)) {
				look(doctor, &service->binds[b].address);
			}
		}
	}
}

static bool forwards(const struct weir_doctor *doctor, const struct weir_address *vip) {
	int64_t value = 0;

	(void)weir_tree_number(doctor->root, &value,
		vip->family == 4 ? "/proc/sys/net/ipv4/ip_forward"
				 : "/proc/sys/net/ipv6/conf/all/forwarding");
	return value > 0;
}

// Returns whether the kernel also processes the packets that a port receives for this VIP, because
// the port is an AF_PACKET device.
static bool kernel_gets_copies(const struct weir_doctor *doctor, const struct weir_address *vip) {
	for (uint32_t i = 0; i < doctor->config->port_count; i++) {
		const struct weir_doctor_device device =
			weir_doctor_device_of(&doctor->config->ports[i]);
		int64_t off = 0;

		if (vip->family == 6) {
			(void)weir_tree_number(doctor->root, &off,
				"/proc/sys/net/ipv6/conf/%s/disable_ipv6", device.interface);
		}
		if (device.af_packet && off == 0) {
			return true;
		}
	}
	return false;
}

// Returns whether the kernel would answer a packet to the VIP with an ICMP error. r, route: result
// of weir_kernel_route for the VIP. If forwarding is disabled, the kernel sends such errors only
// for IPv6.
static bool answers_error(const struct weir_doctor *doctor, const struct weir_address *vip, int r,
	const struct weir_kernel_route *route) {
	const bool none = r == -EHOSTUNREACH || r == -ENETUNREACH || r == -EACCES;
	const bool refused =
		r == 0 && (route->type == RTN_UNREACHABLE || route->type == RTN_PROHIBIT);

	return (none || refused) && (vip->family == 6 || forwards(doctor, vip));
}

static void look_at_vip(struct weir_doctor *doctor, const struct weir_address *vip) {
	struct weir_findings *findings = &doctor->findings;
	const int bits = vip->family == 4 ? 32 : 128;
	const char *six = vip->family == 4 ? "" : "-6 ";
	const bool copies = kernel_gets_copies(doctor, vip);
	char text[INET6_ADDRSTRLEN];
	struct weir_kernel_route route = {0};
	int r = weir_kernel_route(vip, &route);

	weir_address_format(vip, text, sizeof(text));
	if (r == 0 && route.type == RTN_LOCAL && !weir_kernel_has_address(vip)) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, text,
			"a local route makes this VIP an address of this host: the kernel answers "
			"packets to it");
		weir_findings_cure(findings,
			"ip %sroute show table local match %s # delete this route", six, text);
	} else if (r == 0 && route.type == RTN_LOCAL) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, text,
			"is an address of this host: the kernel answers packets to this VIP");
		// The command reads the prefix length of the address, so that it deletes only this
		// address.
		weir_findings_cure(findings,
			"ip %saddr del $(ip -o addr show to %s | awk '{print $4, \"dev\", $2; "
			"exit}')",
			six, text);
	} else if (r == 0 && route.type == RTN_UNICAST && forwards(doctor, vip)) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, text,
			"this host forwards packets, and has a route to the VIP via %s: %s are "
			"routed in a loop until their TTL expires",
			route.interface,
			copies ? "the kernel's copies of all packets (with AF_PACKET)"
			       : "packets that Weir passes to the kernel");
		weir_findings_cure(findings, "ip %sroute %s %s/%d", six,
			copies ? "replace blackhole" : "add unreachable", text, bits);
	} else if (copies && answers_error(doctor, vip, r, &route)) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, text,
			"%s: with AF_PACKET the kernel answers its copy of each packet to the VIP "
			"with an ICMP error, so connections of clients fail",
			r == -ENETUNREACH ? "this host has no route to the VIP"
			: r == -EACCES || route.type == RTN_PROHIBIT
				? "the route to the VIP has type prohibit"
				: "the route to the VIP has type unreachable");
		weir_findings_cure(findings, "ip %sroute replace blackhole %s/%d", six, text, bits);
	} else {
		weir_findings_add(findings, WEIR_FINDING_OK, text,
			"not an address of this host, and no routing loop");
	}
}

void weir_doctor_check_vips(struct weir_doctor *doctor) {
	each_vip(doctor, look_at_vip);
}

bool weir_doctor_answers_dropped(
	const char *root, const struct weir_address *vip, const char *interface) {
	int64_t all = 0, own = 0, filter;
	struct weir_kernel_route route;

	if (vip->family != 4) {
		return false;
	}
	(void)weir_tree_number(root, &all, "/proc/sys/net/ipv4/conf/all/rp_filter");
	(void)weir_tree_number(root, &own, "/proc/sys/net/ipv4/conf/%s/rp_filter", interface);
	filter = all > own ? all : own;
	if (filter == 0) {
		return false;
	}
	if (weir_kernel_route(vip, &route) < 0 || route.type != RTN_UNICAST) {
		return true;
	}
	return filter == 1 && strcmp(route.interface, interface) != 0;
}

// --- reverse path filter ------------------------------------------------------------------

#define REPLIES_MOST 32 // maximum number of interfaces per service

// The interfaces on which replies from the VIPs of a service arrive: those to its backends.
struct replies {
	char interface[REPLIES_MOST][IF_NAMESIZE];
	uint32_t count;
};

static bool has_interface(const struct replies *replies, const char *interface) {
	for (uint32_t i = 0; i < replies->count; i++) {
		if (strcmp(replies->interface[i], interface) == 0) {
			return true;
		}
	}
	return false;
}

static void list_replies(const struct weir_config_service *service, struct replies *ret) {
	struct weir_kernel_route route;

	for (uint32_t i = 0; i < service->backend_count && ret->count < REPLIES_MOST; i++) {
		if (weir_kernel_route(&service->backends[i].address, &route) == 0 &&
			route.type == RTN_UNICAST && route.interface[0] != '\0' &&
			!has_interface(ret, route.interface)) {
			memcpy(ret->interface[ret->count++], route.interface, IF_NAMESIZE);
		}
	}
}

static bool has_vip(
	const struct weir_config_service *service, const struct weir_address *vip, uint32_t binds) {
	for (uint32_t b = 0; service->binds != NULL && b < binds; b++) {
		if (memcmp(&service->binds[b].address, vip, sizeof(*vip)) == 0) {
			return true;
		}
	}
	return false;
}

static bool checks_data_path(const struct weir_config_service *service) {
	struct weir_config_checks at = {.service = service};
	bool found = false;

	while (weir_config_next_check(&at)) {
		found |= at.check->via == WEIR_VIA_DATA_PATH;
	}
	return found;
}

static void report_filter(struct weir_doctor *doctor, const struct weir_address *vip,
	const char *interface, bool checked) {
	char text[INET6_ADDRSTRLEN], name[WEIR_SYSCTL_NAME_BYTES];

	weir_address_format(vip, text, sizeof(text));
	if (!weir_doctor_answers_dropped(doctor->root, vip, interface)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, text,
			"rp_filter accepts replies from this VIP on %s", interface);
		return;
	}
	weir_findings_add(&doctor->findings, checked ? WEIR_FINDING_FAULT : WEIR_FINDING_NOTICE,
		text,
		"rp_filter drops replies from this VIP on %s: health checks via the data path %s "
		"no result, and weirctl cannot probe the backends",
		interface, checked ? "get" : "would get");
	weir_findings_cure(&doctor->findings,
		"sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.%s.rp_filter=0",
		weir_sysctl_name(interface, name));
}

// Reports a VIP of a service on each interface to its backends, unless an earlier service has this
// VIP and this interface.
static void look_at_replies(struct weir_doctor *doctor, const struct replies *replies,
	uint32_t service, const struct weir_address *vip) {
	const struct weir_config_service *services = doctor->config->services;

	for (uint32_t i = 0; i < replies[service].count; i++) {
		const char *interface = replies[service].interface[i];
		bool again = false, checked = false;

		for (uint32_t s = 0; s < doctor->config->service_count; s++) {
			if (has_interface(&replies[s], interface) &&
				has_vip(&services[s], vip, services[s].bind_count)) {
				again |= s < service;
				checked |= checks_data_path(&services[s]);
			}
		}
		if (!again) {
			report_filter(doctor, vip, interface, checked);
		}
	}
}

void weir_doctor_check_rp_filter(struct weir_doctor *doctor) {
	const uint32_t count = doctor->config != NULL ? doctor->config->service_count : 0;
	struct replies *replies = count > 0 ? calloc(count, sizeof(*replies)) : NULL;

	if (replies == NULL) {
		doctor->findings.out_of_memory |= count > 0;
		return;
	}
	for (uint32_t s = 0; s < count; s++) {
		list_replies(&doctor->config->services[s], &replies[s]);
	}
	for (uint32_t s = 0; s < count; s++) {
		const struct weir_config_service *service = &doctor->config->services[s];

		for (uint32_t b = 0; service->binds != NULL && b < service->bind_count; b++) {
			const struct weir_address *vip = &service->binds[b].address;

			if (vip->family == 4 && !has_vip(service, vip, b)) {
				look_at_replies(doctor, replies, s, vip);
			}
		}
	}
	free(replies);
}
