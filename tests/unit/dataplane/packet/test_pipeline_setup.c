// SPDX-License-Identifier: BSD-3-Clause
//
// Set-up of a pipeline.
#include <errno.h>
#include <string.h>

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
