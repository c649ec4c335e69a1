"""Signed requests and policies, over a server that asks for both: boto3, the aws cli and the JavaScript SDK sign; keys are made,
rotated and revoked on the command line and every change is in force for the next request; policies are judged item by item."""
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import line_with_endpoint, program, stop

pytestmark = pytest.mark.gatehouse_only
CONFIG = Config(retries={"total_max_attempts": 1, "mode": "standard"})
ACCOUNT = "000000000000"
REGION = "local"
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def table_arn(name):
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


class Guarded:
    """A server with authentication, and its command line."""

    def __init__(self, *words):
        self.data = tempfile.mkdtemp(prefix="gatehouse-access-")
        self.start(*words)

    def start(self, *words):
        self.process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", self.data, *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.endpoint = line_with_endpoint(self.process)

    def command(self, *words, text=None):
        return subprocess.run([program(), *words, "--data", self.data], input=text, text=True, capture_output=True, timeout=120)

    def key(self, *words, text=None):
        """The key that a command prints: (id, secret)."""
        done = self.command("key", *words, text=text)
        assert done.returncode == 0, done.stderr
        return tuple(line.split("=", 1)[1] for line in done.stdout.splitlines())

    def client(self, key, region=REGION):
        return boto3.client("dynamodb", endpoint_url=self.endpoint, region_name=region, config=CONFIG,
                            aws_access_key_id=key[0], aws_secret_access_key=key[1])

    def make(self, name, policy):
        return self.key("create", name, "--policy", "-", text=json.dumps(policy))


@pytest.fixture(scope="module")
def guarded():
    server = Guarded()
    admin = server.client(server.key("show", "administrator"))
    for name in ("devices", "other"):
        admin.create_table(TableName=name, BillingMode="PAY_PER_REQUEST",
                           AttributeDefinitions=[{"AttributeName": a, "AttributeType": "S"} for a in ("userId", "deviceId")],
                           KeySchema=[{"AttributeName": "userId", "KeyType": "HASH"},
                                      {"AttributeName": "deviceId", "KeyType": "RANGE"}])
    yield server
    stop(server.process)
    shutil.rmtree(server.data, ignore_errors=True)
    assert server.process.returncode == 0


def error_of(call, **request):
    with pytest.raises(ClientError) as caught:
        call(**request)
    return caught.value.response["Error"]


def device(user, name="d1", **more):
    return {"userId": {"S": user}, "deviceId": {"S": name}, **more}


# ---- keys ----


def test_the_first_start_makes_an_administrator_in_a_file_that_only_its_owner_can_read(guarded):
    assert os.stat(Path(guarded.data) / "keys.json").st_mode & 0o777 == 0o600
    assert "devices" in guarded.client(guarded.key("show", "administrator")).list_tables()["TableNames"]


