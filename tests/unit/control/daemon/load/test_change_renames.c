// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of change_renames.h with two services s0 and s1, which have three backends each.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "change_renames.h"
#include "change_rig.h"

static int setup(void **state) {
	*state = change_rig_open();
	return 0;
}

TEST_EACH(setup, change_rig_close);

static void assert_warning(struct rig *rig, const char *path, const char *reason) {
	struct weir_config_errors errors = {0};
	const struct weir_change_costs_of of = {
		.tables = rig->lab.tables, .from = rig->from, .to = rig->to};

	weir_difference_fini(&rig->difference);
	assert_int_equal(weir_config_compare(rig->from, rig->to, &rig->difference), 0);
	assert_int_equal(weir_change_renames_warn(&of, &rig->difference, &errors), 0);
	assert_int_equal(errors.warning_count, path != NULL ? 1 : 0);
	if (path != NULL) {
		assert_string_equal(errors.warning[0].path, path);
		assert_string_equal(errors.warning[0].reason, reason);
	}
	weir_config_errors_fini(&errors);
}

// A backend that got no new flows is renamed. Under its new name it gets new flows, so a warning is
// shown.
TEST(renamed_backends_that_took_no_new_flows_are_warned_of) {
	struct rig *rig = *state;
	struct weir_config_backend *backend = &rig->to->services[0].backends[2];
	const uint16_t id = lab_id(&rig->lab, "s0", "b2");

	snprintf(backend->name, WEIR_CONFIG_NAME_BYTES, "other");
	assert_warning(rig, NULL, NULL);
	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_MAINTENANCE), 0);
	assert_warning(rig, "services[0].backends[2]",
		"gets new flows, because the maintenance of s0/b2, which has the same address, "
		"ends; to prevent this, set \"weight\": 0 here, or run weirctl backend maintenance "
		"s0/other");
	backend->weight = 0;
	assert_warning(rig, NULL, NULL);
	backend->weight = 100;
	backend->address.bytes[3] ^= 0x40; // an address of another machine
	assert_warning(rig, NULL, NULL);
	snprintf(backend->name, WEIR_CONFIG_NAME_BYTES, "b2");
	assert_warning(rig, NULL, NULL);
	// The address of the renamed backend is given to another backend.
	rig->to->services[0].backends[1].address = rig->from->services[0].backends[2].address;
	assert_warning(rig, "services[0].backends[1]",
		"gets new flows, because the maintenance of s0/b2, which has the same address, "
		"ends; to prevent this, set \"weight\": 0 here, or run weirctl backend maintenance "
		"s0/b1");
}

// Another address in the own check of a backend is no other address of the backend.
TEST(backends_with_another_address_in_their_check_are_not_renamed) {
	struct rig *rig = *state;
	struct weir_config_backend *backend = &rig->to->services[0].backends[2];
	struct weir_config_health_check dns = {.type = WEIR_CHECK_DNS, .name = "a"}, own = dns;
	const uint16_t id = lab_id(&rig->lab, "s0", "b2");

	rig->from->services[0].backends[2].health_check = &dns;
	backend->health_check = &own;
	own.address = backend->address;
	rig->to->services[1].backends[0].address = backend->address;
	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_MAINTENANCE), 0);
	assert_warning(rig, NULL, NULL);
}

// A service is renamed. Another service has a backend with the same address, but that backend keeps
// its states, and causes no warning.
TEST(backends_of_a_renamed_service_are_warned_of) {
	struct rig *rig = *state;
	const uint16_t id = lab_id(&rig->lab, "s1", "b1");

	assert_int_equal(weir_tables_set_weight(rig->lab.tables, id, 0), 0);
	rig->from->services[0].backends[1].address = rig->from->services[1].backends[1].address;
	rig->to->services[0].backends[1].address = rig->from->services[1].backends[1].address;
	lab_apply(&rig->lab, rig->from);
	assert_warning(rig, NULL, NULL);
	snprintf(rig->to->services[1].name, WEIR_CONFIG_NAME_BYTES, "other");
	assert_warning(rig, "services[1].backends[1]",
		"gets new flows, because the weight 0 of s1/b1, which has the same address, ends; "
		"to "
		"prevent this, set \"weight\": 0 here, or run weirctl weight set other/b1 0");
	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_DRAIN), 0);
	assert_warning(rig, "services[1].backends[1]",
		"gets new flows, because the drain of s1/b1, which has the same address, ends; to "
		"prevent this, set \"weight\": 0 here, or run weirctl backend drain other/b1");
}

