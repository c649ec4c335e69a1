# The tables of a Gatehouse server with --engine dynamodb. The list is that of `gatehouse tables plan`; a test of the repository compares the two.
# All keys are texts.
locals {
  tables = {
    "auth-state"            = { hash_key = "PK", range_key = "SK", ttl = "ttl" }
    "rate-limits"           = { hash_key = "PK", range_key = null, ttl = "TTL" }
    "gatehouse-policies"    = { hash_key = "PK", range_key = null, ttl = null }
    "gatehouse-idempotency" = { hash_key = "PK", range_key = null, ttl = "ttl" }
    "gatehouse-events"      = { hash_key = "PK", range_key = "SK", ttl = null }
    "users"                 = { hash_key = "PK", range_key = "SK", ttl = "ttl" }
    "gatehouse-revocations" = { hash_key = "PK", range_key = null, ttl = "ttl" }
    "gatehouse-jobs"        = { hash_key = "PK", range_key = "SK", ttl = "ttl" }
    "gatehouse-sync"        = { hash_key = "PK", range_key = "SK", ttl = "ttl" }
    "device-tokens"         = { hash_key = "userId", range_key = "deviceId", ttl = "expiresAt" }
    "gatehouse-push-tokens" = { hash_key = "PK", range_key = null, ttl = "expiresAt" }
    "gatehouse-push"        = { hash_key = "PK", range_key = "SK", ttl = "ttl" }
    "outbox"                = { hash_key = "PK", range_key = "SK", ttl = null }
  }

  # By table. The second is kept only if it is switched on.
  always_indexes = {
    "users" = { name = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection = "ALL", include = [] }
  }
  device_indexes = {
    "device-tokens" = { name = "PlatformIsActiveIndex", hash_key = "platformShard", range_key = "isActiveText", projection = "INCLUDE", include = ["expoPushToken", "expiresAt"] }
  }
  indexes = merge(local.always_indexes, var.device_index ? local.device_indexes : {})

  units = { for table, _ in local.tables : table => lookup(var.table_units, table, var.units) }
}

resource "aws_dynamodb_table" "gatehouse" {
  for_each = local.tables

  name                        = "${var.table_prefix}${lookup(var.table_names, each.key, each.key)}"
  billing_mode                = var.billing == "provisioned" ? "PROVISIONED" : "PAY_PER_REQUEST"
  read_capacity               = var.billing == "provisioned" ? local.units[each.key].read : null
  write_capacity              = var.billing == "provisioned" ? local.units[each.key].write : null
  hash_key                    = each.value.hash_key
  range_key                   = each.value.range_key
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  dynamic "attribute" {
    for_each = toset(compact([each.value.hash_key, each.value.range_key, try(local.indexes[each.key].hash_key, null), try(local.indexes[each.key].range_key, null)]))
    content {
      name = attribute.value
      type = "S"
    }
  }

  dynamic "ttl" {
    for_each = compact([each.value.ttl])
    content {
      enabled        = true
      attribute_name = ttl.value
    }
  }

  dynamic "global_secondary_index" {
    for_each = try([local.indexes[each.key]], [])
    content {
      name               = global_secondary_index.value.name
      hash_key           = global_secondary_index.value.hash_key
      range_key          = global_secondary_index.value.range_key
      projection_type    = global_secondary_index.value.projection
      non_key_attributes = length(global_secondary_index.value.include) > 0 ? global_secondary_index.value.include : null
      read_capacity      = var.billing == "provisioned" ? local.units[each.key].read : null
      write_capacity     = var.billing == "provisioned" ? local.units[each.key].write : null
    }
  }

  point_in_time_recovery {
    enabled = var.point_in_time_recovery
  }

  dynamic "server_side_encryption" {
    for_each = compact([var.kms_key_arn])
    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }

  # What these tables hold cannot be made again.
  lifecycle {
    prevent_destroy = true
  }
}
