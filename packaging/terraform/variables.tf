variable "table_prefix" {
  description = "What the names of all tables begin with: --table-prefix of the server."
  type        = string
  default     = ""
}

variable "table_names" {
  description = "Names of single tables, by their plain names, if you set them for the server: { users = \"people\" } is --table-users people. The prefix comes before them."
  type        = map(string)
  default     = {}
}

variable "device_index" {
  description = "Whether the index of devices by platform is kept: --device-index of the server."
  type        = bool
  default     = false
}

variable "billing" {
  description = "How you pay: on-demand or provisioned."
  type        = string
  default     = "on-demand"

  validation {
    condition     = contains(["on-demand", "provisioned"], var.billing)
    error_message = "billing must be on-demand or provisioned."
  }
}

variable "units" {
  description = "With provisioned billing: read and write units per second of every table."
  type        = object({ read = number, write = number })
  default     = { read = 5, write = 5 }
}

variable "table_units" {
  description = "… and of single tables, by their plain names."
  type        = map(object({ read = number, write = number }))
  default     = {}
}

variable "point_in_time_recovery" {
  description = "Whether tables can be restored to any second of the last 35 days."
  type        = bool
  default     = false
}

variable "kms_key_arn" {
  description = "ARN of your key for encryption. Null: DynamoDB encrypts with a key that it owns."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether a table must be unprotected before it can be deleted."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of every table."
  type        = map(string)
  default     = {}
}
