/* Attribute values on the wire: all ten types both ways, and every way a value can be wrong. */
#include "decode.h"

#include "dynamo/wire.h"

#define NESTING                                                                                              \
	"Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond "   \
	"supported limit"

struct wire {
	struct arena        arena;
	struct json_reader *reader;
	struct json        *json;
	struct item         item;
	struct err          err;
	enum err_code       rc;
};

static void wire_read(struct wire *w, const char *text)
{
	memset(w, 0, sizeof(*w));
	arena_init(&w->arena);
	w->reader = json_reader_open();
	w->rc = json_read(w->reader, &w->arena, quoted(&w->arena, text), &w->json, &w->err);
	if (w->rc == ERR_NONE)
		w->rc = wire_item_check(w->json, &w->err);
	if (w->rc == ERR_NONE)
		w->rc = wire_item_read(&w->arena, w->json, &w->item, &w->err);
}

static void wire_release(struct wire *w)
{
	json_reader_close(w->reader);
	arena_release(&w->arena);
}

static struct bytes wire_written(struct wire *w)
{
	struct json_writer writer;
	struct buf         out;

	buf_init(&out, &w->arena);
	json_writer_init(&writer, &out);
	wire_item_write(&writer, &w->item);
	return buf_bytes(&out);
}

static void comes_back(const char *text, const char *expected)
{
	struct wire w;

	wire_read(&w, text);
	if (w.rc != ERR_NONE)
		fail_msg("%s: %s", text, w.err.text);
	if (!bytes_equal(wire_written(&w), quoted(&w.arena, expected)))
		fail_msg("%s came back as %.*s", text, BYTES_ARG(wire_written(&w)));
	wire_release(&w);
}

static void refused(const char *text, enum err_code code, const char *message)
{
	struct wire w;

	wire_read(&w, text);
	if (w.rc != code || strcmp(w.err.text, message) != 0)
		fail_msg("%s:\n  got  %s: %s\n  want %s", text, err_name(w.rc), w.err.text, message);
	wire_release(&w);
}

TEST(wire, all_ten_types_come_back)
{
	comes_back(
	        "{'s':{'S':'text'},'n':{'N':'-1.50'},'b':{'B':'AAEC'},'t':{'BOOL':true},'f':{'BOOL':false},"
	        "'z':{'NULL':true},'m':{'M':{'x':{'S':''}}},'l':{'L':[{'N':'1'},{'L':[]}]},"
	        "'ss':{'SS':['b','a']},'ns':{'NS':['10','9']},'bs':{'BS':['Ag==','AQ==']}}",
	        "{'b':{'B':'AAEC'},'bs':{'BS':['AQ==','Ag==']},'f':{'BOOL':false},'l':{'L':[{'N':'1'},{'L':[]"
	        "}]},"
	        "'m':{'M':{'x':{'S':''}}},'n':{'N':'-1.5'},'ns':{'NS':['9','10']},'s':{'S':'text'},"
	        "'ss':{'SS':['a','b']},'t':{'BOOL':true},'z':{'NULL':true}}");
}

TEST(wire, numbers_come_back_in_canonical_form)
{
	comes_back("{'n':{'N':'1E3'}}", "{'n':{'N':'1000'}}");
	comes_back("{'n':{'N':'+0001.100'}}", "{'n':{'N':'1.1'}}");
	comes_back("{'n':{'N':'-0'}}", "{'n':{'N':'0'}}");
}

TEST(wire, empty_strings_binaries_lists_and_maps_are_values)
{
	comes_back("{'a':{'S':''},'b':{'B':''},'c':{'L':[]},'d':{'M':{}},'e':{'SS':['']}}",
	           "{'a':{'S':''},'b':{'B':''},'c':{'L':[]},'d':{'M':{}},'e':{'SS':['']}}");
}

