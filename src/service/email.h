/* Email addresses: one mailbox, one text. Capitals do not count, nor do the ways in which Unicode can write one
 * letter, nor whether a host is written in its own letters or as DNS has it, or with the root's dot at its end. Dots and
 * +tags before the @ stay: at most providers they are other mailboxes.
 *
 * (1) An address in ASCII becomes the same in small letters, but for the root's dot, whatever it is: rows were stored under that.
 * (2) In others the part before the last @ is case-folded, in full, and composed (NFC); a host that is not in
 *     ASCII is mapped to A-labels (UTS 46, as browsers do).
 * (3) What was normalised stays as it is when it is normalised again. */
#ifndef SERVICE_EMAIL_H
#define SERVICE_EMAIL_H

#include "base/bytes.h"

enum {
	EMAIL_BYTES_MAX = 320,
	EMAIL_NORMAL_BYTES_MAX = 2048, /* folding can make three letters of one */
};

/* Writes the normal form to out, which has room for EMAIL_NORMAL_BYTES_MAX bytes; returns its length. 0: it is no address.
 * Spaces around it do not count. Text need not be UTF-8; what is not is refused. */
size_t email_normalise(struct bytes text, char *out);

#endif
