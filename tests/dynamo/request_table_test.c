/* Requests about tables: CreateTable, UpdateTable, and the small ones. */
#include "decode.h"

#define CREATE request_create_table
#define ALTER  request_update_table
#define ONE    "1 validation error detected: "
#define BAD    "One or more parameter values were invalid: "
#define A_KEY  "'KeySchema':[{'AttributeName':'a','KeyType':'HASH'}]"
#define A_DEF  "{'AttributeName':'a','AttributeType':'S'}"
#define B_DEF  "{'AttributeName':'b','AttributeType':'N'}"
#define PAY    "'BillingMode':'PAY_PER_REQUEST'"

TEST(create_table, the_documented_example_is_decoded)
{
	struct decoded             d;
	const struct table_schema *s;

	decode_ok(&d, CREATE,
	          "{'AttributeDefinitions':[{'AttributeName':'ForumName','AttributeType':'S'},"
	          "{'AttributeName':'Subject','AttributeType':'S'},{'AttributeName':'LastPost','"
	          "AttributeType':'N'}],"
	          "'TableName':'Thread','KeySchema':[{'AttributeName':'ForumName','KeyType':'HASH'},"
	          "{'AttributeName':'Subject','KeyType':'RANGE'}],'LocalSecondaryIndexes':[{'IndexName':'"
	          "LastPostIndex',"
	          "'KeySchema':[{'AttributeName':'ForumName','KeyType':'HASH'},{'AttributeName':'LastPost',"
	          "'KeyType':'RANGE'}],'Projection':{'ProjectionType':'KEYS_ONLY'}}],'GlobalSecondaryIndexes'"
	          ":[{"
	          "'IndexName':'BySubject','KeySchema':[{'AttributeName':'Subject','KeyType':'HASH'}],'"
	          "Projection':{"
	          "'ProjectionType':'INCLUDE','NonKeyAttributes':['x','y']},'ProvisionedThroughput':{"
	          "'ReadCapacityUnits':1,'WriteCapacityUnits':2}}],'ProvisionedThroughput':{'"
	          "ReadCapacityUnits':5,"
	          "'WriteCapacityUnits':6},'Tags':[{'Key':'z','Value':'2'},{'Key':'Owner','Value':'Blue'}],"
	          "'DeletionProtectionEnabled':true,'StreamSpecification':{'StreamEnabled':false}}");
	s = &d.request.create;
	assert_bytes(s->name, "Thread");
	assert_bytes(s->keys.range.name, "Subject");
	assert_int_equal(s->index_count, 2);
	assert_true(s->indexes[0].local);
	assert_int_equal(s->indexes[0].keys.range.type, VALUE_N);
	assert_int_equal(s->indexes[1].projection, PROJECT_INCLUDE);
	assert_int_equal(s->indexes[1].include_count, 2);
	assert_int_equal(s->indexes[1].write_units, 2);
	assert_int_equal(s->read_units, 5);
	assert_false(s->on_demand);
	assert_true(s->deletion_protected);
	assert_int_equal(s->tag_count, 2);
	assert_bytes(s->tags[0].key, "Owner");
	decoded_release(&d);
}

TEST(create_table, required_fields_and_members_are_named)
{
	decode_invalid(CREATE, "{'TableName':'abc'}",
	               "2 validation errors detected: Value null at ~attributeDefinitions~ failed to satisfy "
	               "constraint: "
	               "Member must not be null; Value null at ~keySchema~ failed to satisfy constraint: "
	               "Member must not "
	               "be null");
	decode_invalid(CREATE, "{'TableName':'abc','AttributeDefinitions':[{}],'KeySchema':[]}",
	               "3 validation errors detected: Value null at "
	               "~attributeDefinitions.1.member.attributeName~ failed "
	               "to satisfy constraint: Member must not be null; Value null at "
	               "~attributeDefinitions.1.member.attributeType~ failed to satisfy constraint: Member "
	               "must not be "
	               "null; Value ~[]~ at ~keySchema~ failed to satisfy constraint: Member must have "
	               "length greater "
	               "than or equal to 1");
	decode_invalid(
	        CREATE,
	        "{'TableName':'abc','AttributeDefinitions':[{'AttributeName':'b','AttributeType':'SS'}]"
	        "," A_KEY "}",
	        ONE
	        "Value ~SS~ at ~attributeDefinitions.1.member.attributeType~ failed to satisfy constraint: "
	        "Member must satisfy enum value set: [B, N, S]");
	decode_unreadable(CREATE, "{'KeySchema':['a']}", "Unexpected field type");
}

