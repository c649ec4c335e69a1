/* Messages: every text that DynamoDB's callers may match on, in one table. They are facts of the protocol,
 * gathered from AWS's documentation and from what clients report; a few are formats for printf. */
#ifndef ITEM_MESSAGES_H
#define ITEM_MESSAGES_H

/* numbers */
#define MSG_NUMBER_BAD       "The parameter cannot be converted to a numeric value: %.*s"
#define MSG_NUMBER_EMPTY     "The parameter cannot be converted to a numeric value"
#define MSG_NUMBER_PRECISION "Attempting to store more than 38 significant digits in a Number"
#define MSG_NUMBER_OVERFLOW                                                                                  \
	"Number overflow. Attempting to store a number with magnitude larger than supported range"
#define MSG_NUMBER_UNDERFLOW                                                                                 \
	"Number underflow. Attempting to store a number with magnitude smaller than supported range"

/* requests */
/* JSON types: SerializationException */
#define MSG_TYPE_STRUCTURE   "Start of structure or map found where not expected"
#define MSG_TYPE_CLASS       "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.%s"
#define MSG_TYPE_JAVA        "Unrecognized collection type class java.lang.%s"
#define MSG_TYPE_MAP         "Unrecognized collection type java.util.Map"
#define MSG_TYPE_FIELD       "Unexpected field type"
#define MSG_TYPE_SCALAR      "%s cannot be converted to %s"
#define MSG_TYPE_BLOB        "only base-64-encoded strings are convertible to bytes"
#define MSG_BASE64_LENGTH    "Base64 encoded length is expected a multiple of 4 bytes but found: %zu"
#define MSG_BASE64_BITS      "Invalid last non-pad Base64 character dectected"
#define MSG_BASE64_CHARACTER "Invalid Base64 character"
#define MSG_TYPE_DUPLICATE   "Duplicate field in a map"
#define MSG_DETECTED         "1 validation error detected: "
/* constraints: "N validation errors detected: Value '…' at '…' failed to satisfy constraint: …" */
#define MSG_RULE_NOT_NULL    "Member must not be null"
#define MSG_RULE_LENGTH_MIN  "Member must have length greater than or equal to"
#define MSG_RULE_LENGTH_MAX  "Member must have length less than or equal to"
#define MSG_RULE_VALUE_MIN   "Member must have value greater than or equal to"
#define MSG_RULE_VALUE_MAX   "Member must have value less than or equal to"
#define MSG_RULE_NAME        "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
#define MSG_RULE_CHOICE      "Member must satisfy enum value set: %s"
#define MSG_RULE_UNSUPPORTED "Member is not supported by this endpoint"
#define MSG_RULE_TABLE_KEYS                                                                                  \
	"Map keys must satisfy constraint: [Member must have length less than or equal to 255, Member must " \
	"have length greater than or equal to 3, Member must satisfy regular expression pattern: "           \
	"[a-zA-Z0-9_.-]+]"
/* attribute values */
#define MSG_VALUE_EMPTY                                                                                      \
	"Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
#define MSG_VALUE_MANY                                                                                       \
	"Supplied AttributeValue has more than one datatypes set, must contain exactly one of the "          \
	"supported "                                                                                         \
	"datatypes"
#define MSG_PARAMETER_INVALID "One or more parameter values were invalid: "
#define MSG_VALUE_NULL_FALSE  MSG_PARAMETER_INVALID "Null attribute value types must have the value of true"
#define MSG_SET_EMPTY_SS      MSG_PARAMETER_INVALID "An string set  may not be empty"
#define MSG_SET_EMPTY_NS      MSG_PARAMETER_INVALID "An number set  may not be empty"
#define MSG_SET_EMPTY_BS      MSG_PARAMETER_INVALID "Binary sets should not be empty"
#define MSG_SET_DUPLICATE_SS  MSG_PARAMETER_INVALID "Input collection %.*s contains duplicates."
#define MSG_SET_DUPLICATE_NS  "Input collection contains duplicates"
#define MSG_SET_DUPLICATE_BS  MSG_PARAMETER_INVALID "Input collection %.*sof type BS contains duplicates."
#define MSG_NESTING                                                                                          \
	"Nesting Levels have exceeded supported limits: "                                                    \
	"Attributes in the item have nested levels beyond supported limit"
