// SPDX-License-Identifier: BSD-3-Clause
//
// The path to each backend: route, next hop, and echo requests (echo.h).
#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "doctor.h"
#include "echo.h"
#include "kernel.h"
#include "tree.h"

#define TARGETS_MOST 1024 // backends to probe: one address and VIP each
#define SMALL_MS 1000
#define LARGE_MS 700
#define SEARCH_MS 300
#define CLIENT_BYTES 1500

struct target {
	const char *service;
	const struct weir_config_backend *backend;
	const struct weir_address *vip;
	const struct weir_config_port *port; // egress interface of its packets; NULL = unknown
	struct weir_kernel_route route;
	struct weir_address source, inner_source; // of the VIP's family; family 0 = none
	bool routed, hidden; // hidden: this host drops replies from the VIP, or has its address
	bool direct, tunnel, through; // got a reply
	uint32_t want, fits,
		least; // bytes of the outer packet: tried, known to fit, start of the search
	uint32_t advertised; // by a router's "too big" message
};

struct targets {
	struct target *list;
	uint32_t count;
	bool more; // more backends than TARGETS_MOST
};

// --- routes -------------------------------------------------------------------------------

// The interface itself, or one below it: of a bridge, a bond, or the port's VLAN.
static const struct weir_config_port *find_port(
	const struct weir_config *config, const char *interface) {
	for (uint32_t i = 0; i < config->port_count; i++) {
		const struct weir_doctor_device device = weir_doctor_device_of(&config->ports[i]);

		if (device.interface[0] != '\0' &&
			(strcmp(device.interface, interface) == 0 ||
				weir_tree_has("", "/sys/class/net/%s/lower_%s", interface,
					device.interface))) {
			return &config->ports[i];
		}
	}
	return NULL;
}

// Whether the kernel's routes and interfaces apply to the port's packets: not with DPDK's own
// drivers, and not with a next hop in the configuration.
static bool follows_kernel(const struct weir_config *config) {
	const struct weir_config_port *ports = config->ports;

	for (uint32_t i = 0; ports != NULL && i < config->port_count; i++) {
		if (ports[i].has_gateway_mac ||
			weir_doctor_device_of(&ports[i]).interface[0] == '\0') {
			return false;
		}
	}
	return config->port_count > 0;
}

static const char *name_of(const struct target *target, char *buffer, size_t bytes) {
	snprintf(buffer, bytes, "%s/%s", target->service, target->backend->name);
	return buffer;
}

// Whether it is an address of this host, which then drops replies from it; "vips" reports that.
static bool is_local(const struct weir_address *vip) {
	struct weir_kernel_route route;

	return weir_kernel_route(vip, &route) == 0 && route.type == RTN_LOCAL;
}

static void find_route(struct weir_doctor *doctor, struct target *target) {
	const struct weir_address *address = &target->backend->address;
	char text[INET6_ADDRSTRLEN], name[96];
	struct weir_kernel_route back;
	int r = weir_kernel_route(address, &target->route);

	weir_address_format(address, text, sizeof(text));
	name_of(target, name, sizeof(name));
	if (r < 0 || target->route.type != RTN_UNICAST) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			r < 0 ? "no route to %s: %s" : "%s is %s", text,
			r < 0 ? strerror(-r) : "an address of this host");
		weir_findings_cure(&doctor->findings, "ip route get %s", text);
		return;
	}
	target->port = find_port(doctor->config, target->route.interface);
	if (target->port == NULL && follows_kernel(doctor->config)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"egress interface %s of %s is not a dataplane port",
			target->route.interface, text);
		weir_findings_cure(&doctor->findings, "ip route get %s", text);
		return;
	}
	target->source = target->inner_source = target->route.source;
	if (target->port != NULL && address->family == 4 && target->port->source_ipv4.family != 0) {
		target->source = target->port->source_ipv4;
	} else if (target->port != NULL && address->family == 6 &&
		   target->port->source_ipv6.family != 0) {
		target->source = target->port->source_ipv6;
	}
	if (target->vip->family != address->family) {
		target->inner_source = (struct weir_address){0};
		if (weir_kernel_route(target->vip, &back) == 0) {
			target->inner_source = back.source;
		}
	}
	target->hidden =
		target->inner_source.family == 0 || is_local(target->vip) ||
		weir_doctor_answers_dropped(doctor->root, target->vip, target->route.interface);
	target->routed = target->route.source.family != 0;
}

// --- probes -------------------------------------------------------------------------------

static struct weir_echo make_probe(
	const struct target *target, enum weir_echo_kind kind, uint32_t bytes) {
	const bool vip = kind == WEIR_ECHO_VIP;

	return (struct weir_echo){
		.kind = kind,
		.backend = target->backend->address,
		.source = kind == WEIR_ECHO_DIRECT ? target->route.source : target->source,
		.inner = vip ? *target->vip : target->backend->address,
		.inner_source = vip ? target->inner_source : target->route.source,
		.bytes = (uint16_t)bytes,
	};
}

