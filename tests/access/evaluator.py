"""An evaluator of IAM policies, written from IAM's documentation and not from src/access, for comparison with it.

Slow and plain on purpose: patterns become regular expressions, addresses go through `ipaddress`, numbers are decimals, and
a statement is judged with `all` and `any`. It takes only documents that are valid; refusing others is not its work.
"""
import ipaddress
import re
from datetime import datetime, timezone
from decimal import Decimal

MANY_ON_ITEMS = {"dynamodb:leadingkeys", "dynamodb:attributes"}
ON_ITEMS = {"getitem", "batchgetitem", "query", "scan", "putitem", "updateitem", "deleteitem", "batchwriteitem",
            "conditioncheckitem", "transactgetitems", "transactwriteitems", "partiqlselect", "partiqlinsert",
            "partiqlupdate", "partiqldelete"}


def as_list(value):
    return value if isinstance(value, list) else [value]


def glob(pattern, text, any_character=".", ignore_case=False):
    """`*` is any run and `?` any one of `any_character`."""
    expression = "".join({"*": any_character + "*", "?": any_character}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(expression, text, re.DOTALL | (re.IGNORECASE | re.ASCII if ignore_case else 0)) is not None


def resource_matches(pattern, resource):
    if pattern == "*":
        return True
    if resource.count(":") < 5:
        return pattern == resource
    parts, against = pattern.split(":", 5), resource.split(":", 5)
    if len(parts) < 6:  # cut short: its last part stands for the rest
        against = resource.split(":", len(parts) - 1)
    head = zip(parts[:-1], against[:-1])
    return all(glob(p, r, "[^:]") for p, r in head) and glob(parts[-1], against[-1])


def instant(text):
    """Seconds since 1970 of a date as policies and requests write it."""
    if isinstance(text, int) or re.fullmatch(r"\d+", text):
        return Decimal(text)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        text += "T00:00:00Z"
    when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    since = when - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return Decimal(since.days) * 86400 + since.seconds + Decimal(since.microseconds) / 1000000


def network(text):
    """IPv4 written as IPv6 is IPv4."""
    net = ipaddress.ip_network(text, strict=False)
    if net.version == 6 and net.prefixlen >= 96 and net.network_address.ipv4_mapped:
        return ipaddress.ip_network(f"{net.network_address.ipv4_mapped}/{net.prefixlen - 96}")
    return net


def address(text):
    ip = ipaddress.ip_address(text)
    return (ip.ipv4_mapped or ip) if ip.version == 6 else ip


def ordered(name, left, right):
    return {"LessThan": left < right, "LessThanEquals": left <= right, "GreaterThan": left > right,
            "GreaterThanEquals": left >= right, "Equals": left == right}[name]


def truth(value):
    return str(value).lower() == "true"


def matches(operator, wanted, value):
    """Does one value of the request match one value of the policy, under an operator that is not negated?"""
    if operator == "StringEquals":
        return value == wanted
    if operator == "StringEqualsIgnoreCase":
        return re.fullmatch(re.escape(wanted), value, re.IGNORECASE | re.ASCII) is not None
    if operator == "StringLike":
        return glob(wanted, value)
    if operator == "IpAddress":
        return address(value) in network(wanted)
    if operator == "Bool":
        return truth(wanted) == truth(value)
    if operator.startswith("Numeric"):
        return ordered(operator[7:], Decimal(value), Decimal(wanted))
    assert operator.startswith("Date"), operator
    return ordered(operator[4:], instant(value), instant(wanted))


class Condition:
    def __init__(self, spelled, key, wanted):
        match = re.fullmatch(r"(?:(ForAllValues|ForAnyValue):)?(\w+?)(IfExists)?", spelled)
        self.quantifier, name, self.if_exists = match.groups()
        self.operator = re.sub(r"^(String|Numeric|Date)?Not", r"\1", name)
        self.negated = self.operator != name
        self.key, self.wanted = key.lower(), as_list(wanted)

    def one(self, value):
        return any(matches(self.operator, wanted, value) for wanted in self.wanted) != self.negated

    def holds(self, request, effect):
        values = request["context"].get(self.key, [])
        if self.operator == "Null":
            return any(truth(wanted) == (not values) for wanted in self.wanted)
        if not values:
            service, _, name = request["action"].lower().partition(":")
            if self.quantifier and self.key in MANY_ON_ITEMS and service == "dynamodb" and name in ON_ITEMS:
                return effect == "Deny"  # unsaid is everything: it counts against the request
            if self.if_exists:
                return True
            return {"ForAllValues": True, "ForAnyValue": False, None: self.negated}[self.quantifier]
        if self.quantifier == "ForAllValues":
            return all(self.one(value) for value in values)
        if self.quantifier == "ForAnyValue":
            return any(self.one(value) for value in values)
        assert len(values) == 1
        return self.one(values[0])


def listed(statement, name, matcher):
    """Action or NotAction, Resource or NotResource."""
    if name in statement:
        return any(matcher(pattern) for pattern in as_list(statement[name]))
    return not any(matcher(pattern) for pattern in as_list(statement["Not" + name]))


def applies(statement, request):
    conditions = [Condition(operator, key, wanted) for operator, keys in statement.get("Condition", {}).items()
                  for key, wanted in keys.items()]
    return (listed(statement, "Action", lambda p: glob(p, request["action"], ignore_case=True))
            and listed(statement, "Resource", lambda p: resource_matches(p, request["resource"]))
            and all(c.holds(request, statement["Effect"]) for c in conditions))


def decide(policies, request):
    """"allowed:P:S", "denied:P:S" or "default": the first Deny that applies, else the first Allow."""
    context = {key.lower(): as_list(value) for key, value in request.get("context", {}).items()}
    request = {**request, "context": context}
    found = [(statement["Effect"], f"{p}:{s}") for p, document in enumerate(policies)
             for s, statement in enumerate(as_list(document["Statement"])) if applies(statement, request)]
    for effect, word in (("Deny", "denied"), ("Allow", "allowed")):
        for other, place in found:
            if other == effect:
                return f"{word}:{place}"
    return "default"