#define MSG_NAME_EMPTY    "Empty attribute name"
#define MSG_TAGS_NONE     "Atleast one Tag needs to be provided as Input."
#define MSG_TAG_KEYS_NONE "Atleast one Tag Key needs to be provided as Input."
#define MSG_NAME_LONG     "Attribute name is too large, must be less than 65536 bytes"
/* which parameters go together */
#define MSG_PARAMETERS_MIXED                                                                                 \
	"Can not use both expression and non-expression parameters in the same request: Non-expression "     \
	"parameters: {%.*s} Expression parameters: {%.*s}"
#define MSG_NAMES_ALONE "ExpressionAttributeNames can only be specified when using expressions"
#define MSG_NAMES_NONE  "ExpressionAttributeNames must not be empty"
#define MSG_VALUES_ALONE                                                                                     \
	"ExpressionAttributeValues can only be specified when using expressions: %.*s %s null"
#define MSG_VALUES_NONE     "ExpressionAttributeValues must not be empty"
#define MSG_NAMES_INVALID   "ExpressionAttributeNames contains invalid value: %s for key %.*s"
#define MSG_VALUES_INVALID  "ExpressionAttributeValues contains invalid value: %s for key %.*s"
#define MSG_RETURN_VALUES   "ReturnValues can only be ALL_OLD or NONE"
#define MSG_START_KEY_VALUE "The provided starting key is invalid: %s"
#define MSG_KEY_CONDITION                                                                                    \
	"Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
#define MSG_SEGMENTS_MISSING                                                                                 \
	"The TotalSegments parameter is required but was not present in the request when Segment parameter " \
	"is present"
#define MSG_SEGMENT_MISSING                                                                                  \
	"The Segment parameter is required but was not present in the request when parameter TotalSegments " \
	"is present"
#define MSG_SEGMENT_RANGE                                                                                    \
	"The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is " \
	"not less than TotalSegments: %d"
#define MSG_SELECT_COUNT "Cannot specify the %s when choosing to get only the Count"
#define MSG_SELECT_ALL   "Cannot specify the %s when choosing to get %s"
#define MSG_SELECT_SPECIFIC                                                                                  \
	"Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"
#define MSG_SELECT_PROJECTED "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"
#define MSG_BATCH_GET_MANY   "Too many items requested for the BatchGetItem call"
#define MSG_BATCH_WRITE_MANY "Too many items requested for the BatchWriteItem call"
#define MSG_TRANSACT_ONE     "TransactItems can only contain one of Check, Put, Update or Delete"
#define MSG_CANCELLED        "Transaction cancelled, please refer cancellation reasons for specific reasons"
/* tables */
#define MSG_TAGS_MANY MSG_PARAMETER_INVALID "Number of tags exceeds the limit of %d"
#define MSG_UNITS_MISSING                                                                                    \
	MSG_PARAMETER_INVALID                                                                                \
	"ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"
#define MSG_UNITS_SUPERFLUOUS                                                                                \
	MSG_PARAMETER_INVALID                                                                                \
	"Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is "             \
	"PAY_PER_REQUEST"
#define MSG_DEMAND_PROVISIONED                                                                               \
	MSG_PARAMETER_INVALID "%s for OnDemandThroughput cannot be specified when the table BillingMode is " \
	                      "PROVISIONED"
#define MSG_DEMAND_RANGE                                                                                     \
	MSG_PARAMETER_INVALID "Requested %s for OnDemandThroughput for table is outside of valid range"
#define MSG_WARM_NONE                                                                                        \
	MSG_PARAMETER_INVALID "WarmThroughput must have at least one of ReadUnitsPerSecond or "              \
	                      "WriteUnitsPerSecond specified"
#define MSG_WARM_LOWER                                                                                       \
	MSG_PARAMETER_INVALID "Requested %s for WarmThroughput for %s%.*s is lower than current "            \
	                      "WarmThroughput, decreasing WarmThroughput is not supported"
#define MSG_TABLE_CLASS                                                                                      \
	"Invalid table-class parameter provided. Please try again with a valid table-class value: "          \
	"[STANDARD, "                                                                                        \
	"STANDARD_INFREQUENT_ACCESS]."
