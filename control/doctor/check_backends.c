// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the path to each backend: route, next hop, and echo requests (echo.h).
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
#include "forwarding.h"
#include "kernel.h"
#include "tree.h"

#define TARGETS_MOST 1024 // maximum number of backends to probe
#define VIPS_MOST 8 // maximum number of VIPs to probe per backend
#define SMALL_MS 1000
#define LARGE_MS 700
#define SEARCH_MS 300
#define CLIENT_BYTES 1500

struct vip {
	const struct weir_address *address;
	struct weir_address source; // source of requests to the VIP; family 0 = none
	// The VIP is not probed, because the requests have no source address, the VIP is an address
	// of this host, or this host drops the replies.
	bool hidden;
	bool answered;
};

struct target {
	const struct weir_config_service *service;
	const struct weir_config_backend *backend;
	const struct weir_config_port
		*port; // egress port of packets to the backend; NULL = unknown
	struct weir_forwarding forwarding;
	struct weir_kernel_route route;
	struct weir_address source;
	// first one VIP of the backend's address family, then one VIP of the other family, then the
	// remaining VIPs
	struct vip vips[VIPS_MOST];
	uint32_t vip_count;
	bool routed;
	// direct: the backend has answered a request that was sent without a tunnel; tunnel: the
	// backend has answered a request that was sent through the tunnel.
	bool direct, tunnel;
	int error; // negative errno if this host cannot send tunnel packets
	const struct vip *through; // first VIP that answered; NULL = none
	// Sizes of the outer packet in bytes: the size to try, the largest size that is known to
	// fit, and the smallest size that is known not to fit; 0 = none.
	uint32_t want, fits, least;
	uint32_t advertised; // MTU in a "too big" message of a router; 0 = no such message
};

struct targets {
	struct target *list;
	uint32_t count;
	// more: there are more than TARGETS_MOST backends; more_vips: a backend has more than
	// VIPS_MOST VIPs.
	bool more, more_vips;
};

// --- routes -------------------------------------------------------------------------------

// Returns whether packets of the ports use the routes of the kernel. Returns false if there are no
// ports, or if a port has a native DPDK driver, or a gateway_mac in the configuration.
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
	snprintf(buffer, bytes, "%s/%s", target->service->name, target->backend->name);
	return buffer;
}

// Returns whether a VIP is an address of this host; if so, this host drops replies from the VIP.
// The check "vips" reports such VIPs.
static bool is_local(const struct weir_address *vip) {
	struct weir_kernel_route route;

	return weir_kernel_route(vip, &route) == 0 && route.type == RTN_LOCAL;
}

// Sets vip->source, the inner source address of requests to a VIP; the backend sends its reply
// directly to this address. If the VIP and the backend have the same address family, takes the
// source address of the route to the backend. If the families differ, takes an address of the VIP's
// family on the interface to the backend, or, if there is none, the source address of the route to
// the VIP, unless that address is link-local. Also sets vip->hidden.
static void prepare_vip(const char *root, const struct target *target, struct vip *vip) {
	struct weir_kernel_route back;

	vip->source = target->route.source;
	if (vip->address->family != target->backend->address.family &&
		weir_kernel_address(target->route.interface, vip->address->family, &vip->source) <
			0) {
		vip->source = (struct weir_address){0};
		if (weir_kernel_route(vip->address, &back) == 0 &&
			!weir_address_is_link_local(&back.source)) {
			vip->source = back.source;
		}
	}
	vip->hidden = vip->source.family == 0 || is_local(vip->address) ||
		      weir_doctor_answers_dropped(root, vip->address, target->route.interface);
}

