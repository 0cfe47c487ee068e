// Four kinds of work that JavaScript benchmarks are made of: objects that call each other, a ray tracer in floating point, regular
// expressions over text, and a tree that is built and thrown away. The argument is the number of rounds.
'use strict';

let seed = 49734321;
function nextNumber() {
  seed = (seed * 1103515245 + 12345) & 0x7fffffff;
  return seed;
}

class Packet {
  constructor(link, kind) { this.link = link; this.kind = kind; this.value = 0; }
}

class Station {
  constructor(next) { this.next = next; this.queue = null; this.seen = 0; }
  take(packet) { packet.link = this.queue; this.queue = packet; this.seen++; }
  run() {
    const packet = this.queue;
    if (packet === null) return false;
    this.queue = packet.link;
    packet.value = (packet.value * 7 + this.seen) % 1009;
    this.next.take(packet);
    return true;
  }
}

function passPackets() {
  const last = new Station(null);
  const first = new Station(new Station(new Station(last)));
  last.next = first;
  for (let index = 0; index < 40; index++) first.take(new Packet(null, index & 3));
  let moved = 0;
  for (let station = first; moved < 200000; station = station.next) while (station.run() && moved < 200000) moved++;
  return first.seen + last.seen;
}

function traceRays() {
  const spheres = [];
  for (let index = 0; index < 12; index++) {
    spheres.push({ x: nextNumber() % 20 - 10, y: nextNumber() % 20 - 10, z: 10 + nextNumber() % 20, r: 1 + nextNumber() % 3 });
  }
  let hits = 0;
  for (let row = 0; row < 160; row++) {
    for (let column = 0; column < 160; column++) {
      const dx = (column - 80) / 80, dy = (row - 80) / 80, length = Math.sqrt(dx * dx + dy * dy + 1);
      for (const sphere of spheres) {
        const along = (sphere.x * dx + sphere.y * dy + sphere.z) / length;
        const square = sphere.x * sphere.x + sphere.y * sphere.y + sphere.z * sphere.z - along * along;
        if (square < sphere.r * sphere.r) hits++;
      }
    }
  }
  return hits;
}

function matchText() {
  let text = '';
  for (let index = 0; index < 4000; index++) text += 'word' + nextNumber() % 97 + (index % 9 === 0 ? '.\n' : ' ');
  const counts = new Map();
  for (const match of text.matchAll(/(\w+?)(\d+)[ .]/g)) counts.set(match[2], (counts.get(match[2]) || 0) + 1);
  return counts.size + text.replace(/word(\d)(\d)?/g, '$2$1').split(/\s+/).length;
}

function growTree() {
  let root = null;
  for (let index = 0; index < 20000; index++) {
    const node = { key: nextNumber(), left: null, right: null, payload: [index, String(index)] };
    if (root === null) { root = node; continue; }
    for (let at = root; ;) {
      const side = node.key < at.key ? 'left' : 'right';
      if (at[side] === null) { at[side] = node; break; }
      at = at[side];
    }
  }
  let depth = 0;
  for (let at = root; at !== null; at = at.left) depth++;
  return depth;
}

const sums = [0, 0, 0, 0];
for (let round = 0; round < Number(process.argv[2] || 10); round++) {
  [passPackets, traceRays, matchText, growTree].forEach((work, index) => { sums[index] = (sums[index] + work()) % 1000003; });
}
console.log(sums.join(' '));