#define MSG_INDEX_UPDATE_NONE MSG_PARAMETER_INVALID "ProvisionedThroughput must be specified for index: %.*s"
#define MSG_UNITS_SAME                                                                                       \
	"The provisioned throughput for the %s%.*s will not change. The requested value equals the current " \
	"value. Current ReadCapacityUnits provisioned for the %s%.*s: %lld. Requested ReadCapacityUnits: "   \
	"%lld. Current WriteCapacityUnits provisioned for the %s%.*s: %lld. Requested WriteCapacityUnits: "  \
	"%lld. Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher "   \
	"limits."
#define MSG_UNITS_BOUNDS "Given value %lld for %s is out of bounds"
#define MSG_KEY_UNDEFINED                                                                                    \
	MSG_PARAMETER_INVALID "Some index key attributes are not defined in AttributeDefinitions. Keys: "    \
	                      "[%.*s], AttributeDefinitions: [%.*s]"
#define MSG_KEY_SAME_NAME "Both the Hash Key and the Range Key element in the KeySchema have the same name"
#define MSG_KEY_FIRST     "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"
#define MSG_KEY_SECOND    "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"
#define MSG_DEFINITIONS_COUNT                                                                                \
	MSG_PARAMETER_INVALID                                                                                \
	"Number of attributes in KeySchema does not exactly match number of attributes defined in "          \
	"AttributeDefinitions"
#define MSG_DEFINITION_UNUSED                                                                                \
	MSG_PARAMETER_INVALID "Some AttributeDefinitions are not used. AttributeDefinitions: [%.*s]"
#define MSG_DEFINITION_TWICE MSG_PARAMETER_INVALID "Duplicate AttributeName in AttributeDefinitions: %.*s"
#define MSG_INDEXES_EMPTY    MSG_PARAMETER_INVALID "List of %s is empty"
#define MSG_PROJECTION_NONE  MSG_PARAMETER_INVALID "Unknown ProjectionType: null"
#define MSG_PROJECTION_TWICE MSG_PARAMETER_INVALID "Duplicate element in NonKeyAttributes: %.*s"
#define MSG_PROJECTION_EXTRA MSG_PARAMETER_INVALID "ProjectionType is %s, but NonKeyAttributes is specified"
#define MSG_PROJECTION_LACKS                                                                                 \
	MSG_PARAMETER_INVALID "ProjectionType is INCLUDE, but NonKeyAttributes is not specified"
#define MSG_STREAMS    MSG_PARAMETER_INVALID "Streams are not supported by this endpoint"
#define MSG_ENCRYPTION MSG_PARAMETER_INVALID "SSESpecification is not supported by this endpoint"
#define MSG_UPDATE_NOTHING                                                                                   \
	"At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, "                          \
	"GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required"
#define MSG_UPDATE_ONE                                                                                       \
	MSG_PARAMETER_INVALID                                                                                \
	"Each GlobalSecondaryIndexUpdate must hold exactly one of Create, Update and Delete"
#define MSG_UPDATE_INDEX_MANY                                                                                \
	"Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
#define MSG_TTL_ENABLED  "TimeToLive is already enabled"
#define MSG_TTL_DISABLED "TimeToLive is already disabled"
#define MSG_TTL_OTHER    "TimeToLive is active on a different AttributeName: current AttributeName is %.*s"
#define MSG_ARN_BAD      "Invalid TableArn"
#define MSG_RESOURCE_ARN "Invalid ResourceArn"
#define MSG_TAG_KEY      "The Tag Key provided is invalid, Key: %.*s"
#define MSG_TAG_VALUE    "The Tag Value provided is invalid, Value: %.*s"
#define MSG_TAG_TWICE    MSG_PARAMETER_INVALID "Duplicate tag key"
/* legacy parameters */
#define MSG_LEGACY_COUNT MSG_PARAMETER_INVALID "Invalid number of argument(s) for the %.*s ComparisonOperator"
#define MSG_LEGACY_TYPE                                                                                      \
	MSG_PARAMETER_INVALID                                                                                \
	"ComparisonOperator %.*s is not valid for %s AttributeValue type"
#define MSG_LEGACY_BETWEEN                                                                                   \
	"The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"
