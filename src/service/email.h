/* Email addresses: exactly one mailbox, and one text for it. Capitals do not count, nor do the ways in which Unicode can write one
 * letter, nor whether a host is written in its own letters or as DNS has it, or with the root's dot at its end. Dots and
 * +tags before the @ stay: at most providers they are other mailboxes.
 *
 * What is not exactly one mailbox is refused, because mail libraries may send to more than one, or to another: lists, display
 * names, comments, a second @ (also in quotes), spaces, characters that are not shown, IP addresses, hosts and lengths that
 * SMTP has not.
 *
 * (1) An address in ASCII becomes the same in small letters, but for the root's dot and quotes that it does not need: rows were
 *     stored under that.
 * (2) In others the part before the @ is case-folded, in full, and composed (NFC); a host that is not in
 *     ASCII is mapped to A-labels (UTS 46, as browsers do).
 * (3) What was normalised stays as it is when it is normalised again.
 * (4) The normal form is for comparing. Folding may lead to another mailbox ("Straße" becomes "strasse"), so mail goes to the
 *     address as it was typed.
 * Why: docs/decisions/061-one-mailbox-and-one-issuer.md. */
#ifndef SERVICE_EMAIL_H
#define SERVICE_EMAIL_H

#include "base/bytes.h"

enum {
	EMAIL_BYTES_MAX = 320,
	EMAIL_LOCAL_BYTES_MAX = 64, /* RFC 5321, 4.5.3.1; typed and composed, and normalised */
	EMAIL_HOST_BYTES_MAX = 253, /* of DNS, as text; as A-labels */
	HOST_LABEL_BYTES_MAX = 63,
	EMAIL_NORMAL_BYTES_MAX = 2048, /* folding can make three letters of one */
};

/* Writes the normal form to out, which has room for EMAIL_NORMAL_BYTES_MAX bytes; returns its length. 0: it is no address.
 * Spaces around it do not count. Text need not be UTF-8; what is not is refused. */
size_t email_normalise(struct bytes text, char *out);

/* Any text as it is compared (2): case-folded in full, and composed. 0: it is not UTF-8, or there is no room. */
size_t text_fold(struct bytes text, char *out, size_t room);

/* Where mail goes (4): without spaces around it, and without the root's dot, which SMTP does not have. Of one that is accepted. */
struct bytes email_as_typed(struct bytes text);

/* The same if it differs from the normal form; else empty. */
struct bytes email_typed_beside(struct bytes text, struct bytes normal);

/* The normal form of an address that a row has. One that is refused by now was stored in small letters, and stays what it is: its
 * user must be able to read and to remove it. 0: it is longer than any. */
size_t email_of_row(struct bytes text, char *out);

#endif