// Checks that a backend with forwarding l2 is on a directly connected link. If packets to such a
// backend go through a gateway, reports a fault and returns false.
static bool check_link(struct weir_doctor *doctor, const struct target *target, const char *name) {
	const bool fixed = target->port != NULL && target->port->has_gateway_mac;
	char hop[INET6_ADDRSTRLEN], why[WEIR_CONFIG_NAME_BYTES + INET6_ADDRSTRLEN + 64];

	if (target->forwarding.mode != WEIR_FORWARDING_L2 ||
		(!fixed &&
			weir_address_equal(&target->route.next_hop, &target->backend->address))) {
		return true;
	}
	weir_address_format(&target->route.next_hop, hop, sizeof(hop));
	snprintf(why, sizeof(why),
		fixed ? "port %s sends all packets to its gateway_mac"
		      : "the route goes through the gateway %s",
		fixed ? target->port->name : hop);
	weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
		"gets no packets: forwarding l2 needs the backend on a link of a port, and "
		"%s; set forwarding to ipip, gue or gre",
		why);
	weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
	return false;
}

static void find_route(struct weir_doctor *doctor, struct target *target) {
	const struct weir_address *address = &target->backend->address;
	char text[INET6_ADDRSTRLEN], name[WEIR_SUBJECT_BYTES];
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
	target->port = weir_doctor_find_port(doctor->root, doctor->config, target->route.interface);
	if (target->port == NULL && follows_kernel(doctor->config)) {
		weir_doctor_report_no_port(doctor, name, target->route.interface, text);
		return;
	}
	target->source = target->route.source;
	if (target->port != NULL && address->family == 4 && target->port->source_ipv4.family != 0) {
		target->source = target->port->source_ipv4;
	} else if (target->port != NULL && address->family == 6 &&
		   target->port->source_ipv6.family != 0) {
		target->source = target->port->source_ipv6;
	}
	for (uint32_t i = 0; i < target->vip_count; i++) {
		prepare_vip(doctor->root, target, &target->vips[i]);
	}
	if (!check_link(doctor, target, name)) {
		return;
	}
	target->routed = target->route.source.family != 0;
	if (!target->routed) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, name,
			"was not probed, because this host has no IPv%u address for the route to "
			"%s",
			address->family, text);
	}
}

// --- probes -------------------------------------------------------------------------------

static bool is_l2(const struct target *target) {
	return target->forwarding.mode == WEIR_FORWARDING_L2;
}

// Build an echo request. vip: destination of the request; NULL = the address of the backend. bytes:
// length of the packet; 0 = a small packet.
static struct weir_echo make_probe(const struct target *target, enum weir_echo_kind kind,
	const struct vip *vip, uint32_t bytes) {
	return (struct weir_echo){
		.kind = kind,
		.backend = target->backend->address,
		.source = kind == WEIR_ECHO_DIRECT ? target->route.source : target->source,
		.inner = vip != NULL ? *vip->address : target->backend->address,
		.inner_source = vip != NULL ? vip->source : target->route.source,
		.forwarding = target->forwarding,
		.interface = target->route.index,
		.bytes = (uint16_t)bytes,
	};
}

static void probe_small(const struct weir_echo_sockets *sockets, struct targets *targets,
	struct weir_echo *probes) {
	uint32_t count = 0, at = 0;

	for (uint32_t i = 0; i < targets->count; i++) {
		const struct target *target = &targets->list[i];

		if (!target->routed) {
			continue;
		}
		probes[count++] = make_probe(target, WEIR_ECHO_DIRECT, NULL, 0);
		if (!is_l2(target)) {
			probes[count++] = make_probe(target, WEIR_ECHO_TUNNEL, NULL, 0);
		}
		for (uint32_t k = 0; k < target->vip_count; k++) {
			if (!target->vips[k].hidden) {
				probes[count++] =
					make_probe(target, WEIR_ECHO_VIP, &target->vips[k], 0);
			}
		}
	}
	weir_echo_round(sockets, probes, count, SMALL_MS);
	for (uint32_t i = 0; i < targets->count; i++) {
		struct target *target = &targets->list[i];

		if (!target->routed) {
			continue;
		}
		target->direct = probes[at++].answered;
		if (!is_l2(target)) {
			target->error = probes[at].error;
			target->tunnel = probes[at++].answered;
		}
		for (uint32_t k = 0; k < target->vip_count; k++) {
			struct vip *vip = &target->vips[k];

			vip->answered = !vip->hidden && probes[at++].answered;
			if (vip->answered && target->through == NULL) {
				target->through = vip;
			}
		}
	}
}