#define MSG_LEGACY_MIXED_TYPES                                                                               \
	MSG_PARAMETER_INVALID "AttributeValues inside AttributeValueList must be of same type"
#define MSG_LEGACY_OPERATOR_ALONE                                                                            \
	MSG_PARAMETER_INVALID "ConditionalOperator cannot be used without Filter or Expected"
#define MSG_LEGACY_OPERATOR_ONE                                                                              \
	MSG_PARAMETER_INVALID "ConditionalOperator can only be used when Filter or Expected has two or "     \
	                      "more elements"
#define MSG_LEGACY_VALUE_AND_LIST                                                                            \
	MSG_PARAMETER_INVALID                                                                                \
	"Value and AttributeValueList cannot be used together for Attribute: %.*s"
#define MSG_LEGACY_VALUE_NONE                                                                                \
	MSG_PARAMETER_INVALID "Value or AttributeValueList must be used with ComparisonOperator: %.*s for "  \
	                      "Attribute: %.*s"
#define MSG_LEGACY_EXISTS_AND_OPERATOR                                                                       \
	MSG_PARAMETER_INVALID                                                                                \
	"Exists and ComparisonOperator cannot be used together for Attribute: %.*s"
#define MSG_LEGACY_LIST_ALONE                                                                                \
	MSG_PARAMETER_INVALID                                                                                \
	"AttributeValueList can only be used with a ComparisonOperator for Attribute: %.*s"
#define MSG_LEGACY_EXISTS_VALUE                                                                              \
	MSG_PARAMETER_INVALID "Value must be provided when Exists is %s for Attribute: %.*s"
#define MSG_LEGACY_NOT_EXISTS_VALUE                                                                          \
	MSG_PARAMETER_INVALID "Value cannot be used when Exists is false for Attribute: %.*s"
#define MSG_LEGACY_DELETE_TYPE                                                                               \
	MSG_PARAMETER_INVALID "DELETE action with value is not supported for the type %s"
#define MSG_LEGACY_ADD_TYPE MSG_PARAMETER_INVALID "ADD action is not supported for the type %s"
#define MSG_LEGACY_UPDATE_VALUE                                                                              \
	MSG_PARAMETER_INVALID "Only DELETE action is allowed when no attribute value is specified"
#define MSG_LEGACY_ATTRIBUTE_TWICE MSG_PARAMETER_INVALID "Duplicate value in attribute name: %.*s"
#define MSG_LEGACY_MANY            MSG_PARAMETER_INVALID "More than %d elements in a condition or update"
#define MSG_LEGACY_KEYS_COUNT      "Conditions can be of length 1 or 2 only"
#define MSG_LEGACY_KEY_OPERATOR    "Attempted conditional constraint is not an indexable operation"
#define MSG_LEGACY_KEY_HASH        "Query key condition not supported"

/* expressions: each follows MSG_EXPR_FIELD, which names the request field */
#define MSG_EXPR_FIELD       "Invalid %s: "
#define MSG_EXPR_EMPTY       "The expression can not be empty;"
#define MSG_EXPR_SIZE        "Expression size has exceeded the maximum allowed size; expression size: %zu"
#define MSG_EXPR_SYNTAX      "Syntax error; token: \"%.*s\", near: \"%.*s\""
#define MSG_EXPR_PARENTHESES "The expression has redundant parentheses;"
#define MSG_EXPR_OPERATORS   "The expression contains too many operators; operator count: %u"
#define MSG_EXPR_RESERVED    "Attribute name is a reserved keyword; reserved keyword: %.*s"
#define MSG_EXPR_INDEX       "List index is not within the allowable range; index: [%.*s]"
#define MSG_EXPR_PATH_DEPTH  "The document path has too many nesting levels; nesting levels: %u"
#define MSG_EXPR_NO_NAME                                                                                     \
	"An expression attribute name used in the document path is not defined; attribute name: %.*s"
#define MSG_EXPR_NO_VALUE                                                                                    \
	"An expression attribute value used in expression is not defined; attribute value: %.*s"
#define MSG_EXPR_FUNCTION "Invalid function name; function: %.*s"
#define MSG_EXPR_FUNCTION_PLACE                                                                              \
	"The function is not allowed to be used this way in an expression; function: %.*s"
