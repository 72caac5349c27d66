// SPDX-License-Identifier: BSD-3-Clause
//
// Tests subset.show, and subsets in service.show and backend.show.
#include "daemon_lab.h"

#include <stdlib.h>
#include <string.h>

#define BACKEND(n) "{\"name\": \"b-" #n "\", \"address\": \"10.0.1." #n "\"}"
#define SERVICE(name, port, subset) \
	"{\"name\": \"" name "\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": " port "}], \"table_size\": 251, " subset \
	"\"backends\": [" BACKEND(1) ", " BACKEND(2) ", " BACKEND(3) ", " BACKEND(4) ", " BACKEND( \
		5) ", " BACKEND(6) "]}"
#define SUBSET(client) \
	"\"subset\": {\"algorithm\": \"deterministic\", \"size\": 2, \"client\": \"" client "\"}," \
	" "
#define SERVICES \
	SERVICE("web", "80", SUBSET("group")) \
	", " SERVICE("each", "81", SUBSET("worker")) ", " SERVICE("all", "82", "")
#define WORKERS 2

struct fleet {
	struct lab lab;
	struct lab_dataplane *dataplane;
};

static int start(void **state) {
	struct fleet *fleet = calloc(1, sizeof(*fleet));

	lab_init(&fleet->lab);
	lab_write_config(&fleet->lab, SERVICES);
	lab_start(&fleet->lab);
	fleet->dataplane = lab_dataplane_start(&fleet->lab, WORKERS);
	LAB_UNTIL(lab_attached(&fleet->lab));
	*state = fleet;
	return 0;
}

static int stop(void **state) {
	struct fleet *fleet = *state;
	int status = lab_stop(&fleet->lab);

	lab_dataplane_stop(fleet->dataplane);
	lab_fini(&fleet->lab);
	free(fleet);
	return status;
}

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "(no text)";
}

