// SPDX-License-Identifier: BSD-3-Clause
#include "reader.h"

#include <errno.h>
#include <stdlib.h>

#include "blob.h"

int weir_reader_init(
	struct weir_reader *reader, const struct weir_segment *segment, uint32_t worker) {
	struct weir_selection_view *selection;

	if (worker >= segment->workers) {
		return -EINVAL;
	}
	selection = calloc(segment->max_services, sizeof(*selection));
	if (selection == NULL) {
		return -ENOMEM;
	}
	*reader = (struct weir_reader){
		.segment = segment,
		.worker = worker,
		.selection = selection,
	};
	return 0;
}

void weir_reader_fini(struct weir_reader *reader) {
	free(reader->selection);
	*reader = (struct weir_reader){0};
}

// The functions below keep the reference even when its table is refused, so that a broken table is
// checked once and not in every burst.

void weir_reader_adopt_services(struct weir_reader *reader, weir_ref ref) {
	struct weir_services_view view = {0};
	struct weir_blob_extent extent;

	if (ref != 0 && !weir_blob_services(reader->segment, ref, &extent, &view)) {
		reader->refused++;
	}
	reader->services = view;
	reader->services_ref = ref;
}

void weir_reader_adopt_backends(struct weir_reader *reader, weir_ref ref) {
	struct weir_backends_view view = {0};
	struct weir_blob_extent extent;

	if (ref != 0 && !weir_blob_backends(reader->segment, ref, &extent, &view)) {
		reader->refused++;
	}
	reader->backends = view;
	reader->backends_ref = ref;
}

void weir_reader_adopt_selection(struct weir_reader *reader, uint16_t service, weir_ref ref) {
	struct weir_selection_view view = {.ref = ref};
	struct weir_blob_extent extent;

	if (ref != 0 && !weir_blob_selection(
				reader->segment, service, ref, reader->worker, &extent, &view)) {
		reader->refused++;
	}
	reader->selection[service] = view;
}