def test_an_unsigned_request_an_unknown_key_and_a_wrong_secret_are_refused(guarded):
    import urllib.request
    request = urllib.request.Request(guarded.endpoint, b"{}", {"X-Amz-Target": "DynamoDB_20120810.ListTables",
                                                               "Content-Type": "application/x-amz-json-1.0"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 400 and b"MissingAuthenticationToken" in caught.value.read()
    admin = guarded.key("show", "administrator")
    assert error_of(guarded.client(("AKIDUNKNOWN", admin[1])).list_tables)["Code"] == "UnrecognizedClientException"
    assert error_of(guarded.client((admin[0], "wrong")).list_tables)["Code"] == "InvalidSignatureException"


def test_a_session_token_belongs_to_no_key_here(guarded):
    key = guarded.key("show", "administrator")
    client = boto3.client("dynamodb", endpoint_url=guarded.endpoint, region_name=REGION, config=CONFIG,
                          aws_access_key_id=key[0], aws_secret_access_key=key[1], aws_session_token="a-token")
    assert error_of(client.list_tables)["Code"] == "UnrecognizedClientException"


def test_a_rotated_secret_and_a_revoked_key_are_refused_by_the_next_request(guarded):
    old = guarded.make("rotating", EVERYTHING)
    client = guarded.client(old)
    for _ in range(20):  # also with a warm cache of signing keys
        client.list_tables()
    new = guarded.key("rotate", "rotating")
    assert new[0] == old[0] and new[1] != old[1]
    assert error_of(client.list_tables)["Code"] == "InvalidSignatureException"
    client = guarded.client(new)
    client.list_tables()
    assert guarded.command("key", "revoke", "rotating").returncode == 0
    assert error_of(client.list_tables)["Code"] == "UnrecognizedClientException"
    assert guarded.command("key", "rotate", "rotating").returncode == 2
    assert guarded.command("key", "show", "rotating").returncode == 1


def test_the_list_of_keys_shows_no_secret(guarded):
    key = guarded.make("listed", EVERYTHING)
    listing = guarded.command("key", "list").stdout
    assert key[0] in listing and "listed" in listing and key[1] not in listing


def test_what_is_wrong_with_a_key_or_its_policy_is_said_and_nothing_changes(guarded):
    before = (Path(guarded.data) / "keys.json").read_bytes()
    for name, policy, why in [
        ("bad name", EVERYTHING, "letters, digits"),
        ("administrator", EVERYTHING, "already"),
        ("typo", {"Version": "2012-10-17", "Statement": [{"Effect": "Alow", "Action": "*", "Resource": "*"}]}, "Alow"),
        ("unknown", {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*",
                     "Condition": {"StringMatches": {"dynamodb:LeadingKeys": "x"}}}]}, "StringMatches"),
    ]:
        done = guarded.command("key", "create", name, "--policy", "-", text=json.dumps(policy))
        assert done.returncode != 0 and why in done.stderr, done.stderr
    assert (Path(guarded.data) / "keys.json").read_bytes() == before


def test_actions_that_no_request_can_have_are_warned_of_when_a_key_is_made(guarded):
    """A misspelt Deny would do nothing, and nobody would notice."""
    actions = ["dynamodb:GetItm", "gatehouse:Recrd*", "s3:GetObject", "dynamodb:Get*", "DynamoDB:putitem", "dynamodb:ConditionCheckItem",
               "gatehouse:RecordAttempt", "*"]
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
    done = guarded.command("key", "create", "typist", "--policy", "-", text=json.dumps(policy))
    assert done.returncode == 0 and done.stdout.startswith("export AWS_ACCESS_KEY_ID=")
    assert done.stderr.splitlines() == [f'gatehouse: warning: the policy names the action "{action}", which this server does not have, so it has no effect'
                                        for action in ("dynamodb:getitm", "gatehouse:recrd*", "s3:getobject")]
    assert guarded.command("key", "create", "careful", "--policy", "-", text=json.dumps(EVERYTHING)).stderr == ""


