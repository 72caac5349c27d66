// SPDX-License-Identifier: BSD-3-Clause
//
// Tests affinity.show, affinity.lookup and affinity.clear, and what flow.lookup says about clients
// of services with affinity.
#include "daemon_web.h"

#define SERVICE(name, vip, host, more) \
	"{\"name\": \"" name "\", \"binds\": [{\"address\": \"198.51.100." vip "\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 251, \"backends\": [" \
	"{\"name\": \"" name "-1\", \"address\": \"10.0.1." host "1\"}, " \
	"{\"name\": \"" name "-2\", \"address\": \"10.0.1." host "2\"}]" more "}"
#define ROUND_ROBIN ", \"policy\": {\"name\": \"round-robin\"}"
#define BY_SOURCE ", \"affinity\": {\"by\": \"source\"}"
#define BY_NETWORK \
	", \"affinity\": {\"by\": \"source\", \"ipv4_prefix\": 24, \"timeout_ms\": 60000}"
#define SUBSET \
	", \"subset\": {\"algorithm\": \"deterministic\", \"size\": 1, \"client\": \"worker\"}"
#define SERVICES \
	SERVICE("web", "10", "1", ROUND_ROBIN BY_SOURCE) \
	", " SERVICE("net", "11", "2", ROUND_ROBIN BY_NETWORK) ", " SERVICE( \
		"hash", "12", "3", BY_SOURCE) ", " SERVICE("plain", "13", "4", ROUND_ROBIN)

static json_t *show(struct web *web, const char *arguments) {
	return lab_result(&web->lab, JSON({"command": "affinity.show"%s}), arguments);
}

static json_t *look_up(struct web *web, const char *service, const char *client) {
	return lab_result(&web->lab,
		JSON({"command": "affinity.lookup", "service": "%s", "client": "%s"}), service, client);
}

static json_t *clear(struct web *web, const char *arguments) {
	return lab_result(&web->lab, JSON({"command": "affinity.clear", %s}), arguments);
}

static json_int_t number(const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	return json_is_null(value) ? -1 : json_integer_value(value);
}

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "(no text)";
}

static uint16_t id_of(struct web *web, const char *service, const char *backend) {
	json_t *holder = NULL;
	const json_t *row =
		backend != NULL
			? lab_backend(&web->lab, &holder, service, backend)
			: json_array_get(
				  holder = lab_result(&web->lab,
					  JSON({"command": "service.show",
									     "service": "%s"}), service),
					  0);
	const uint16_t id = (uint16_t)number(row, "id");

	json_decref(holder);
	return id;
}

static void remember(struct web *web, const char *client, const char *service, const char *backend,
	bool proven) {
	lab_dataplane_remember(web->dataplane, client, id_of(web, service, NULL),
		id_of(web, service, backend), proven);
}

static void expect_table(const json_t *result, json_int_t used, json_int_t proven) {
	const json_t *table = json_object_get(result, "table");

	assert_int_equal(number(table, "entries"), 64);
	assert_int_equal(number(table, "used"), used);
	assert_int_equal(number(table, "proven"), proven);
	assert_int_equal(number(table, "unproven"), used - proven);
	assert_int_equal(number(table, "free"), 64 - used);
	assert_true(json_is_false(json_object_get(result, "incomplete")));
}

// Checks a row of a service or of a backend.
static void expect_row(const json_t *rows, size_t i, const char *key, const char *name,
	json_int_t clients, json_int_t proven) {
	const json_t *row = json_array_get(rows, i);

	assert_string_equal(text_of(row, key), name);
	assert_int_equal(number(row, "clients"), clients);
	assert_int_equal(number(row, "proven"), proven);
}

// Returns the last entry of the audit, borrowed from *holder.
static const json_t *last_audit(struct web *web, json_t **holder) {
	*holder = lab_result(&web->lab, JSON({"command": "audit.show"}));
	return json_array_get(*holder, json_array_size(*holder) - 1);
}

