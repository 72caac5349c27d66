// SPDX-License-Identifier: BSD-3-Clause
#include "show_lab.h"

TEST(one_service_with_its_shares_and_warnings) {
	expect_shown(weir_show_services, "web",
		JSON([{"name": "web", "warnings": ["hot", "very\n hot"], "settings": {"window": 5},
			"shares": [{"backend": "web-1", "in_selection": true, "weight": 100,
			"effective_share_percent": 33.333, "achieved_share_percent": null,
			"open_flows": 7, "errors": 0, "service_time_ms": 0.25, "samples": 12}]}]),
			"name             web\n"
			"settings.window  5\n"
			"\n"
			"BACKEND  IN-USE  WEIGHT  EFFECTIVE-%  ACHIEVED-%  OPEN-FLOWS  ERRORS  "
			"SERVICE-MS  "
			"SAMPLES\n"
			"web-1    yes        100         33.3           -           7       0      "
			" 0.250  "
			"     "
			"12\n"
			"warning: service web: hot\n"
			"warning: service web: very\\x0a hot\n");
}

TEST(list_keeps_its_columns_and_warns) {
	expect_shown(weir_show_services, NULL,
		JSON([{"name": "a", "policy": "random", "slots": 0, "warnings": []}, {"name": "b",
			"policy": "maglev", "slots": 251, "warnings": ["x"]}]),
			"SERVICE  POLICY  SLOTS  BACKENDS  ELIGIBLE  PANIC  ACTIVE-FLOWS  "
			"NEW-FLOWS  "
			"PACKETS  BYTES  DROPPED  BINDS\n"
			"a        random      0         -         -  -                 -          "
			"-  "
			"      -      -        -  -\n"
			"b        maglev    251         -         -  -                 -          "
			"-  "
			"      -      -        -  -\n"
			"warning: service b: x\n");
}

TEST(policy_set_by_an_operator) {
	expect_shown(weir_show_policy, NULL,
		JSON({"service": "web", "policy": "random", "effective_policy": "random"}),
			"web: policy random\n");
	expect_shown(weir_show_policy, NULL,
		JSON({"service": "web", "policy": null, "effective_policy": "maglev"}),
			"web: policy maglev, from the configuration\n");
}

TEST(report_that_was_accepted) {
	expect_shown(weir_show_report, NULL,
		JSON({"service": "s", "backend": "b", "used": ["service_time_ms"], "not_used": []}),
			"s/b: accepted service-time-ms\n");
	expect_shown(weir_show_report, NULL,
		JSON({"service": "s", "backend": "b", "used": ["utilization"],
			"not_used": ["busy_time_ms", "service_time_ms"]}),
			"s/b: accepted utilization; ignored by policy: busy-time-ms, "
			"service-time-ms\n");
}
