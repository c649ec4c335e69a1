// What Expo's own client sends for messages that come as JSON on standard input: {messages} or {receipts}, to EXPO_BASE_URL.
import { Expo } from "expo-server-sdk";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const { messages, receipts, accessToken } = JSON.parse(text);
const expo = new Expo({ accessToken });
const answer = receipts ? await expo.getPushNotificationReceiptsAsync(receipts) : await expo.sendPushNotificationsAsync(messages);
process.stdout.write(JSON.stringify(answer));