static void expect_audit(struct web *web, const char *object, const char *after) {
	json_t *holder = NULL;
	const json_t *entry = last_audit(web, &holder);

	assert_string_equal(text_of(entry, "command"), "affinity.clear");
	assert_string_equal(text_of(entry, "object"), object);
	assert_string_equal(text_of(entry, "after"), after);
	json_decref(holder);
}

static void reload(struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
}

static int start(void **state) {
	int r = web_start(state);

	reload(*state, SERVICES);
	return r;
}

// An empty table of 64 entries for each test.
static int empty(void **state) {
	struct web *web = *state;

	lab_dataplane_affinity(web->dataplane, 64);
	return 0;
}

TEST_GROUP(lab_own_network);
TEST_GROUP(start, web_stop);

TEST(affinity_show_has_each_service_with_affinity, empty) {
	struct web *web = *state;
	json_t *result;
	const json_t *services;

	remember(web, "192.0.2.1", "web", "web-1", true);
	remember(web, "192.0.2.2", "web", "web-2", false);
	remember(web, "192.0.2.3", "web", "web-2", true);
	remember(web, "192.0.2.0", "net", "net-1", false);
	result = show(web, "");
	services = json_object_get(result, "services");
	expect_table(result, 4, 2);
	assert_int_equal(json_array_size(services), 3);
	expect_row(services, 0, "service", "web", 3, 2);
	expect_row(services, 1, "service", "net", 1, 0);
	expect_row(services, 2, "service", "hash", -1, -1);
	assert_string_equal(text_of(json_array_get(services, 0), "by"), "table");
	assert_int_equal(number(json_array_get(services, 0), "timeout_ms"), 300000);
	assert_int_equal(number(json_array_get(services, 1), "ipv4_prefix"), 24);
	assert_string_equal(text_of(json_array_get(services, 2), "by"), "hash");
	assert_string_equal(text_of(json_array_get(services, 2), "policy"), "maglev");
	assert_int_equal(json_array_size(json_object_get(result, "backends")), 0);
	json_decref(result);
}

TEST(affinity_show_of_a_service_has_each_backend, empty) {
	struct web *web = *state;
	json_t *result;
	const json_t *backends;

	remember(web, "192.0.2.1", "web", "web-2", true);
	remember(web, "192.0.2.2", "web", "web-2", false);
	remember(web, "192.0.2.0", "net", "net-1", false);
	result = show(web, ", \"service\": \"web\"");
	backends = json_object_get(result, "backends");
	expect_table(result, 3, 1);
	assert_int_equal(json_array_size(json_object_get(result, "services")), 1);
	assert_int_equal(json_array_size(backends), 2);
	expect_row(backends, 0, "backend", "web-1", 0, 0);
	expect_row(backends, 1, "backend", "web-2", 2, 1);
	json_decref(result);
	assert_string_equal(lab_code(
		&web->lab, JSON({"command": "affinity.show", "service": "plain"})), "refused");
	assert_string_equal(lab_code(
		&web->lab, JSON({"command": "affinity.show", "service": "other"})), "not-found");
}

TEST(affinity_lookup_has_the_backend_of_a_client, empty) {
	struct web *web = *state;
	json_t *result;

	remember(web, "192.0.2.1", "web", "web-2", true);
	result = look_up(web, "web", "::ffff:192.0.2.1");
	assert_string_equal(text_of(result, "client"), "192.0.2.1");
	assert_string_equal(text_of(result, "by"), "table");
	assert_string_equal(text_of(result, "backend"), "web-2");
	assert_string_equal(text_of(result, "address"), "10.0.1.12");
	assert_string_equal(text_of(result, "remembered"), "web-2");
	assert_true(json_is_true(json_object_get(result, "proven")));
	assert_int_equal(number(result, "left_ms"), 250000);
	assert_string_equal(text_of(result, "why"), "remembered");
	json_decref(result);
	result = look_up(web, "web", "192.0.2.9");
	assert_true(json_is_null(json_object_get(result, "backend")));
	assert_true(json_is_null(json_object_get(result, "remembered")));
	assert_true(json_is_null(json_object_get(result, "left_ms")));
	assert_string_equal(text_of(result, "why"),
		"nothing is remembered; policy round-robin selects a backend when the client's "
		"next flow begins");
	json_decref(result);
}