def test_the_aws_cli_and_the_javascript_sdk_sign_in_with_a_made_key(guarded, client_env):
    key = guarded.make("clients", EVERYTHING)
    environment = {**client_env, "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]}
    cli = subprocess.run(["/usr/bin/aws", "dynamodb", "list-tables", "--endpoint-url", guarded.endpoint], env=environment,
                         text=True, capture_output=True, timeout=60)
    assert cli.returncode == 0 and "devices" in cli.stdout, cli.stderr
    script = """
        import { DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";
        const client = new DynamoDBClient({ endpoint: process.argv[1], region: "local" });
        console.log((await client.send(new ListTablesCommand({}))).TableNames.join(" "));"""
    node = subprocess.run(["node", "--input-type=module", "-e", script, guarded.endpoint], env=environment, text=True,
                          cwd=Path(__file__).parent / "js", capture_output=True, timeout=60)
    assert node.returncode == 0 and "devices" in node.stdout, node.stderr


OWNER = 65534  # nobody: stands in for the user that runs the service


@pytest.fixture
def owned():
    """A data directory of another user, and a file of root's outside of it."""
    if os.geteuid() != 0:
        pytest.skip("only root can be led to files of its own")
    where = Path(tempfile.mkdtemp(prefix="gatehouse-owned-"))
    os.chown(where, OWNER, OWNER)
    roots = Path(tempfile.mkdtemp(prefix="gatehouse-root-")) / "file"
    roots.write_text("of root")
    roots.chmod(0o644)
    yield where, roots
    shutil.rmtree(where)
    shutil.rmtree(roots.parent)


def run_key(where, *words):
    return subprocess.run([program(), "key", *words, "--data", str(where)], input=json.dumps(EVERYTHING), text=True,
                          capture_output=True, timeout=30)


@pytest.mark.parametrize("name", ["keys.lock", "keys.json.new", "keys.json", "audit.log"])
def test_root_is_not_led_out_of_another_users_directory_by_a_link(owned, name):
    where, roots = owned
    os.symlink(roots, where / name)
    os.lchown(where / name, OWNER, OWNER)
    run_key(where, "create", "orders", "--policy", "-")
    assert roots.read_text() == "of root"
    assert (roots.stat().st_uid, roots.stat().st_mode & 0o777) == (0, 0o644)


def test_what_root_does_to_keys_belongs_to_the_directorys_owner_and_the_audit_log_names_root(owned):
    where, _ = owned
    (where / "keys.json.new").write_text("left by a crash")
    assert run_key(where, "create", "orders", "--policy", "-").returncode == 0
    assert run_key(where, "rotate", "orders").returncode == 0
    assert {(p.name, p.stat().st_uid, p.stat().st_gid, p.stat().st_mode & 0o777) for p in where.iterdir()} == {
        (name, OWNER, OWNER, 0o600) for name in ("keys.json", "keys.lock", "audit.log")}
    assert [json.loads(line)["os_uid"] for line in (where / "audit.log").read_text().splitlines()] == [0, 0]


def test_root_serves_another_users_directory_as_that_user(owned):
    where, _ = owned
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", where], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    line_with_endpoint(process)
    ids = [line.split()[1:] for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line[:4] in ("Uid:", "Gid:")]
    stop(process)
    assert ids == [[str(OWNER)] * 4] * 2
    assert {p.stat().st_uid for p in where.rglob("*")} == {OWNER}
    assert subprocess.run([program(), "check", "--data", where], capture_output=True).returncode == 0
    assert {p.stat().st_uid for p in where.rglob("*")} == {OWNER}


# ---- policies ----


def test_the_least_privilege_policy_of_the_device_service_works_as_it_is(guarded):
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow",
         "Action": ["dynamodb:PutItem", "dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Query"],
         "Resource": table_arn("devices")},
        {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
         "Resource": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/KMS_KEY_ID"}]}
    client = guarded.client(guarded.make("device-service", policy))
    client.put_item(TableName="devices", Item=device("u"))
    client.get_item(TableName="devices", Key=device("u"))
    client.update_item(TableName="devices", Key=device("u"), UpdateExpression="SET a = :a",
                       ExpressionAttributeValues={":a": {"S": "x"}})
    client.query(TableName="devices", KeyConditionExpression="userId = :u", ExpressionAttributeValues={":u": {"S": "u"}})
    refused = error_of(client.scan, TableName="devices")
    assert refused["Code"] == "AccessDeniedException"
    assert "device-service" in refused["Message"] and "dynamodb:Scan" in refused["Message"]
    assert "on any resource" in refused["Message"]  # known before the request is read
    for call, request in [(client.put_item, {"TableName": "other", "Item": device("u")}),
                          (client.list_tables, {}),
                          (client.delete_table, {"TableName": "devices"}),
                          (client.batch_write_item, {"RequestItems": {"devices": [{"PutRequest": {"Item": device("u")}}]}})]:
        assert error_of(call, **request)["Code"] == "AccessDeniedException"
    # transactions are judged by what they do
    client.transact_write_items(TransactItems=[{"Put": {"TableName": "devices", "Item": device("t")}}])
    mixed = [{"Put": {"TableName": "devices", "Item": device("t2")}}, {"Put": {"TableName": "other", "Item": device("t2")}}]
    assert error_of(client.transact_write_items, TransactItems=mixed)["Code"] == "AccessDeniedException"
    assert "Item" not in client.get_item(TableName="devices", Key=device("t2"))
    check = [{"ConditionCheck": {"TableName": "devices", "Key": device("t"), "ConditionExpression": "attribute_exists(userId)"}}]
    assert error_of(client.transact_write_items, TransactItems=check)["Code"] == "AccessDeniedException"


def test_leading_keys_are_checked_for_every_item_and_a_scan_does_not_slip_through(guarded):
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "dynamodb:*", "Resource": table_arn("devices"),
         "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["mine"]}}}]}
    client = guarded.client(guarded.make("one-user", policy))
    client.put_item(TableName="devices", Item=device("mine"))
    client.query(TableName="devices", KeyConditionExpression="userId = :u AND deviceId = :d",
                 ExpressionAttributeValues={":u": {"S": "mine"}, ":d": {"S": "d1"}})
    client.query(TableName="devices", KeyConditionExpression="deviceId = :d AND userId = :u",
                 ExpressionAttributeValues={":u": {"S": "mine"}, ":d": {"S": "d1"}})
    theirs = {"TableName": "devices", "Key": device("theirs")}
    batch = {"devices": {"Keys": [device("mine"), device("theirs")]}}
    writes = {"devices": [{"PutRequest": {"Item": device("mine")}}, {"DeleteRequest": {"Key": device("theirs")}}]}
    both = [{"Put": {"TableName": "devices", "Item": device("mine")}}, {"Delete": theirs}]
    for call, request in [
        (client.get_item, theirs),
        (client.put_item, {"TableName": "devices", "Item": device("theirs")}),
        (client.delete_item, theirs),
        (client.scan, {"TableName": "devices"}),
        (client.query, {"TableName": "devices", "KeyConditionExpression": "userId = :u",
                        "ExpressionAttributeValues": {":u": {"S": "theirs"}}}),
        (client.query, {"TableName": "devices", "KeyConditionExpression": "userId = :d AND deviceId = :u",
                        "ExpressionAttributeValues": {":u": {"S": "mine"}, ":d": {"S": "theirs"}}}),
        (client.batch_get_item, {"RequestItems": batch}),
        (client.batch_write_item, {"RequestItems": writes}),
        (client.transact_get_items, {"TransactItems": [{"Get": theirs}]}),
        (client.transact_write_items, {"TransactItems": both}),
    ]:
        assert error_of(call, **request)["Code"] == "AccessDeniedException", request


def test_attributes_are_checked_wherever_a_request_names_or_shows_them(guarded):
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "dynamodb:*", "Resource": table_arn("devices"),
         "Condition": {"ForAllValues:StringEquals": {"dynamodb:Attributes": ["userId", "deviceId", "platform"]}}}]}
    client = guarded.client(guarded.make("narrow", policy))
    key = {"TableName": "devices", "Key": device("narrow")}
    client.put_item(TableName="devices", Item=device("narrow", platform={"S": "ios"}))
    client.get_item(**key, ProjectionExpression="platform")
    client.update_item(**key, UpdateExpression="SET platform = :p", ExpressionAttributeValues={":p": {"S": "x"}})
    value = {"ExpressionAttributeValues": {":p": {"S": "x"}}}
    for call, request in [
        (client.get_item, key),
        (client.get_item, {**key, "ProjectionExpression": "platform, pushId"}),
        (client.put_item, {"TableName": "devices", "Item": device("narrow", pushId={"S": "x"})}),
        (client.update_item, {**key, "UpdateExpression": "SET pushId = :p", **value}),
        (client.update_item, {**key, "UpdateExpression": "SET platform = pushId"}),
        (client.update_item, {**key, "UpdateExpression": "SET platform = :p", "ConditionExpression": "pushId = :p", **value}),
        (client.update_item, {**key, "UpdateExpression": "SET platform = :p", "ReturnValues": "ALL_NEW", **value}),
        (client.delete_item, {**key, "ReturnValues": "ALL_OLD"}),
        (client.scan, {"TableName": "devices", "ProjectionExpression": "platform", "FilterExpression": "pushId = :p", **value}),
        (client.query, {"TableName": "devices", "KeyConditionExpression": "userId = :p", **value}),
    ]:
        assert error_of(call, **request)["Code"] == "AccessDeniedException", request


