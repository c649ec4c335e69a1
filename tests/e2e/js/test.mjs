// The AWS SDK for JavaScript over every operation, against the endpoint in GATEHOUSE_ENDPOINT. What each operation
// does in detail is shown by the Python tests; here it is the SDK's own marshalling, errors, waiters and pagers.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import * as sdk from "@aws-sdk/client-dynamodb";

const endpoint = process.env.GATEHOUSE_ENDPOINT;
assert.ok(endpoint, "GATEHOUSE_ENDPOINT says where the server is");

const client = new sdk.DynamoDBClient({
  endpoint,
  region: "us-east-1",
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
  maxAttempts: 1,
});
const TableName = `e2e.js-${randomUUID()}`;
const S = (text) => ({ S: text });
const N = (number) => ({ N: String(number) });

/** Sends the command with this name: call("PutItem", {...}). */
const call = (name, input = {}) => client.send(new sdk[`${name}Command`](input));

const get = async (pk, sk) => (await call("GetItem", { TableName, Key: { pk: S(pk), sk: S(sk) }, ConsistentRead: true })).Item;

const exists = () => sdk.waitUntilTableExists({ client, maxWaitTime: 30, minDelay: 0.1, maxDelay: 0.2 }, { TableName });

before(async () => {
  const made = await call("CreateTable", {
    TableName,
    AttributeDefinitions: [
      { AttributeName: "pk", AttributeType: "S" },
      { AttributeName: "sk", AttributeType: "S" },
      { AttributeName: "g", AttributeType: "S" },
      { AttributeName: "l", AttributeType: "N" },
    ],
    KeySchema: [
      { AttributeName: "pk", KeyType: "HASH" },
      { AttributeName: "sk", KeyType: "RANGE" },
    ],
    GlobalSecondaryIndexes: [
      { IndexName: "by-g", KeySchema: [{ AttributeName: "g", KeyType: "HASH" }], Projection: { ProjectionType: "ALL" } },
    ],
    LocalSecondaryIndexes: [
      {
        IndexName: "by-l",
        KeySchema: [
          { AttributeName: "pk", KeyType: "HASH" },
          { AttributeName: "l", KeyType: "RANGE" },
        ],
        Projection: { ProjectionType: "KEYS_ONLY" },
      },
    ],
    BillingMode: "PAY_PER_REQUEST",
  });
  assert.equal(made.TableDescription.TableName, TableName);
  await exists();
});

after(async () => {
  await call("DeleteTable", { TableName });
  await sdk.waitUntilTableNotExists({ client, maxWaitTime: 30, minDelay: 0.1, maxDelay: 0.2 }, { TableName });
  client.destroy();
});

test("DescribeTable and ListTables know the table", async () => {
  const { Table } = await call("DescribeTable", { TableName });
  assert.equal(Table.TableStatus, "ACTIVE");
  assert.ok(Table.CreationDateTime instanceof Date);
  assert.equal(Table.GlobalSecondaryIndexes[0].IndexStatus, "ACTIVE");
  const names = [];
  for await (const page of sdk.paginateListTables({ client, pageSize: 2 }, {})) names.push(...page.TableNames);
  assert.ok(names.includes(TableName));
});

test("PutItem and GetItem keep every type", async () => {
  const item = {
    pk: S("types"),
    sk: S("1"),
    s: S("grüße 🔑"),
    e: S(""),
    n: N("12345678901234567890123456789012345678"),
    b: { B: new Uint8Array([0, 1, 255]) },
    t: { BOOL: true },
    z: { NULL: true },
    list: { L: [N(1), S("x"), { L: [] }] },
    map: { M: { inner: { M: {} } } },
    ss: { SS: ["a", "b"] },
    ns: { NS: ["1", "2"] },
    bs: { BS: [new Uint8Array([7])] },
  };
  await call("PutItem", { TableName, Item: item });
  assert.deepEqual(await get("types", "1"), item);
});

test("UpdateItem returns what it was asked for", async () => {
  const Key = { pk: S("update"), sk: S("1") };
  const update = (ReturnValues) =>
    call("UpdateItem", {
      TableName,
      Key,
      UpdateExpression: "ADD #c :one SET tags = list_append(if_not_exists(tags, :none), :tag)",
      ExpressionAttributeNames: { "#c": "count" },
      ExpressionAttributeValues: { ":one": N(1), ":none": { L: [] }, ":tag": { L: [S("t")] } },
      ReturnValues,
    });
  await update("NONE");
  const { Attributes } = await update("ALL_NEW");
  assert.deepEqual(Attributes, { ...Key, count: N(2), tags: { L: [S("t"), S("t")] } });
});