// A drained backend, which still has flows, is removed, and added again. The drain goes on until
// the second reload, which must show that it ends.
TEST(returning_backends_are_warned_of) {
	static const char reason[] =
		"gets new flows, because its drain ends when it returns to the configuration; to "
		"prevent this, set \"weight\": 0 here, or run weirctl backend drain s0/b2 after "
		"the "
		"reload";
	struct rig *rig = *state;
	struct weir_config_service *service = &rig->to->services[0];
	const uint16_t id = lab_id(&rig->lab, "s0", "b2");
	struct weir_config_backend *backend = &service->backends[2];

	weir_segment_backend_counters(rig->lab.segment, 0, id)->new_flows = 1;
	weir_segment_backend_counters(rig->lab.segment, 0, id)->active_flows = 1;
	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_DRAIN), 0);
	rig->from->services[0].backend_count = 2;
	lab_apply(&rig->lab, rig->from);
	assert_warning(rig, "services[0].backends[2]", reason);
	backend->weight = 0;
	assert_warning(rig, NULL, NULL);
	backend->weight = 100;
	backend->address.bytes[3] ^= 0x40; // another server
	assert_warning(rig, NULL, NULL);
	backend->address.bytes[3] ^= 0x40;

	// Its address was changed, and is changed back.
	rig->from->services[0].backend_count = 3;
	rig->from->services[0].backends[2].address.bytes[3] ^= 0x40;
	lab_apply(&rig->lab, rig->from);
	assert_warning(rig, "services[0].backends[2]", reason);

	// The whole service was removed.
	snprintf(rig->from->services[0].name, WEIR_CONFIG_NAME_BYTES, "other");
	lab_apply(&rig->lab, rig->from);
	assert_warning(rig, "services[0].backends[2]", reason);
	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_READY), 0);
	assert_warning(rig, NULL, NULL);
}

// Most backends of a large service were removed by mistake, and return. This must not block the
// event loop: the search for each of them must not read all others.
TEST(thousands_of_returning_backends_are_found_at_once) {
	const uint32_t count = 16000;
	const struct lab_room room = {.max_backends = 32768, .heap_bytes = 256u << 20};
	struct weir_config *all = lab_config(1, count), *one = lab_config(1, count);
	struct weir_difference difference = {0};
	struct weir_config_errors errors = {0};
	struct timespec begin, end;
	struct lab lab;
	char name[16];

	lab_open(&lab, &room);
	all->segment.max_backends = one->segment.max_backends = room.max_backends;
	all->services[0].table_size = one->services[0].table_size = 65537;
	lab_apply(&lab, all);
	for (uint32_t i = 1; i < count; i++) {
		snprintf(name, sizeof(name), "b%u", i);
		weir_segment_backend_counters(lab.segment, 0, lab_id(&lab, "s0", name))
			->active_flows = 1;
		weir_segment_backend_counters(lab.segment, 0, lab_id(&lab, "s0", name))->new_flows =
			1;
	}
	assert_int_equal(
		weir_tables_set_admin(lab.tables, lab_id(&lab, "s0", name), WEIR_ADMIN_DRAIN), 0);
	one->services[0].backend_count = 1;
	lab_apply(&lab, one);
	assert_int_equal(weir_config_compare(one, all, &difference), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(weir_change_renames_warn(
				 &(struct weir_change_costs_of){
					 .tables = lab.tables, .from = one, .to = all},
				 &difference, &errors),
		0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_int_equal(errors.warning_count, 1);
	assert_string_equal(errors.warning[0].path, "services[0].backends[15999]");
	assert_true(
		(end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 < 500);
	weir_config_errors_fini(&errors);
	weir_difference_fini(&difference);
	lab_close(&lab);
	lab_config_free(all);
	lab_config_free(one);
}

TEST(many_renamed_backends_are_counted) {
	struct rig *rig = *state;
	struct weir_config *from = lab_config(1, 20);
	struct weir_config_errors errors = {0};

	lab_apply(&rig->lab, from);
	lab_config_free(rig->from);
	lab_config_free(rig->to);
	rig->from = from;
	rig->to = lab_config_copy(from);
	for (uint32_t i = 0; i < 20; i++) {
		struct weir_config_backend *backend = &rig->to->services[0].backends[i];

		weir_tables_set_admin(
			rig->lab.tables, lab_id(&rig->lab, "s0", backend->name), WEIR_ADMIN_DRAIN);
	}
	snprintf(rig->to->services[0].name, WEIR_CONFIG_NAME_BYTES, "other");
	assert_int_equal(weir_config_compare(rig->from, rig->to, &rig->difference), 0);
	assert_int_equal(
		weir_change_renames_warn(
			&(struct weir_change_costs_of){
				.tables = rig->lab.tables, .from = rig->from, .to = rig->to},
			&rig->difference, &errors),
		0);
	assert_int_equal(errors.warning_count, WEIR_CHANGE_RENAMES_MOST + 1);
	assert_string_equal(errors.warning[WEIR_CHANGE_RENAMES_MOST].reason,
		"4 more backends get new flows, although they got none before");
	weir_config_errors_fini(&errors);
}
