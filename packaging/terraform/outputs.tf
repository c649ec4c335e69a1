output "table_names" {
  description = "Names of the tables, by their plain names."
  value       = { for table, made in aws_dynamodb_table.gatehouse : table => made.name }
}

output "table_arns" {
  description = "ARNs of the tables, by their plain names."
  value       = { for table, made in aws_dynamodb_table.gatehouse : table => made.arn }
}

output "serve_policy_arn" {
  description = "Attach it to the role that servers run with."
  value       = aws_iam_policy.serve.arn
}

output "serve_policy_json" {
  description = "The same, as a document."
  value       = data.aws_iam_policy_document.serve.json
}