test("DeleteItem returns the old item", async () => {
  const item = { pk: S("delete"), sk: S("1"), v: N(1) };
  await call("PutItem", { TableName, Item: item });
  const { Attributes } = await call("DeleteItem", { TableName, Key: { pk: item.pk, sk: item.sk }, ReturnValues: "ALL_OLD" });
  assert.deepEqual(Attributes, item);
  assert.equal(await get("delete", "1"), undefined);
});

test("a failed condition is its own error and can show the item", async () => {
  const item = { pk: S("condition"), sk: S("1"), v: N(1) };
  await call("PutItem", { TableName, Item: item });
  const again = { TableName, Item: item, ConditionExpression: "attribute_not_exists(pk)" };
  await assert.rejects(call("PutItem", { ...again, ReturnValuesOnConditionCheckFailure: "ALL_OLD" }), (error) => {
    assert.ok(error instanceof sdk.ConditionalCheckFailedException);
    assert.equal(error.message, "The conditional request failed");
    assert.equal(error.$metadata.httpStatusCode, 400);
    assert.deepEqual(error.Item, item);
    return true;
  });
});

test("Query and Scan page through tables and indexes", async () => {
  for (let i = 0; i < 6; i++) {
    await call("PutItem", { TableName, Item: { pk: S("page"), sk: S(`${i}`), g: S("group"), l: N(10 - i) } });
  }
  const collect = async (pages) => {
    const found = [];
    for await (const page of pages) found.push(...page.Items.map((item) => item.sk.S));
    return found;
  };
  const query = (more) =>
    collect(
      sdk.paginateQuery(
        { client, pageSize: 2 },
        { TableName, KeyConditionExpression: "pk = :k", ExpressionAttributeValues: { ":k": S("page") }, ...more },
      ),
    );
  assert.deepEqual(await query({}), ["0", "1", "2", "3", "4", "5"]);
  assert.deepEqual(await query({ ScanIndexForward: false }), ["5", "4", "3", "2", "1", "0"]);
  assert.deepEqual(await query({ IndexName: "by-l" }), ["5", "4", "3", "2", "1", "0"]);
  const byGroup = { IndexName: "by-g", KeyConditionExpression: "g = :k", ExpressionAttributeValues: { ":k": S("group") } };
  assert.deepEqual((await query(byGroup)).sort(), ["0", "1", "2", "3", "4", "5"]);
  const scan = {
    TableName,
    FilterExpression: "pk = :k AND #l > :l",
    ExpressionAttributeNames: { "#l": "l" },
    ExpressionAttributeValues: { ":k": S("page"), ":l": N(7) },
  };
  assert.deepEqual((await collect(sdk.paginateScan({ client, pageSize: 3 }, scan))).sort(), ["0", "1", "2"]);
});

test("BatchWriteItem and BatchGetItem", async () => {
  const items = Array.from({ length: 25 }, (_, i) => ({ pk: S("batch"), sk: S(`${i}`) }));
  const writes = items.map((Item) => ({ PutRequest: { Item } }));
  const answer = await call("BatchWriteItem", { RequestItems: { [TableName]: writes }, ReturnConsumedCapacity: "TOTAL" });
  assert.deepEqual(answer.UnprocessedItems, {});
  assert.equal(answer.ConsumedCapacity[0].CapacityUnits, 25);
  const found = await call("BatchGetItem", { RequestItems: { [TableName]: { Keys: items } } });
  assert.equal(found.Responses[TableName].length, 25);
  const twice = { RequestItems: { [TableName]: { Keys: [items[0], items[0]] } } };
  await assert.rejects(call("BatchGetItem", twice), { name: "ValidationException" });
});