#define MSG_EXPR_NOT_IN_CONDITION "The function is not allowed in a condition expression; function: %.*s"
#define MSG_EXPR_NOT_IN_UPDATE    "The function is not allowed in an update expression; function: %.*s"
#define MSG_EXPR_OPERAND_COUNT                                                                               \
	"Incorrect number of operands for operator or function; operator or function: %s, number of "        \
	"operands: %u"
#define MSG_EXPR_OPERAND_TYPE                                                                                \
	"Incorrect operand type for operator or function; operator or function: %s, operand type: %s"
#define MSG_EXPR_OPERAND_PATH "Operator or function requires a document path; operator or function: %s"
#define MSG_EXPR_DISTINCT                                                                                    \
	"The first operand must be distinct from the remaining operands for this operator or function; "     \
	"operator: %s, first operand: %.*s"
#define MSG_EXPR_TYPE_NAME                                                                                   \
	"Invalid attribute type name found; type: %.*s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"
#define MSG_EXPR_BETWEEN_ORDER                                                                               \
	"The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower "       \
	"bound operand: AttributeValue: {%s:%.*s}, upper bound operand: AttributeValue: {%s:%.*s}"
#define MSG_EXPR_BETWEEN_TYPE                                                                                \
	"The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: "     \
	"AttributeValue: {%s:%.*s}, upper bound operand: AttributeValue: {%s:%.*s}"
#define MSG_EXPR_IN_COUNT "The IN operator is provided with too many operands; number of operands: %u"
#define MSG_EXPR_SECTION  "The \"%s\" section can only be used once in an update expression;"
#define MSG_EXPR_OVERLAP                                                                                     \
	"Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "  \
	"%.*s, path two: %.*s"
#define MSG_EXPR_CONFLICT                                                                                    \
	"Two document paths conflict with each other; must remove or rewrite one of these paths; path one: " \
	"%.*s, path two: %.*s"
#define MSG_EXPR_ACTION_TYPE                                                                                 \
	"Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: "         \
	"ALLOWED_FOR_%s_OPERAND"

/* placeholders of expressions */
#define MSG_SCOPE_KEY "%s contains invalid key: Syntax error; key: \"%.*s\""
#define MSG_SCOPE_KEY_LONG                                                                                   \
	"%s contains invalid key: The expression attribute map contains a key that is too long; size of "    \
	"key: %zu"
#define MSG_SCOPE_KEY_TWICE "%s contains invalid key: The key occurs more than once; key: \"%.*s\""
#define MSG_SCOPE_UNUSED    "Value provided in %s unused in expressions: keys: {%.*s}"

/* key conditions */
#define MSG_KEYCOND_OPERATOR "Invalid operator used in KeyConditionExpression: %s"
#define MSG_KEYCOND_NESTED   "KeyConditionExpressions cannot contain nested operations"
#define MSG_KEYCOND_FIRST                                                                                    \
	"Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first " \
	"operand"
#define MSG_KEYCOND_MULTIPLE                                                                                 \
	"Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"
#define MSG_KEYCOND_NO_ATTRIBUTE "Invalid condition in KeyConditionExpression: No key attribute specified"
#define MSG_KEYCOND_PATH         "KeyConditionExpressions cannot have conditions on nested attributes"
#define MSG_KEYCOND_TWICE                                                                                    \
	"Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"
#define MSG_KEYCOND_COUNT                                                                                    \
	"The number of query conditions (%u) exceeds the number of key attributes defined in the schema (2)"
#define MSG_KEYCOND_UNSUPPORTED "Query key condition not supported"

/* applying updates */
#define MSG_APPLY_NO_ATTRIBUTE                                                                               \
	"The provided expression refers to an attribute that does not exist in the item"
#define MSG_APPLY_PATH     "The document path provided in the update expression is invalid for update"
#define MSG_APPLY_TYPE     "An operand in the update expression has an incorrect data type"
#define MSG_NO_TABLE       "Requested resource not found"
#define MSG_NO_TABLE_NAMED "Requested resource not found: Table: %.*s not found"
#define MSG_TABLE_EXISTS   "Table already exists: %.*s"
#define MSG_TABLE_PROTECTED                                                                                  \
	"Resource cannot be deleted as it is currently protected against deletion. Disable deletion "        \
	"protection first."
