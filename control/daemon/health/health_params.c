// SPDX-License-Identifier: BSD-3-Clause
#include "health_params.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Returns false if out of memory.
static bool copy_check(
	struct weir_config_health_check *to, const struct weir_config_health_check *from) {
	const size_t bytes = from->url_count * sizeof(from->urls[0]);

	*to = *from;
	to->urls = bytes > 0 ? malloc(bytes) : NULL;
	if (to->urls != NULL) {
		memcpy(to->urls, from->urls, bytes);
	}
	return bytes == 0 || to->urls != NULL;
}

struct weir_health_params *weir_health_params_share(struct weir_health_params *before,
	const struct weir_health_target *before_of, const struct weir_health_target *target) {
	const size_t vips_bytes = target->vip_count * sizeof(target->vips[0]);

	if (before == NULL || before_of->check != target->check ||
		before_of->vips != target->vips) {
		before = calloc(1, sizeof(*before) + vips_bytes);
		if (before == NULL || !copy_check(&before->check, target->check)) {
			free(before);
			return NULL;
		}
		before->vip_count = target->vip_count;
		if (vips_bytes > 0) {
			memcpy(before->vips, target->vips, vips_bytes);
		}
	}
	before->users++;
	return before;
}

void weir_health_params_leave(struct weir_health_params *params) {
	if (params != NULL && --params->users == 0) {
		free(params->check.urls);
		free(params);
	}
}

static bool is_same_bytes(const struct weir_config_bytes *a, const struct weir_config_bytes *b) {
	return a->count == b->count && memcmp(a->byte, b->byte, a->count) == 0;
}

static bool is_same_exchange(
	const struct weir_config_health_check *a, const struct weir_config_health_check *b) {
	return strcmp(a->send, b->send) == 0 && strcmp(a->expect, b->expect) == 0 &&
	       is_same_bytes(&a->send_hex, &b->send_hex) &&
	       is_same_bytes(&a->expect_hex, &b->expect_hex) && a->match == b->match &&
	       strcmp(a->name, b->name) == 0 && a->record == b->record && a->rcode == b->rcode &&
	       weir_address_equal(&a->address, &b->address);
}

static bool is_same_url(const struct weir_config_url *a, const struct weir_config_url *b) {
	return strcmp(a->path, b->path) == 0 && a->status_first == b->status_first &&
	       a->status_last == b->status_last && strcmp(a->body, b->body) == 0 &&
	       strcmp(a->body_regex, b->body_regex) == 0 &&
	       is_same_bytes(&a->body_sha256, &b->body_sha256) &&
	       is_same_bytes(&a->body_md5, &b->body_md5);
}

static bool has_same_urls(
	const struct weir_config_health_check *a, const struct weir_config_health_check *b) {
	bool same = a->url_count == b->url_count && is_same_url(&a->url, &b->url);

	for (uint32_t i = 0; same && i < a->url_count; i++) {
		same = is_same_url(&a->urls[i], &b->urls[i]);
	}
	return same;
}

static bool is_same_request(
	const struct weir_config_health_check *a, const struct weir_config_health_check *b) {
	return has_same_urls(a, b) && strcmp(a->host, b->host) == 0 &&
	       strcmp(a->ca_file, b->ca_file) == 0 && strcmp(a->server_name, b->server_name) == 0 &&
	       strcmp(a->grpc_service, b->grpc_service) == 0 && a->tls == b->tls &&
	       a->method == b->method && a->verify == b->verify && a->orca == b->orca;
}

bool weir_health_params_are_of(
	const struct weir_health_params *params, const struct weir_health_target *target) {
	const struct weir_config_health_check *a = &params->check, *b = target->check;
	bool same = params->vip_count == target->vip_count;

	for (uint32_t i = 0; same && i < params->vip_count; i++) {
		same = weir_address_equal(&params->vips[i], &target->vips[i]);
	}
	return same && a->type == b->type && a->interval_ms == b->interval_ms &&
	       a->timeout_ms == b->timeout_ms && a->retry_interval_ms == b->retry_interval_ms &&
	       a->rise == b->rise && a->fall == b->fall && is_same_exchange(a, b) &&
	       weir_config_command_equal(&a->command, &b->command) &&
	       a->weight_from_exit == b->weight_from_exit &&
	       (a->type == WEIR_CHECK_TCP || is_same_request(a, b));
}

void weir_health_params_name(const struct weir_health_params *params, uint32_t vip,
	char detail[static WEIR_HEALTH_DETAIL_BYTES]) {
	char address[INET6_ADDRSTRLEN], named[WEIR_HEALTH_DETAIL_BYTES];
	int used = snprintf(named, sizeof(named),
		"%s: ", weir_address_format(&params->vips[vip], address, sizeof(address)));

	snprintf(named + used, sizeof(named) - (size_t)used, "%.*s", (int)sizeof(named) - used - 1,
		detail);
	memcpy(detail, named, sizeof(named));
}