ATTRIBUTES = ["userId", "deviceId", "platform"]


@pytest.mark.parametrize("statement", [
    {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*",
     "Condition": {"ForAllValues:StringEquals": {"dynamodb:Attributes": ATTRIBUTES}}},
    {"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*",
     "Condition": {"ForAnyValue:StringNotEquals": {"dynamodb:Attributes": ATTRIBUTES}}}], ids=["allow", "deny"])
def test_a_put_does_not_destroy_attributes_that_its_key_may_not_touch(guarded, statement):
    user = "put-" + statement["Effect"]
    admin = guarded.client(guarded.key("show", "administrator"))
    everything = [{"Effect": "Allow", "Action": "*", "Resource": "*"}] if statement["Effect"] == "Deny" else []
    client = guarded.client(guarded.make(user, {"Version": "2012-10-17", "Statement": [*everything, statement]}))
    secret = device(user, pushId={"S": "secret"}, platform={"S": "a"})
    admin.put_item(TableName="devices", Item=secret)
    admin.put_item(TableName="devices", Item=device(user, "plain", platform={"S": "a"}))
    over, plain, new = (device(user, name, platform={"S": "b"}) for name in ("d1", "plain", "new"))
    puts = [{"PutRequest": {"Item": item}} for item in (new, over)]
    transaction = [{"Put": {"TableName": "devices", "Item": item}} for item in (new, over)]
    for call, request in [
        (client.put_item, {"TableName": "devices", "Item": over}),
        (client.put_item, {"TableName": "devices", "Item": over, "ConditionExpression": "attribute_exists(userId)"}),
        (client.batch_write_item, {"RequestItems": {"devices": puts}}),
        (client.transact_write_items, {"TransactItems": transaction}),
        (client.delete_item, {"TableName": "devices", "Key": device(user)}),
        (client.batch_write_item, {"RequestItems": {"devices": [{"DeleteRequest": {"Key": device(user)}}]}}),
        (client.transact_write_items, {"TransactItems": [{"Delete": {"TableName": "devices", "Key": device(user)}}]}),
    ]:
        refused = error_of(call, **request)
        assert refused["Code"] == "AccessDeniedException", request
        assert "a put replaces the whole item" in refused["Message"] or call == client.delete_item or "Delete" in str(request)
    assert admin.get_item(TableName="devices", Key=device(user))["Item"] == secret
    assert "Item" not in admin.get_item(TableName="devices", Key=device(user, "new"))  # all or nothing
    # what holds nothing else may be replaced, and what is not there may be made
    client.put_item(TableName="devices", Item=plain)
    client.batch_write_item(RequestItems={"devices": [{"PutRequest": {"Item": item}} for item in (new, plain)]})
    client.transact_write_items(TransactItems=[{"Put": {"TableName": "devices", "Item": item}} for item in (new, plain)])
    client.update_item(TableName="devices", Key=device(user), UpdateExpression="SET platform = :p", ExpressionAttributeValues={":p": {"S": "c"}})
    assert admin.get_item(TableName="devices", Key=device(user))["Item"] == {**secret, "platform": {"S": "c"}}
    # an item that cannot be stored is refused for that, as ever
    assert error_of(client.put_item, TableName="devices", Item={"userId": {"S": user}})["Code"] == "ValidationException"
    assert error_of(client.put_item, TableName="devices", Item={**device(user), "deviceId": {"N": "1"}})["Code"] == "ValidationException"