TEST(create_table, billing_and_throughput_must_agree)
{
	decode_invalid(CREATE, "{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY "}",
	               BAD
	               "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is "
	               "PROVISIONED");
	decode_invalid(
	        CREATE,
	        "{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY "," PAY
	        ",'ProvisionedThroughput':{'ReadCapacityUnits':1,'WriteCapacityUnits':1}}",
	        BAD "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is "
	            "PAY_PER_REQUEST");
	decode_invalid(
	        CREATE,
	        "{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY
	        ",'ProvisionedThroughput':{'ReadCapacityUnits':0,'WriteCapacityUnits':1}}",
	        ONE
	        "Value ~0~ at ~provisionedThroughput.readCapacityUnits~ failed to satisfy constraint: Member "
	        "must have value greater than or equal to 1");
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY
	               ",'ProvisionedThroughput':{'ReadCapacityUnits':1,'WriteCapacityUnits':1000000001}}",
	               "Given value 1000000001 for WriteCapacityUnits is out of bounds");
}

TEST(create_table, keys_must_be_defined_and_in_order)
{
	decode_invalid(CREATE, "{'TableName':'abc','AttributeDefinitions':[" B_DEF "]," A_KEY "," PAY "}",
	               BAD "Some index key attributes are not defined in AttributeDefinitions. Keys: [a], "
	                   "AttributeDefinitions: [b]");
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF
	               "],'KeySchema':[{'AttributeName':'a',"
	               "'KeyType':'RANGE'}]," PAY "}",
	               "Invalid KeySchema: The first KeySchemaElement is not a HASH key type");
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF "," B_DEF
	               "],'KeySchema':[{'AttributeName':"
	               "'a','KeyType':'HASH'},{'AttributeName':'b','KeyType':'HASH'}]," PAY "}",
	               "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type");
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF
	               "],'KeySchema':[{'AttributeName':'a',"
	               "'KeyType':'HASH'},{'AttributeName':'a','KeyType':'RANGE'}]," PAY "}",
	               "Both the Hash Key and the Range Key element in the KeySchema have the same name");
}

TEST(create_table, every_definition_is_used_once)
{
	decode_invalid(
	        CREATE, "{'TableName':'abc','AttributeDefinitions':[" A_DEF "," B_DEF "]," A_KEY "," PAY "}",
	        BAD
	        "Number of attributes in KeySchema does not exactly match number of attributes defined in "
	        "AttributeDefinitions");
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF "," A_DEF "]," A_KEY "," PAY "}",
	               BAD "Duplicate AttributeName in AttributeDefinitions: a");
}

TEST(create_table, projections_are_complete)
{
#define INDEX_WITH(projection)                                                                               \
	"{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY "," PAY                               \
	",'GlobalSecondaryIndexes':[{'IndexName':'abc'," A_KEY ",'Projection':" projection "}]}"
	decode_accepts(CREATE, INDEX_WITH("{'ProjectionType':'ALL'}"));
	decode_invalid(CREATE, INDEX_WITH("{}"), BAD "Unknown ProjectionType: null");
	decode_invalid(CREATE, INDEX_WITH("{'ProjectionType':'ALL','NonKeyAttributes':['x']}"),
	               BAD "ProjectionType is ALL, but NonKeyAttributes is specified");
	decode_invalid(CREATE, INDEX_WITH("{'ProjectionType':'INCLUDE'}"),
	               BAD "ProjectionType is INCLUDE, but NonKeyAttributes is not specified");
	decode_invalid(CREATE, INDEX_WITH("{'ProjectionType':'INCLUDE','NonKeyAttributes':[]}"),
	               ONE "Value ~[]~ at ~globalSecondaryIndexes.1.member.projection.nonKeyAttributes~ "
	                   "failed to satisfy "
	                   "constraint: Member must have length greater than or equal to 1");
}

