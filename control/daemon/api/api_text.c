// SPDX-License-Identifier: BSD-3-Clause
#include "api_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

json_t *weir_api_safe_string(char *text) {
	json_t *string = json_string(text);

	if (string == NULL) {
		for (char *c = text; *c != '\0'; c++) {
			if ((unsigned char)*c >= 0x80) {
				*c = '?';
			}
		}
		string = json_string(text);
	}
	return string;
}

static int append(const char *bytes, size_t count, void *context) {
	struct weir_api_list *list = context;

	if (list->room - list->bytes <= count) {
		size_t room = 2 * list->room + count + 1024;
		char *grown = realloc(list->text, room);

		if (grown == NULL) {
			return -1;
		}
		list->text = grown;
		list->room = room;
	}
	memcpy(list->text + list->bytes, bytes, count);
	list->bytes += count;
	list->text[list->bytes] = '\0';
	return 0;
}

static int append_text(struct weir_api_list *list, const char *text) {
	return append(text, strlen(text), list);
}

static int begin_answer(struct weir_api_list *list, char *not_published) {
	json_t *why;
	int r;

	if (not_published[0] == '\0') {
		return append_text(list, "{\"ok\":true,\"result\":");
	}
	why = weir_api_safe_string(not_published);
	r = append_text(list, "{\"ok\":true,\"not_published\":") < 0 || why == NULL ||
			    json_dump_callback(
				    why, append, list, WEIR_API_DUMP_FLAGS | JSON_ENCODE_ANY) < 0
		    ? -1
		    : append_text(list, ",\"result\":");
	json_decref(why);
	return r;
}

static int write_head(
	struct weir_api_list *list, char *not_published, const json_t *head, const char *member) {
	if (begin_answer(list, not_published) < 0) {
		return -1;
	}
	list->end = "]}";
	if (member == NULL) {
		return append_text(list, "[");
	}
	if (head == NULL || json_dump_callback(head, append, list, WEIR_API_DUMP_FLAGS) < 0) {
		return -1;
	}
	list->end = "]}}";
	list->bytes--; // remove the closing brace of the object
	return append_text(list, json_object_size(head) > 0 ? ",\"" : "\"") < 0 ||
			       append_text(list, member) < 0 || append_text(list, "\":[") < 0
		       ? -1
		       : 0;
}

int weir_api_list_begin(struct weir_api_list *list, char *not_published, const json_t *head,
	const char *member, const struct weir_api_rows *rows) {
	*list = (struct weir_api_list){.rows = *rows};
	return write_head(list, not_published, head, member) < 0 ? -ENOMEM : 0;
}

static int begin_member(struct weir_api_list *list, const json_t *name) {
	list->began = false;
	return name == NULL || append_text(list, "],\"") < 0 ||
			       append_text(list, json_string_value(name)) < 0 ||
			       append_text(list, "\":[") < 0
		       ? -ENOMEM
		       : 1;
}

int weir_api_list_next(struct weir_api_list *list) {
	json_t *row = NULL;
	int r = list->rows.next(list->rows.context, &row);

	if (r == 2) {
		r = begin_member(list, row);
		json_decref(row);
		return r;
	}
	if (r == 1 && (row == NULL || (list->began && append_text(list, ",") < 0) ||
			      json_dump_callback(row, append, list,
				      WEIR_API_DUMP_FLAGS | JSON_ENCODE_ANY) < 0)) {
		r = -ENOMEM;
	}
	list->began = true;
	json_decref(row);
	return r == 0 && append_text(list, list->end) < 0 ? -ENOMEM : r;
}

char *weir_api_list_release(struct weir_api_list *list) {
	char *text = list->text;

	list->text = NULL;
	list->rows.free(list->rows.context);
	return text;
}