// Sends one packet of `want` bytes to each target whose `want` is larger than `fits`. Updates
// `fits`, `least` and `advertised` of these targets.
static void probe_sizes(const struct weir_echo_sockets *sockets, struct targets *targets,
	struct weir_echo *probes, int deadline_ms) {
	uint32_t count = 0, at = 0;

	for (uint32_t i = 0; i < targets->count; i++) {
		const struct target *target = &targets->list[i];

		if (target->want > target->fits) {
			probes[count++] = make_probe(target,
				target->through != NULL ? WEIR_ECHO_VIP : WEIR_ECHO_TUNNEL,
				target->through, target->want);
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
				target->least = target->want; // this size does not fit
			}
		}
	}
}

// Find, for each target that has answered through the tunnel or from a VIP, the size of the largest
// outer packet that fits. The search begins at the size of an encapsulated client packet of
// CLIENT_BYTES, or at the MTU of the interface, the port or the route if that is smaller.
static void probe_large(const struct weir_echo_sockets *sockets, struct targets *targets,
	struct weir_echo *probes) {
	bool again = true;

	for (uint32_t i = 0; i < targets->count; i++) {
		struct target *target = &targets->list[i];
		const uint32_t overhead = weir_forwarding_overhead(
			&target->forwarding, target->backend->address.family);
		const int mtu = weir_kernel_mtu(target->route.interface);

		if (target->through == NULL && !target->tunnel) {
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
	char text[INET6_ADDRSTRLEN], hop[INET6_ADDRSTRLEN], link[32] = "";
	int state = weir_kernel_neighbour(&route->next_hop, route->index, NULL);

	weir_tree_text(
		doctor->root, link, sizeof(link), "/sys/class/net/%s/operstate", route->interface);
	if (strcmp(link, "down") == 0 || strcmp(link, "lowerlayerdown") == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, name,
			"was not reached, because %s has no carrier", route->interface);
		return;
	}
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
			"%s does not answer echo requests%s: the "
			"host is down, or a firewall drops the requests",
			text, is_l2(target) ? "" : ", directly or through the tunnel");
		weir_findings_cure(&doctor->findings, "ping -c 3 %s", text);
	}
}

static void report_size(struct weir_doctor *doctor, const struct target *target, const char *name) {
	const struct weir_kernel_route *route = &target->route;
	char text[INET6_ADDRSTRLEN], hop[INET6_ADDRSTRLEN], via[INET6_ADDRSTRLEN + 24] = "";
	char source[INET6_ADDRSTRLEN];
	const int bits = target->backend->address.family == 4 ? 32 : 128;

	weir_address_format(&target->backend->address, text, sizeof(text));
	weir_address_format(&route->next_hop, hop, sizeof(hop));
	weir_address_format(&route->source, source, sizeof(source));
	if (memcmp(&route->next_hop, &target->backend->address, sizeof(route->next_hop)) != 0) {
		// onlink: the gateway may be outside the subnets of the interface.
		snprintf(via, sizeof(via), "via %s%s onlink ",
			route->next_hop.family == target->backend->address.family ? "" : "inet6 ",
			hop);
	}
	if (target->advertised > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, name,
			"a router on the path limits packets to %u bytes; weir-control uses this "
			"path MTU, and longer packets are refused or fragmented",
			target->advertised);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"packets of more than %u bytes are lost on the path to %s, without an ICMP "
			"\"too big\" message",
			target->fits, text);
	}
	// src: weir-control sends to the backend from the source address of its route.
	weir_findings_cure(&doctor->findings, "ip %sroute replace %s/%d %sdev %s src %s mtu %u",
		bits == 32 ? "" : "-6 ", text, bits, via, route->interface, source,
		target->advertised > 0 ? target->advertised : target->fits);
}

