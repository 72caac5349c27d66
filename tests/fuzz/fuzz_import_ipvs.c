// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as rules of ipvsadm.
#include "import_rig.h"
#include "ipvs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct weir_import import;

	REQUIRE(weir_import_init(&import) == 0);
	weir_import_ipvs(&import, SOURCE, (const char *)data, bytes);
	check_import(&import);
	return 0;
}
