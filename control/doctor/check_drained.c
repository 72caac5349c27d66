// SPDX-License-Identifier: BSD-3-Clause
//
// Reports drained services and VIPs, each with the command that ends the drain. The command depends
// on whether the service or a VIP was drained last, as shown by the audit list of weir-control.
#include <string.h>

#include "doctor.h"
#include "plural.h"

#define ADDRESS_BYTES 64

static const json_t *get(const json_t *object, const char *key) {
	return json_object_get(object, key);
}

static const char *text_of(const json_t *object, const char *key) {
	const char *text = json_string_value(get(object, key));

	return text != NULL ? text : "";
}

// Parse the address of a bind in a reply: "tcp 198.51.100.10:80", "udp [2001:db8::10]:10-20".
static bool address_of(const json_t *bind, struct weir_address *ret) {
	const char *text = json_string_value(bind), *begin, *end;
	char address[ADDRESS_BYTES];

	begin = text != NULL ? strchr(text, ' ') : NULL;
	if (begin == NULL) {
		return false;
	}
	begin += begin[1] == '[' ? 2 : 1;
	end = begin[-1] == '[' ? strchr(begin, ']') : strrchr(begin, ':');
	if (end == NULL || (size_t)(end - begin) >= sizeof(address)) {
		return false;
	}
	snprintf(address, sizeof(address), "%.*s", (int)(end - begin), begin);
	return weir_address_parse(address, ret) == 0;
}

// Returns whether a drained bind of the service has this address.
static bool has_drained(const json_t *service, const char *text) {
	struct weir_address wanted, address;
	const json_t *bind;
	size_t i;

	if (weir_address_parse(text, &wanted) < 0) {
		return false;
	}
	json_array_foreach (get(service, "drained_binds"), i, bind) {
		if (address_of(bind, &address) && weir_address_equal(&address, &wanted)) {
			return true;
		}
	}
	return false;
}

// Returns the address of the VIP if the last drain that affected the service was a drain of a VIP,
// otherwise NULL.
static const char *last_vip(const json_t *audit, const json_t *service) {
	const char *name = text_of(service, "name");
	const size_t bytes = strlen(name);

	for (size_t i = json_array_size(audit); i > 0; i--) {
		const json_t *entry = json_array_get(audit, i - 1);
		const char *command = text_of(entry, "command");
		const char *object = text_of(entry, "object");

		if (strcmp(text_of(entry, "outcome"), "done") != 0) {
			continue;
		}
		if (strcmp(command, "service.drain") == 0 && strcmp(object, name) == 0) {
			return NULL;
		}
		if (strcmp(command, "vip.drain") == 0) {
			// The object is the address, or the name of a service and the address.
			const bool own = strncmp(object, name, bytes) == 0 && object[bytes] == ' ';
			const char *address = own ? object + bytes + 1 : object;

			if (has_drained(service, address)) {
				return address;
			}
		}
	}
	return NULL;
}

static void report(struct weir_doctor *doctor, const json_t *service) {
	const size_t drained = json_array_size(get(service, "drained_binds"));
	const size_t binds = json_array_size(get(service, "binds"));
	struct weir_findings *findings = &doctor->findings;
	const char *name = text_of(service, "name"), *vip = last_vip(doctor->audit, service);
	char text[ADDRESS_BYTES];
	struct weir_address first;

	if (drained < binds) {
		weir_findings_add(findings, WEIR_FINDING_NOTICE, name,
			"%zu of its %zu binds %s drained: new flows to %s are refused", drained,
			binds, drained == 1 ? "is" : "are", drained == 1 ? "it" : "them");
	} else {
		weir_findings_add(
			findings, WEIR_FINDING_NOTICE, name, "is drained: new flows are refused");
	}
	if (vip == NULL && drained < binds &&
		address_of(json_array_get(get(service, "drained_binds"), 0), &first)) {
		vip = weir_address_format(&first, text, sizeof(text));
	}
	if (vip != NULL) {
		weir_findings_cure(findings, "weirctl vip ready %s", vip);
	} else {
		weir_findings_cure(findings, "weirctl service ready %s", name);
	}
}

bool weir_doctor_report_drained(struct weir_doctor *doctor) {
	const json_t *service;
	bool any = false;
	size_t i;

	json_array_foreach (doctor->services, i, service) {
		if (json_array_size(get(service, "drained_binds")) > 0) {
			report(doctor, service);
			any = true;
		}
	}
	return any;
}