static void probe_small(const struct weir_echo_sockets *sockets, struct targets *targets,
	struct weir_echo *probes) {
	uint32_t count = 0, at = 0;

	for (uint32_t i = 0; i < targets->count; i++) {
		const struct target *target = &targets->list[i];

		if (target->routed) {
			probes[count++] = make_probe(target, WEIR_ECHO_DIRECT, 0);
			probes[count++] = make_probe(target, WEIR_ECHO_TUNNEL, 0);
			if (!target->hidden) {
				probes[count++] = make_probe(target, WEIR_ECHO_VIP, 0);
			}
		}
	}
	weir_echo_round(sockets, probes, count, SMALL_MS);
	for (uint32_t i = 0; i < targets->count; i++) {
		struct target *target = &targets->list[i];

		if (target->routed) {
			target->direct = probes[at++].answered;
			target->tunnel = probes[at++].answered;
			target->through = !target->hidden && probes[at++].answered;
		}
	}
}

// One round of packets of `want` bytes to the targets that have a size to try. Updates `fits`.
static void probe_sizes(const struct weir_echo_sockets *sockets, struct targets *targets,
	struct weir_echo *probes, int deadline_ms) {
	uint32_t count = 0, at = 0;

	for (uint32_t i = 0; i < targets->count; i++) {
		const struct target *target = &targets->list[i];

		if (target->want > target->fits) {
			probes[count++] = make_probe(target,
				target->through ? WEIR_ECHO_VIP : WEIR_ECHO_TUNNEL, target->want);
		}
	}
	weir_echo_round(sockets, probes, count, deadline_ms);
	for (uint32_t i = 0; i < targets->count; i++) {
		struct target *target = &targets->list[i];

		if (target->want > target->fits) {
			const struct weir_echo *probe = &probes[at++];

			target->advertised = probe->advertised_mtu > 0 ? probe->advertised_mtu
								       : target->advertised;
			if (probe->answered) {
				target->fits = target->want;
			} else {
				target->least = target->want; // known not to fit
			}
		}
	}
}

// Find the largest packet that fits through the tunnel, up to the largest that clients can send.
static void probe_large(const struct weir_echo_sockets *sockets, struct targets *targets,
	struct weir_echo *probes) {
	bool again = true;

	for (uint32_t i = 0; i < targets->count; i++) {
		struct target *target = &targets->list[i];
		const uint32_t overhead = weir_doctor_overhead(&target->backend->address);
		const int mtu = weir_kernel_mtu(target->route.interface);

		if (!target->through && !target->tunnel) {
			continue;
		}
		target->want = CLIENT_BYTES + overhead;
		if (mtu > 0 && (uint32_t)mtu < target->want) {
			target->want = (uint32_t)mtu;
		}
		if (target->port != NULL && target->port->mtu < target->want) {
			target->want = target->port->mtu;
		}
		if (target->route.mtu > 0 && target->route.mtu < target->want) {
			target->want = target->route.mtu;
		}
		target->fits = 120;
	}
	probe_sizes(sockets, targets, probes, LARGE_MS);
	while (again) { // binary search, all targets in parallel
		again = false;
		for (uint32_t i = 0; i < targets->count; i++) {
			struct target *target = &targets->list[i];

			if (target->advertised == 0 && target->least > target->fits + 1) {
				target->want = (target->least + target->fits) / 2;
				again = true;
			} else {
				target->want = 0;
			}
		}
		if (again) {
			probe_sizes(sockets, targets, probes, SEARCH_MS);
		}
	}
}

// --- findings -----------------------------------------------------------------------------

static void report_silent(
	struct weir_doctor *doctor, const struct target *target, const char *name) {
	const struct weir_kernel_route *route = &target->route;
	char text[INET6_ADDRSTRLEN], hop[INET6_ADDRSTRLEN];
	int state = weir_kernel_neighbour(&route->next_hop, route->index);

	weir_address_format(&target->backend->address, text, sizeof(text));
	weir_address_format(&route->next_hop, hop, sizeof(hop));
	if (state < 0 || (state & (NUD_FAILED | NUD_INCOMPLETE)) != 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"next hop %s does not answer ARP or NDP on %s: the host is down, or in "
			"another VLAN",
			hop, route->interface);
		weir_findings_cure(
			&doctor->findings, "ip neigh show %s dev %s", hop, route->interface);
	} else if ((state & NUD_PERMANENT) != 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"%s does not answer echo requests; the permanent neighbour entry of its "
			"next hop %s may be wrong",
			text, hop);
		weir_findings_cure(
			&doctor->findings, "ip neigh del %s dev %s", hop, route->interface);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"%s does not answer echo requests, directly or through the tunnel: it is "
			"down, or a firewall drops them",
			text);
		weir_findings_cure(&doctor->findings, "ping -c 3 %s", text);
	}
}

