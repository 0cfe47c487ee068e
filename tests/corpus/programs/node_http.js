// A server that answers with a little JSON until SIGTERM comes.
const http = require('http');
let served = 0;
const server = http.createServer((request, response) => {
  served++;
  response.end(JSON.stringify({ served, url: request.url, filler: 'y'.repeat(500) }));
});
server.listen(Number(process.argv[2]), '127.0.0.1');
process.on('SIGTERM', () => {
  console.log('served', served);
  process.exit(0);
});
