/*
 * tow_info.h - what tow-info shows: one document, which --json prints as it is, and the screen is
 * drawn from. Looking and printing are apart, so the screen has nothing that programs cannot have.
 *
 * What the doctor knows of a host is the doctor's: its checks are called. tow-info judges nothing
 * but the mark in front of a line.
 */
#ifndef TOW_INFO_H
#define TOW_INFO_H

#include <jansson.h>
#include <stdbool.h>

/* Looks; probe: opens runtimes, in children. NULL without memory. */
json_t *info_look(bool probe);

#endif
