// pg-boss with large batches, without a pause between full ones, and with its LISTEN/NOTIFY switched on.
import { PgBoss } from "pg-boss";

import { main, NAME } from "./part.mjs";

const BATCH = 500;

async function started(url, options) {
  const boss = new PgBoss({ connectionString: url, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

await main({
  async install(url) {
    const boss = await started(url);
    await boss.createQueue(NAME, { notify: true });
    await boss.stop();
  },
  async work(url, tape) {
    const boss = await started(url, { useListenNotify: true });
    const options = { batchSize: BATCH, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
    await boss.work(NAME, options, async (jobs) => jobs.forEach((job) => tape.note(job.data)));
    process.on("SIGTERM", async () => {
      await boss.stop({ graceful: true, timeout: 5000 });
      process.exit(0);
    });
  },
  async producer(url) {
    const boss = await started(url, { supervise: false, schedule: false });
    return {
      one: (job) => boss.send(NAME, job),
      many: (jobs) => boss.insert(NAME, jobs.map((job) => ({ data: job }))),
    };
  },
});