static void report_vip(struct weir_doctor *doctor, const struct target *target, const char *name,
	const struct vip *vip) {
	const int family = vip->address->family;
	char text[INET6_ADDRSTRLEN], address[INET6_ADDRSTRLEN], other[64] = "";

	weir_address_format(&target->backend->address, text, sizeof(text));
	weir_address_format(vip->address, address, sizeof(address));
	if (!is_l2(target) && family != target->backend->address.family) {
		snprintf(other, sizeof(other),
			", or the backend does not decapsulate IPv%d in IPv%d", family,
			family == 4 ? 6 : 4);
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
		"%s, but VIP %s does not answer: the VIP is not configured on the backend%s%s",
		is_l2(target) ? "answers" : "decapsulates", address,
		// Connection tracking does not see the request.
		weir_tree_has(doctor->root, "/proc/sys/net/netfilter/nf_conntrack_count")
			? ", or a firewall of this host drops the reply (ct state invalid)"
			: "",
		other);
	weir_findings_cure(&doctor->findings,
		family == 4 ? "ssh %s '" WEIR_CURE_ARP "ip addr add %s/32 dev lo'"
			    : "ssh %s ip -6 addr add %s/128 dev lo",
		text, address);
}

// Reports a backend that has no fault. The finding contains the probed VIP, or the number of probed
// VIPs if there are several; the same applies to the VIPs that are not probed.
static void report_ok(struct weir_doctor *doctor, const struct target *target, const char *name) {
	char text[INET6_ADDRSTRLEN], vip[INET6_ADDRSTRLEN], with[80] = "", without[80] = "";
	char size[32] = "";
	uint32_t answered = 0, hidden = 0;

	for (uint32_t i = 0; i < target->vip_count; i++) {
		uint32_t *count = target->vips[i].hidden ? &hidden : &answered;

		weir_address_format(target->vips[i].address, vip, sizeof(vip));
		++*count;
		if (target->vips[i].hidden) {
			snprintf(without, sizeof(without), "; VIP %s is not probed", vip);
		} else {
			snprintf(with, sizeof(with), " and its VIP %s", vip);
		}
	}
	if (answered > 1) {
		snprintf(with, sizeof(with), " and its %u VIPs", answered);
	}
	if (hidden > 1) {
		snprintf(without, sizeof(without), "; %u VIPs are not probed", hidden);
	}
	if (target->fits > 0) { // with l2, only requests to VIPs test the packet size
		snprintf(size, sizeof(size), ", up to %u bytes", target->fits);
	}
	weir_address_format(&target->backend->address, text, sizeof(text));
	weir_findings_add(&doctor->findings, WEIR_FINDING_OK, name, "%s%s answer%s%s%s%s", text,
		with, answered > 0 ? "" : "s", is_l2(target) ? "" : " through the tunnel", size,
		without);
}

static void report(struct weir_doctor *doctor, const struct target *target) {
	char name[WEIR_SUBJECT_BYTES], text[INET6_ADDRSTRLEN];
	bool missing = false;

	if (!target->routed) {
		return; // find_route has reported why
	}
	name_of(target, name, sizeof(name));
	if (!target->direct && !target->tunnel && target->through == NULL) {
		report_silent(doctor, target, name);
		return;
	}
	weir_address_format(&target->backend->address, text, sizeof(text));
	if (!target->tunnel &&
		target->error != 0) { // the dataplane bypasses firewalls of this host
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, name,
			"%s answers, but was not probed through the tunnel: the kernel does not "
			"send %s packets: %s",
			text, weir_forwarding_name(target->forwarding.mode),
			strerror(-target->error));
		weir_findings_cure(&doctor->findings,
			"ip route get %s; nft list ruleset # find the rule that drops packets to "
			"this address",
			text);
		return;
	}
	if (!target->tunnel && target->through == NULL && !is_l2(target)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"%s answers, but not through the tunnel: the backend does not decapsulate "
			"%s packets, or does not accept tunnel packets from this balancer",
			text, weir_forwarding_name(target->forwarding.mode));
		weir_findings_cure(&doctor->findings,
			"ssh %s systemctl enable --now weir-decap # if it is running: add this "
			"balancer to its --from, and restart it",
			text);
		return;
	}
	for (uint32_t i = 0; i < target->vip_count; i++) {
		if (!target->vips[i].hidden && !target->vips[i].answered) {
			report_vip(doctor, target, name, &target->vips[i]);
			missing = true;
		}
	}
	if (target->least > 0) {
		report_size(doctor, target, name);
	} else if (!missing) {
		report_ok(doctor, target, name);
	}
}

