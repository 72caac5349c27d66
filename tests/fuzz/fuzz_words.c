// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as messages between weir-agent and its applications, and as
// options about services. Checked: an announced state is one of the four valid states; a reply
// that is parsed and formatted again is unchanged; no port is in two services.
//
// The first byte of an input: Q = a request, R = a reply, S = lines NAME=PORT,... and USER=NAME.
#include <errno.h>

#include "fuzz.h"
#include "word_line.h"

static void read_request(const char *text, size_t bytes) {
	enum weir_health_word word = WEIR_HEALTH_WORD_COUNT;
	// exact size: ASan detects reads beyond its end
	char *exact = malloc(bytes > 0 ? bytes : 1);
	int r;

	REQUIRE(exact != NULL);
	memcpy(exact, text, bytes);
	r = weir_word_lines_read(exact, bytes, &word);
	REQUIRE(r == 0 ? word < WEIR_HEALTH_WORD_COUNT
		       : r == -EINVAL && word == WEIR_HEALTH_WORD_COUNT);
	free(exact);
}

static void read_reply(const char *text, size_t bytes) {
	char *copy = malloc(bytes + 1), written[WEIR_WORD_REPLY_BYTES];
	struct weir_word_reply reply, again;

	REQUIRE(copy != NULL);
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	if (weir_word_reply_read(copy, &reply) == 0) {
		REQUIRE(reply.word > WEIR_HEALTH_WORD_NONE && reply.word < WEIR_HEALTH_WORD_COUNT);
		REQUIRE(reply.port_count <= WEIR_PORT_WORDS_MOST);
		REQUIRE(weir_word_reply_read(
				weir_word_reply_write("web", &reply, written), &again) == 0);
		REQUIRE(memcmp(&reply, &again, sizeof(reply)) == 0);
	}
	free(copy);
}

static void check_services(const struct weir_named_services *services) {
	uint32_t ports = 0, same = 0;

	REQUIRE(services->count <= WEIR_NAMED_SERVICES_MAX);
	for (uint32_t i = 0; i < services->count; i++) {
		const struct weir_named_service *a = &services->service[i];

		REQUIRE(weir_service_name_is_valid(a->name, strlen(a->name)));
		REQUIRE(strchr(a->name, '/') == NULL && a->name[0] != '.');
		REQUIRE(a->port_count > 0);
		ports += a->port_count;
		for (uint32_t j = 0; j < services->count; j++) {
			const struct weir_named_service *b = &services->service[j];

			for (uint32_t k = 0; k < a->port_count * b->port_count; k++) {
				const struct weir_service_port *p = &a->port[k / b->port_count];
				const struct weir_service_port *q = &b->port[k % b->port_count];

				same += p->port == q->port && p->protocol == q->protocol;
			}
		}
	}
	REQUIRE(ports <= WEIR_PORT_WORDS_MOST && same == ports); // no two port states are equal
}

static void read_services(const char *text, size_t bytes) {
	struct weir_named_services services = {0};
	char *copy = malloc(bytes + 1), *left = copy, *line, why[160];

	REQUIRE(copy != NULL);
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	while ((line = strsep(&left, "\n")) != NULL) {
		why[0] = '\0';
		if (weir_named_services_add(&services, line, why, sizeof(why))) {
			REQUIRE(why[0] != '\0');
			(void)weir_named_services_allow(&services, line, why, sizeof(why));
		}
		check_services(&services);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	const char *text = (const char *)data + 1;

	if (bytes == 0) {
		return 0;
	}
	switch (data[0]) {
	case 'Q':
		read_request(text, bytes - 1);
		break;
	case 'R':
		read_reply(text, bytes - 1);
		break;
	case 'S':
		read_services(text, bytes - 1);
		break;
	default:
		break;
	}
	return 0;
}