def test_an_explicit_deny_wins_and_an_index_is_a_resource_of_its_own(guarded):
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"},
        {"Effect": "Deny", "Action": "dynamodb:DeleteItem", "Resource": table_arn("dev*")}]}
    client = guarded.client(guarded.make("no-deletes", policy))
    client.put_item(TableName="devices", Item=device("keep"))
    refused = error_of(client.delete_item, TableName="devices", Key=device("keep"))
    assert refused["Code"] == "AccessDeniedException" and "explicit deny" in refused["Message"]
    client.delete_item(TableName="other", Key=device("keep"))
    only_index = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "dynamodb:Query", "Resource": table_arn("devices") + "/index/*"}]}
    client = guarded.client(guarded.make("only-index", only_index))
    request = {"TableName": "devices", "KeyConditionExpression": "userId = :u", "ExpressionAttributeValues": {":u": {"S": "u"}}}
    assert error_of(client.query, **request)["Code"] == "AccessDeniedException"
    assert error_of(client.query, **request, IndexName="none")["Code"] == "ValidationException"  # allowed, but there is none


def test_a_signature_for_another_region_is_refused_and_told_which_one_is_expected(guarded):
    """Otherwise the caller would choose the region in the ARNs that a Deny is compared with."""
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"},
                                                     {"Effect": "Deny", "Action": "*", "Resource": table_arn("devices")}]}
    key = guarded.make("regional", policy)
    for region in ("local", "us-east-1", "Local", "local-1"):
        refused = error_of(guarded.client(key, region=region).get_item, TableName="devices", Key=device("u"))
        assert refused["Code"] == ("AccessDeniedException" if region == "local" else "InvalidSignatureException")
        assert region == "local" or "'local'" in refused["Message"]