TEST(affinity_lookup_of_a_drained_backend_names_the_reason, empty) {
	struct web *web = *state;
	json_t *result;

	remember(web, "192.0.2.1", "web", "web-2", false);
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.drain", "service": "web", "backend": "web-2"})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
	result = look_up(web, "web", "192.0.2.1");
	assert_true(json_is_null(json_object_get(result, "backend")));
	assert_string_equal(text_of(result, "remembered"), "web-2");
	assert_string_equal(text_of(result, "why"),
		"the remembered backend takes no new flows: drained; policy round-robin selects a "
		"backend when the client's next flow begins");
	json_decref(result);
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.ready", "service": "web", "backend": "web-2"})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
}

TEST(affinity_lookup_of_a_backend_of_weight_0_names_the_reason, empty) {
	struct web *web = *state;
	json_t *result;

	remember(web, "192.0.2.1", "web", "web-2", false);
	json_decref(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "web-2",
			"weight": 0})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
	result = look_up(web, "web", "192.0.2.1");
	assert_string_equal(text_of(result, "why"),
		"the remembered backend takes no new flows: weight 0; policy round-robin selects "
		"a backend when the client's next flow begins");
	json_decref(result);
	json_decref(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "web-2",
			"weight": null})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
}

TEST(affinity_lookup_names_the_prefix_that_is_a_client, empty) {
	struct web *web = *state;
	json_t *answer, *result = look_up(web, "net", "192.0.2.77");

	assert_string_equal(text_of(result, "client"), "192.0.2.0/24");
	json_decref(result);
	result = look_up(web, "net", "192.0.2.64/26");
	assert_string_equal(text_of(result, "client"), "192.0.2.0/24");
	json_decref(result);
	answer = lab_ask(&web->lab,
		JSON({"command": "affinity.lookup", "service": "net",
		"client": "192.0.0.0/16"}));
	assert_string_equal(text_of(answer, "code"), "refused");
	assert_string_equal(text_of(answer, "error"),
		"192.0.0.0/16 is more than one client: in service \"net\", the first 24 bits of an "
		"IPv4 address define a client");
	json_decref(answer);
}

TEST(affinity_lookup_by_hash_has_the_backend_of_the_slot, empty) {
	struct web *web = *state;
	json_t *result = look_up(web, "hash", "192.0.2.1");

	assert_string_equal(text_of(result, "by"), "hash");
	assert_memory_equal(text_of(result, "backend"), "hash-", 5);
	assert_true(json_is_null(json_object_get(result, "remembered")));
	assert_string_equal(text_of(result, "why"),
		"nothing is remembered with policy maglev: the hash of the address selects slot 7 "
		"of 251");
	json_decref(result);
}

// Each of the two workers has one of the two backends.
TEST(affinity_lookup_by_hash_in_the_subsets_of_workers, empty) {
	struct web *web = *state;
	json_t *result;

	reload(web, SERVICE("half", "14", "5", BY_SOURCE SUBSET));
	result = look_up(web, "half", "192.0.2.1");
	assert_true(json_is_null(json_object_get(result, "backend")));
	assert_string_equal(text_of(result, "why"),
		"nothing is remembered with policy maglev: the hash of the address selects a "
		"backend of the worker's subset, and the worker of the next flow is not known");
	json_decref(result);
	reload(web, SERVICES);
}

TEST(affinity_clear_forgets_a_client, empty) {
	struct web *web = *state;
	json_t *result;

	remember(web, "192.0.2.1", "web", "web-2", true);
	remember(web, "192.0.2.2", "web", "web-2", true);
	result = clear(
		web, "\"service\": \"web\", \"backend\": \"web-1\", \"client\": \"192.0.2.1\"");
	assert_int_equal(number(result, "forgotten"), 0);
	json_decref(result);
	expect_audit(web, "web/web-1 192.0.2.1", "0 clients forgotten");
	result = clear(web, "\"service\": \"web\", \"client\": \"192.0.2.1\"");
	assert_int_equal(number(result, "forgotten"), 1);
	assert_string_equal(text_of(result, "backend"), "web-2");
	assert_string_equal(text_of(result, "client"), "192.0.2.1");
	json_decref(result);
	expect_audit(web, "web 192.0.2.1", "1 client forgotten");
	result = clear(web, "\"service\": \"web\", \"client\": \"192.0.2.1\"");
	assert_int_equal(number(result, "forgotten"), 0);
	assert_true(json_is_null(json_object_get(result, "backend")));
	json_decref(result);
	expect_audit(web, "web 192.0.2.1", "0 clients forgotten");
	result = show(web, "");
	expect_table(result, 1, 1);
	json_decref(result);
}