test("TransactWriteItems is all or nothing, and once per token", async () => {
  const add = (sk) => ({
    Update: {
      TableName,
      Key: { pk: S("tx"), sk: S(sk) },
      UpdateExpression: "ADD v :one",
      ExpressionAttributeValues: { ":one": N(1) },
    },
  });
  const request = { TransactItems: [add("a"), add("b")], ClientRequestToken: randomUUID() };
  await call("TransactWriteItems", request);
  await call("TransactWriteItems", request);
  const keys = ["a", "b"].map((sk) => ({ Get: { TableName, Key: { pk: S("tx"), sk: S(sk) } } }));
  const { Responses } = await call("TransactGetItems", { TransactItems: keys });
  assert.deepEqual(Responses.map((response) => response.Item.v), [N(1), N(1)]);

  const other = { TransactItems: [add("c")], ClientRequestToken: request.ClientRequestToken };
  await assert.rejects(call("TransactWriteItems", other), sdk.IdempotentParameterMismatchException);

  const check = { TableName, Key: { pk: S("tx"), sk: S("never") }, ConditionExpression: "attribute_exists(pk)" };
  await assert.rejects(call("TransactWriteItems", { TransactItems: [add("a"), { ConditionCheck: check }] }), (error) => {
    assert.ok(error instanceof sdk.TransactionCanceledException);
    assert.deepEqual(error.CancellationReasons.map((reason) => reason.Code), ["None", "ConditionalCheckFailed"]);
    return true;
  });
  assert.deepEqual((await get("tx", "a")).v, N(1));
});

test("UpdateTable adds an index, fills it and removes it", async () => {
  await call("PutItem", { TableName, Item: { pk: S("backfill"), sk: S("1"), h: S("h") } });
  await call("UpdateTable", {
    TableName,
    AttributeDefinitions: [{ AttributeName: "h", AttributeType: "S" }],
    GlobalSecondaryIndexUpdates: [
      {
        Create: {
          IndexName: "by-h",
          KeySchema: [{ AttributeName: "h", KeyType: "HASH" }],
          Projection: { ProjectionType: "KEYS_ONLY" },
        },
      },
    ],
  });
  const status = async () =>
    (await call("DescribeTable", { TableName })).Table.GlobalSecondaryIndexes.find((index) => index.IndexName === "by-h")
      ?.IndexStatus;
  const deadline = Date.now() + 30_000;
  const until = async (wanted) => {
    while ((await status()) !== wanted) assert.ok(Date.now() < deadline, `by-h did not become ${wanted}`);
  };
  await until("ACTIVE");
  const { Items } = await call("Scan", { TableName, IndexName: "by-h" });
  assert.deepEqual(Items, [{ pk: S("backfill"), sk: S("1"), h: S("h") }]);
  await exists();
  await call("UpdateTable", { TableName, GlobalSecondaryIndexUpdates: [{ Delete: { IndexName: "by-h" } }] });
  await until(undefined);
});

test("UpdateTimeToLive and DescribeTimeToLive", async () => {
  const spec = { Enabled: true, AttributeName: "ttl" };
  const answer = await call("UpdateTimeToLive", { TableName, TimeToLiveSpecification: spec });
  assert.deepEqual(answer.TimeToLiveSpecification, spec);
  const { TimeToLiveDescription } = await call("DescribeTimeToLive", { TableName });
  assert.equal(TimeToLiveDescription.AttributeName, "ttl");
});

test("TagResource, ListTagsOfResource and UntagResource", async () => {
  const { Table } = await call("DescribeTable", { TableName });
  const ResourceArn = Table.TableArn;
  await call("TagResource", { ResourceArn, Tags: [{ Key: "a", Value: "1" }, { Key: "b", Value: "2" }] });
  await call("UntagResource", { ResourceArn, TagKeys: ["a"] });
  const { Tags } = await call("ListTagsOfResource", { ResourceArn });
  assert.deepEqual(Tags, [{ Key: "b", Value: "2" }]);
});

test("DescribeLimits and DescribeEndpoints", async () => {
  assert.ok((await call("DescribeLimits")).AccountMaxReadCapacityUnits > 0);
  assert.ok((await call("DescribeEndpoints")).Endpoints[0].Address);
});

test("errors have their names, and what is not there is said not to be", async () => {
  await assert.rejects(call("DescribeTable", { TableName: "e2e.not-there" }), sdk.ResourceNotFoundException);
  await assert.rejects(call("GetItem", { TableName, Key: { pk: S("x") } }), { name: "ValidationException" });
  const again = {
    TableName,
    AttributeDefinitions: [{ AttributeName: "pk", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "pk", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  };
  await assert.rejects(call("CreateTable", again), sdk.ResourceInUseException);
});

test("fifty requests at once from one client are all answered", async () => {
  const Key = { pk: S("many"), sk: S("1") };
  const add = { TableName, Key, UpdateExpression: "ADD v :one", ExpressionAttributeValues: { ":one": N(1) } };
  await Promise.all(Array.from({ length: 50 }, () => call("UpdateItem", add)));
  assert.deepEqual((await get("many", "1")).v, N(50));
});