def test_a_policy_made_of_what_describe_table_says_works(guarded):
    arn = guarded.client(guarded.key("show", "administrator")).describe_table(TableName="devices")["Table"]["TableArn"]
    assert arn == table_arn("devices")
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": arn}]}
    guarded.client(guarded.make("pasted", policy)).get_item(TableName="devices", Key=device("u"))


def test_the_region_is_a_setting_that_keys_signatures_and_arns_follow(tmp_path):
    def start(*words):
        process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", tmp_path, *words],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return process, line_with_endpoint(process)

    def allow(arn):
        return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": arn}]})

    def key(*words, text=None):
        return subprocess.run([program(), "key", *words, "--data", tmp_path], input=text, text=True, capture_output=True)

    mars, local = (f"arn:aws:dynamodb:{region}:{ACCOUNT}:table/*" for region in ("mars-1", "local"))
    process, endpoint = start("--region", "mars-1")
    try:
        made = key("create", "a", "--policy", "-", text=allow(mars))
        assert made.returncode == 0, made.stderr
        client = boto3.client("dynamodb", endpoint_url=endpoint, region_name="mars-1", config=CONFIG,
                              **dict(zip(("aws_access_key_id", "aws_secret_access_key"),
                                         (line.split("=", 1)[1] for line in made.stdout.splitlines()))))
        made = client.create_table(TableName="things", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
                                   AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}])
        assert made["TableDescription"]["TableArn"] == mars.replace("*", "things")
        refused = key("create", "b", "--policy", "-", text=allow(local))
        assert refused.returncode == 2 and local in refused.stderr and '"mars-1"' in refused.stderr
        refused = key("create", "b", "--policy", "-", "--region", "no region", text=allow(local))
        assert refused.returncode == 2 and "--region" in refused.stderr
    finally:
        stop(process)
    # a key in force whose policy would never match stops the start, until it is revoked; the command line still reads the file
    done = subprocess.run([program(), "serve", "--listen", "127.0.0.1:0", "--data", tmp_path], text=True, capture_output=True, timeout=30)
    assert done.returncode == 2 and '"a"' in done.stderr and mars in done.stderr and '"local"' in done.stderr
    assert key("revoke", "a").returncode == 0
    process, _ = start()
    stop(process)
    assert key("create", "b", "--policy", "-", text=allow(local)).returncode == 0


