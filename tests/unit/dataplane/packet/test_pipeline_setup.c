// SPDX-License-Identifier: BSD-3-Clause
//
// Set-up of a pipeline.
#include <errno.h>
#include <string.h>

#include "burst.h"
#include "pipeline_lab.h"
#include "pipeline_setup.h"
#include "test.h"

TEST_GROUP(lab_eal);

TEST(pipeline_setup_refuses_bad_parameters) {
	struct lab *lab = lab_make();
	struct weir_pipeline_params params = lab->params;
	struct weir_pipeline *pipeline = NULL;

	params.worker = lab->segment->workers;
	assert_int_equal(weir_pipeline_create(&params, &pipeline), -EINVAL);
	params = lab->params;
	params.flow_table.flows = 0;
	assert_int_equal(weir_pipeline_create(&params, &pipeline), -EINVAL);
	params = lab->params;
	params.flow_table.half_open_percent = 101;
	assert_int_equal(weir_pipeline_create(&params, &pipeline), -EINVAL);
	assert_null(pipeline);
	weir_pipeline_free(NULL);
	lab_free(lab);
}

// When a backend is removed, its mark "closed" is removed as well, whether the backend has flows or
// not. Otherwise policies would have to skip the backend until its id is reused.
TEST(pipeline_setup_removed_backend_is_not_closed) {
	static const uint16_t backends[] = {0, 4}; // backends of services 0 and 1

	for (unsigned int i = 0; i < 4; i++) {
		struct lab *lab = lab_make();
		uint16_t id = backends[i / 2], service = i / 2;
		struct frame_spec spec = lab_tcp(1, 2);

		if (service == 1) {
			spec.protocol = 17;
			spec.destination_port = 53;
		}
		if (i % 2 == 0) { // this backend has a flow
			lab_publish_selection(lab, service, &id, 1);
			assert_int_equal(lab_send(lab, &spec).backend, id);
		}
		lab->rows[id].flags |= WEIR_BACKEND_CLOSED;
		lab_publish_backends(lab);
		lab_wait(lab, 1);
		assert_int_equal(lab->pipeline->policy.closed, 1);
		memset(&lab->rows[id], 0, sizeof(lab->rows[id]));
		lab_publish_backends(lab);
		lab_wait(lab, 1);
		assert_int_equal(lab->pipeline->policy.closed, 0);
		lab_free(lab);
	}
}