static void report_size(struct weir_doctor *doctor, const struct target *target, const char *name) {
	const struct weir_kernel_route *route = &target->route;
	char text[INET6_ADDRSTRLEN], hop[INET6_ADDRSTRLEN], via[INET6_ADDRSTRLEN + 8] = "";
	const int bits = target->backend->address.family == 4 ? 32 : 128;

	weir_address_format(&target->backend->address, text, sizeof(text));
	weir_address_format(&route->next_hop, hop, sizeof(hop));
	if (memcmp(&route->next_hop, &target->backend->address, sizeof(route->next_hop)) != 0) {
		snprintf(via, sizeof(via), "via %s ", hop);
	}
	if (target->advertised > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, name,
			"a router limits packets to %u bytes: weir-control follows that, and "
			"longer packets are refused or fragmented",
			target->advertised);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"packets of more than %u bytes are lost on the path to %s, without an ICMP "
			"\"too big\" message",
			target->fits, text);
	}
	weir_findings_cure(&doctor->findings, "ip %sroute replace %s/%d %sdev %s mtu %u",
		bits == 32 ? "" : "-6 ", text, bits, via, route->interface,
		target->advertised > 0 ? target->advertised : target->fits);
}

static void report(struct weir_doctor *doctor, const struct target *target) {
	char name[96], text[INET6_ADDRSTRLEN], vip[INET6_ADDRSTRLEN];

	if (!target->routed) {
		return; // reported already
	}
	name_of(target, name, sizeof(name));
	weir_address_format(&target->backend->address, text, sizeof(text));
	weir_address_format(target->vip, vip, sizeof(vip));
	if (!target->direct && !target->tunnel && !target->through) {
		report_silent(doctor, target, name);
	} else if (!target->tunnel && !target->through) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"%s answers, but not through the tunnel: no decapsulation there, or not "
			"for packets from this balancer",
			text);
		weir_findings_cure(
			&doctor->findings, "ssh %s systemctl enable --now weir-decap", text);
	} else if (!target->through && !target->hidden) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"decapsulates, but VIP %s does not answer: it is not an address of the "
			"backend",
			vip);
		weir_findings_cure(&doctor->findings, "ssh %s ip %saddr add %s/%d dev lo", text,
			target->vip->family == 4 ? "" : "-6 ", vip,
			target->vip->family == 4 ? 32 : 128);
	} else if (target->least > 0) {
		report_size(doctor, target, name);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, name,
			target->through
				? "%s and its VIP %s answer through the tunnel, up to %u bytes"
				: "%s answers through the tunnel; VIP %s is not probed; up "
				  "to %u bytes",
			text, vip, target->fits);
	}
}

// --- targets ------------------------------------------------------------------------------

// A VIP of the backend's address family, if there is one.
static const struct weir_address *choose_vip(
	const struct weir_config_service *service, const struct weir_config_backend *backend) {
	for (uint32_t i = 0; i < service->bind_count; i++) {
		if (service->binds[i].address.family == backend->address.family) {
			return &service->binds[i].address;
		}
	}
	return &service->binds[0].address;
}

static bool is_listed(const struct targets *targets, const struct target *other) {
	for (uint32_t i = 0; i < targets->count; i++) {
		const struct target *target = &targets->list[i];

		if (memcmp(&target->backend->address, &other->backend->address,
			    sizeof(other->backend->address)) == 0 &&
			memcmp(target->vip, other->vip, sizeof(*other->vip)) == 0) {
			return true;
		}
	}
	return false;
}

static void list_targets(const struct weir_config *config, struct targets *targets) {
	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t k = 0; k < service->backend_count && service->bind_count > 0; k++) {
			const struct target target = {.service = service->name,
				.backend = &service->backends[k],
				.vip = choose_vip(service, &service->backends[k])};

			if (targets->count == TARGETS_MOST) {
				targets->more = true;
				return;
			}
			if (!is_listed(targets, &target)) {
				targets->list[targets->count++] = target;
			}
		}
	}
}

static void look_at(struct weir_doctor *doctor, struct targets *targets, struct weir_echo *probes) {
	struct weir_echo_sockets sockets;
	int r;

	for (uint32_t i = 0; i < targets->count; i++) {
		find_route(doctor, &targets->list[i]);
	}
	r = weir_echo_open(&sockets);
	if (r < 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "backends",
			"not probed: %s; run as root", strerror(-r));
		weir_findings_cure(
			&doctor->findings, "sudo weirctl doctor --config %s", doctor->config_path);
		return;
	}
	probe_small(&sockets, targets, probes);
	probe_large(&sockets, targets, probes);
	weir_echo_close(&sockets);
	for (uint32_t i = 0; i < targets->count; i++) {
		report(doctor, &targets->list[i]);
	}
	if (targets->more) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "backends",
			"only the first %d were probed", TARGETS_MOST);
	}
}

void weir_doctor_check_backends(struct weir_doctor *doctor) {
	struct targets targets = {.list = calloc(TARGETS_MOST, sizeof(*targets.list))};
	struct weir_echo *probes = calloc(3 * TARGETS_MOST, sizeof(*probes));

	if (targets.list == NULL || probes == NULL) {
		doctor->findings.out_of_memory = true;
	} else if (doctor->config != NULL) {
		list_targets(doctor->config, &targets);
		if (targets.count > 0) {
			look_at(doctor, &targets, probes);
		}
	}
	free(targets.list);
	free(probes);
}
