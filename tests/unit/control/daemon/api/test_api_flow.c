// SPDX-License-Identifier: BSD-3-Clause
//
// Tests flow.lookup (the backend and the reason), and the arguments of flow.list and flow.delete.
#include "daemon_web.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "flow_lookup.h"
#include "selection.h"

static json_t *lookup(struct web *web, const char *source, unsigned int source_port,
	const char *destination, unsigned int port) {
	return lab_result(
		&web->lab, JSON({"command": "flow.lookup", "protocol": "tcp", "source": "%s",
			"source_port": %u, "destination": "%s", "destination_port": %u}),
				   source, source_port, destination, port);
}

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "(no text)";
}

static void expect_in(const json_t *object, const char *part) {
	if (strstr(text_of(object, "why"), part) == NULL) {
		fail_msg("\"%s\" lacks \"%s\"", text_of(object, "why"), part);
	}
}

static void set_admin(struct web *web, const char *command, const char *backend) {
	json_decref(lab_result(&web->lab,
		JSON({"command": "backend.%s", "service": "web", "backend": "%s"}), command, backend));
}

// Create a flow with client port 3 in the flow table of a worker. ret: name of the backend of the
// flow.
static void begin_known_flow(struct web *web, char ret[32]) {
	json_t *found;

	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 20);
	found = lookup(web, "192.0.2.77", 3, "198.51.100.10", 80);
	snprintf(ret, 32, "%s", text_of(found, "backend"));
	json_decref(found);
}

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(lookup_finds_a_known_flow) {
	struct web *web = *state;
	json_t *found;

	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 20);
	found = lookup(web, "::ffff:192.0.2.77", 7, "198.51.100.10", 80);
	assert_true(json_is_true(json_object_get(found, "found")));
	assert_int_equal(json_integer_value(json_object_get(found, "worker")), 0);
	assert_string_equal(text_of(found, "service"), "web");
	assert_string_equal(text_of(found, "state"), "established");
	assert_int_equal(json_integer_value(json_object_get(found, "idle_ms")), 7);
	assert_string_equal(text_of(found, "why"), "flow table of worker 0");
	assert_string_equal(text_of(found, "backend"), text_of(found, "chosen"));
	assert_int_equal(strlen(text_of(found, "hash")), 16);
	json_decref(found);
}

// Policies other than Maglev choose the backend when a flow starts, from the state at that time.
// The backend of a future flow is therefore not known.
TEST(lookup_of_a_new_flow_without_slots) {
	struct web *web = *state;
	json_t *found;

	json_decref(lab_result(
		&web->lab, JSON({"command": "service.set", "service": "web",
			"policy": "round-robin"})));
	found = lookup(web, "192.0.2.99", 999, "198.51.100.10", 80);
	expect_in(found, "policy round-robin selects a backend when the flow begins; Maglev "
			 "fallback of an untracked flow: w-");
	assert_true(json_is_null(json_object_get(found, "slot")));
	assert_true(json_is_null(json_object_get(found, "chosen")));
	assert_true(json_is_null(json_object_get(found, "backend")));
	json_decref(found);
	json_decref(lab_result(
		&web->lab, JSON({"command": "service.set", "service": "web", "policy": null})));
}

// No flow is kept, so there is none to find.
TEST(lookup_of_a_datagram_names_no_flow) {
	struct web *web = *state;
	static const char *const policies[][2] = {
		{"maglev", "slot "},
		{"round-robin",
			"policy round-robin selects a backend for each datagram; Maglev fallback "
			"of ICMP errors: w-"},
	};
	char services[1024];
	json_t *found;

	for (size_t i = 0; i < 2; i++) {
		snprintf(services, sizeof(services),
			WEB_SERVICES ", {\"udp\": \"datagram\", \"policy\": {\"name\": \"%s\"}, %s",
			policies[i][0], &DNS_SERVICE[1]);
		lab_write_config(&web->lab, services);
		json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
		LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
		found = lab_result(
			&web->lab, JSON({"command": "flow.lookup", "protocol": "udp", "source": "192.0.2.77",
				"source_port": 7, "destination": "198.51.100.11",
				"destination_port": 53}));
		assert_true(json_is_false(json_object_get(found, "found")));
		expect_in(found, policies[i][1]);
		expect_in(found, "; the service has no UDP flows (udp datagram)");
		json_decref(found);
	}
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
}

