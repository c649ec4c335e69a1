# The rights of a server whose tables are there (--create-tables never): what `gatehouse tables policy` prints.
data "aws_region" "current" {}

data "aws_iam_policy_document" "serve" {
  statement {
    sid = "GatehouseServes"
    actions = [
      "dynamodb:DescribeTable",
      "dynamodb:DescribeTimeToLive",
      "dynamodb:GetItem",
      "dynamodb:BatchGetItem",
      "dynamodb:Query",
      "dynamodb:Scan",
      "dynamodb:PutItem",
      "dynamodb:UpdateItem",
      "dynamodb:DeleteItem",
      "dynamodb:ConditionCheckItem",
    ]
    resources = [for table in aws_dynamodb_table.gatehouse : table.arn]
  }

  statement {
    sid       = "GatehouseReadsUsersByAddress"
    actions   = ["dynamodb:Query"]
    resources = ["${aws_dynamodb_table.gatehouse["users"].arn}/index/${local.always_indexes["users"].name}"]
  }

  dynamic "statement" {
    for_each = var.device_index ? [local.device_indexes["device-tokens"].name] : []
    content {
      sid       = "GatehouseReadsDevicesByPlatform"
      actions   = ["dynamodb:Query"]
      resources = ["${aws_dynamodb_table.gatehouse["device-tokens"].arn}/index/${statement.value}"]
    }
  }

  dynamic "statement" {
    for_each = compact([var.kms_key_arn])
    content {
      sid       = "GatehouseTablesKey"
      actions   = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey", "kms:CreateGrant"]
      resources = [statement.value]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = ["dynamodb.${data.aws_region.current.name}.amazonaws.com"]
      }
    }
  }
}

resource "aws_iam_policy" "serve" {
  name_prefix = "${var.table_prefix}gatehouse-"
  description = "What a Gatehouse server may do with its tables."
  policy      = data.aws_iam_policy_document.serve.json
  tags        = var.tags
}
