/* The schemas of events: docs/events/TYPE.json, as bytes of the program, so that a server always serves those of the events that it publishes. They are public, as openapi.yaml is.
 *
 *   GET /schemas/events               all of them: type, dataschema, path
 *   GET /schemas/events/TYPE          one, as JSON Schema; …/urn:gatehouse:event:TYPE:1, the `dataschema` of its events, is the same
 *
 * `dataschema` is a name and no address: a server does not know where its readers reach it, and an event keeps it for ever. */
#ifndef API_EVENT_SCHEMAS_H
#define API_EVENT_SCHEMAS_H

#include "api/api.h"

#define EVENT_SCHEMAS_PATH "/schemas/events"

/* Is it that path, or one below? */
bool event_schemas_is(struct bytes path);
void event_schemas_handle(struct api_loop *l, struct http_request *r);

#endif
