// SPDX-License-Identifier: BSD-3-Clause
//
// Tests automatic weights, from the CPUs and their speed in reports.
#include <errno.h>

#include "cpu_model.h"
#include "reports_lab.h"

static void take_cpus(struct own *own, uint16_t id, double cpus, double mhz) {
	struct weir_report report = {
		.given = WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ), .cpus = cpus, .cpu_mhz = mhz};

	assert_int_equal(weir_reports_take(own->reports, id, &report, "agent"), report.given);
	lab_publish(&own->lab);
}

TEST_EACH(reports_lab_setup, reports_lab_teardown);

// The weight is CPUs x GHz x 10. It stays if the backend sends no more reports, or reports
// without CPUs.
TEST(cpus_make_an_automatic_weight) {
	static const struct {
		double cpus, mhz;
		uint32_t weight;
	} cases[] = {{8, 3000, 240}, {0.5, 2450, 12}, {1, 2449, 24}, {0.001, 100, 1},
		{1e6, 1e6, 65535}, {4, 3000, 120}};
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(CPUS), .cpus = 64};

	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"), 0);
	for (uint32_t i = 0; i < 4; i++) {
		own->config->services[0].backends[i].weight_auto = i < 3;
	}
	lab_apply(&own->lab, own->config);
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		take_cpus(own, 1, cases[i].cpus, cases[i].mhz);
		assert_int_equal(lab_state(&own->lab, 1).effective_weight, cases[i].weight);
	}
	assert_int_equal(own->changes, sizeof(cases) / sizeof(cases[0]));
	assert_int_equal(lab_state(&own->lab, 0).effective_weight, 120);
	assert_int_equal(lab_state(&own->lab, 3).effective_weight, 100);
	take_cpus(own, 1, 4, 3000);
	assert_int_equal(own->changes, sizeof(cases) / sizeof(cases[0]));
	weir_reports_take(own->reports, 1, &report, "agent"); // CPUs of unknown speed
	report = (struct weir_report){.given = WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ)};
	weir_reports_take(own->reports, 1, &report, "agent"); // no CPUs
	report.cpus = report.cpu_mhz = 1000;
	assert_int_equal(weir_reports_take(own->reports, 3, &report, "agent"), 0);
	weir_reports_source_gone(own->reports, 1, "agent");
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 120);
	assert_int_equal(lab_state(&own->lab, 3).effective_weight, 100);
}

// The weight is computed from the speed of one CPU. The speed comes from the configured table, from
// a measurement by the agent, or from the frequency of the CPU. A measured speed of 1 GCU counts as
// 3 GHz.
TEST(measured_speed_makes_an_automatic_weight) {
	static struct weir_config_gcu table[] = {{"CPU of 2026", 2}, {"CPU of 2016", 0.5}};
	const uint32_t fields = WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ) | WEIR_REPORT(GCU);
	struct weir_report report = {.given = fields, .cpus = 8, .cpu_mhz = 3000, .gcu = 1.25};
	struct own *own = *state;
	struct weir_capacity capacity;

	own->config->services[0].backends[1].weight_auto = true;
	lab_apply(&own->lab, own->config);
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(weir_reports_capacity(own->reports, 1, &capacity), -ENOENT);
	report.cpu_model = weir_cpu_model_number(" CPU  of 2016 ");
	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"),
		WEIR_REPORT(CPUS) | WEIR_REPORT(GCU));
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 300);
	assert_int_equal(weir_reports_capacity(own->reports, 1, &capacity), 0);
	assert_int_equal(capacity.source, WEIR_CAPACITY_FROM_MEASURED);
	assert_true(capacity.cpus == 8 && capacity.gcu == 1.25);
	// After a reload, the new table also applies to earlier reports.
	own->config->gcu = table;
	own->config->gcu_count = 2;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 120);
	assert_int_equal(weir_reports_capacity(own->reports, 1, &capacity), 0);
	assert_int_equal(capacity.source, WEIR_CAPACITY_FROM_TABLE);
	assert_string_equal(capacity.cpu, "CPU of 2016");
	// the agent cannot measure the speed, but its CPU model is in the table
	report.given = WEIR_REPORT(CPUS);
	report.cpus = 2;
	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"), WEIR_REPORT(CPUS));
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 30);
	report.cpu_model = 0; // an agent of an earlier version
	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"), 0);
	report.given = fields;
	report.cpu_model = weir_cpu_model_number("another CPU");
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 75);
	assert_int_equal(weir_reports_capacity(own->reports, 0, &capacity), -ENOENT);
	assert_int_equal(weir_reports_capacity(own->reports, 60000, &capacity), -ENOENT);
	own->config->gcu = NULL;
	own->config->gcu_count = 0;
}

// A percentage refers to the automatic weight, even if that weight is only the mean of the weights
// of other backends.
TEST(percent_of_an_automatic_weight) {
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT_PERCENT), .weight_percent = 50};

	for (uint32_t i = 0; i < 4; i++) {
		own->config->services[0].backends[i].weight_auto = true;
	}
	lab_apply(&own->lab, own->config);
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 50);
	take_cpus(own, 2, 8, 3000);
	// the mean changes with the weights of other backends
	weir_reports_second(own->reports, now_ms());
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 120);
	take_cpus(own, 1, 8, 1000);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 40);
	weir_reports_source_gone(own->reports, 1, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 80);
}