static const char *indexes_request(struct arena *a, const char *field, unsigned count)
{
	struct buf out;

	buf_init(&out, a);
	buf_add_bytes(&out,
	              BYTES("{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY "," PAY ",'"));
	buf_add_bytes(&out, bytes_of(field));
	buf_add_bytes(&out, BYTES("':["));
	for (unsigned i = 0; i < count; i++)
		buf_add_bytes(&out, arena_printf(a,
		                                 "%s{'IndexName':'i%02u'," A_KEY
		                                 ",'Projection':{'ProjectionType':'ALL'}}",
		                                 i > 0 ? "," : "", i));
	buf_add(&out, "]}", 3);
	return out.data;
}

TEST(create_table, indexes_end_at_their_limits)
{
	struct arena a;

	arena_init(&a);
	decode_accepts(CREATE, indexes_request(&a, "GlobalSecondaryIndexes", TABLE_GSI_MAX));
	decode_invalid(CREATE, indexes_request(&a, "GlobalSecondaryIndexes", TABLE_GSI_MAX + 1),
	               BAD "Number of GlobalSecondaryIndexes exceeds per-table limit of 20");
	decode_invalid(CREATE, indexes_request(&a, "GlobalSecondaryIndexes", 0),
	               BAD "List of GlobalSecondaryIndexes is empty");
	decode_accepts(CREATE, indexes_request(&a, "LocalSecondaryIndexes", TABLE_LSI_MAX));
	decode_invalid(CREATE, indexes_request(&a, "LocalSecondaryIndexes", TABLE_LSI_MAX + 1),
	               BAD "Number of LocalSecondaryIndexes exceeds per-table limit of 5");
	arena_release(&a);
}

TEST(create_table, what_this_server_lacks_is_refused_by_name)
{
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY "," PAY
	               ",'StreamSpecification':{'StreamEnabled':true,'StreamViewType':'NEW_IMAGE'}}",
	               BAD "Streams are not supported by this endpoint");
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY "," PAY
	               ",'SSESpecification':{'Enabled':true}}",
	               BAD "SSESpecification is not supported by this endpoint");
	decode_invalid(CREATE,
	               "{'TableName':'abc','AttributeDefinitions':[" A_DEF "]," A_KEY "," PAY
	               ",'ResourcePolicy':'{}'}",
	               ONE "Value ~{}~ at ~resourcePolicy~ failed to satisfy constraint: Member is not "
	                   "supported by this "
	                   "endpoint");
}

/* ---- UpdateTable ---- */

