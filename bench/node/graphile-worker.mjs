// Graphile Worker, with the configuration that its page on performance gives.
import { main, NAME } from "./part.mjs";

// A line of log for each job is not what is measured; its own performance test leaves it out in the same way.
process.env.NO_LOG_SUCCESS = "1";
const { makeWorkerUtils, run } = await import("graphile-worker");

const preset = {
  worker: {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

async function utils(url) {
  return makeWorkerUtils({ connectionString: url });
}

await main({
  async install(url) {
    await (await utils(url)).migrate();
  },
  async work(url, tape) {
    const taskList = { [NAME]: (job) => tape.note(job) };
    await run({ connectionString: url, taskList, preset });
  },
  async producer(url) {
    const queue = await utils(url);
    return {
      one: (job) => queue.addJob(NAME, job),
      many: (jobs) => queue.addJobs(jobs.map((job) => ({ identifier: NAME, payload: job }))),
    };
  },
});

