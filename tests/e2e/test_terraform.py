"""packaging/terraform describes the same tables and rights as the program: parsed with @cdktf/hcl2json and compared field by field. It is never applied
here, so the expressions that connect variables and tables are compared as they are written."""

import json
import re
import shutil
import subprocess

import pytest

from conftest import HERE, ROOT, program

MODULE = ROOT / "packaging" / "terraform"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


MISTAKES = [
    ('range_key = "deviceId", ttl = "expiresAt"', 'range_key = "deviceId", ttl = "expires"'),
    ('"outbox"                = { hash_key = "PK", range_key = "SK"', '"outbox"                = { hash_key = "PK", range_key = null'),
    ('"gatehouse-jobs" ', '"gatehouse-job" '),
    ('projection = "ALL"', 'projection = "KEYS_ONLY"'),
]


def parsed(*folders):
    """The parser takes a second to start: once for all."""
    return json.loads(subprocess.run(["node", HERE / "js" / "hcl.mjs", *folders], capture_output=True, text=True, check=True).stdout)


def said(word, *options):
    return json.loads(subprocess.run([program(), "tables", word, *options], capture_output=True, text=True, check=True).stdout)


def planned(*options):
    return {table["table"]: table["wanted"] for table in said("plan", "--offline", "--json", *options)["tables"]}


def mistaken(folder, old, new):
    shutil.copytree(MODULE, folder)
    text = (folder / "main.tf").read_text()
    assert len(re.findall(re.escape(old), text)) == 1
    (folder / "main.tf").write_text(text.replace(old, new))
    return folder


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """As it is, and with each of the mistakes."""
    folder = tmp_path_factory.mktemp("modules")
    return parsed(MODULE, *(mistaken(folder / str(i), *mistake) for i, mistake in enumerate(MISTAKES)))


@pytest.fixture(scope="module")
def module(modules):
    return modules[0]


def default(module, name):
    return module["variable"][name][0].get("default")


def described(module, device_index):
    """The tables with the defaults of all variables, as `tables plan` writes them."""
    local = module["locals"][0]
    indexes = {**local["always_indexes"], **(local["device_indexes"] if device_index else {})}
    tables = {}
    for name, table in local["tables"].items():
        index = indexes.get(name)
        keys = [table["hash_key"], table["range_key"], *([index["hash_key"], index["range_key"]] if index else [])]
        tables[name] = {
            "hashKey": table["hash_key"], "rangeKey": table["range_key"], "attributes": {key: "S" for key in keys if key},
            "timeToLive": table["ttl"], "billing": {"on-demand": "PAY_PER_REQUEST"}[default(module, "billing")], "readUnits": 0,
            "writeUnits": 0, "deletionProtection": default(module, "deletion_protection"),
            "indexes": [{"name": index["name"], "hashKey": index["hash_key"], "rangeKey": index["range_key"],
                         "projection": index["projection"], "include": index["include"]}] if index else [],
            "tags": default(module, "tags"), "pointInTimeRecovery": default(module, "point_in_time_recovery"),
            "kmsKey": default(module, "kms_key_arn")}
    return tables


@pytest.mark.parametrize("device_index", [False, True])
def test_every_table_is_as_the_program_plans_it(module, device_index):
    assert default(module, "device_index") is False
    assert described(module, device_index) == planned(*(["--device-index"] if device_index else []))


def test_provisioned_tables_have_the_same_units_unless_set(module):
    units = default(module, "units")
    users = planned("--table-billing", "provisioned")["users"]
    assert (users["readUnits"], users["writeUnits"]) == (units["read"], units["write"])


def test_the_resource_takes_each_field_from_the_table_or_its_variable(module):
    table, = module["resource"]["aws_dynamodb_table"]["gatehouse"]
    provisioned = '${var.billing == "provisioned" ? %s : %s}'
    read = provisioned % ("local.units[each.key].read", "null")
    write = provisioned % ("local.units[each.key].write", "null")
    assert {name: value for name, value in table.items() if name != "dynamic"} == {
        "for_each": "${local.tables}", "name": "${var.table_prefix}${lookup(var.table_names, each.key, each.key)}",
        "billing_mode": provisioned % ('"PROVISIONED"', '"PAY_PER_REQUEST"'), "read_capacity": read, "write_capacity": write,
        "hash_key": "${each.value.hash_key}", "range_key": "${each.value.range_key}",
        "deletion_protection_enabled": "${var.deletion_protection}", "tags": "${var.tags}",
        "point_in_time_recovery": [{"enabled": "${var.point_in_time_recovery}"}], "lifecycle": [{"prevent_destroy": True}]}
    parts = {name: (block["for_each"], block["content"][0]) for name, (block,) in table["dynamic"].items()}
    assert parts.pop("attribute") == (
        "${toset(compact([each.value.hash_key, each.value.range_key, try(local.indexes[each.key].hash_key, null), "
        "try(local.indexes[each.key].range_key, null)]))}", {"name": "${attribute.value}", "type": "S"})
    assert parts.pop("ttl") == ("${compact([each.value.ttl])}", {"enabled": True, "attribute_name": "${ttl.value}"})
    assert parts.pop("server_side_encryption") == ("${compact([var.kms_key_arn])}",
                                                   {"enabled": True, "kms_key_arn": "${server_side_encryption.value}"})
    of_index, index = parts.pop("global_secondary_index")
    assert of_index == "${try([local.indexes[each.key]], [])}" and not parts
    value = "${global_secondary_index.value.%s}"
    assert index == {"name": value % "name", "hash_key": value % "hash_key", "range_key": value % "range_key",
                     "projection_type": value % "projection", "read_capacity": read, "write_capacity": write,
                     "non_key_attributes": "${length(global_secondary_index.value.include) > 0 ? global_secondary_index.value.include : null}"}


def test_the_rights_are_those_that_the_program_prints(module):
    document, = module["data"]["aws_iam_policy_document"]["serve"]
    by_device, by_key = (block["content"][0] for block in document["dynamic"]["statement"])
    printed = {statement["Sid"]: statement for statement in said(
        "policy", "--account", "123456789012", "--region", "eu-west-1", "--device-index", "--table-kms-key", KEY)["Statement"]}
    for statement in (*document["statement"], by_device, by_key):
        assert statement["actions"] == printed.pop(statement["sid"])["Action"]
    assert not printed
    assert document["statement"][0]["resources"] == "${[for table in aws_dynamodb_table.gatehouse : table.arn]}"
    assert by_device["resources"] == ['${aws_dynamodb_table.gatehouse["device-tokens"].arn}/index/${statement.value}']
    assert by_key["resources"] == ["${statement.value}"] and by_key["condition"][0]["variable"] == "kms:ViaService"


def test_every_variable_and_output_is_explained(module):
    assert all(block[0]["description"] for kind in ("variable", "output") for block in module[kind].values())
    readme = (MODULE / "README.md").read_text()
    for name in [*module["variable"], *module["output"]]:
        assert f"`{name}`" in readme, name


def test_a_mistake_would_be_seen(modules):
    wanted = planned()
    assert len(modules) == 1 + len(MISTAKES)
    assert [described(module, False) == wanted for module in modules] == [True] + [False] * len(MISTAKES)