TEST(affinity_clear_forgets_a_backend_or_a_service, empty) {
	struct web *web = *state;
	json_t *result;

	remember(web, "192.0.2.1", "web", "web-1", true);
	remember(web, "192.0.2.2", "web", "web-2", false);
	remember(web, "192.0.2.3", "web", "web-2", true);
	remember(web, "192.0.2.0", "net", "net-1", false);
	result = clear(web, "\"service\": \"web\", \"backend\": \"web-2\"");
	assert_int_equal(number(result, "forgotten"), 2);
	assert_string_equal(text_of(result, "backend"), "web-2");
	json_decref(result);
	expect_audit(web, "web/web-2", "2 clients forgotten");
	result = show(web, "");
	expect_table(result, 2, 1);
	json_decref(result);
	result = clear(web, "\"service\": \"web\"");
	assert_int_equal(number(result, "forgotten"), 1);
	assert_string_equal(text_of(result, "service"), "web");
	assert_true(json_is_null(json_object_get(result, "backend")));
	json_decref(result);
	expect_audit(web, "web", "1 client forgotten");
	result = show(web, "");
	expect_table(result, 1, 0);
	json_decref(result);
}

TEST(affinity_arguments_are_checked, empty) {
	static const struct {
		const char *request, *code;
	} cases[] = {
		{"lookup\", \"service\": \"plain\", \"client\": \"192.0.2.1\"", "refused"},
		{"lookup\", \"service\": \"web\", \"client\": \"somebody\"", "bad-request"},
		{"lookup\", \"service\": \"other\", \"client\": \"192.0.2.1\"", "not-found"},
		{"lookup\", \"service\": \"web\"", "bad-request"},
		{"clear\", \"service\": \"plain\"", "refused"},
		{"clear\", \"service\": \"hash\"", "refused"},
		{"clear\", \"service\": \"hash\", \"client\": \"192.0.2.1\"", "refused"},
		{"clear\", \"service\": \"web\", \"backend\": \"net-1\"", "not-found"},
		{"clear\", \"service\": \"web\", \"backend\": \"no\", \"client\": \"192.0.2.1\"",
			"not-found"},
		{"clear\"", "bad-request"},
	};
	struct web *web = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *code =
			lab_code(&web->lab, "{\"command\": \"affinity.%s}", cases[i].request);

		if (strcmp(code, cases[i].code) != 0) {
			fail_msg("%s: %s", cases[i].request, code);
		}
	}
}

static void expect_no_table(struct web *web, const char *request) {
	json_t *answer = lab_ask(&web->lab, "%s", request);

	assert_string_equal(text_of(answer, "code"), "refused");
	assert_string_equal(text_of(answer, "error"),
		"service \"web\" has no affinity table, because flow_table.affinity_sources is 0: "
		"the hash of a client's address selects its backend, and nothing is remembered");
	json_decref(answer);
}

TEST(without_an_affinity_table_the_hash_selects) {
	struct web *web = *state;
	json_t *result;

	lab_dataplane_affinity(web->dataplane, 0);
	result = show(web, "");
	assert_int_equal(number(json_object_get(result, "table"), "entries"), 0);
	expect_row(json_object_get(result, "services"), 0, "service", "web", -1, -1);
	json_decref(result);
	result = look_up(web, "web", "192.0.2.1");
	assert_string_equal(text_of(result, "by"), "hash");
	assert_memory_equal(text_of(result, "backend"), "web-", 4);
	assert_string_equal(text_of(result, "why"),
		"nothing is remembered, because flow_table.affinity_sources is 0: the hash of the "
		"address selects the backend");
	json_decref(result);
	expect_no_table(web, JSON({"command": "affinity.clear", "service": "web"}));
	expect_no_table(web, JSON({"command": "affinity.clear", "service": "web", "backend": "web-1"}));
	expect_no_table(
		web, JSON({"command": "affinity.clear", "service": "web",
			"client": "192.0.2.1"}));
}