#define MSG_TABLES_MAX "Subscriber limit exceeded: There is a limit of %d tables per account"
#define MSG_NO_INDEX   "The table does not have the specified index: %.*s"
#define MSG_INDEX_EXISTS                                                                                     \
	"One or more parameter values were invalid: Index with that name already exists: %.*s"
#define MSG_INDEX_BUSY        "Attempting to change a resource which is still in use: Index is being created: %.*s"
#define MSG_INDEX_BACKFILLING "Cannot read from backfilling global secondary index: %.*s"
#define MSG_INDEX_TWICE       "One or more parameter values were invalid: Duplicate index name: %.*s"
#define MSG_LSI_NO_RANGE                                                                                     \
	"One or more parameter values were invalid: Table KeySchema does not have a range key, which is "    \
	"required when specifying a LocalSecondaryIndex"
#define MSG_LSI_HASH                                                                                         \
	"One or more parameter values were invalid: Index KeySchema does not have the same leading hash "    \
	"key as table KeySchema for index: %.*s. index hash key: %.*s, table hash key: %.*s"
#define MSG_LSI_MAX                                                                                          \
	"One or more parameter values were invalid: Number of LocalSecondaryIndexes exceeds per-table "      \
	"limit of 5"
#define MSG_GSI_MAX                                                                                          \
	"One or more parameter values were invalid: Number of GlobalSecondaryIndexes exceeds per-table "     \
	"limit of 20"
#define MSG_INCLUDE_MAX                                                                                      \
	"One or more parameter values were invalid: Number of NonKeyAttributes projected over all indexes "  \
	"exceeds the limit of 100"
#define MSG_KEY_MISMATCH "The provided key element does not match the schema"
#define MSG_KEY_MISSING  "One or more parameter values were invalid: Missing the key %.*s in the item"
#define MSG_KEY_TYPE                                                                                         \
	"One or more parameter values were invalid: Type mismatch for key %.*s expected: %s actual: %s"
#define MSG_KEY_EMPTY                                                                                        \
	"One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain " \
	"an empty %s value. Key: %.*s"
#define MSG_HASH_SIZE                                                                                        \
	"One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit "    \
	"of2048 bytes"
#define MSG_RANGE_SIZE                                                                                       \
	"One or more parameter values were invalid: Aggregated size of all range keys has exceeded the "     \
	"size "                                                                                              \
	"limit of 1024 bytes"
#define MSG_INDEX_KEY_TYPE                                                                                   \
	"One or more parameter values were invalid: Type mismatch for Index Key %.*s Expected: %s Actual: "  \
	"%s "                                                                                                \
	"IndexName: %.*s"
#define MSG_INDEX_KEY_EMPTY                                                                                  \
	"One or more parameter values are not valid. A value specified for a secondary index key is not "    \
	"supported. The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: "    \
	"%.*s, IndexKey: %.*s"
#define MSG_INDEX_KEY_SIZE                                                                                   \
	"One or more parameter values were invalid: Size of the key attribute %.*s of index %.*s has "       \
	"exceeded the maximum size limit of %d bytes"
#define MSG_ITEM_SIZE        "Item size has exceeded the maximum allowed size"
#define MSG_ITEM_SIZE_UPDATE "Item size to update has exceeded the maximum allowed size"
#define MSG_UPDATE_KEY                                                                                       \
	"One or more parameter values were invalid: Cannot update attribute %.*s. This attribute is part "   \
	"of the key"
#define MSG_QUERY_HASH "Query condition missed key schema element: %.*s"
#define MSG_QUERY_KEY_TYPE                                                                                   \
	"One or more parameter values were invalid: Condition parameter type does not match schema type"
#define MSG_FILTER_KEY                                                                                       \
	"Filter Expression can only contain non-primary key attributes: Primary key attribute: %.*s"
#define MSG_START_KEY_BAD                                                                                    \
	"The provided starting key is invalid: The provided key element does not match the schema"
#define MSG_START_KEY_ONE "The query can return at most one row and cannot be restarted"
#define MSG_START_KEY_RANGE                                                                                  \
	"The provided starting key is outside query boundaries based on provided conditions"
