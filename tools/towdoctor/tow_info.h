/*
 * tow_info.h - the document of tow-info. --json prints it as it is, and the screen shows the same
 * document. Gathering and printing are separate, so that programs get all that the screen shows.
 *
 * Facts about the host come from the checks of towdoctor, which this calls. tow-info itself only
 * decides on the mark in front of a line.
 */
#ifndef TOW_INFO_H
#define TOW_INFO_H

#include <jansson.h>
#include <stdbool.h>

/* Gathers the document. probe: opens runtimes, in child processes. NULL: no memory. */
json_t *info_look(bool probe);

#endif