TEST(lookup_of_a_new_flow_names_the_slot) {
	struct web *web = *state;
	json_t *found = lookup(web, "192.0.2.1", 7, "198.51.100.10", 80);
	char expected[64];

	assert_true(json_is_false(json_object_get(found, "found")));
	assert_true(json_is_null(json_object_get(found, "worker")));
	assert_true(json_is_null(json_object_get(found, "state")));
	assert_string_equal(text_of(found, "backend"), text_of(found, "chosen"));
	assert_true(json_is_null(json_object_get(found, "chosen_by_worker")));
	assert_true(json_is_false(json_object_get(found, "incomplete")));
	snprintf(expected, sizeof(expected), "slot %d of 1009, weight %s",
		(int)json_integer_value(json_object_get(found, "slot")),
		strcmp(text_of(found, "backend"), "w-1") == 0 ? "100" : "300");
	assert_string_equal(text_of(found, "why"), expected);
	json_decref(found);
}

TEST(lookup_of_a_drained_backends_flow_reports_the_drain) {
	struct web *web = *state;
	json_t *found;
	char backend[32];

	begin_known_flow(web, backend);
	set_admin(web, "drain", backend);
	found = lookup(web, "192.0.2.77", 3, "198.51.100.10", 80);
	// the flow stays on the drained backend
	assert_string_equal(text_of(found, "backend"), backend);
	expect_in(found, "flow table of worker 0; backend drained: only existing flows continue");
	expect_in(found, "; a new flow would go to ");
	assert_string_not_equal(text_of(found, "chosen"), backend);
	json_decref(found);
	set_admin(web, "ready", backend);
}

// All backends are drained, but get new flows because of panic mode.
TEST(lookup_of_a_flow_in_panic_mode_reports_it) {
	struct web *web = *state;
	json_t *found;

	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 20);
	set_admin(web, "drain", "w-1");
	set_admin(web, "drain", "w-2");
	found = lookup(web, "192.0.2.77", 3, "198.51.100.10", 80);
	assert_string_equal(text_of(found, "backend"), text_of(found, "chosen"));
	expect_in(found, "; backend drained: gets new flows only because of panic mode");
	json_decref(found);
	found = lookup(web, "192.0.2.1", 7, "198.51.100.10", 80);
	expect_in(found, "; panic mode: no backend is ready, so drained backends are used");
	json_decref(found);
	set_admin(web, "ready", "w-1");
	set_admin(web, "ready", "w-2");
}

static void set_on_backend_down(struct web *web, const char *value) {
	char services[1024];

	snprintf(services, sizeof(services), "{\"on_backend_down\": \"%s\", %s, %s", value,
		&WEB_SERVICES[1], DNS_SERVICE);
	lab_write_config(&web->lab, services);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

// The answer shows what happens to the next packet of the flow; this depends on on_backend_down.
TEST(lookup_of_a_flow_of_a_backend_that_is_down_reports_the_effect) {
	static const char *const cases[][2] = {
		{"keep", "; backend in maintenance: only existing TCP flows continue; a new flow "},
		{"rehash", "; backend in maintenance: the next packet moves the flow; a new flow "},
		{"reset", "; backend in maintenance: the next packet is answered with an RST; a "
			  "new "},
		{"rehash", NULL}, // no other backend is available
	};
	struct web *web = *state;
	json_t *found;
	char backend[32];

	begin_known_flow(web, backend);
	set_admin(web, "maintenance", backend);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_on_backend_down(web, cases[i][0]);
		if (cases[i][1] == NULL) {
			set_admin(web, "maintenance", "w-1");
			set_admin(web, "maintenance", "w-2");
		}
		found = lookup(web, "192.0.2.77", 3, "198.51.100.10", 80);
		assert_string_equal(text_of(found, "backend"), backend);
		expect_in(found, cases[i][1] != NULL
					 ? cases[i][1]
					 : "; backend in maintenance: the flow stays, because no "
					   "other backend is usable");
		json_decref(found);
	}
	set_admin(web, "ready", "w-1");
	set_admin(web, "ready", "w-2");
	set_on_backend_down(web, "keep");
}

TEST(lookup_of_an_unowned_destination_reports_it) {
	struct web *web = *state;
	json_t *found = lookup(web, "192.0.2.1", 7, "198.51.100.10", 81);

	assert_true(json_is_null(json_object_get(found, "service")));
	assert_true(json_is_null(json_object_get(found, "backend")));
	assert_true(json_is_null(json_object_get(found, "slot")));
	assert_string_equal(text_of(found, "why"), "no service is bound to this address and port");
	json_decref(found);
}

