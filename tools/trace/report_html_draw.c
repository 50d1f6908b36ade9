/*
 * report_html_draw.c - scales, SVG and table cells.
 *
 * printf writes decimals by the user's locale, and SVG needs a point. So the code prints decimals
 * as two whole numbers.
 */
#include "tools/trace/report_html.h"

#include <math.h>
#include <stdio.h>

#include <internal/base.h>

#include "diag/base/words.h"

void twi_svg_at(struct twi_emit *e, const char *before, double value)
{
	long long tenths = isfinite(value) ? llround(value * 10) : 0;
	const char *sign = tenths < 0 ? "-" : "";

	tenths = tenths < 0 ? -tenths : tenths;
	if (tenths % 10 != 0)
		twi_emit_raw(e, "%s%s%lld.%lld", before, sign, tenths / 10, tenths % 10);
	else
		twi_emit_raw(e, "%s%s%lld", before, sign, tenths / 10);
}

void twi_svg_begin(struct twi_emit *e, unsigned width, unsigned height, const char *label)
{
	twi_emit_raw(e, "<svg viewBox=\"0 0 %u %u\" role=\"img\" aria-label=\"", width, height);
	twi_emit_html(e, label);
	twi_emit_puts(e, "\">\n");
}

void twi_svg_end(struct twi_emit *e)
{
	twi_emit_puts(e, "</svg>\n");
}

void twi_svg_line(struct twi_emit *e, const char *class, double x1, double y1, double x2, double y2)
{
	twi_emit_raw(e, "<line class=\"%s\"", class);
	twi_svg_at(e, " x1=\"", x1);
	twi_svg_at(e, "\" y1=\"", y1);
	twi_svg_at(e, "\" x2=\"", x2);
	twi_svg_at(e, "\" y2=\"", y2);
	twi_emit_puts(e, "\"/>\n");
}

void twi_svg_rect(struct twi_emit *e, const char *class, double x, double y, double width,
		  double height, const char *title)
{
	twi_emit_raw(e, "<rect class=\"%s\"", class);
	twi_svg_at(e, " x=\"", x);
	twi_svg_at(e, "\" y=\"", y);
	twi_svg_at(e, "\" width=\"", twi_max(width, 0.1));
	twi_svg_at(e, "\" height=\"", twi_max(height, 0.1));
	if (title == NULL) {
		twi_emit_puts(e, "\"/>\n");
		return;
	}
	twi_emit_puts(e, "\"><title>");
	twi_emit_html(e, title);
	twi_emit_puts(e, "</title></rect>\n");
}

void twi_svg_text(struct twi_emit *e, const char *class, double x, double y, const char *text)
{
	twi_emit_raw(e, "<text class=\"%s\"", class);
	twi_svg_at(e, " x=\"", x);
	twi_svg_at(e, "\" y=\"", y);
	twi_emit_puts(e, "\">");
	twi_emit_html(e, text);
	twi_emit_puts(e, "</text>\n");
}

/* The smallest of 1, 2, 5 times a power of ten that is at least `value`. Bytes: a power of two. */
static double round_up(double value, enum twi_unit unit)
{
	double base = unit == TWI_UNIT_BYTES ? 1024 : 1000, scale = 1;
	static const double tens[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000 };
	static const double twos[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };
	const double *steps = unit == TWI_UNIT_BYTES ? twos : tens;
	size_t count = unit == TWI_UNIT_BYTES ? twi_array_count(twos) : twi_array_count(tens);

	while (value > base * scale)
		scale *= base;
	for (size_t i = 0; i < count; i++) {
		if (steps[i] * scale >= value * (1 - 1e-9))
			return steps[i] * scale;
	}
	return base * scale;
}

struct twi_scale twi_scale_make(double low, double high, double bottom, double top, bool log,
				enum twi_unit unit)
{
	struct twi_scale scale = { 0, high, bottom, top, log, unit };

	if (log) {
		scale.low = pow(10, floor(log10(twi_max(low, 1.0))));
		scale.high = pow(10, ceil(log10(twi_max(high, scale.low * 10))));
	} else {
		/* four steps of a round size */
		scale.high = round_up(twi_max(high, 1e-9) / 4, unit) * 4;
		if (high <= scale.high * 3 / 4)
			scale.high = scale.high * 3 / 4;
	}
	return scale;
}

double twi_scale_at(const struct twi_scale *scale, double value)
{
	double share;

	if (scale->log)
		share = log10(twi_max(value, scale->low) / scale->low) /
			log10(scale->high / scale->low);
	else
		share = (value - scale->low) / (scale->high - scale->low);
	share = share < 0 ? 0 : share > 1 ? 1 : share;
	return scale->bottom + share * (scale->top - scale->bottom);
}

