// Four workers count in shared memory, once properly and once racing.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
if (isMainThread) {
  const memory = new SharedArrayBuffer(1024);
  const counts = new Int32Array(memory);
  let running = 4;
  for (let index = 0; index < 4; index++) {
    const worker = new Worker(__filename, { workerData: memory });
    worker.on('exit', () => {
      if (--running === 0) console.log(counts[0], counts[1]);
    });
  }
} else {
  const counts = new Int32Array(workerData);
  for (let round = 0; round < 200000; round++) {
    Atomics.add(counts, 0, 1);
    counts[1]++;
  }
}
