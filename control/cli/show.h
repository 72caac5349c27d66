// SPDX-License-Identifier: BSD-3-Clause
//
// Prints results of the control API as text: a table for many objects, a record for one object. A
// missing key is shown as "-", because daemons of other versions may send fewer or more keys.
#pragma once

#include "command.h"

enum weir_show_kind {
	WEIR_SHOW_TEXT,
	WEIR_SHOW_NUMBER, // right-aligned
	WEIR_SHOW_PERCENT, // one decimal, more if it would be shown as 0; right-aligned
	WEIR_SHOW_DECIMAL, // three decimals; right-aligned
	WEIR_SHOW_DURATION, // milliseconds as text, such as 15m12s; right-aligned
	WEIR_SHOW_FLAG, // yes, no
};

struct weir_show_column {
	const char *header;
	const char *key; // key of a member of the row; "a.b" = member b of object a
	enum weir_show_kind kind;
};

#define WEIR_SHOW_COLUMNS_MAX 24

// Format a cell of a table: the value of a row in a column. Returns buffer.
const char *weir_show_cell(
	const json_t *row, const struct weir_show_column *column, char *buffer, size_t bytes);
// Prints an array of objects as a table. nothing: text that is printed for an empty array.
void weir_show_table(FILE *out, const json_t *rows, const struct weir_show_column *columns,
	uint32_t count, const char *nothing);
// Print a text in indented lines, broken between words to fit a screen of this width.
void weir_show_wrapped(FILE *out, const char *text, uint32_t width);
// As weir_show_wrapped, but the first line is not indented.
void weir_show_hanging(FILE *out, const char *text, uint32_t width);
uint32_t weir_show_lines(const char *text); // number of newlines
// Print a line on a screen of this width, over the previous text. If the line is too long, ">"
// replaces all words and numbers that do not fit completely.
void weir_show_line(FILE *out, const char *line, size_t bytes, uint32_t columns);
// Returns whether the command line named one object and the result has one row: callers then show
// all details of the object.
bool weir_show_is_single(const struct weir_cli *cli, const json_t *rows);
// Group rows by service. Services are in the order of their first rows; the order of the rows of a
// service does not change. Returns a new array of the same objects, owned by the caller.
json_t *weir_show_by_service(const json_t *rows);
// If adjacent rows have the same service, keep the name of the service only in the first of them.
// Changes the rows.
void weir_show_service_once(const json_t *rows);
// Add the member "label" to backends. The label is the name of the backend. If two backends of the
// service have this name, the label also contains the address. (Two backends have the same name
// while the old address of a backend is being removed.) key: key of the name in the rows.
void weir_show_add_labels(const json_t *backends, const char *key);
// Print the number of removed objects, such as "2 flows deleted", and their backend if the result
// has one. noun: the kind of object. verb: also the key of the number.
void weir_show_removed(FILE *out, const json_t *result, const char *noun, const char *verb);
// Print an object as lines with "key value".
void weir_show_fields(FILE *out, const json_t *object);
// Format a value in the same way as a table cell. Returns buffer.
const char *weir_show_value(
	const json_t *value, enum weir_show_kind kind, char *buffer, size_t bytes);

// Add the member "time" to a row that has "time_ms". The value is the local time, so that users can
// compare it with other logs.
void weir_show_add_time(json_t *row);

void weir_show_record(const struct weir_cli *cli, json_t *result); // prints lines with "key  value"
void weir_show_services(const struct weir_cli *cli, json_t *result);
void weir_show_backends(const struct weir_cli *cli, json_t *result);
// Print backends in a table with the columns that fit, and their notes below. Changes the rows.
// width: columns of the terminal; 0 = unlimited.
void weir_show_backends_within(FILE *out, json_t *rows, uint32_t width);
// prints the member "warnings", one warning per line
void weir_show_warnings(FILE *out, const json_t *result);
void weir_show_change(const struct weir_cli *cli, json_t *result);
void weir_show_policy(const struct weir_cli *cli, json_t *result);
void weir_show_report(const struct weir_cli *cli, json_t *result);
void weir_show_weight(const struct weir_cli *cli, json_t *result);
void weir_show_subsets(const struct weir_cli *cli, json_t *result);
void weir_show_flow_lookup(const struct weir_cli *cli, json_t *result);
void weir_show_steals(const struct weir_cli *cli, json_t *result);
void weir_show_flow_count(const struct weir_cli *cli, json_t *result);
void weir_show_workers(const struct weir_cli *cli, json_t *result);
// Print the workers. Returns enum weir_cli_exit: WEIR_CLI_REFUSED also if a worker is stalled.
int weir_worker_show_run(struct weir_cli *cli, const struct weir_cli_command *command);
void weir_show_stealing(const struct weir_cli *cli, json_t *result);
void weir_show_ports(const struct weir_cli *cli, json_t *result);
void weir_show_changes(const struct weir_cli *cli, json_t *result);
void weir_show_waiting(const struct weir_cli *cli, json_t *result);
void weir_show_reload(const struct weir_cli *cli, json_t *result);
void weir_show_health(const struct weir_cli *cli, json_t *result);
void weir_show_audit(const struct weir_cli *cli, json_t *result);
// Print the audit list, at least two lines per entry, to fit a terminal of this width. width: 0 =
// print a table of any width.
void weir_show_audit_within(FILE *out, json_t *result, uint32_t width);
void weir_show_history(const struct weir_cli *cli, json_t *result);
// Print the health history as a table. If the table is wider than `width`, print at least two lines
// per change instead. width: 0 = unlimited.
void weir_show_history_within(
	const struct weir_cli *cli, FILE *out, json_t *result, uint32_t width);
void weir_show_version(const struct weir_cli *cli, json_t *result);