NEVER = [  # what no resource of a server in region "local" matches
    "arn:aws:dynamodb:local:123456789012:table/t", "arn:aws:dynamodb:local::table/t", "arn:aws:dynamodb:*:1*:table/t",
    "arn:aws:dynamodb:eu-west-1:000000000000:table/t", "arn:aws:dynamodb::000000000000:table/t", "arn:aws:dynamodb:loca?l:*:table/t",
    "arn:aws-cn:dynamodb:local:000000000000:table/t", "arn:aws:gatehouse:local:1:journey/SIGN_IN", "arn:aws:dynamodb:us-*",
    "arn:aws:dynamodb:local:1*", "arn:aws:dynamodb:?x*"]
MAYBE = ["arn:aws:dynamodb:local:000000000000:table/t", "arn:aws:dynamodb:*:*:table/t", "arn:*:dynamodb:l?cal:0*:table/t",
         "arn:aws:dynamodb:*", "arn:aws:dynamodb:lo*", "arn:aws:dynamodb:local*", "arn:aws:dynamodb:local:0000*",
         "arn:aws:dynamodb:l*:*", "arn:aws:s3:::bucket/*", "*"]


@pytest.mark.parametrize("arn", NEVER + MAYBE)
@pytest.mark.parametrize("element", ["Resource", "NotResource"])
def test_a_policy_with_a_resource_that_could_never_match_is_refused_and_the_arn_named(tmp_path, arn, element):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*", element: ["*", arn]}]}))
    request = json.dumps({"action": "dynamodb:GetItem", "resource": "*"})
    tested = subprocess.run([program(), "policy", "test", "--policy", policy], input=request, text=True, capture_output=True)
    made = subprocess.run([program(), "key", "create", "k", "--policy", policy, "--data", tmp_path], text=True, capture_output=True)
    if arn in MAYBE:
        assert (tested.returncode, made.returncode) == (1, 0), (tested.stderr, made.stderr)
    else:
        assert (tested.returncode, made.returncode) == (2, 2)
        assert f'"{arn}"' in tested.stderr and f'"{arn}"' in made.stderr


def deny_if(operator, key, value):
    return {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*", "Condition": {operator: {key: value}}}]}


QUERY = {"TableName": "devices", "KeyConditionExpression": "userId = :u", "ExpressionAttributeValues": {":u": {"S": "u"}}}
GET = {"TableName": "devices", "Key": device("u")}
TRANSACT = {"TransactItems": [{"Get": GET}]}


@pytest.mark.parametrize("operator, key, value, call, denied, allowed", [
    ("ForAnyValue:StringEquals", "dynamodb:LeadingKeys", "v", "get_item", {**GET, "Key": device("v")}, GET),
    ("ForAnyValue:StringEquals", "dynamodb:Attributes", "x", "get_item", {**GET, "ProjectionExpression": "x"},
     {**GET, "ProjectionExpression": "y"}),
    ("StringEquals", "dynamodb:Select", "COUNT", "query", {**QUERY, "Select": "COUNT"}, QUERY),
    ("StringEquals", "dynamodb:ReturnValues", "ALL_OLD", "delete_item", {**GET, "ReturnValues": "ALL_OLD"}, GET),
    ("StringEquals", "dynamodb:ReturnConsumedCapacity", "TOTAL", "get_item", {**GET, "ReturnConsumedCapacity": "TOTAL"}, GET),
    ("StringEquals", "dynamodb:ReturnConsumedCapacity", "INDEXES", "query", {**QUERY, "ReturnConsumedCapacity": "INDEXES"}, QUERY),
    ("StringNotEquals", "dynamodb:ReturnConsumedCapacity", "TOTAL", "get_item", GET, {**GET, "ReturnConsumedCapacity": "TOTAL"}),
    ("StringEquals", "dynamodb:ReturnConsumedCapacity", "TOTAL", "transact_get_items", {**TRANSACT, "ReturnConsumedCapacity": "TOTAL"},
     TRANSACT),
    ("StringEquals", "dynamodb:EnclosingOperation", "TransactGetItems", "transact_get_items", TRANSACT, None),
    ("IpAddress", "aws:SourceIp", "127.0.0.0/8", "get_item", GET, None),
    ("Bool", "aws:SecureTransport", "false", "get_item", GET, None),
    ("DateGreaterThan", "aws:CurrentTime", "2020-01-01T00:00:00Z", "get_item", GET, None),
    ("NumericGreaterThan", "aws:EpochTime", "1577836800", "get_item", GET, None),
])
def test_every_condition_key_that_is_accepted_is_filled(guarded, operator, key, value, call, denied, allowed):
    name = f"{key}-{value}-{call}-{operator}".translate(str.maketrans(":/", "--"))[:64]
    client = guarded.client(guarded.make(name, deny_if(operator, key, value)))
    assert error_of(getattr(client, call), **denied)["Code"] == "AccessDeniedException"
    if allowed is not None:
        getattr(client, call)(**allowed)


def test_a_policy_may_ask_for_tls(guarded):
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*",
                                                      "Condition": {"Bool": {"aws:SecureTransport": "true"}}}]}
    client = guarded.client(guarded.make("only-tls", policy))
    assert error_of(client.list_tables)["Code"] == "AccessDeniedException"