static json_int_t number_of(const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

// Returns the object of one service; borrowed from *holder, which must be released.
static json_t *show(const struct fleet *fleet, json_t **holder, const char *service) {
	json_decref(*holder);
	*holder = lab_result(&fleet->lab, JSON({"command": "subset.show", "service": "%s"}), service);
	assert_int_equal(json_array_size(*holder), 1);
	return json_array_get(*holder, 0);
}

static json_t *first_subset(json_t *service) {
	return json_array_get(json_object_get(service, "subsets"), 0);
}

static json_t *member(json_t *subset, size_t i) {
	return json_array_get(json_object_get(subset, "members"), i);
}

TEST_GROUP(start, stop);

TEST(list_shows_numbers_only) {
	struct fleet *fleet = *state;
	json_t *list = lab_result(&fleet->lab, JSON({"command": "subset.show"})), *one;

	assert_int_equal(json_array_size(list), 3);
	one = json_array_get(list, 0);
	assert_string_equal(text_of(one, "service"), "web");
	assert_string_equal(text_of(one, "algorithm"), "deterministic");
	assert_string_equal(text_of(one, "mode"), "spread");
	assert_string_equal(text_of(one, "client_is"), "group");
	assert_int_equal(number_of(one, "size"), 2);
	assert_int_equal(number_of(one, "salt"), 0);
	assert_int_equal(number_of(one, "clients"), 1);
	assert_int_equal(number_of(one, "backends"), 6);
	assert_null(json_object_get(one, "clients_of_backends"));
	assert_int_equal(json_array_size(json_object_get(one, "subsets")), 1);
	one = first_subset(one);
	assert_true(json_is_null(json_object_get(one, "worker")));
	assert_int_equal(number_of(one, "client"), 0);
	assert_int_equal(number_of(one, "in_use"), 2);
	assert_int_equal(number_of(one, "unusable"), 0);
	assert_int_equal(number_of(one, "replacements"), 0);
	assert_null(json_object_get(one, "members"));
	one = json_array_get(list, 1);
	assert_int_equal(json_array_size(json_object_get(one, "subsets")), WORKERS);
	assert_int_equal(number_of(one, "clients"), WORKERS);
	assert_int_equal(
		number_of(json_array_get(json_object_get(one, "subsets"), 1), "worker"), 1);
	assert_int_equal(
		number_of(json_array_get(json_object_get(one, "subsets"), 1), "client"), 1);
	one = json_array_get(list, 2);
	assert_string_equal(text_of(one, "algorithm"), "none");
	assert_true(json_is_null(json_object_get(one, "size")));
	assert_true(json_is_null(json_object_get(one, "mode")));
	assert_int_equal(number_of(first_subset(one), "in_use"), 6);
	json_decref(list);
}

// One member becomes unusable, and another backend replaces it. When the member is usable again, it
// returns to the subset.
TEST(member_is_replaced_and_comes_back) {
	struct fleet *fleet = *state;
	json_t *holder = NULL, *subset = first_subset(show(fleet, &holder, "web")), *backend = NULL;
	char lost[64], stand_in[64];

	assert_int_equal(json_array_size(json_object_get(subset, "members")), 2);
	snprintf(lost, sizeof(lost), "%s", text_of(member(subset, 0), "backend"));
	assert_string_equal(text_of(member(subset, 0), "state"), "member");
	assert_true(json_is_null(json_object_get(member(subset, 0), "replaces")));
	json_decref(lab_result(&fleet->lab,
		JSON({"command": "backend.drain", "service": "web", "backend": "%s"}), lost));
	subset = first_subset(show(fleet, &holder, "web"));
	assert_int_equal(number_of(subset, "in_use"), 2);
	assert_int_equal(number_of(subset, "unusable"), 1);
	assert_int_equal(number_of(subset, "replacements"), 1);
	assert_int_equal(json_array_size(json_object_get(subset, "members")), 3);
	assert_string_equal(text_of(member(subset, 0), "state"), "unusable");
	assert_string_equal(text_of(member(subset, 2), "state"), "replacement");
	assert_string_equal(text_of(member(subset, 2), "replaces"), lost);
	snprintf(stand_in, sizeof(stand_in), "%s", text_of(member(subset, 2), "backend"));
	assert_true(json_is_true(json_object_get(
		lab_backend(&fleet->lab, &backend, "web", stand_in), "in_selection")));
	assert_true(json_is_false(
		json_object_get(lab_backend(&fleet->lab, &backend, "web", lost), "in_selection")));
	json_decref(lab_result(&fleet->lab,
		JSON({"command": "backend.ready", "service": "web", "backend": "%s"}), lost));
	subset = first_subset(show(fleet, &holder, "web"));
	assert_int_equal(json_array_size(json_object_get(subset, "members")), 2);
	assert_string_equal(text_of(member(subset, 0), "backend"), lost);
	assert_string_equal(text_of(member(subset, 0), "state"), "member");
	json_decref(backend);
	json_decref(holder);
}

TEST(clients_of_backends_add_up) {
	struct fleet *fleet = *state;
	json_t *holder = NULL, *service = show(fleet, &holder, "each"), *list, *one, *summary;
	json_int_t sum = 0;
	size_t i;

	list = json_object_get(service, "clients_of_backends");
	assert_int_equal(json_array_size(list), 6);
	json_array_foreach (list, i, one) {
		char name[32];

		snprintf(name, sizeof(name), "b-%zu", i + 1);
		assert_string_equal(text_of(one, "backend"), name);
		assert_true(json_is_true(json_object_get(one, "usable")));
		sum += number_of(one, "clients");
	}
	assert_int_equal(sum, WORKERS * 2);
	summary = json_object_get(service, "clients_of_a_backend");
	assert_int_equal(number_of(summary, "least"), 0);
	assert_int_equal(number_of(summary, "most"), 1);
	assert_true(json_real_value(json_object_get(summary, "mean")) > 0.66);
	json_decref(holder);
}

// A backend in no subset gets no new flows, and its share is 0.
TEST(service_shows_its_subset) {
	struct fleet *fleet = *state;
	json_t *list = lab_result(&fleet->lab, JSON({"command": "service.show", "service": "web"}));
	json_t *service = json_array_get(list, 0), *one;
	double sum = 0;
	int in = 0;
	size_t i;

	one = json_object_get(service, "subset");
	assert_string_equal(text_of(one, "algorithm"), "deterministic");
	assert_int_equal(number_of(one, "size"), 2);
	assert_string_equal(text_of(one, "client"), "group");
	json_array_foreach (json_object_get(service, "shares"), i, one) {
		double share = json_real_value(json_object_get(one, "effective_share_percent"));
		bool used = json_is_true(json_object_get(one, "in_selection"));

		assert_int_equal(share > 0, used);
		sum += share;
		in += used;
	}
	assert_int_equal(in, 2);
	assert_true(sum > 99 && sum < 101);
	assert_int_equal(number_of(service, "backends"), 6);
	assert_int_equal(number_of(service, "eligible"), 6);
	json_decref(list);
}

// Guarantee S6: new flows go to the subset. When the subset changes, existing flows stay at their
// backends.
TEST(s6_flows_stay_when_the_subset_changes) {
	struct fleet *fleet = *state;
	uint32_t before[6], total = 0, backends = 0;
	json_t *list;

	lab_dataplane_flows(fleet->dataplane, "198.51.100.10", 80, 200);
	for (uint16_t id = 0; id < 6; id++) {
		before[id] = lab_dataplane_flows_of(fleet->dataplane, id);
		total += before[id];
		backends += before[id] > 0;
	}
	assert_int_equal(total, 200);
	assert_int_equal(backends, 2);
	lab_write_config(&fleet->lab,
		SERVICE("web", "80",
			"\"subset\": {\"algorithm\": \"rocksteadier\", \"size\": 1, \"salt\": "
			"9}, ") ", " SERVICE("each", "81", SUBSET("worker")) ", " SERVICE("all",
			"82", ""));
	json_decref(lab_result(&fleet->lab, JSON({"command": "config.reload"})));
	for (uint16_t id = 0; id < 6; id++) {
		assert_int_equal(lab_dataplane_flows_of(fleet->dataplane, id), before[id]);
	}
	list = lab_result(&fleet->lab, JSON({"command": "subset.show"}));
	assert_string_equal(text_of(json_array_get(list, 0), "algorithm"), "rocksteadier");
	assert_int_equal(number_of(first_subset(json_array_get(list, 0)), "in_use"), 1);
	json_decref(list);
	lab_write_config(&fleet->lab, SERVICES);
	json_decref(lab_result(&fleet->lab, JSON({"command": "config.reload"})));
}

static void set_admin(const struct fleet *fleet, const char *command, int backend) {
	json_decref(lab_result(&fleet->lab,
		JSON({"command": "backend.%s", "service": "web", "backend": "b-%d"}), command, backend));
}

// Even without a dataplane, the shown subset is updated when states of backends change.
TEST(shown_state_is_current_without_a_dataplane) {
	struct fleet *fleet = *state;
	json_t *holder = NULL, *subset = first_subset(show(fleet, &holder, "web"));
	int lost = atoi(text_of(member(subset, 0), "backend") + 2);

	lab_dataplane_stop(fleet->dataplane);
	LAB_UNTIL(!lab_attached(&fleet->lab));
	set_admin(fleet, "drain", lost);
	subset = first_subset(show(fleet, &holder, "web"));
	assert_string_equal(text_of(member(subset, 0), "state"), "unusable");
	assert_string_equal(text_of(member(subset, 0), "admin"), "drain");
	assert_string_equal(text_of(member(subset, 0), "health"), "healthy");
	assert_int_equal(number_of(subset, "replacements"), 1);
	set_admin(fleet, "ready", lost);
	subset = first_subset(show(fleet, &holder, "web"));
	assert_string_equal(text_of(member(subset, 0), "state"), "member");
	json_decref(holder);
	fleet->dataplane = lab_dataplane_start(&fleet->lab, WORKERS);
	LAB_UNTIL(lab_attached(&fleet->lab));
}

// The answer shows panic mode, and which members are used only because of panic mode.
TEST(panic_is_shown) {
	struct fleet *fleet = *state;
	json_t *holder = NULL, *service = show(fleet, &holder, "web");
	uint32_t drained = 0;

	assert_true(json_is_false(json_object_get(service, "panic")));
	for (int i = 1; i <= 6; i++) {
		set_admin(fleet, "drain", i);
	}
	service = show(fleet, &holder, "web");
	assert_true(json_is_true(json_object_get(service, "panic")));
	for (size_t i = 0; i < 2; i++) {
		json_t *one = member(first_subset(service), i);

		assert_string_equal(text_of(one, "state"), "member");
		drained += strcmp(text_of(one, "admin"), "drain") == 0;
	}
	assert_int_equal(drained, 2);
	for (int i = 1; i <= 6; i++) {
		set_admin(fleet, "ready", i);
	}
	json_decref(holder);
}

#define LARGE 2000
#define LARGE_WORKERS 8
#define LARGE_SIZE 1400

// Returns whether all members of all subsets are in use. At first, the next hops of some members
// are unknown, so these members are not in use. At most 256 next hops are looked up in a tick.
static bool all_are_in_use(struct lab *lab) {
	json_t *list = lab_result(lab, JSON({"command": "subset.show", "service": "large"}));
	json_t *subset;
	bool all = true;
	size_t i;

	json_array_foreach (json_object_get(json_array_get(list, 0), "subsets"), i, subset) {
		all &= number_of(subset, "in_use") == LARGE_SIZE;
	}
	json_decref(list);
	return all;
}

// An answer contains only a limited number of members. Further members are only counted.
TEST(answer_of_a_huge_service_is_bounded) {
	size_t room = 1u << 20, used = 0, listed = 0, i;
	struct lab_dataplane *dataplane;
	char *text = malloc(room);
	json_t *list, *subset;
	json_int_t omitted = 0;
	struct lab lab;

	used = (size_t)snprintf(text, room,
		"{\"name\": \"large\", \"binds\": [{\"address\": \"198.51.100.10\", "
		"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 4099, \"subset\": "
		"{\"algorithm\": \"random\", \"size\": %d, \"client\": \"worker\"}, "
		"\"backends\": [",
		LARGE_SIZE);
	for (unsigned int n = 0; n < LARGE; n++) {
		used += (size_t)snprintf(text + used, room - used,
			"%s{\"name\": \"l-%u\", \"address\": \"10.99.%u.%u\"}", n > 0 ? ", " : "",
			n, n / 250, n % 250 + 1);
	}
	snprintf(text + used, room - used, "]}");
	lab_init(&lab);
	lab_write_config(&lab, text);
	free(text);
	lab_start(&lab);
	dataplane = lab_dataplane_start_big(&lab, LARGE_WORKERS);
	LAB_UNTIL(lab_attached(&lab) && all_are_in_use(&lab));
	list = lab_result(&lab, JSON({"command": "subset.show", "service": "large"}));
	json_array_foreach (json_object_get(json_array_get(list, 0), "subsets"), i, subset) {
		assert_int_equal(number_of(subset, "in_use"), LARGE_SIZE);
		assert_int_equal(json_array_size(json_object_get(subset, "members")) +
					 (size_t)number_of(subset, "members_omitted"),
			LARGE_SIZE);
		listed += json_array_size(json_object_get(subset, "members"));
		omitted += number_of(subset, "members_omitted");
	}
	assert_int_equal(i, LARGE_WORKERS);
	assert_int_equal(listed, 10000);
	assert_int_equal(omitted, LARGE_WORKERS * LARGE_SIZE - 10000);
	json_decref(list);
	assert_int_equal(lab_stop(&lab), 0);
	lab_dataplane_stop(dataplane);
	lab_fini(&lab);
}

TEST(invalid_requests_are_refused) {
	struct fleet *fleet = *state;

	assert_string_equal(lab_code(
		&fleet->lab, JSON({"command": "subset.show", "service": "nobody"})), "not-found");
	assert_string_equal(lab_code(&fleet->lab, JSON({"command": "subset.show", "backend": "b-1"})),
		"bad-request");
	assert_string_equal(
		lab_code(&fleet->lab, JSON({"command": "subset.show", "service": 7})), "bad-request");
}