// --- targets ------------------------------------------------------------------------------

static bool same(const struct weir_address *a, const struct weir_address *b) {
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool has_vip(const struct target *target, const struct weir_address *vip) {
	for (uint32_t i = 0; i < target->vip_count; i++) {
		if (same(target->vips[i].address, vip)) {
			return true;
		}
	}
	return false;
}

// Returns whether the list already contains this backend with this VIP, because an earlier service
// with the same forwarding has this backend and this VIP.
static bool is_listed(const struct targets *targets, const struct weir_forwarding *forwarding,
	const struct weir_address *backend, const struct weir_address *vip) {
	for (uint32_t i = 0; i < targets->count; i++) {
		const struct target *target = &targets->list[i];

		if (weir_forwarding_equal(&target->forwarding, forwarding) &&
			same(&target->backend->address, backend) && has_vip(target, vip)) {
			return true;
		}
	}
	return false;
}

// Adds VIPs of an address family to a target, at most `most`.
static void add_vips(struct targets *targets, const struct weir_config_service *service, int family,
	uint32_t most, struct target *target) {
	for (uint32_t i = 0; i < service->bind_count; i++) {
		const struct weir_address *vip = &service->binds[i].address;

		if (vip->family != family || has_vip(target, vip) ||
			is_listed(targets, &target->forwarding, &target->backend->address, vip)) {
			continue;
		}
		if (most == 0 || target->vip_count == VIPS_MOST) {
			targets->more_vips |= target->vip_count == VIPS_MOST;
			return;
		}
		most--;
		target->vips[target->vip_count++].address = vip;
	}
}

static void list_targets(const struct weir_config *config, struct targets *targets) {
	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t k = 0; k < service->backend_count; k++) {
			struct target target = {.service = service,
				.backend = &service->backends[k],
				.forwarding =
					weir_config_forwarding_of(service, &service->backends[k])};
			const int own = target.backend->address.family, other = own == 4 ? 6 : 4;

			add_vips(targets, service, own, 1, &target);
			add_vips(targets, service, other, 1, &target);
			add_vips(targets, service, own, VIPS_MOST, &target);
			add_vips(targets, service, other, VIPS_MOST, &target);
			if (target.vip_count == 0) {
				continue;
			}
			if (targets->count == TARGETS_MOST) {
				targets->more = true;
				return;
			}
			targets->list[targets->count++] = target;
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
			"backends are not probed: %s; run weirctl as root", strerror(-r));
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
			"only the first %d backends were probed", TARGETS_MOST);
	}
	if (targets->more_vips) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "backends",
			"only %d VIPs of each backend were probed", VIPS_MOST);
	}
}

void weir_doctor_check_backends(struct weir_doctor *doctor) {
	struct targets targets = {.list = calloc(TARGETS_MOST, sizeof(*targets.list))};
	struct weir_echo *probes = calloc((2 + VIPS_MOST) * TARGETS_MOST, sizeof(*probes));
	const uint32_t first = doctor->findings.count;

	if (targets.list == NULL || probes == NULL) {
		doctor->findings.out_of_memory = true;
	} else if (doctor->config != NULL) {
		list_targets(doctor->config, &targets);
		if (targets.count > 0) {
			look_at(doctor, &targets, probes);
			weir_findings_group(&doctor->findings, first);
		}
	}
	free(targets.list);
	free(probes);
}
