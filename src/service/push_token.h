/* Push tokens: what a device is reached by, and who has which. A token of Expo's, of FCM's or of APNs' belongs to one device
 * of one user. Rows of the table `gatehouse-push-tokens`, which expire with the device's row:
 *
 *   EXPO#ExponentPushToken[…]   userId, deviceId, expiresAt     whose token that is; and FCM#…, APNS#…
 *   USER#<id>                   registrations, expiresAt        how many devices a user has registered so far
 *
 * What always holds
 * (1) A token has one marker at most, so it has one device.
 * (2) A marker that names a device which is gone, or has another token by now, says nothing: somebody wrote to the device's
 *     row without us. */
#ifndef SERVICE_PUSH_TOKEN_H
#define SERVICE_PUSH_TOKEN_H

#include "service/context.h"

enum push_kind { PUSH_EXPO, PUSH_FCM, PUSH_APNS, PUSH_KINDS };

enum {
	PUSH_TOKEN_BYTES_MAX = 1024,
	PUSH_FCM_BYTES_MIN = 32,
	PUSH_APNS_DIGITS_MIN = 64,
	PUSH_APNS_DIGITS_MAX = 200,
};

/* What they are called, in rows and in JSON: "expoPushToken". */
extern const char *const push_kind_names[PUSH_KINDS];

/* The form of each, in words, for whoever sent another. */
extern const char *const push_kind_forms[PUSH_KINDS];

/* Is it a token of that kind? */
bool push_token_is(enum push_kind kind, struct bytes token);

/* Of which kind it seems to be; PUSH_KINDS: of none. */
enum push_kind push_token_kind(struct bytes token);

/* As it is kept: APNs' hexadecimal digits in lower case. */
struct bytes push_token_normal(struct arena *a, enum push_kind kind, struct bytes token);

/* ---- markers ---- */

struct push_marker {
	enum push_kind kind;
	struct bytes   token;
};

/* The token of a marker's row. False: it is another row of that table. */
bool push_marker_read(const struct item *row, struct push_marker *out);

/* Who has it? */
enum err_code push_marker_look(struct context *ctx, const struct push_marker *m, struct looked *out,
                               struct err *err);
bool          push_marker_names(const struct looked *marker, struct bytes user, struct bytes device);

void push_marker_put(struct context *ctx, const struct push_marker *m, const struct item *device);
void push_marker_delete(struct context *ctx, const struct push_marker *m);

/* Removes it if it names that device. */
enum err_code push_marker_drop(struct context *ctx, const struct push_marker *m, const struct item *device,
                               struct err *err);

/* ---- registrations of a user ----
 *
 * Whoever adds a device has read this row and changes it, so that of two at once one counts again. */

enum err_code push_user_look(struct context *ctx, struct bytes user, struct looked *out, struct err *err);
void          push_user_note(struct context *ctx, const struct looked *read, int64_t expires_s);

#endif
