// SPDX-License-Identifier: BSD-3-Clause
#include "health_body.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "append.h"
#include "pattern.h"

#define KEPT_LEAST 4096u // bytes of the first allocation

void weir_health_body_init(struct weir_health_body *body, const struct weir_config_url *url) {
	*body = (struct weir_health_body){.url = url};
	if (url->body[0] != '\0') {
		weir_health_match_init(&body->match, url->body, strlen(url->body), true);
	} else if (url->body_sha256.count > 0) {
		sha256_init(&body->sha256);
	} else if (url->body_md5.count > 0) {
		md5_init(&body->md5);
	}
}

void weir_health_body_fini(struct weir_health_body *body) {
	free(body->kept);
	body->kept = NULL;
	body->room = 0;
}

// Adds bytes to the kept bytes. Returns false if out of memory.
static bool keep(struct weir_health_body *body, const char *data, size_t bytes) {
	size_t room = body->room > 0 ? body->room : KEPT_LEAST;
	char *grown;

	while (room < body->bytes + bytes) {
		room *= 2;
	}
	if (room > body->room) {
		grown = realloc(body->kept, room);
		if (grown == NULL) {
			return false;
		}
		body->kept = grown;
		body->room = room;
	}
	memcpy(body->kept + body->bytes, data, bytes);
	return true;
}

// Processes bytes that are searched: at most WEIR_HEALTH_BODY_BYTES of a body.
static bool take_searched(struct weir_health_body *body, const char *data, size_t bytes) {
	const size_t room = WEIR_HEALTH_BODY_BYTES - body->bytes;
	const size_t taken = bytes < room ? bytes : room;

	if (body->url->body[0] != '\0') {
		body->found = weir_health_match_take(&body->match, data, taken) ==
			      WEIR_HEALTH_MATCH_FOUND;
	} else {
		body->failed = !keep(body, data, taken);
	}
	body->bytes += taken;
	return !body->found && !body->failed && taken == bytes;
}

bool weir_health_body_take(struct weir_health_body *body, const char *data, size_t bytes) {
	if (body->url->body_sha256.count > 0) {
		sha256_update(&body->sha256, bytes, (const uint8_t *)data);
		return true;
	}
	if (body->url->body_md5.count > 0) {
		md5_update(&body->md5, bytes, (const uint8_t *)data);
		return true;
	}
	return !weir_config_tests_body(body->url) || take_searched(body, data, bytes);
}

static enum weir_probe_outcome judge_regex(
	const struct weir_health_body *body, char *detail, size_t bytes) {
	int r = body->failed ? -ENOMEM
			     : weir_pattern_search(body->url->body_regex,
				       body->kept != NULL ? body->kept : "", body->bytes);

	if (r == -ENOMEM) {
		snprintf(detail, bytes, "out of memory");
		return WEIR_PROBE_UNKNOWN;
	}
	if (r == 0) {
		weir_append(
			detail, bytes, ", body does not match \"%.60s\"", body->url->body_regex);
	} else if (r < 0) {
		weir_append(detail, bytes, ", body_regex takes too long to search this body");
	}
	return r > 0 ? WEIR_PROBE_PASSED : WEIR_PROBE_FAILED;
}

static enum weir_probe_outcome judge_digest(const uint8_t *digest,
	const struct weir_config_bytes *wanted, const char *key, char *detail, size_t bytes) {
	if (memcmp(digest, wanted->byte, wanted->count) == 0) {
		return WEIR_PROBE_PASSED;
	}
	weir_append(detail, bytes, ", %s is ", key);
	for (uint8_t i = 0; i < wanted->count; i++) {
		weir_append(detail, bytes, "%02x", digest[i]);
	}
	return WEIR_PROBE_FAILED;
}

enum weir_probe_outcome weir_health_body_judge(
	struct weir_health_body *body, char *detail, size_t bytes) {
	const struct weir_config_url *url = body->url;
	uint8_t digest[SHA256_DIGEST_SIZE];

	if (url->body_regex[0] != '\0') {
		return judge_regex(body, detail, bytes);
	}
	if (url->body_sha256.count > 0) {
		sha256_digest(&body->sha256, sizeof(digest), digest);
		return judge_digest(digest, &url->body_sha256, "body_sha256", detail, bytes);
	}
	if (url->body_md5.count > 0) {
		md5_digest(&body->md5, MD5_DIGEST_SIZE, digest);
		return judge_digest(digest, &url->body_md5, "body_md5", detail, bytes);
	}
	if (url->body[0] != '\0' && !body->found) {
		weir_append(detail, bytes, ", body without \"%.60s\"", url->body);
		return WEIR_PROBE_FAILED;
	}
	return WEIR_PROBE_PASSED;
}