TEST(affinity_of_hung_workers_is_a_timeout, empty) {
	struct web *web = *state;

	lab_dataplane_hang(web->dataplane, true);
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "affinity.lookup", "service": "web",
			"client": "192.0.2.1"})),
		"timeout");
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "affinity.clear", "service": "web",
			"client": "192.0.2.1"})),
		"timeout");
	assert_string_equal(lab_code(&web->lab, JSON({"command": "affinity.show"})), "timeout");
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "affinity.clear", "service": "web"})), "timeout");
	lab_dataplane_hang(web->dataplane, false);
	// The workers process the old requests first. A lookup waits for all workers.
	json_decref(look_up(web, "web", "192.0.2.1"));
}

// --- flow.lookup ----------------------------------------------------------------------------

static json_t *flow(struct web *web, const char *source, const char *vip) {
	return lab_result(
		&web->lab, JSON({"command": "flow.lookup", "protocol": "tcp", "source": "%s",
			"source_port": 1, "destination": "%s", "destination_port": 80}),
				   source, vip);
}

static void expect_why(const json_t *result, const char *begin) {
	if (strncmp(text_of(result, "why"), begin, strlen(begin)) != 0) {
		fail_msg("\"%s\" does not begin with \"%s\"", text_of(result, "why"), begin);
	}
}

TEST(flow_lookup_names_the_remembered_backend, empty) {
	struct web *web = *state;
	json_t *result;

	remember(web, "192.0.2.1", "web", "web-2", true);
	result = flow(web, "192.0.2.1", "198.51.100.10");
	assert_string_equal(
		text_of(result, "why"), "affinity: the remembered backend of the client");
	assert_string_equal(text_of(result, "backend"), "web-2");
	assert_string_equal(text_of(result, "chosen"), "web-2");
	assert_true(json_is_null(json_object_get(result, "slot")));
	json_decref(result);
	result = flow(web, "192.0.2.9", "198.51.100.10");
	expect_why(result,
		"affinity: no backend of the client is remembered, so policy round-robin selects a "
		"backend when the flow begins; Maglev fallback of an untracked flow: web-");
	assert_true(json_is_null(json_object_get(result, "backend")));
	json_decref(result);
	result = flow(web, "192.0.2.1", "198.51.100.12");
	expect_why(result, "affinity: slot ");
	assert_non_null(strstr(text_of(result, "why"), " of 251 by the client's address, weight "));
	json_decref(result);
	result = flow(web, "192.0.2.1", "198.51.100.13");
	expect_why(result, "policy round-robin selects a backend when the flow begins; Maglev");
	json_decref(result);
}

TEST(flow_lookup_without_a_usable_remembered_backend) {
	struct web *web = *state;
	json_t *result;

	lab_dataplane_affinity(web->dataplane, 64);
	remember(web, "192.0.2.1", "web", "web-2", false);
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.drain", "service": "web", "backend": "web-2"})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
	result = flow(web, "192.0.2.1", "198.51.100.10");
	expect_why(result,
		"affinity: the remembered backend of the client takes no new flows, so policy "
		"round-robin selects a backend when the flow begins; Maglev");
	json_decref(result);
	lab_dataplane_affinity(web->dataplane, 0);
	result = flow(web, "192.0.2.1", "198.51.100.10");
	assert_string_equal(text_of(result, "why"),
		"affinity: the hash of the client's address, because flow_table.affinity_sources "
		"is 0");
	assert_string_equal(text_of(result, "backend"), "web-1");
	json_decref(result);
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.ready", "service": "web", "backend": "web-2"})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
}
