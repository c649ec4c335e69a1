/* The section `codes` of the identity file: who sends codes to people.
 *
 *   codes:
 *     webhook: https://mail.example.com/gatehouse   # signed messages go there (outbound/webhook.h)
 *     secret_file: codes.secret                     # one line whsec_…, or two while one takes the place of the other
 *     ca_file: private-ca.pem                       # the system's unless set
 *     allow_private: true                           # its address may be on this machine or in this network */
#include "server/identity.h"

#include "outbound/webhook.h"
#include "server/code_sender.h"

enum { CA_BYTES_MAX = 4 * 1024 * 1024 };

/* Errors of the webhook are told of the member they come from. */
static void open_webhook(struct fields *f, const struct webhook_options *o, struct webhook **out)
{
	struct err why;

	if (!fields_failed(f) && webhook_open(o, out, &why) != ERR_NONE)
		fields_fail(f, strcmp(why.field, "secrets") == 0 ? "secret_file" : "webhook", ERR_INVALID,
		            "%s", why.text);
}

static void codes_read(const struct identity_reading *r, struct fields *file, void **out)
{
	const struct json     *section = fields_object(file, "codes", 16);
	struct webhook_options o = {.name = "codes", .calls_max = CODE_SENDERS, .clock = r->clock};
	struct webhook        *made = NULL;
	const char            *secret_file;
	struct fields          f;

	if (section == NULL)
		return;
	fields_enter(&f, file, BYTES("codes"), section);
	o.url = fields_text(&f, "webhook", WEBHOOK_URL_BYTES_MAX);
	secret_file = identity_path(r, &f, "secret_file");
	o.ca_file = identity_path(r, &f, "ca_file");
	o.allow_private = fields_bool_or(&f, "allow_private", false);
	if (secret_file == NULL)
		fields_fail(&f, "secret_file", ERR_INVALID, "missing");
	else
		o.secrets = identity_file(r, &f, "secret_file", secret_file, WEBHOOK_SECRET_FILE_BYTES_MAX);
	if (o.ca_file != NULL)
		identity_file(r, &f, "ca_file", o.ca_file, CA_BYTES_MAX);
	open_webhook(&f, &o, &made);
	if (fields_end(&f) == ERR_NONE)
		*out = made;
	else
		webhook_close(made);
}

static void codes_drop(void *made)
{
	webhook_close(made);
}

const struct identity_section identity_codes = {"codes", codes_read, codes_drop};
