// One part of a system that is written for Node: the same as bench/part.py, which says what parts hear and answer.
import { openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const RECORD = 24;
const FLUSH_MS = 5;

export const NAME = "bench";

export function payload(number) {
  return { number, sent: String(process.hrtime.bigint()), text: "a few words, as jobs have them" };
}

/** Notes when handlers start, as bench/tape.py reads it; written every few milliseconds, outside of the handlers. */
export class Tape {
  constructor(path) {
    this.file = openSync(path, "r+");
    this.written = 0;
    this.starts = [];
    setInterval(() => this.flush(), FLUSH_MS);
  }

  note({ number, sent }) {
    this.starts.push(process.hrtime.bigint(), BigInt(sent), BigInt(number));
  }

  flush() {
    if (this.starts.length === 0) return;
    const bytes = Buffer.from(BigInt64Array.from(this.starts).buffer);
    this.starts = [];
    writeSync(this.file, bytes, 0, bytes.length, this.written);
    this.written += bytes.length;
  }
}

export async function main({ install, work, producer }) {
  const [part, url, ...more] = process.argv.slice(2);
  if (part === "install") {
    await install(url);
    process.exit(0);
  } else if (part === "work") {
    await work(url, new Tape(more[0]));
  } else {
    await produce(await producer(url));
    process.exit(0);
  }
}

async function produce({ one, many }) {
  const say = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");
  let number = 0;
  say({ ready: true });
  for await (const heard of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(heard);
    const last = number + asked.count;
    const began = process.hrtime.bigint();
    const used = process.cpuUsage();
    if (asked.do === "one") {
      for (; number < last; number++) await one(payload(number));
    } else {
      for (; number < last; number += asked.call) {
        const count = Math.min(asked.call, last - number);
        const first = number;
        await many(Array.from({ length: count }, (_, place) => payload(first + place)));
      }
      number = last;
    }
    const ended = process.hrtime.bigint();
    const { user, system } = process.cpuUsage(used);
    say({ seconds: Number(ended - began) / 1e9, cpu: (user + system) / 1e6, returned: Number(ended), peak_mb: 0 });
  }
}
