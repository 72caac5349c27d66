// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the configuration: errors and warnings of the parser, and valid settings that are
// probably mistakes.
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config_keys.h"
#include "device.h"
#include "doctor.h"
#include "forwarding.h"
#include "kernel.h"

#define EDIT(doctor) weir_findings_cure(&(doctor)->findings, "editor %s", (doctor)->config_path)

static void show(struct weir_doctor *doctor, enum weir_finding_level level,
	const struct weir_config_error *error) {
	const json_t *restart = json_object_get(doctor->waiting, "restart");
	const json_t *open = json_object_get(restart, "open_flows");
	char subject[96], flows[48] = "";

	if (open != NULL && strcmp(error->path, "instance.hash_seed") == 0) {
		snprintf(flows, sizeof(flows), " (open flows %s: %" JSON_INTEGER_FORMAT ")",
			json_is_integer(json_object_get(restart, "recount_ms")) ? "counted so far"
										: "now",
			json_integer_value(open));
	}

	if (error->line > 0) {
		snprintf(subject, sizeof(subject), "%s:%d", doctor->config_path, error->line);
	} else {
		snprintf(subject, sizeof(subject), "%s", doctor->config_path);
	}
	weir_findings_add(&doctor->findings, level, subject, "%s%s%s%s", error->path,
		error->path[0] ? ": " : "", error->reason, flows);
	if (access(doctor->config_path, F_OK) == 0 && access(doctor->config_path, R_OK) < 0) {
		weir_findings_cure(
			&doctor->findings, "sudo weirctl doctor --config %s", doctor->config_path);
	} else {
		EDIT(doctor);
	}
}

// Returns the index of the port that sends packets to a backend, or -1 if it is unknown: with
// several ports, the routes of this machine decide.
static int port_to(const struct weir_doctor *doctor, const struct weir_address *backend) {
	const struct weir_config *config = doctor->file;
	const struct weir_config_port *port;
	struct weir_kernel_route route;

	if (config->port_count == 1) {
		return 0;
	}
	if (doctor->root[0] != '\0' || weir_kernel_route(backend, &route) < 0 ||
		route.type != RTN_UNICAST) {
		return -1;
	}
	port = weir_doctor_find_port(doctor->root, config, route.interface);
	return port != NULL ? (int)(port - config->ports) : -1;
}

// Gets for each port the bytes of the largest outer headers of its packets. Packets to backends
// whose port is unknown count for the ports with the largest MTU.
static void measure_headers(
	const struct weir_doctor *doctor, uint32_t bytes[WEIR_CONFIG_PORTS_MAX]) {
	const struct weir_config *config = doctor->file;
	uint32_t unknown = 0, mtu = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t k = 0; k < service->backend_count; k++) {
			const struct weir_config_backend *backend = &service->backends[k];
			const struct weir_forwarding forwarding =
				weir_config_forwarding_of(service, backend);
			const uint32_t own =
				weir_forwarding_overhead(&forwarding, backend->address.family);
			const int port = own > 0 ? port_to(doctor, &backend->address) : 0;
			uint32_t *most = port < 0 ? &unknown : &bytes[port];

			*most = own > *most ? own : *most;
		}
	}
	for (uint32_t i = 0; i < config->port_count; i++) {
		mtu = config->ports[i].mtu > mtu ? config->ports[i].mtu : mtu;
	}
	for (uint32_t i = 0; i < config->port_count; i++) {
		if (config->ports[i].mtu == mtu && unknown > bytes[i]) {
			bytes[i] = unknown;
		}
	}
}

// Checks whether client packets of the maximum size (1500 bytes) still fit into the MTU of the
// ports after encapsulation.
static void check_ports(struct weir_doctor *doctor) {
	uint32_t bytes[WEIR_CONFIG_PORTS_MAX] = {0};

	measure_headers(doctor, bytes);
	for (uint32_t i = 0; i < doctor->file->port_count; i++) {
		const struct weir_config_port *port = &doctor->file->ports[i];

		if (bytes[i] > 0 && port->mtu < 1500 + bytes[i]) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, port->name,
				"mtu %u leaves %u bytes for a client's packet in the tunnel: set "
				"mtu %u here and on the path to the backends, or a smaller advmss "
				"on the backends",
				port->mtu, port->mtu - bytes[i], 1500 + bytes[i]);
			EDIT(doctor);
		}
	}
}