TEST(wire, a_value_has_exactly_one_type)
{
	const char *empty =
	        "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes";
	const char *many =
	        "Supplied AttributeValue has more than one datatypes set, must contain exactly one of "
	        "the supported datatypes";

	refused("{'a':{}}", ERR_INVALID, empty);
	refused("{'a':{'X':'y'}}", ERR_INVALID, empty);
	refused("{'a':{'S':null}}", ERR_INVALID, empty);
	refused("{'a':null}", ERR_INVALID, empty);
	refused("{'a':{'L':[{}]}}", ERR_INVALID, empty);
	refused("{'a':{'L':[null]}}", ERR_INVALID, empty);
	refused("{'a':{'S':'x','N':'1'}}", ERR_INVALID, many);
	refused("{'a':{'S':'x','S':'y'}}", ERR_INVALID, many);
	comes_back("{'a':{'S':'x','N':null,'unknown':[1]}}", "{'a':{'S':'x'}}");
}

TEST(wire, null_must_be_true)
{
	refused("{'a':{'NULL':false}}", ERR_INVALID,
	        "One or more parameter values were invalid: Null attribute value types must have the value "
	        "of true");
}

TEST(wire, numbers_must_be_numbers)
{
	refused("{'a':{'N':'abc'}}", ERR_INVALID,
	        "The parameter cannot be converted to a numeric value: abc");
	refused("{'a':{'N':''}}", ERR_INVALID, "The parameter cannot be converted to a numeric value");
	refused("{'a':{'NS':['1','x']}}", ERR_INVALID,
	        "The parameter cannot be converted to a numeric value: x");
	refused("{'a':{'N':'1e126'}}", ERR_INVALID,
	        "Number overflow. Attempting to store a number with magnitude larger than supported range");
	refused("{'a':{'N':'123456789012345678901234567890123456789'}}", ERR_INVALID,
	        "Attempting to store more than 38 significant digits in a Number");
	comes_back("{'a':{'N':'12345678901234567890123456789012345678'}}",
	           "{'a':{'N':'12345678901234567890123456789012345678'}}");
}

TEST(wire, sets_are_not_empty)
{
	refused("{'a':{'SS':[]}}", ERR_INVALID,
	        "One or more parameter values were invalid: An string set  may not be empty");
	refused("{'a':{'NS':[]}}", ERR_INVALID,
	        "One or more parameter values were invalid: An number set  may not be empty");
	refused("{'a':{'BS':[]}}", ERR_INVALID,
	        "One or more parameter values were invalid: Binary sets should not be empty");
}

TEST(wire, sets_do_not_repeat_themselves)
{
	refused("{'a':{'SS':['a','b','a']}}", ERR_INVALID,
	        "One or more parameter values were invalid: Input collection [a, b, a] contains duplicates.");
	refused("{'a':{'NS':['1','1.0']}}", ERR_INVALID, "Input collection contains duplicates");
	refused("{'a':{'BS':['AQ==','AQ==']}}", ERR_INVALID,
	        "One or more parameter values were invalid: Input collection [AQ==, AQ==]of type BS contains "
	        "duplicates.");
}