static void order(struct web *web, const char *request) {
	json_decref(lab_result(&web->lab, "{\"command\": \"bind.%s}", request));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
}

static void reload(struct web *web) {
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(lab_dataplane_caught_up(web->dataplane));
}

// The service was removed, and its binds are draining.
TEST(lookup_of_a_removed_destination_has_its_service) {
	struct web *web = *state;
	uint64_t *open = &weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, 0)
				  ->open_flows;
	json_t *found;
	char backend[32];

	begin_known_flow(web, backend);
	*open = 1;
	lab_write_config(&web->lab, DNS_SERVICE);
	reload(web);
	found = lookup(web, "192.0.2.77", 3, "198.51.100.10", 80);
	assert_string_equal(text_of(found, "service"), "web");
	assert_string_equal(text_of(found, "backend"), backend);
	expect_in(found, "backend removed: only existing flows continue; service removed");
	expect_in(found, "s, open connections continue");
	expect_in(found, "service removed from the configuration: new flows are refused "
			 "for another ");
	json_decref(found);
	*open = 0;
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	reload(web);
}

// Look up a new and an existing flow, while the whole service or one of its two binds is drained.
TEST(lookup_of_a_drained_destination_reports_it) {
	struct web *web = *state;
	json_t *found;
	char backend[32];

	begin_known_flow(web, backend);
	weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, 0)->open_flows = 1;
	order(web, "drain\", \"service\": \"web\", \"interval_ms\": 600000");
	found = lookup(web, "192.0.2.1", 7, "198.51.100.10", 80);
	expect_in(found, "service drained 0.");
	expect_in(found, " ago: new flows are refused; deadline in ");
	assert_string_equal(text_of(found, "service"), "web");
	assert_true(json_is_null(json_object_get(found, "backend")));
	assert_true(json_is_null(json_object_get(found, "chosen")));
	json_decref(found);
	found = lookup(web, "192.0.2.77", 3, "198.51.100.10", 80);
	expect_in(found, "flow table of worker 0; service drained 0.");
	assert_string_equal(text_of(found, "backend"), backend);
	assert_true(json_is_null(json_object_get(found, "chosen")));
	json_decref(found);
	// The deadline passes up to a second before it takes effect.
	order(web, "drain\", \"service\": \"web\", \"interval_ms\": 1");
	found = lookup(web, "192.0.2.1", 7, "198.51.100.10", 80);
	assert_null(strstr(text_of(found, "why"), "no deadline"));
	json_decref(found);
	weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, 0)->open_flows = 0;
	order(web, "ready\", \"service\": \"web\"");
	order(web, "drain\", \"address\": \"198.51.100.11\"");
	found = lab_result(&web->lab,
		JSON({"command": "flow.lookup", "protocol": "udp", "source": "192.0.2.1",
			"source_port": 9, "destination": "198.51.100.11",
			"destination_port": 53}));
	expect_in(found, "bind drained 0.");
	expect_in(found, " ago: new flows are refused; ");
	assert_string_equal(text_of(found, "service"), "dns");
	json_decref(found);
	order(web, "ready\", \"address\": \"198.51.100.11\"");
	found = lookup(web, "192.0.2.1", 7, "198.51.100.10", 80);
	expect_in(found, "slot ");
	json_decref(found);
}

TEST(lookup_without_usable_backend_reports_it) {
	struct web *web = *state;
	json_t *found;

	for (int i = 1; i <= 2; i++) {
		json_decref(lab_result(&web->lab,
			JSON({"command": "backend.maintenance", "service": "web",
				"backend": "w-%d"}),
				i));
	}
	found = lookup(web, "192.0.2.1", 7, "198.51.100.10", 80);
	assert_string_equal(text_of(found, "service"), "web");
	assert_true(json_is_null(json_object_get(found, "backend")));
	assert_string_equal(text_of(found, "why"), "service has no usable backend");
	json_decref(found);
	for (int i = 1; i <= 2; i++) {
		json_decref(lab_result(&web->lab,
			JSON({"command": "backend.ready", "service": "web", "backend": "w-%d"}), i));
	}
}

