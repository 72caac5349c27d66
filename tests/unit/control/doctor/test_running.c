// SPDX-License-Identifier: BSD-3-Clause
#include "running.h"

#include "test.h"

static void expect(const struct weir_config *config, uint32_t backend, uint8_t mode,
	uint16_t gue_port, uint32_t gre_key) {
	const struct weir_config_service *service = &config->services[0];
	const struct weir_forwarding wanted = {mode, gue_port, gre_key};
	const struct weir_forwarding found =
		weir_config_forwarding_of(service, &service->backends[backend]);

	assert_true(weir_forwarding_equal(&found, &wanted));
}

#define BACKEND(forwarding, gue_port, gre_key) \
	"{\"service\": \"web\", \"name\": \"b\", \"address\": \"10.0.0.11\", \"forwarding\": " \
	"\"" forwarding "\", \"gue_port\": " gue_port ", \"gre_key\": " gre_key "}"

TEST(backends_are_forwarded_to_as_they_are_now) {
	struct weir_config *config = calloc(1, sizeof(*config));
	json_t *services = json_pack("[{s:s, s:[]}]", "name", "web", "binds");
	json_t *backends = json_loads(
		"[" BACKEND("ipip", "null", "null") ", " BACKEND("l2", "null", "null") ", " BACKEND(
			"gue", "7000", "null") ", " BACKEND("gre", "null", "4000000000") "]",
		0, NULL);

	assert_int_equal(weir_doctor_running_services(config, services, backends), 0);
	assert_int_equal(config->services[0].backend_count, 4);
	expect(config, 0, WEIR_FORWARDING_IPIP, WEIR_GUE_PORT, 0);
	expect(config, 1, WEIR_FORWARDING_L2, WEIR_GUE_PORT, 0);
	expect(config, 2, WEIR_FORWARDING_GUE, 7000, 0);
	expect(config, 3, WEIR_FORWARDING_GRE, WEIR_GUE_PORT, 4000000000);
	json_decref(services);
	json_decref(backends);
	weir_config_free(config);
}
