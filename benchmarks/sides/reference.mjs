// The reference's way: a BullMQ queue and worker in one process, three INCRs, `docker run` by CLI.
// Started as `node reference.mjs <settings.json>` beside node_modules. Each line on stdin is the number of a job;
// answers {"number","asked"} (seconds since 1970, before the add) and {"number","done"}.
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";

const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const connect = () => new IORedis({ path: settings.socket, maxRetriesPerRequest: null });
const budget = connect();
const queue = new Queue("jobs", { connection: connect() });

async function work(job) {
  for (const window of ["day", "week", "month"]) {
    if ((await budget.incr(`bench:budget:${window}`)) > 1_000_000) throw new Error("over the cap");
  }
  const name = `pi-job-reference-${settings.nonce}-${job.data.number}`;
  const directory = `${settings.jobs}/${name}`;
  mkdirSync(`${directory}/job`, { recursive: true });
  for (const [file, text] of Object.entries(settings.files)) writeFileSync(`${directory}/job/${file}`, text);
  const flags = [
    "run", `--name=${name}`, "--pull=never", "--rm", "--init", "--cap-drop=ALL",
    "--security-opt", "no-new-privileges", "--pids-limit=512", "--shm-size=1g", "--memory=4g", "--memory-swap=4g",
    "--cpus=2", "--network=none", `--user=${settings.uid}:${settings.uid}`, `--cidfile=${directory}.cid`,
    ...Object.entries({ ...settings.env, PI_JOB_ID: name }).flatMap(([key, value]) => ["-e", `${key}=${value}`]),
    "-v", `${directory}/job:/job:ro`, "-v", `${settings.folder}:/workspace`, "-v", `${settings.outbox}:/outbox`,
    settings.image,
  ];
  await new Promise((resolve) => {
    const child = spawn("docker", flags, { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.resume();
    child.stderr.resume();
    child.on("close", resolve);
  });
}

const worker = new Worker("jobs", work, { connection: connect(), concurrency: 3 });
worker.on("completed", (job) => say({ number: job.data.number, done: true }));
worker.on("failed", (job, error) => say({ number: job?.data.number, failed: String(error) }));
await worker.waitUntilReady();
say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const number = Number(line);
  const asked = (performance.timeOrigin + performance.now()) / 1000;
  await queue.add("run", { number }, { removeOnComplete: true });
  say({ number, asked });
}
process.exit(0);