TEST(lookup_that_no_worker_answers_times_out) {
	struct web *web = *state;
	uint64_t before = lab_now_ms();
	json_t *found;

	lab_dataplane_hang(web->dataplane, true);
	// Send more lookups than fit in the mailbox. When it is full, further lookups fail at once.
	for (int i = 0; i < 5; i++) {
		assert_string_equal(lab_code(&web->lab,
			JSON({"command": "flow.lookup", "protocol": "tcp", "source": "192.0.2.1",
				"source_port": %d, "destination": "198.51.100.10",
				"destination_port": 80}),
				i),
			"timeout");
	}
	assert_true(lab_now_ms() - before >= 5 * 200);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "version"})), "ok");
	lab_dataplane_hang(web->dataplane, false);
	// Late answers to old requests do not match new requests.
	found = lookup(web, "192.0.2.1", 99, "198.51.100.10", 81);
	assert_string_equal(text_of(found, "why"), "no service is bound to this address and port");
	json_decref(found);
}

// Read-only users send many lookups, and workers do not answer. There must still be room for a
// deletion.
TEST(lookups_leave_room_for_a_deletion) {
	static const char flow[] = "\"protocol\": \"tcp\", \"source\": \"192.0.2.1\", "
				   "\"source_port\": 9, \"destination\": \"198.51.100.10\", "
				   "\"destination_port\": 80}";
	struct web *web = *state;
	int refused, attempts = 0;
	uint64_t began_ms, took_ms;
	char line[256];
	size_t n =
		(size_t)snprintf(line, sizeof(line), "{\"command\": \"flow.lookup\", %s\n", flow);

	lab_dataplane_hang(web->dataplane, true);
	// After WEIR_LOOKUP_MS the first lookups time out. If this machine takes longer for all 40,
	// their slots are free again before the last ones, and the test has shown nothing.
	do {
		int fd[40];

		assert_in_range(attempts++, 0, 50);
		refused = 0;
		began_ms = lab_now_ms();
		for (int i = 0; i < 40; i++) {
			fd[i] = lab_connect(&web->lab);
			lab_send(fd[i], line, n);
		}
		// These lookups are refused, because earlier lookups use all slots.
		for (int i = 39; i >= 30; i--) {
			json_t *answer = lab_read_answer(fd[i]);

			refused += strcmp(text_of(answer, "code"), "refused") == 0;
			json_decref(answer);
		}
		took_ms = lab_now_ms() - began_ms;
		assert_string_equal(
			lab_code(&web->lab, "{\"command\": \"flow.delete\", %s", flow), "timeout");
		for (int i = 0; i < 40; i++) {
			close(fd[i]);
		}
	} while (refused != 10 && took_ms > WEIR_LOOKUP_MS / 2);
	assert_int_equal(refused, 10);
	lab_dataplane_hang(web->dataplane, false);
}

TEST(lookups_of_many_clients_do_not_mix) {
	struct web *web = *state;
	int fd[24];
	char line[256];

	for (int i = 0; i < 24; i++) {
		int n = snprintf(line, sizeof(line),
			"{\"command\": \"flow.lookup\", \"protocol\": \"tcp\", \"source\": "
			"\"192.0.2.1\", \"source_port\": 9, \"destination\": \"198.51.100.10\", "
			"\"destination_port\": %d}\n",
			i % 2 == 0 ? 80 : 81);

		fd[i] = lab_connect(&web->lab);
		lab_send(fd[i], line, (size_t)n);
	}
	for (int i = 0; i < 24; i++) {
		json_t *answer = lab_read_answer(fd[i]);
		json_t *result = json_object_get(answer, "result");

		assert_string_equal(text_of(result, "service"), i % 2 == 0 ? "web" : "(no text)");
		json_decref(answer);
		close(fd[i]);
	}
}

TEST(lookup_arguments_are_checked) {
	static const char *const protocols[] = {"sctp", "tcp", "tcp", "tcp"};
	static const char *const sources[] = {"192.0.2.1", "192.0.2", "192.0.2.1", "192.0.2.1"};
	static const char *const destinations[] = {"192.0.2.2", "192.0.2.2", "vip", "2001:db8::1"};
	struct web *web = *state;

	for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
		assert_string_equal(lab_code(&web->lab,
			JSON({"command": "flow.lookup", "protocol": "%s", "source": "%s",
				"destination": "%s", "source_port": 1, "destination_port": 2}),
				protocols[i], sources[i], destinations[i]),
			"bad-request");
	}
}

#define SUBSET_SERVICE \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, " \
	"\"subset\": {\"algorithm\": \"random\", \"size\": 5, \"client\": \"worker\"}, " \
	"\"backends\": [{\"name\": \"w-0\", \"address\": \"10.0.1.10\"}"
#define SUBSET_WORKERS 3

