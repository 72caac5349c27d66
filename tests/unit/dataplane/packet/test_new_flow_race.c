// SPDX-License-Identifier: BSD-3-Clause
//
// New flows while control publishes a selection in the middle of a burst. The function
// before_each_look is called each time the worker checks for a new selection, so that the test can
// publish at any of these checks.
#include "reader.h"

static void before_each_look(void);

static inline const struct weir_selection_view *look(struct weir_reader *reader, uint16_t service) {
	before_each_look();
	return weir_reader_selection(reader, service);
}
#define weir_reader_selection look
#include "new_flow.c"
#undef weir_reader_selection

#include <stdlib.h>
#include <string.h>

#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define LOOKS 6 // more checks than a burst of two packets makes

static struct lab *lab;
// number of checks so far; number of the check at which to publish, 0 = never
static unsigned int looks, publish_at;

static void publish(const uint16_t *ids, uint32_t count) {
	struct weir_selection_params params =
		weir_selection_defaults(0, WEIR_POLICY_LEAST_LOADED, LAB_SLOTS);

	lab_publish_policy(lab, &params, ids, count);
}

static void before_each_look(void) {
	if (++looks == publish_at) {
		publish((const uint16_t[]){2, 3}, 2);
	}
}

static struct rte_mbuf *packet(uint32_t flow, uint8_t flags) {
	struct frame_spec spec = lab_tcp(flow, flags);
	struct frame f;

	frame_build(&spec, &f);
	return frame_mbuf(f.bytes, f.n, 128);
}

TEST_GROUP(lab_eal);

// Service 0 has no backend until the publication. Service 1 uses the first two backends, and has
// flows. Only backends of service 0 may be chosen for flows of service 0.
TEST(no_policy_chooses_from_a_table_that_it_has_not_adopted) {
	for (publish_at = 1; publish_at <= LOOKS; publish_at++) {
		struct weir_verdict verdicts[2];
		struct rte_mbuf *packets[2];

		lab = lab_make();
		looks = LOOKS;
		lab->rows[0].service = lab->rows[1].service = 1;
		lab_publish_backends(lab);
		publish(NULL, 0);
		lab_publish_selection(lab, 1, (const uint16_t[]){0, 1}, 2);
		for (uint16_t i = 0; i < 20; i++) {
			struct frame_spec spec = {.family = 4,
				.protocol = 17,
				.source_port = (uint16_t)(2000 + i),
				.destination_port = 53};

			assert_int_equal(lab_send(lab, &spec).service, 1);
		}
		packets[0] = packet(1, 0x10); // no SYN, so the Maglev fallback chooses
		packets[1] = packet(2, 0x02);
		looks = 0;
		weir_pipeline_process(
			lab->pipeline, packets, 2, LAB_IN_PORT, lab->now_ns, verdicts);
		weir_pipeline_maintain(lab->pipeline, lab->now_ns);
		for (unsigned int i = 0; i < 2; i++) {
			if (verdicts[i].action == WEIR_ACTION_FORWARD) {
				assert_int_equal(verdicts[i].service, 0);
				assert_in_range(verdicts[i].backend, 2, 3);
			} else {
				assert_int_equal(verdicts[i].reason, WEIR_DROP_NO_BACKEND);
			}
			frame_mbuf_free(packets[i]);
		}
		looks = LOOKS;
		lab_wait(lab, 60000);
		for (uint16_t service = 0; service < 2; service++) {
			const struct weir_share_counters *counters =
				weir_segment_service_counters(lab->segment, 1, service);

			assert_int_equal(counters->active_flows, 0);
			assert_int_equal(counters->open_flows, 0);
		}
		lab_free(lab);
	}
}
