/*
 * memreg_canvas.h - drawing functions for the pictures of tow-size. memreg_svg.c draws the page,
 * and memreg_svg_time.c draws live memory over time.
 */
#ifndef BENCH_MEMREG_CANVAS_H
#define BENCH_MEMREG_CANVAS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/memreg/tow_size.h"

#define MEMREG_BLUE   "#2563a8"
#define MEMREG_ORANGE "#d9730d"
#define MEMREG_INK    "#1f2933"
#define MEMREG_GREY   "#6b7785"

/* The unit of an axis: bytes, KiB, MiB or GiB. */
struct memreg_unit {
	const char *name;
	double bytes;
};

struct memreg_canvas {
	FILE *file;
	const struct memreg_sizing *sizing;
	struct memreg_unit unit; /* of pool sizes */
	double row;              /* y where the next row of plots begins */
};

/* A plot with axes. Values map into [x, x + w) and, upwards, into [y, y + h). */
struct memreg_plot {
	double x, y, w, h, x_max, y_max;
	double x_log_min, y_log_min; /* above 0: that axis is logarithmic and begins there */
	bool x_whole;                /* x counts things, so it has no ticks between them */
};

/* The largest unit of which `bytes` is at least one. */
struct memreg_unit memreg_unit_of(uint64_t bytes);
double memreg_in_unit(const struct memreg_canvas *c, uint64_t bytes);

/* Copies at most `most` characters, with dots where the text was cut. Returns `out`. */
const char *memreg_fit_text(const char *text, size_t most, char *out, size_t room);

double memreg_plot_x(const struct memreg_plot *p, double value);
double memreg_plot_y(const struct memreg_plot *p, double value);

/* Writes text with the five special characters of XML escaped. */
void memreg_put_escaped(FILE *file, const char *text);

/* `style` has attributes of the text element. */
void memreg_draw_text(struct memreg_canvas *c, double x, double y, const char *style,
		      const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void memreg_draw_line(struct memreg_canvas *c, double x1, double y1, double x2, double y2,
		      const char *style);
void memreg_draw_mark(struct memreg_canvas *c, double x, double y, bool round, const char *colour);
void memreg_draw_legend(struct memreg_canvas *c, double x, double y, bool round, const char *colour,
			const char *label);
void memreg_draw_frame(struct memreg_canvas *c, struct memreg_plot *p, const char *title,
		       const char *x_label);
/* Draws the ticks of y, and rounds the axis up to a whole tick. */
void memreg_y_ticks(struct memreg_canvas *c, struct memreg_plot *p);
void memreg_x_ticks(struct memreg_canvas *c, const struct memreg_plot *p);

/* The colour of a line of the sum, by its number. */
const char *memreg_fill(uint32_t line);

/*
 * Draws live memory over time, by tag, as a row of its own. Returns 0; MEMREG_FAULT without memory.
 */
int memreg_svg_time(struct memreg_canvas *c);

#endif