// Starts a daemon that has a service with 8 backends, and a dataplane with 3 workers. Each worker
// has a subset of 5 backends.
static void start_with_subsets(struct web *web) {
	char text[2048];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s", SUBSET_SERVICE);

	for (int i = 1; i < 8; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			", {\"name\": \"w-%d\", \"address\": \"10.0.1.1%d\"}", i, i);
	}
	snprintf(text + used, sizeof(text) - used, "]}");
	lab_init(&web->lab);
	lab_write_config(&web->lab, text);
	lab_start(&web->lab);
	web->dataplane = lab_dataplane_start(&web->lab, SUBSET_WORKERS);
	LAB_UNTIL(lab_attached(&web->lab));
}

static void stop_with_subsets(struct web *web) {
	lab_stop(&web->lab);
	lab_dataplane_stop(web->dataplane);
	lab_fini(&web->lab);
}

// Returns the name of the backend that a worker selects for a flow with this hash.
static void own_choice(struct web *web, uint32_t worker, uint64_t hash, char name[32]) {
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	struct weir_reader reader;
	json_t *backends;
	uint16_t id;
	size_t i;
	json_t *one;

	assert_int_equal(weir_reader_init(&reader, segment, worker, NULL, NULL), 0);
	weir_reader_settle(&reader);
	id = weir_selection_choose(weir_reader_selection(&reader, 0), hash);
	weir_reader_fini(&reader);
	name[0] = '\0';
	backends = lab_result(&web->lab, JSON({"command": "backend.show"}));
	json_array_foreach (backends, i, one) {
		if (json_integer_value(json_object_get(one, "id")) == id) {
			snprintf(name, 32, "%s", text_of(one, "name"));
		}
	}
	json_decref(backends);
	assert_true(name[0] != '\0');
}

// Check the choice that is shown for each worker. Returns whether all workers choose the same
// backend.
static bool expect_own_choices(struct web *web, const json_t *found) {
	const json_t *list = json_object_get(found, "chosen_by_worker");
	uint64_t hash = strtoull(text_of(found, "hash"), NULL, 16);
	bool agree = true;
	char first[32];

	assert_int_equal(json_array_size(list), SUBSET_WORKERS);
	own_choice(web, 0, hash, first);
	for (uint32_t worker = 0; worker < SUBSET_WORKERS; worker++) {
		const json_t *one = json_array_get(list, worker);
		char name[32];

		own_choice(web, worker, hash, name);
		assert_int_equal(json_integer_value(json_object_get(one, "worker")), worker);
		assert_string_equal(text_of(one, "chosen"), name);
		agree = agree && strcmp(name, first) == 0;
	}
	assert_string_equal(text_of(found, "backend"), agree ? first : "(no text)");
	assert_string_equal(text_of(found, "chosen"), agree ? first : "(no text)");
	assert_int_equal(json_is_null(json_object_get(found, "address")), !agree);
	return agree;
}

// It is not known which worker will get a new flow, so the choice of each worker is shown.
TEST(lookup_with_a_subset_for_each_worker) {
	uint32_t agree = 0, differ = 0;
	struct web web;
	json_t *found;

	start_with_subsets(&web);
	// waits until workers have loaded the tables
	lab_dataplane_flows(web.dataplane, "198.51.100.10", 80, 4);
	for (unsigned int port = 1; port <= 60; port++) {
		char expected[64];

		found = lookup(&web, "192.0.2.1", port, "198.51.100.10", 80);
		assert_true(json_is_false(json_object_get(found, "found")));
		snprintf(expected, sizeof(expected), "slot %d of 1009, weight 100",
			(int)json_integer_value(json_object_get(found, "slot")));
		if (expect_own_choices(&web, found)) {
			assert_string_equal(text_of(found, "why"), expected);
			agree++;
		} else {
			*strchr(expected, ',') = ';';
			expected[strcspn(expected, ";") + 1] = '\0';
			expect_in(found, expected);
			expect_in(found, "each worker has its own subset, and the worker of this "
					 "flow is not known");
			differ++;
		}
		json_decref(found);
	}
	assert_true(agree > 0 && differ > 0);
	// The worker of an existing flow is known.
	found = lookup(&web, "192.0.2.77", 3, "198.51.100.10", 80);
	assert_true(json_is_true(json_object_get(found, "found")));
	assert_true(json_is_null(json_object_get(found, "chosen_by_worker")));
	assert_string_equal(text_of(found, "chosen"), text_of(found, "backend"));
	json_decref(found);
	json_decref(lab_result(
		&web.lab, JSON({"command": "service.set", "service": "web",
			"policy": "round-robin"})));
	found = lookup(&web, "192.0.2.1", 1, "198.51.100.10", 80);
	expect_in(found, "policy round-robin selects a backend when the flow begins");
	assert_int_equal(
		json_array_size(json_object_get(found, "chosen_by_worker")), SUBSET_WORKERS);
	assert_true(json_is_null(json_object_get(found, "chosen")));
	json_decref(found);
	stop_with_subsets(&web);
}

