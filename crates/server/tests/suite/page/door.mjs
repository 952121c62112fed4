// A proxy between the browser and the service, which can refuse connections, hold back replies, and replace the stream.

import http from 'node:http';

export class Door {
  /** The `Last-Event-ID` of each request for the stream. */
  resumed = [];
  /** When set, answers `/v1/events` instead of the service. */
  stream = null;

  #server;
  #sockets = new Set();
  #service;
  #isShut = false;
  #isHeld = false;

  static async open(service) {
    const door = new Door();
    door.#service = new URL(service);
    door.#server = http.createServer((request, response) => door.#pass(request, response));
    door.#server.on('connection', (socket) => door.#connected(socket));
    await new Promise((done) => door.#server.listen(0, '127.0.0.1', done));
    door.address = `http://127.0.0.1:${door.#server.address().port}`;
    return door;
  }

  /** Closes all connections, and refuses new ones until `reopen`. */
  shut() {
    this.#isShut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  reopen() {
    this.#isShut = false;
  }

  /** Keeps connections open, but drops the replies of the service. */
  hold(isHeld) {
    this.#isHeld = isHeld;
  }

  close() {
    this.shut();
    this.#server.close();
  }

  #connected(socket) {
    if (this.#isShut) return socket.destroy();
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => {});
  }

  #pass(request, response) {
    if (request.url === '/v1/events') {
      this.resumed.push(request.headers['last-event-id'] ?? null);
      if (this.stream) return this.stream(response);
    }
    const { hostname, port } = this.#service;
    const { url: path, method, headers } = request;
    const onward = http.request({ hostname, port, path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      answer.on('data', (piece) => this.#isHeld || response.write(piece));
      answer.on('end', () => response.end());
      answer.on('error', () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  }
}