// Returns whether no backend of the service is eligible while all checks fail. A backend without a
// check, such as a backup with a static page, still gets new flows then.
static bool all_may_fail(const struct weir_config_service *service) {
	uint32_t checked = 0;

	for (uint32_t i = 0; i < service->backend_count; i++) {
		const struct weir_config_backend *backend = &service->backends[i];

		if (backend->weight == 0) {
			continue; // gets no new flows in any state
		}
		if (weir_config_check_of(service, backend)->type == WEIR_CHECK_NONE) {
			return false;
		}
		checked++;
	}
	return checked > 0;
}

static void check_service(struct weir_doctor *doctor, const struct weir_config_service *service) {
	struct weir_findings *findings = &doctor->findings;

	if (service->backend_count > 1 && service->panic_threshold_percent == 0 &&
		all_may_fail(service)) {
		weir_findings_add(findings, WEIR_FINDING_NOTICE, service->name,
			"panic_threshold_percent is 0: while all checks fail, all new flows are "
			"dropped");
		EDIT(doctor);
	}
}

// Check the timeout of established connections that are idle. With a short timeout, a flow expires
// while its connection is still open, and the next packet may go to another backend, which resets
// the connection.
static void check_timeouts(struct weir_doctor *doctor) {
	const uint32_t established_ms = doctor->file->flow_table.established_ms;

	if (established_ms < 60000) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "flow_table",
			"timeout_ms.established is %u ms: connections that are idle for longer may "
			"be moved to another backend",
			established_ms);
		EDIT(doctor);
	}
}

// If there is no valid file, report which configuration the other checks use instead, and which
// checks are skipped.
static void report_substitute(struct weir_doctor *doctor) {
	const char *skipped = doctor->skipped;

	if (doctor->config == NULL) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, doctor->config_path,
			"cannot be used, and the running configuration is unknown; skipped checks: "
			"%s",
			skipped);
		if (doctor->dataplane != 0 && doctor->root[0] == '\0' && geteuid() != 0) {
			weir_findings_cure(&doctor->findings, "sudo weirctl doctor --config %s",
				doctor->config_path);
		}
	} else {
		weir_findings_add(&doctor->findings,
			doctor->runs_services ? WEIR_FINDING_NOTICE : WEIR_FINDING_WARNING,
			doctor->config_path,
			"cannot be used; checking the running configuration instead%s; skipped "
			"checks: %s",
			doctor->runs_services ? "" : ", without the services, which are unknown",
			skipped);
	}
}

// Reports that the path of the configuration is unknown. A missing default file is not a fault,
// because weir-control may use another file.
static void report_unknown_path(struct weir_doctor *doctor) {
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "configuration",
		"its path is unknown while weir-control does not answer, and %s does not exist: "
		"give --config%s; skipped checks: %s",
		doctor->config_path,
		doctor->config != NULL ? "; checking the settings of the running weir-dataplane, "
					 "without the services"
				       : "",
		doctor->skipped);
}

// Reports that weir-control does not use its file, although the file is valid.
static void report_unused(struct weir_doctor *doctor, const char *why) {
	const char *file = json_string_value(json_object_get(doctor->version, "config"));

	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING,
		file != NULL ? file : "configuration", "%s%s", why,
		doctor->candidate || doctor->config == doctor->file
			? ""
			: "; checking the configuration in use instead");
	weir_findings_cure(&doctor->findings, "weirctl config reload # shows why");
}

void weir_doctor_check_config(struct weir_doctor *doctor) {
	const struct weir_config *config = doctor->file;
	const char *unused = json_string_value(json_object_get(doctor->version, "config_unused"));
	const uint32_t before = doctor->findings.count;

	if (unused != NULL) {
		report_unused(doctor, unused);
	}
	if (doctor->path_unknown) {
		report_unknown_path(doctor);
		return;
	}
	for (uint32_t i = 0; i < doctor->errors->count; i++) {
		show(doctor, WEIR_FINDING_FAULT, &doctor->errors->error[i]);
	}
	for (uint32_t i = 0; i < doctor->errors->warning_count; i++) {
		show(doctor, WEIR_FINDING_WARNING, &doctor->errors->warning[i]);
	}
	if (config == NULL) {
		report_substitute(doctor);
		return;
	}
	check_ports(doctor);
	for (uint32_t i = 0; i < config->service_count; i++) {
		check_service(doctor, &config->services[i]);
	}
	check_timeouts(doctor);
	if (doctor->findings.count == before) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, doctor->config_path,
			"ports: %u, workers: %u, services: %u", config->port_count,
			config->workers.count, config->service_count);
	}
}