static void expect_code(struct web *web, const char *arguments, const char *code) {
	json_t *answer = lab_ask(&web->lab, JSON({"command": "flow.list"%s}), arguments);

	assert_string_equal(text_of(answer, "code"), code);
	json_decref(answer);
}

TEST(filters_of_a_list_are_checked) {
	struct web *web = *state;
	json_t *page;

	expect_code(web, ", \"service\": \"nobody\"", "not-found");
	expect_code(web, ", \"service\": \"web\", \"backend\": \"nobody\"", "not-found");
	expect_code(web, ", \"worker\": 64", "not-found");
	expect_code(web, ", \"state\": \"open\"", "bad-request");
	expect_code(web, ", \"client\": \"192.0.2.0/33\"", "bad-request");
	expect_code(web, ", \"client\": \"192.0.2.0/\"", "bad-request");
	expect_code(web, ", \"client\": \"192.0.2.0/24x\"", "bad-request");
	expect_code(web, ", \"client\": \"2001:db8::/129\"", "bad-request");
	expect_code(web, ", \"client\": \"somebody\"", "bad-request");
	page = lab_result(
		&web->lab, JSON({"command": "flow.list", "service": "web", "worker": 0,
			"state": "udp-seen", "client": "2001:db8::/0", "next": 5000000000}));
	assert_int_equal(json_array_size(json_object_get(page, "flows")), 0);
	assert_true(json_is_null(json_object_get(page, "next")));
	json_decref(page);
}

TEST(deletions_are_audited) {
	struct web *web = *state;
	json_t *result = lab_result(&web->lab,
		JSON({"command": "flow.delete", "protocol": "tcp", "source": "192.0.2.200",
			"source_port": 9, "destination": "198.51.100.10", "destination_port": 80}));
	json_t *audit = lab_result(&web->lab, JSON({"command": "audit.show"}));
	const json_t *entry = json_array_get(audit, json_array_size(audit) - 1);

	assert_int_equal(json_integer_value(json_object_get(result, "deleted")), 0);
	assert_true(json_is_null(json_object_get(result, "backend")));
	assert_string_equal(text_of(entry, "command"), "flow.delete");
	assert_string_equal(text_of(entry, "object"), "tcp 192.0.2.200:9 198.51.100.10:80");
	assert_string_equal(text_of(entry, "after"), "0 flows deleted");
	json_decref(result);
	json_decref(audit);
}

// Only services with "steal" have counters. This configuration has no such service.
TEST(steals_of_a_service_are_shown) {
	struct web *web = *state;
	json_t *result = lab_result(&web->lab, JSON({"command": "flow.steals"}));
	json_t *answer;

	assert_true(json_is_true(json_object_get(result, "supported")));
	assert_int_equal(json_array_size(json_object_get(result, "services")), 0);
	assert_int_equal(json_array_size(json_object_get(result, "recent")), 0);
	json_decref(result);
	answer = lab_ask(&web->lab, JSON({"command": "flow.steals", "service": "nobody"}));
	assert_string_equal(text_of(answer, "code"), "not-found");
	json_decref(answer);
}

TEST(pending_lookup_ends_with_the_dataplane) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	const char *line = "{\"command\": \"flow.lookup\", \"protocol\": \"tcp\", \"source\": "
			   "\"192.0.2.1\", \"source_port\": 9, \"destination\": "
			   "\"198.51.100.10\", \"destination_port\": 80}\n";
	const char *code;
	json_t *answer;

	lab_dataplane_hang(web->dataplane, true);
	lab_send(fd, line, strlen(line));
	lab_dataplane_stop(web->dataplane);
	answer = lab_read_answer(fd);
	code = text_of(answer, "code");
	// The request times out, unless the loss of the dataplane is detected first.
	assert_true(strcmp(code, "no-dataplane") == 0 || strcmp(code, "timeout") == 0);
	json_decref(answer);
	close(fd);
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
}
