// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as a configuration. An accepted configuration must fulfil the
// guarantees of config.h; a refusal must have a reason. Parsing a text twice must give equal
// configurations, also after weir_config_keep_running.
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_difference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define REQUIRE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

static void check_service(const struct weir_config_service *service) {
	struct weir_config_checks at = {.service = service};

	REQUIRE(service->name[0] && service->line >= 1);
	REQUIRE(service->bind_count >= 1 && service->backend_count >= 1);
	REQUIRE(service->table_size >= 2 && service->table_size >= service->backend_count);
	while (weir_config_next_check(&at)) {
		REQUIRE(at.check->timeout_ms <= at.check->interval_ms);
		REQUIRE(at.check->url.path[0] == '/');
		for (uint32_t i = 0; i < at.check->url_count; i++) {
			REQUIRE(at.check->urls[i].path[0] == '/');
		}
	}
	for (uint32_t i = 0; i < service->bind_count; i++) {
		const struct weir_config_bind *bind = &service->binds[i];

		REQUIRE(bind->address.family == 4 || bind->address.family == 6);
		REQUIRE(bind->protocol == IPPROTO_TCP || bind->protocol == IPPROTO_UDP);
		REQUIRE(bind->port_first <= bind->port_last && bind->port_last > 0);
	}
	REQUIRE(service->subset.algorithm == WEIR_SUBSET_NONE || service->subset.size > 0);
	for (uint32_t i = 0; i < service->backend_count; i++) {
		const struct weir_config_backend *backend = &service->backends[i];

		REQUIRE(backend->name[0] && backend->line >= service->line);
		REQUIRE(backend->address.family == 4 || backend->address.family == 6);
		REQUIRE(backend->weight <= 65535);
	}
}

static void check_config(const struct weir_config *config) {
	uint64_t backends = 0;

	REQUIRE(config->instance.client_id < config->instance.clients);
	REQUIRE(config->instance.member < config->instance.members);
	REQUIRE(config->port_count >= 1 && config->port_count <= 16);
	REQUIRE(config->workers.count >= 1 && config->workers.count <= WEIR_CONFIG_CORES_MAX);
	REQUIRE(config->service_count <= config->segment.max_services);
	for (uint32_t i = 0; i < config->port_count; i++) {
		REQUIRE(config->ports[i].name[0] && config->ports[i].device[0]);
		REQUIRE(config->ports[i].mtu >= 1280 && config->ports[i].vlan <= 4094);
	}
	for (uint32_t i = 0; i < config->service_count; i++) {
		check_service(&config->services[i]);
		backends += config->services[i].backend_count;
	}
	REQUIRE(backends <= config->segment.max_backends);
}

static void check_list(
	const struct weir_config_error *list, uint32_t count, const char *text, size_t bytes) {
	int lines = 1;

	for (size_t i = 0; i < bytes; i++) {
		lines += text[i] == '\n';
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_config_error *error = &list[i];

		REQUIRE(error->line >= 0 && error->line <= lines && error->column >= 0);
		REQUIRE(strnlen(error->path, sizeof(error->path)) < sizeof(error->path));
		REQUIRE(strnlen(error->reason, sizeof(error->reason)) < sizeof(error->reason));
		REQUIRE(error->reason[0] != '\0');
		for (const char *c = error->reason; *c; c++) {
			REQUIRE(*c >= 0x20 && *c < 0x7f);
		}
	}
}

static void check_difference(struct weir_config *config, const char *text, size_t bytes) {
	struct weir_config_errors errors;
	struct weir_difference difference;
	struct weir_config *again;

	REQUIRE(weir_config_parse(text, bytes, &again, &errors) == 0);
	REQUIRE(weir_config_compare(config, again, &difference) == 0 && difference.count == 0);
	weir_difference_fini(&difference);
	REQUIRE(weir_config_keep_running(again, config) == 0);
	REQUIRE(weir_config_compare(config, again, &difference) == 0 && difference.count == 0);
	weir_difference_fini(&difference);
	check_config(again);
	weir_config_free(again);
	weir_config_errors_fini(&errors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct weir_config *const untouched = (void *)&bytes;
	struct weir_config *config = untouched;
	struct weir_config_errors errors;
	char *text = malloc(bytes + 1);
	int r;

	REQUIRE(text != NULL);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	r = weir_config_parse(text, bytes, &config, &errors);
	if (r == 0) {
		REQUIRE(errors.count == 0);
		check_list(errors.warning, errors.warning_count, text, bytes);
		check_config(config);
		check_difference(config, text, bytes);
		weir_config_free(config);
	} else {
		REQUIRE(r == -EINVAL && config == untouched);
		REQUIRE(errors.count >= 1 && errors.warning_count == 0);
		check_list(errors.error, errors.count, text, bytes);
	}
	weir_config_errors_fini(&errors);
	free(text);
	return 0;
}
