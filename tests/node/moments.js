// At many moments tells its own stack, as V8 sees it.
'use strict';
const fs = require('fs');
Error.stackTraceLimit = Infinity;

let until = 0, sum = 0;

function tell() {
  if (until === 0 || --until > 0)
    return;
  const prepare = Error.prepareStackTrace;
  Error.prepareStackTrace = (error, sites) => sites;
  const sites = new Error().stack;
  Error.prepareStackTrace = prepare;
  const frames = sites.map(site => `${site.getFunctionName() || '<anonymous>'} ${site.getLineNumber() || -1}\n`);
  fs.writeSync(1, `thread main\n${frames.join('')}look\n`);
  // This makes the function too large to be compiled into its callers.
  sum = sum * 3 % 7 + 0; sum = sum * 3 % 7 + 1; sum = sum * 3 % 7 + 2; sum = sum * 3 % 7 + 3;
  sum = sum * 3 % 7 + 4; sum = sum * 3 % 7 + 5; sum = sum * 3 % 7 + 6; sum = sum * 3 % 7 + 7;
  sum = sum * 3 % 7 + 8; sum = sum * 3 % 7 + 9; sum = sum * 3 % 7 + 10; sum = sum * 3 % 7 + 11;
  sum = sum * 3 % 7 + 12; sum = sum * 3 % 7 + 13; sum = sum * 3 % 7 + 14; sum = sum * 3 % 7 + 15;
  sum = sum * 3 % 7 + 16; sum = sum * 3 % 7 + 17; sum = sum * 3 % 7 + 18; sum = sum * 3 % 7 + 19;
  sum = sum * 3 % 7 + 20; sum = sum * 3 % 7 + 21; sum = sum * 3 % 7 + 22; sum = sum * 3 % 7 + 23;
  sum = sum * 3 % 7 + 24; sum = sum * 3 % 7 + 25; sum = sum * 3 % 7 + 26; sum = sum * 3 % 7 + 27;
  sum = sum * 3 % 7 + 28; sum = sum * 3 % 7 + 29; sum = sum * 3 % 7 + 30; sum = sum * 3 % 7 + 31;
  sum = sum * 3 % 7 + 32; sum = sum * 3 % 7 + 33; sum = sum * 3 % 7 + 34; sum = sum * 3 % 7 + 35;
  sum = sum * 3 % 7 + 36; sum = sum * 3 % 7 + 37; sum = sum * 3 % 7 + 38; sum = sum * 3 % 7 + 39;
  sum = sum * 3 % 7 + 40; sum = sum * 3 % 7 + 41; sum = sum * 3 % 7 + 42; sum = sum * 3 % 7 + 43;
  sum = sum * 3 % 7 + 44; sum = sum * 3 % 7 + 45; sum = sum * 3 % 7 + 46; sum = sum * 3 % 7 + 47;
}

function moment() { tell(); }

class Shape {
  constructor(side) {
    this.side = side;
    moment();
  }
  area(size) {
    moment();
    return this.side * size;
  }
  get wide() {
    moment();
    return this.side > 2;
  }
}

class Circle extends Shape {
  constructor(side) { super(side + 1); }
  area(size) { return super.area(size) * 3; }
}

function recurse(depth, ...rest) {
  if (depth === 0) {
    moment();
    return rest.length;
  }
  const below = recurse(depth - 1, depth, ...rest);
  if (depth % 3 === 0)
    moment();
  return below + 1;
}

function* generate(count) {
  for (let at = 0; at < count; at++) {
    moment();
    yield at;
  }
}

function caught(value) {
  try {
    if (value % 2 === 0)
      throw new RangeError('even');
    moment();
    return 1;
  } catch (error) {
    moment();
    return 2;
  } finally {
    moment();
  }
}

const inArrow = value => {
  moment();
  return value + 1;
};

function work(round) {
  const shape = round % 2 === 0 ? new Shape(round) : new Circle(round);
  let result = shape.area(2) + (shape.wide ? 1 : 0) + recurse(round % 6);
  result += [1, 2, 3].map(inArrow).filter(value => {
    moment();
    return value > 1;
  }).reduce((one, two) => {
    moment();
    return one + two;
  });
  result += [3, 1, 2].sort((one, two) => {
    moment();
    return one - two;
  })[0];
  for (const value of generate(2))
    result += value;
  'abc'.replace(/b/g, found => {
    moment();
    return found;
  });
  return result + caught(round);
}

const [warm, moments] = process.argv.slice(2).map(Number);
for (let round = 0; round < warm; round++)
  sum += work(round);
let seed = 7;
for (let told = 0; told < moments; told++) {
  seed = seed * 1103515245 + 12345 & 0x7fffffff;
  until = 1 + seed % 40;
  for (let round = 0; until > 0; round++)
    sum += work(round);
}
