/*
 * ui.h - the texts that embed.py makes of the files beside it: the live page, its policy, and the
 * style that it shares with the report.
 */
#ifndef TWI_UI_H
#define TWI_UI_H

extern const char twi_ui_style[];
extern const char twi_ui_page[];
/*
 * The page's Content-Security-Policy. It allows the page its own script and style, by their hashes,
 * and requests to its own server, and nothing else.
 */
extern const char twi_ui_policy[];

#endif