#define MSG_START_KEY_SEGMENT "The provided Exclusive start key is not within the segment's range"
#define MSG_GSI_CONSISTENT    "Consistent reads are not supported on global secondary indexes"
#define MSG_GSI_ALL                                                                                          \
	"One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global " \
	"secondary index %.*s because its projection type is not ALL"
#define MSG_PROJECT_MISSING                                                                                  \
	"One or more parameter values were invalid: Global secondary index %.*s does not project %.*s"
#define MSG_BATCH_TWICE    "Provided list of item keys contains duplicates"
#define MSG_TRANSACT_TWICE "Transaction request cannot include multiple operations on one item"
#define MSG_TRANSACT_SIZE  "Transaction request size has exceeded the maximum allowed size of 4194304 bytes"
/* ours: DynamoDB has no such bound */
#define MSG_EXPRESSION_COST                                                                                  \
	"The expressions of this request would examine more than %zu bytes, where a byte that contains() "   \
	"searches counts 16 times and a byte of an item that a condition is put on 12 times. Use fewer or "  \
	"simpler conditions, or smaller attributes; the operator can raise --expression-mb"
#define MSG_CONDITION_FAILED "The conditional request failed"
#define MSG_TOKEN_MISMATCH                                                                                   \
	"The provided client token has already been used for a request with other parameters"

/* signatures: AWS's, but without the Authorization header that some of them repeat, hashed */
#define MSG_SIGN_MISSING "Request is missing Authentication Token"
#define MSG_SIGN_QUERY                                                                                       \
	"Signatures in the query string are not supported by this endpoint: use an Authorization header"
#define MSG_SIGN_BOTH                                                                                        \
	"Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
#define MSG_SIGN_TWICE   "A signed request must not repeat the header '%s'"
#define MSG_SIGN_LONG    "Authorization header must not be longer than %d bytes"
#define MSG_SIGN_EQUAL   "Invalid key=value pair (missing equal-sign) in Authorization header."
#define MSG_SIGN_UNKNOWN "Authorization header holds a parameter that is unknown or repeated"
#define MSG_SIGN_NEEDS   "Authorization header requires '%s' parameter. "
#define MSG_SIGN_NEEDS_DATE                                                                                  \
	"Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
#define MSG_SIGN_DATE      "Date must be in ISO-8601 'basic format'. Got '%.*s'."
#define MSG_SIGN_EXPIRED   "Signature expired: %.*s is now earlier than %.*s (%.*s - 15 min.)"
#define MSG_SIGN_EARLY     "Signature not yet current: %.*s is still later than %.*s (%.*s + 15 min.)"
#define MSG_SIGN_HEADERS   "SignedHeaders must be lower-case header names, in order, each once, at most %d"
#define MSG_SIGN_HOST      "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
#define MSG_SIGN_HEADER    "'%.*s' must be a 'SignedHeader' in the AWS Authorization."
#define MSG_SIGN_ALGORITHM "Unsupported AWS 'algorithm': '%.*s' (only AWS4-HMAC-SHA256 for now). "
#define MSG_SIGN_CREDENTIAL                                                                                  \
	"Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term"
#define MSG_SIGN_REGION     "Credential should be scoped to a valid region. "
#define MSG_SIGN_REGION_IS  "Credential should be scoped to this server's region: '%.*s'. "
#define MSG_SIGN_SERVICE    "Credential should be scoped to correct service: '%.*s'. "
#define MSG_SIGN_TERMINATOR "Credential should be scoped with a valid terminator: 'aws4_request'. "
#define MSG_SIGN_SCOPE_DATE                                                                                  \
	"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "         \
	"'%.*s' != '%.*s', from '%.*s'."
#define MSG_SIGN_PAYLOAD                                                                                     \
	"The value of 'x-amz-content-sha256' must be the SHA-256 of the body: unsigned and streamed "        \
	"payloads are not supported"
#define MSG_SIGN_QUERY_MAX "A signed request must not have more than %d query parameters"
#define MSG_SIGN_KEY       "The security token included in the request is invalid."
#define MSG_SIGN_MISMATCH                                                                                    \
	"The request signature we calculated does not match the signature you provided. Check your AWS "     \
	"Secret Access Key and signing method. Consult the service documentation for details."

#endif