TEST(update_table, each_kind_of_change_is_decoded)
{
	struct decoded             d;
	const struct table_change *c;

	decode_ok(&d, ALTER,
	          "{'TableName':'abc','AttributeDefinitions':[" A_DEF "],'BillingMode':'PROVISIONED',"
	          "'ProvisionedThroughput':{'ReadCapacityUnits':3,'WriteCapacityUnits':4},"
	          "'DeletionProtectionEnabled':true,'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'"
	          "new'," A_KEY ",'Projection':{'ProjectionType':'ALL'}}},{'Update':{'IndexName':'old','"
	          "ProvisionedThroughput':{"
	          "'ReadCapacityUnits':7,'WriteCapacityUnits':8}}}]}");
	c = d.request.alter.alter.changes;
	assert_int_equal(d.request.alter.alter.count, 4);
	assert_false(d.request.alter.provisioned_only);
	assert_int_equal(c[0].kind, CHANGE_BILLING);
	assert_int_equal(c[0].write_units, 4);
	assert_int_equal(c[1].kind, CHANGE_PROTECTION);
	assert_int_equal(c[2].kind, CHANGE_CREATE_INDEX);
	assert_bytes(c[2].index.keys.hash.name, "a");
	assert_int_equal(c[3].kind, CHANGE_INDEX_UNITS);
	assert_int_equal(c[3].read_units, 7);
	decoded_release(&d);
	decode_ok(&d, ALTER,
	          "{'TableName':'abc','GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'old'}}]}");
	assert_int_equal(d.request.alter.alter.changes[0].kind, CHANGE_DELETE_INDEX);
	decoded_release(&d);
	decode_ok(
	        &d, ALTER,
	        "{'TableName':'abc','ProvisionedThroughput':{'ReadCapacityUnits':3,'WriteCapacityUnits':4}}");
	assert_true(d.request.alter.provisioned_only);
	decoded_release(&d);
}

TEST(update_table, a_change_is_required_and_unambiguous)
{
	decode_invalid(ALTER, "{'TableName':'abc'}",
	               "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, "
	               "GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required");
	decode_invalid(ALTER, "{'TableName':'abc','GlobalSecondaryIndexUpdates':[{}]}",
	               BAD
	               "Each GlobalSecondaryIndexUpdate must hold exactly one of Create, Update and Delete");
	decode_invalid(ALTER, "{'TableName':'abc','BillingMode':'PROVISIONED'}",
	               BAD
	               "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is "
	               "PROVISIONED");
	decode_fails(ALTER,
	             "{'TableName':'abc','GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'one'}},"
	             "{'Delete':{'IndexName':'two'}}]}",
	             ERR_LIMIT,
	             "Subscriber limit exceeded: Only 1 online index can be created or deleted "
	             "simultaneously per table");
	decode_invalid(ALTER,
	               "{'TableName':'abc','GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'new'," A_KEY
	               ",'Projection':{'ProjectionType':'ALL'}}}]}",
	               BAD "Some index key attributes are not defined in AttributeDefinitions. Keys: [a], "
	                   "AttributeDefinitions: []");
}

/* ---- the small ones ---- */

TEST(list_tables, the_limit_has_bounds)
{
	struct decoded d;

	decode_ok(&d, request_list_tables, "{}");
	assert_int_equal(d.request.list.limit, TABLE_LIST_MAX);
	decoded_release(&d);
	decode_ok(&d, request_list_tables, "{'Limit':1,'ExclusiveStartTableName':'abc'}");
	assert_int_equal(d.request.list.limit, 1);
	assert_bytes(d.request.list.after, "abc");
	decoded_release(&d);
	decode_accepts(request_list_tables, "{'Limit':100}");
	decode_invalid(request_list_tables, "{'Limit':101}",
	               ONE "Value ~101~ at ~limit~ failed to satisfy constraint: Member must have value less "
	                   "than or equal "
	                   "to 100");
	decode_invalid(
	        request_list_tables, "{'Limit':0}",
	        ONE
	        "Value ~0~ at ~limit~ failed to satisfy constraint: Member must have value greater than or "
	        "equal to 1");
}

