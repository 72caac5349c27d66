// SPDX-License-Identifier: BSD-3-Clause
#include "steal_plan_lab.h"

#include <netinet/in.h>

void set_up_plan(struct own *own, struct plan *plan, uint32_t full, double limit) {
	struct weir_config *former = own->config;

	own->config = lab_config(1, BACKENDS);
	own->config->instance.clients = own->config->instance.members = 1;
	own->config->services[0].flow_control.accept_queue_percent = 75;
	own->config->services[0].steal =
		(struct weir_config_steal){.enabled = true, .after_ms = 500, .per_second = 640};
	lab_apply(&own->lab, own->config);
	lab_config_free(former);
	lab_resolve(&own->lab);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		report(own, id, id < full ? limit : 0, limit);
	}
	*plan = (struct plan){.victims = 0};
	assert_int_equal(weir_steal_service_init(&plan->service, own->lab.tables,
				 &own->config->services[0], SYN_SEEN_MS),
		0);
}

void look(struct own *own, struct plan *plan, uint64_t at_ms) {
	plan->victims = weir_steal_service_look(
		&plan->service, own->lab.tables, own->reports, at_ms, plan->victim);
	plan->scan.count = 0;
}

void list(struct plan *plan, uint16_t backend, uint16_t port) {
	assert_true(plan->scan.count < WEIR_FLOW_SCAN_FLOWS);
	plan->scan.flow[plan->scan.count++] = (struct weir_flow_waiting_at){
		.family = 4, .backend = backend, .vip_port = htons(port)};
}

uint32_t plan_round(struct own *own, struct plan *plan, uint32_t flows, uint64_t at_ms) {
	look(own, plan, at_ms);
	for (uint32_t v = 0; v < plan->victims; v++) {
		for (uint32_t i = 0; i < flows; i++) {
			list(plan, plan->victim[v], 80);
		}
	}
	return weir_steal_service_plan(&plan->service, &plan->scan, at_ms, plan->planned);
}

uint32_t planned_by(const struct plan *plan, uint32_t count, uint16_t backend, bool is_thief) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct steal_planned *one = &plan->planned[i];
		uint32_t member = is_thief ? one->thief : one->victim;

		n += plan->service.members[member].id == backend;
	}
	return n;
}

void end_all(
	struct plan *plan, uint32_t count, enum weir_flow_steal_outcome outcome, uint64_t at_ms) {
	for (uint32_t i = 0; i < count; i++) {
		weir_steal_service_ended(&plan->service, &plan->planned[i], outcome, at_ms);
	}
}