@pytest.mark.parametrize("operator, network, allowed", [
    ("IpAddress", "127.0.0.1/32", True), ("IpAddress", "127.0.0.0/8", True), ("IpAddress", "127.0.0.2/32", False),
    ("IpAddress", "::1/128", False), ("NotIpAddress", "127.0.0.1/32", False), ("NotIpAddress", "10.0.0.0/8", True)])
def test_a_policy_may_ask_where_the_peer_is(guarded, operator, network, allowed):
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*",
                                                      "Condition": {operator: {"aws:SourceIp": network}}}]}
    name = "at-" + operator + network.translate(str.maketrans(":/", "--"))
    client = guarded.client(guarded.make(name, policy))
    if allowed:
        client.list_tables()
    else:
        assert error_of(client.list_tables)["Code"] == "AccessDeniedException"


def test_after_a_failed_flush_it_serves_again_on_the_port_that_it_had_picked(tmp_path):
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", tmp_path / "d", "--no-auth",
                                "--fault", "commit:3"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        first = line_with_endpoint(process)
        client = boto3.client("dynamodb", endpoint_url=first, region_name=REGION, aws_access_key_id="a",
                              aws_secret_access_key="b", config=CONFIG)
        for number in range(10):
            try:
                client.create_table(TableName=f"table-{number}", BillingMode="PAY_PER_REQUEST",
                                    AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
                                    KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}])
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 500
                assert "outcome is unknown" in error.response["Error"]["Message"]
                break
        assert line_with_endpoint(process) == first
        assert len(client.list_tables()["TableNames"]) >= number - 1
    finally:
        stop(process)


# ---- the command line ----


def test_policy_test_explains_a_decision(tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [
        {"Sid": "Reads", "Effect": "Allow", "Action": "dynamodb:Get*", "Resource": table_arn("devices")}]}))
    for action, status, word in [("dynamodb:GetItem", 0, "Reads"), ("dynamodb:PutItem", 1, "Reads")]:
        request = json.dumps({"action": action, "resource": table_arn("devices")})
        done = subprocess.run([program(), "policy", "test", "--policy", policy], input=request, text=True, capture_output=True)
        assert done.returncode == status and word in done.stdout, done


def test_check_does_not_call_a_directory_sound_that_is_not_there(tmp_path):
    done = subprocess.run([program(), "check", "--data", tmp_path / "none"], text=True, capture_output=True)
    assert done.returncode == 1 and "No such file" in done.stderr and not (tmp_path / "none").exists()


def test_no_auth_and_plain_http_are_refused_where_they_would_be_dangerous(tmp_path):
    for words, why in [(["--no-auth"], "loopback"), ([], "--plain-http")]:
        done = subprocess.run([program(), "serve", "--listen", "0.0.0.0:0", "--data", tmp_path / "d", *words], text=True,
                              capture_output=True, timeout=30)
        assert done.returncode == 2 and why in done.stderr
    assert not (tmp_path / "d").exists()