TEST(time_to_live, is_decoded)
{
	struct decoded d;

	decode_ok(&d, request_update_ttl,
	          "{'TableName':'abc','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	assert_true(d.request.ttl.enabled);
	assert_bytes(d.request.ttl.attribute, "ttl");
	decoded_release(&d);
	decode_invalid(
	        request_update_ttl, "{'TableName':'abc','TimeToLiveSpecification':{'Enabled':true}}",
	        ONE
	        "Value null at ~timeToLiveSpecification.attributeName~ failed to satisfy constraint: Member "
	        "must not be null");
}

/* A tag with this key and value; message NULL: it is one. */
static void tag_is(const char *key, const char *value, const char *message)
{
	char body[4000];

	snprintf(body, sizeof(body),
	         "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc','Tags':[{'Key':'%s','Value':'%s'}]}", key,
	         value);
	if (message == NULL)
		decode_accepts(request_tag, body);
	else
		decode_invalid(request_tag, body, message);
}

static const char *times(char to[1200], const char *character, unsigned count)
{
	to[0] = '\0';
	for (unsigned i = 0; i < count; i++)
		strcat(to, character);
	return to;
}

TEST(projection, names_each_attribute_once)
{
	decode_invalid(request_create_table,
	               "{'TableName':'abc','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	               "AttributeName':'p',"
	               "'AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}],"
	               "'GlobalSecondaryIndexes':[{'IndexName':'by-p','KeySchema':[{'AttributeName':'p','"
	               "KeyType':'HASH'}],"
	               "'Projection':{'ProjectionType':'INCLUDE','NonKeyAttributes':['a','b','a']}}]}",
	               BAD "Duplicate element in NonKeyAttributes: a");
}

TEST(tags, have_keys_of_1_to_128_and_values_of_0_to_256_characters)
{
	char text[1200], message[1300];

	tag_is(times(text, "é", 128), "", NULL);
	tag_is("k", times(text, "é", 256), NULL);
	tag_is("", "v", "The Tag Key provided is invalid, Key: ");
	snprintf(message, sizeof(message), "The Tag Key provided is invalid, Key: %s", times(text, "k", 129));
	tag_is(text, "v", message);
	snprintf(message, sizeof(message), "The Tag Value provided is invalid, Value: %s",
	         times(text, "v", 257));
	tag_is("k", text, message);
}

TEST(tags, are_letters_digits_spaces_and_a_few_marks)
{
	tag_is("a Z9 _.:/=+-@", "a Z9 _.:/=+-@ü", NULL);
	tag_is("a!", "v", "The Tag Key provided is invalid, Key: a!");
	tag_is("a", "v*", "The Tag Value provided is invalid, Value: v*");
	decode_invalid(request_untag, "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc','TagKeys':['a!']}",
	               "The Tag Key provided is invalid, Key: a!");
}

TEST(tags, are_sorted_distinct_and_bounded)
{
	struct arena   a;
	struct decoded d;
	struct buf     text;

	decode_ok(&d, request_tag,
	          "{'ResourceArn':'arn:aws:dynamodb:local:000000000000:table/"
	          "abc','Tags':[{'Key':'b','Value':''},"
	          "{'Key':'a','Value':'1'}]}");
	assert_bytes(d.request.alter.alter.table, "abc");
	assert_bytes(d.request.alter.alter.changes[0].tags[0].key, "a");
	decoded_release(&d);
	decode_accepts(request_untag, "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc','TagKeys':['b','a']}");
	decode_accepts(request_list_tags, "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc'}");
	decode_invalid(request_list_tags, "{'ResourceArn':'abc'}", "Invalid ResourceArn");
	decode_invalid(request_tag,
	               "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc','Tags':[{'Key':'a','Value':''},"
	               "{'Key':'a','Value':'1'}]}",
	               BAD "Duplicate tag key");
	arena_init(&a);
	for (unsigned over = 0; over < 2; over++) {
		buf_init(&text, &a);
		buf_add_bytes(&text, BYTES("{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc','Tags':["));
		for (unsigned i = 0; i < TABLE_TAG_MAX + over; i++)
			buf_add_bytes(&text,
			              arena_printf(&a, "%s{'Key':'%u','Value':''}", i > 0 ? "," : "", i));
		buf_add(&text, "]}", 3);
		if (over)
			decode_invalid(request_tag, text.data, BAD "Number of tags exceeds the limit of 50");
		else
			decode_accepts(request_tag, text.data);
	}
	arena_release(&a);
}
