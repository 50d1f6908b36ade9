/*
 * report_html.h - the parts of the report page, and the functions that draw them.
 *
 * All drawings are inline SVG. Colours and fonts are those of /ui, in diag/serve/ui/style.css.
 * Coordinates are those of the drawing's viewBox. A chart is written in one pass, and none of it is
 * stored. Texts of a trace only go through twi_emit_html.
 */
#ifndef TWI_REPORT_HTML_H
#define TWI_REPORT_HTML_H

#include "diag/base/emit.h"
#include "diag/trace/findings.h"
#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"

struct twi_report_page {
	struct twi_emit *e;
	const struct twi_trace *trace;
	const struct twi_timeline *t;
	const struct twi_slack *slack;
	const struct twi_findings *findings;
};

/* The parts, from top to bottom. */
void twi_page_head(const struct twi_report_page *p);
void twi_page_times(const struct twi_report_page *p);
void twi_page_steps(const struct twi_report_page *p);
void twi_page_sizes(const struct twi_report_page *p);
void twi_page_slack(const struct twi_report_page *p);
void twi_page_pairs(const struct twi_report_page *p);
void twi_page_regions(const struct twi_report_page *p);
void twi_page_ranks(const struct twi_report_page *p);
void twi_page_reasons(const struct twi_report_page *p);
void twi_page_records(const struct twi_report_page *p);

/* --- drawing --- */

/* The unit of an axis. */
enum twi_unit { TWI_UNIT_NS, TWI_UNIT_BPS, TWI_UNIT_BYTES, TWI_UNIT_COUNT };

/* Maps values: low at `bottom`, high at `top` (on a time axis, at its left and right end). */
struct twi_scale {
	double low, high, bottom, top;
	bool log;
	enum twi_unit unit;
};

/* Makes a scale from 0, or for log from a power of ten, to a round value of at least `high`. */
struct twi_scale twi_scale_make(double low, double high, double bottom, double top, bool log,
				enum twi_unit unit);
double twi_scale_at(const struct twi_scale *scale, double value);

#define TWI_VALUE_BYTES 40
void twi_value_text(double value, enum twi_unit unit, char out[TWI_VALUE_BYTES]);

/* Returns round values of the axis, at most `most`. */
#define TWI_TICKS_MAX 12
unsigned twi_scale_ticks(const struct twi_scale *scale, unsigned most, double out[TWI_TICKS_MAX]);

void twi_svg_begin(struct twi_emit *e, unsigned width, unsigned height, const char *label);
void twi_svg_end(struct twi_emit *e);
/* Writes a coordinate after a letter or name such as " x=\"" or "L", with a decimal point. */
void twi_svg_at(struct twi_emit *e, const char *before, double value);
void twi_svg_line(struct twi_emit *e, const char *class, double x1, double y1, double x2,
		  double y2);
/* Writes a rectangle. `title` is shown on hover, and is escaped here; NULL: none. */
void twi_svg_rect(struct twi_emit *e, const char *class, double x, double y, double width,
		  double height, const char *title);
void twi_svg_text(struct twi_emit *e, const char *class, double x, double y, const char *text);
/* Writes lines and labels of a vertical scale, between `left` and `right`. */
void twi_svg_axis(struct twi_emit *e, const struct twi_scale *scale, unsigned ticks, double left,
		  double right);

/* --- tables --- */

void twi_cell_text(struct twi_emit *e, const char *class, const char *text);
void twi_cell_count(struct twi_emit *e, const char *class, uint64_t count);
void twi_cell_ns(struct twi_emit *e, const char *class, uint64_t ns);
void twi_cell_bytes(struct twi_emit *e, const char *class, uint64_t bytes);
void twi_cell_rate(struct twi_emit *e, const char *class, uint64_t bps);

#endif
