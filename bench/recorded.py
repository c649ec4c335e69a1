"""What Gatehouse sends to its endpoint for a failed attempt, recorded, as a form that bare.mjs fills in for each attempt.

In the form, `%subject`, `%token`, `%now+900`, `%count`, `%history`, `%old.NAME` (an attribute of the row that was read) and `%version` (of the partition, as it was read)
stand for what differs from one attempt to the next. plain() makes recorded requests of two senders comparable: the bench refuses to run if the SDK does not send what the server sends."""
import json
import re

ROW, VERSION = "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY", "#VERSION"
EQUALS = re.compile(r"(#\d+)=(:\d+)")
TIME = re.compile(r"^[1-9]\d{9}$")
LONG = 7 * 365 * 24 * 3600      # more than this from now: not a time of this attempt
TOKEN = re.compile(r'"[0-9a-f]{36}"')
NAMES = ["TransactGetItems", "TransactWriteItems"]


class NotRecorded(Exception):
    """The server sent something else than what is compared here."""


def attempts_of(seen, subject):
    """[(what it reads, what it writes)] of each attempt of the subject, as JSON, oldest first."""
    bodies = [(name, json.loads(body)) for name, body in seen if f'"{subject}"' in body]
    if [name for name, _ in bodies] != NAMES * (len(bodies) // 2):
        raise NotRecorded(f"an attempt is to send {' and '.join(NAMES)}, and sent {[name for name, _ in bodies]}")
    return [(bodies[i][1], bodies[i + 1][1]) for i in range(0, len(bodies), 2)]


def mapped(node, change):
    """A copy with every string that is a value changed."""
    if isinstance(node, dict):
        return {name: mapped(value, change) for name, value in node.items()}
    if isinstance(node, list):
        return [mapped(value, change) for value in node]
    return change(node) if isinstance(node, str) else node


def marks(subject, write):
    """The change that puts marks for the subject, the token and times."""
    token, now = write["ClientRequestToken"], int(count_put(write)["Item"]["last_updated"]["N"])

    def change(text):
        if text in (subject, token):
            return "%subject" if text == subject else "%token"
        if TIME.match(text) and abs(int(text) - now) < LONG:
            return f"%now{int(text) - now:+d}"
        return text

    return change


def put_of(write, row):
    """The action that writes that row."""
    return next(a["Put"] for a in write["TransactItems"] if a.get("Put", {}).get("Item", {}).get("SK") == {"S": row})


def count_put(write):
    return put_of(write, ROW)


def write_form(subject, write):
    """What the condition compares with the row as it was read is taken from that row."""
    form = mapped(write, marks(subject, write))
    put = count_put(form)
    put["Item"]["count"], put["Item"]["history"] = {"N": "%count"}, {"S": "%history"}
    for name, value in EQUALS.findall(put["ConditionExpression"]):
        kind = next(iter(put["ExpressionAttributeValues"][value]))
        put["ExpressionAttributeValues"][value] = {kind: f"%old.{put['ExpressionAttributeNames'][name]}"}
    move = put_of(form, VERSION)
    for name, value in EQUALS.findall(move["ConditionExpression"]):
        if move["ExpressionAttributeNames"][name] == "version":
            move["ExpressionAttributeValues"][value] = {"S": "%version"}
    return form


def form(attempts, subject):
    """Of a subject's first two attempts: what reads, what writes the first time, what writes each later time."""
    (get, first), (_, second) = attempts[:2]
    history = count_put(first)["Item"]["history"]["S"]
    return {"get": mapped(get, marks(subject, first)), "first": write_form(subject, first), "next": write_form(subject, second),
            "table": count_put(first)["TableName"], "row": ROW, "partition": VERSION, "policy": history.rsplit(" v", 1)[1]}


def plain(attempts, subject):
    """The attempts without what two senders cannot have in common: the subject's name, tokens, and the moment. Times of a history, and those that were
    read, become T: both may fall into another second. Versions are tokens of earlier attempts."""
    out = []
    for get, write in attempts:
        change = marks(subject, write)
        text = json.dumps([mapped(get, change), mapped(write, change)], sort_keys=True)
        text = re.sub(r"(?<=[\" ])[1-9]\d{9} failure", "T failure", re.sub(r"%now[+-](\d{1,2}|8[0-9]{2}|900)\"", 'T"', text))
        out.append(TOKEN.sub('"V"', text))
    return out