TEST(wire, wrong_json_types_are_serialization_errors)
{
	refused("{'a':{'S':1}}", ERR_SERIALIZATION, "NUMBER_VALUE cannot be converted to String");
	refused("{'a':{'N':1}}", ERR_SERIALIZATION, "NUMBER_VALUE cannot be converted to String");
	refused("{'a':{'N':1.5}}", ERR_SERIALIZATION, "DECIMAL_VALUE cannot be converted to String");
	refused("{'a':{'S':true}}", ERR_SERIALIZATION, "TRUE_VALUE cannot be converted to String");
	refused("{'a':{'S':[]}}", ERR_SERIALIZATION, "Unrecognized collection type class java.lang.String");
	refused("{'a':{'S':{}}}", ERR_SERIALIZATION, "Start of structure or map found where not expected");
	refused("{'a':{'BOOL':'true'}}", ERR_SERIALIZATION, "STRING_VALUE cannot be converted to Boolean");
	refused("{'a':{'NULL':1}}", ERR_SERIALIZATION, "NUMBER_VALUE cannot be converted to Boolean");
	refused("{'a':{'B':1}}", ERR_SERIALIZATION, "only base-64-encoded strings are convertible to bytes");
	refused("{'a':{'SS':'x'}}", ERR_SERIALIZATION, "Unexpected field type");
	refused("{'a':{'SS':[1]}}", ERR_SERIALIZATION, "NUMBER_VALUE cannot be converted to String");
	refused("{'a':{'SS':[null]}}", ERR_SERIALIZATION, "NULL_VALUE cannot be converted to String");
	refused("{'a':{'L':{}}}", ERR_SERIALIZATION, "Start of structure or map found where not expected");
	refused("{'a':{'L':[1]}}", ERR_SERIALIZATION, "Unexpected field type");
	refused("{'a':{'M':[]}}", ERR_SERIALIZATION, "Unrecognized collection type java.util.Map");
	refused("{'a':{'M':{'b':'c'}}}", ERR_SERIALIZATION, "Unexpected field type");
	refused("{'a':'b'}", ERR_SERIALIZATION, "Unexpected field type");
	refused("{'a':[]}", ERR_SERIALIZATION,
	        "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.AttributeValue");
	refused("[]", ERR_SERIALIZATION, "Unrecognized collection type java.util.Map");
	refused("null", ERR_SERIALIZATION, "Unexpected field type");
}

TEST(wire, binaries_are_strict_base64)
{
	refused("{'a':{'B':'23456'}}", ERR_SERIALIZATION,
	        "Base64 encoded length is expected a multiple of 4 bytes but found: 5");
	refused("{'a':{'B':'//=='}}", ERR_SERIALIZATION, "Invalid last non-pad Base64 character dectected");
	refused("{'a':{'BS':['A A=']}}", ERR_SERIALIZATION, "Invalid Base64 character");
}

TEST(wire, a_name_twice_or_empty_is_refused)
{
	refused("{'a':{'S':'1'},'a':{'S':'2'}}", ERR_SERIALIZATION, "Duplicate field in a map");
	refused("{'a':{'M':{'b':{'S':'1'},'b':{'S':'2'}}}}", ERR_SERIALIZATION, "Duplicate field in a map");
	refused("{'':{'S':'1'}}", ERR_INVALID, "Empty attribute name");
}

/* depth lists around a string. */
static struct bytes deep(struct arena *a, unsigned depth)
{
	struct buf out;

	buf_init(&out, a);
	buf_add_bytes(&out, BYTES("{'a':"));
	for (unsigned i = 0; i < depth; i++)
		buf_add_bytes(&out, BYTES("{'L':["));
	buf_add_bytes(&out, BYTES("{'S':'x'}"));
	for (unsigned i = 0; i < depth; i++)
		buf_add_bytes(&out, BYTES("]}"));
	buf_add(&out, "}", 2);
	return buf_bytes(&out);
}

TEST(wire, nesting_ends_at_the_limit)
{
	struct arena a;

	arena_init(&a);
	comes_back(deep(&a, VALUE_DEPTH_MAX).data, deep(&a, VALUE_DEPTH_MAX).data);
	refused(deep(&a, VALUE_DEPTH_MAX + 1).data, ERR_INVALID, NESTING);
	refused(deep(&a, 60).data, ERR_INVALID, NESTING);
	arena_release(&a);
}

TEST(wire, a_name_ends_at_the_limit)
{
	struct arena a;
	struct wire  w;

	arena_init(&a);
	for (unsigned over = 0; over < 2; over++) {
		char *name = arena_zalloc(&a, NAME_BYTES_MAX + 2);

		memset(name, 'n', NAME_BYTES_MAX + over);
		wire_read(&w, arena_printf(&a, "{'%s':{'S':'x'}}", name).data);
		assert_int_equal(w.rc, over ? ERR_INVALID : ERR_NONE);
		wire_release(&w);
	}
	arena_release(&a);
}
