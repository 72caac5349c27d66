// SPDX-License-Identifier: BSD-3-Clause
#include "show_lab.h"

#define SUBSET(worker, client, members) \
	"{\"worker\": " worker ", \"client\": " client ", \"in_use\": 2, \"unusable\": 1, " \
	"\"replacements\": 1, \"members\": [" members "], \"members_omitted\": 0}"
#define MEMBERS \
	"{\"backend\": \"b-1\", \"state\": \"member\", \"admin\": \"ready\", \"health\": " \
	"\"healthy\", \"replaces\": null}, " \
	"{\"backend\": \"b-2\", \"state\": \"unusable\", \"admin\": \"ready\", \"health\": " \
	"\"refusing\", \"replaces\": null}, " \
	"{\"backend\": \"b-9\", \"state\": \"replacement\", \"admin\": \"ready\", " \
	"\"health\": \"healthy\", \"replaces\": \"b-2\"}"
#define SERVICE(subsets, more) \
	"[{\"service\": \"web\", \"algorithm\": \"random\", \"mode\": null, \"size\": 2, " \
	"\"salt\": " \
	"5, \"client_is\": \"group\", \"clients\": 8, \"backends\": 9, \"subsets\": [" subsets \
	"]" more "}]"

TEST(list_has_a_row_for_each_subset) {
	expect_shown(weir_show_subsets, NULL,
		SERVICE(SUBSET("0", "14", "") ", " SUBSET("1", "15", ""), ""),
		"SERVICE  ALGORITHM  SIZE  CLIENT-IS  WORKER  CLIENT  CLIENTS  BACKENDS  IN-USE  "
		"UNUSABLE  REPLACEMENTS\n"
		"web      random        2  group           0      14        8         9       2  "
		"       1             1\n"
		"web      random        2  group           1      15        8         9       2  "
		"       1             1\n");
	expect_shown(weir_show_subsets, NULL, "[]", "no services\n");
}

TEST(one_service_in_full) {
	expect_shown(weir_show_subsets, "web",
		SERVICE(SUBSET("null", "4", MEMBERS),
			", \"clients_of_a_backend\": {\"least\": 1, \"mean\": 1.77, \"most\": 2}, "
			"\"clients_of_backends\": [{\"backend\": \"b-1\", \"usable\": true, "
			"\"clients\": 2}, {\"backend\": \"b-2\", \"usable\": false, \"clients\": "
			"0}]"),
		"service        web\n"
		"algorithm      random\n"
		"mode           -\n"
		"size           2\n"
		"salt           5\n"
		"client_is      group\n"
		"clients        8\n"
		"backends       9\n"
		"this_instance  4\n"
		"\n"
		"BACKEND  STATE        ADMIN  HEALTH    REPLACES\n"
		"b-1      member       ready  healthy   -\n"
		"b-2      unusable     ready  refusing  -\n"
		"b-9      replacement  ready  healthy   b-2\n"
		"\n"
		"clients per usable backend: min 1, mean 1.8, max 2\n"
		"\n"
		"BACKEND  USABLE  CLIENTS\n"
		"b-1      yes           2\n"
		"b-2      no            0\n");
}

// If each worker has a subset, each row has the number of the worker. If there are too many clients
// to count the clients of each backend, this column is omitted.
TEST(workers_and_uncounted_clients) {
	expect_shown(weir_show_subsets, "web",
		SERVICE(SUBSET("0", "14", MEMBERS) ", " SUBSET("1", "15", ""),
			", \"clients_of_a_backend\": null, \"clients_of_backends\": "
			"[{\"backend\": \"b-1\", \"usable\": true, \"clients\": null}]"),
		"service        web\n"
		"algorithm      random\n"
		"mode           -\n"
		"size           2\n"
		"salt           5\n"
		"client_is      group\n"
		"clients        8\n"
		"backends       9\n"
		"this_instance  14, 15\n"
		"\n"
		"WORKER  BACKEND  STATE        ADMIN  HEALTH    REPLACES\n"
		"     0  b-1      member       ready  healthy   -\n"
		"     0  b-2      unusable     ready  refusing  -\n"
		"     0  b-9      replacement  ready  healthy   b-2\n");
}

// If no backend is usable, there is no minimum and no maximum. Backends without clients are still
// listed.
TEST(no_backend_is_usable) {
	expect_shown(weir_show_subsets, "web",
		JSON([{"service": "web", "panic": true, "subsets": [{"client": 4,
			"members": [{"backend": "b-1", "state": "unusable", "admin": "maintenance",
			"health": "healthy", "replaces": null}]}], "clients_of_a_backend": null,
			"clients_of_backends": [{"backend": "b-1", "usable": false,
			"clients": 0}]}]),
			"service        web\n"
			"panic          yes\n"
			"this_instance  4\n"
			"\n"
			"BACKEND  STATE     ADMIN        HEALTH   REPLACES\n"
			"b-1      unusable  maintenance  healthy  -\n"
			"\n"
			"no backend is usable\n"
			"\n"
			"BACKEND  USABLE  CLIENTS\n"
			"b-1      no            0\n");
}

// Only some of many members are listed, followed by the number of omitted members.
TEST(omitted_members_are_counted) {
	expect_shown(weir_show_subsets, "web",
		JSON([{"service": "web", "subsets": [{"worker": 0, "client": 4,
			"members": [{"backend": "b-1", "state": "member", "admin": "ready",
			"health": "healthy", "replaces": null}], "members_omitted": 2},
			{"worker": 1, "client": 5, "members": [], "members_omitted": 3}]}]),
				"service        web\n"
				"this_instance  4, 5\n"
				"\n"
				"WORKER  BACKEND  STATE   ADMIN  HEALTH   REPLACES\n"
				"     0  b-1      member  ready  healthy  -\n"
				"(members not listed: 5)\n");
}

// Invalid answers, and answers of other versions, must not cause a crash.
TEST(strange_answers_are_survived) {
	expect_shown(weir_show_subsets, "web", "[{}]", "this_instance  -\n\nno members\n");
	expect_shown(weir_show_subsets, NULL, JSON([{}, {"subsets": 7}]), "no services\n");
	expect_shown(weir_show_subsets, "web",
		JSON([{"subsets": [{"members": [{}]}]}]), "this_instance  -\n\nBACKEND  STATE  ADMIN "
							" HEALTH  REPLACES\n-        -      -    "
							"  -       "
							"-\n");
}