void twi_value_text(double value, enum twi_unit unit, char out[TWI_VALUE_BYTES])
{
	static const char *const ns[] = { "ns", "\xc2\xb5s", "ms", "s" };
	static const char *const bps[] = { "b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s" };
	static const char *const bytes[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	static const char *const count[] = { "", "k", "M", "G", "T", "P" };
	static const char *const *const names[] = { ns, bps, bytes, count };
	static const unsigned sizes[] = { 4, 6, 6, 6 };
	double base = unit == TWI_UNIT_BYTES ? 1024 : 1000;
	unsigned index = 0;
	long long hundredths;
	const char *space = unit == TWI_UNIT_COUNT ? "" : " ";

	while (index + 1 < sizes[unit] && value >= base * 0.9995) {
		value /= base;
		index++;
	}
	hundredths = llround(value * 100);
	if (hundredths == 0) { /* on an axis: it needs no unit */
		snprintf(out, TWI_VALUE_BYTES, "0");
		return;
	}
	if (hundredths % 100 == 0 || hundredths >= 10000)
		snprintf(out, TWI_VALUE_BYTES, "%lld%s%s", (hundredths + 50) / 100, space,
			 names[unit][index]);
	else if (hundredths % 10 == 0 || hundredths >= 1000)
		snprintf(out, TWI_VALUE_BYTES, "%lld.%lld%s%s", (hundredths + 5) / 100,
			 (hundredths + 5) / 10 % 10, space, names[unit][index]);
	else
		snprintf(out, TWI_VALUE_BYTES, "%lld.%02lld%s%s", hundredths / 100,
			 hundredths % 100, space, names[unit][index]);
}

unsigned twi_scale_ticks(const struct twi_scale *scale, unsigned most, double out[TWI_TICKS_MAX])
{
	unsigned count = 0;
	double step;

	most = twi_min(most, TWI_TICKS_MAX - 2);
	if (scale->log) {
		unsigned decades = (unsigned)lround(log10(scale->high / scale->low));
		unsigned each = (decades + most - 1) / twi_max(most, 1u);

		for (unsigned i = 0; i <= decades && count < TWI_TICKS_MAX; i += twi_max(each, 1u))
			out[count++] = scale->low * pow(10, i);
		return count;
	}
	step = round_up((scale->high - scale->low) / most, scale->unit);
	for (double at = scale->low; at <= scale->high * 1.0001 && count < TWI_TICKS_MAX;
	     at += step)
		out[count++] = at;
	return count;
}

void twi_svg_axis(struct twi_emit *e, const struct twi_scale *scale, unsigned ticks, double left,
		  double right)
{
	double values[TWI_TICKS_MAX];
	unsigned count = twi_scale_ticks(scale, ticks, values);
	char text[TWI_VALUE_BYTES];

	for (unsigned i = 0; i < count; i++) {
		double y = twi_scale_at(scale, values[i]);

		twi_svg_line(e, i == 0 ? "a" : "g", left, y, right, y);
		twi_value_text(values[i], scale->unit, text);
		twi_svg_text(e, "e", left - 6, y + 4, text);
	}
}

void twi_cell_text(struct twi_emit *e, const char *class, const char *text)
{
	if (class[0] != '\0')
		twi_emit_raw(e, "<td class=\"%s\">", class);
	else
		twi_emit_puts(e, "<td>");
	twi_emit_html(e, text);
	twi_emit_puts(e, "</td>");
}

void twi_cell_count(struct twi_emit *e, const char *class, uint64_t count)
{
	char text[TWI_WORDS_BYTES];

	twi_words_count(count, text);
	twi_cell_text(e, class, text);
}

void twi_cell_ns(struct twi_emit *e, const char *class, uint64_t ns)
{
	char text[TWI_WORDS_BYTES];

	twi_findings_ns(ns, text, sizeof(text));
	twi_cell_text(e, class, text);
}

void twi_cell_bytes(struct twi_emit *e, const char *class, uint64_t bytes)
{
	char text[TWI_WORDS_BYTES];

	twi_words_bytes(bytes, text);
	twi_cell_text(e, class, text);
}

void twi_cell_rate(struct twi_emit *e, const char *class, uint64_t bps)
{
	char text[TWI_RATE_BYTES];

	if (bps == TWI_SLACK_UNBOUNDED) {
		twi_cell_text(e, class, "no slack");
		return;
	}
	twi_findings_rate(bps, text);
	twi_cell_text(e, class, text);
}
