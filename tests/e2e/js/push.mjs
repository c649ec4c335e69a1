// What Expo's own client sends for messages that come as JSON on standard input: {sets, accessToken}, each set in a call; or {receipts}. To
// EXPO_BASE_URL.
import { Expo } from "expo-server-sdk";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const { sets, receipts, accessToken } = JSON.parse(text);
const expo = new Expo({ accessToken });
if (receipts) await expo.getPushNotificationReceiptsAsync(receipts);
for (const messages of sets ?? []) await expo.sendPushNotificationsAsync(messages);
