// A proxy between the browser and the service, which can refuse connections, hold back replies, and replace the stream.

import http from 'node:http';

export class TestProxy {
  /** The `Last-Event-ID` of each request for the stream. */
  lastEventIds = [];
  /** A handler that answers `/v1/events` instead of the service, or `null`. */
  streamHandler = null;

  #server;
  #sockets = new Set();
  #service;
  #isClosed = false;
  #isDroppingReplies = false;

  static async open(service) {
    const proxy = new TestProxy();
    proxy.#service = new URL(service);
    proxy.#server = http.createServer((request, response) => proxy.#forward(request, response));
    proxy.#server.on('connection', (socket) => proxy.#accept(socket));
    await new Promise((done) => proxy.#server.listen(0, '127.0.0.1', done));
    proxy.address = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  /** Closes all connections, and refuses new connections until `reopen` is called. */
  disconnect() {
    this.#isClosed = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  reopen() {
    this.#isClosed = false;
  }

  /** Starts or stops to drop the replies of the service. The connections stay open. */
  dropReplies(isDropping) {
    this.#isDroppingReplies = isDropping;
  }

  close() {
    this.disconnect();
    this.#server.close();
  }

  #accept(socket) {
    if (this.#isClosed) return socket.destroy();
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => {});
  }

  #forward(request, response) {
    if (request.url === '/v1/events') {
      this.lastEventIds.push(request.headers['last-event-id'] ?? null);
      if (this.streamHandler) return this.streamHandler(response);
    }
    const { hostname, port } = this.#service;
    const { url: path, method, headers } = request;
    const forwarded = http.request({ hostname, port, path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      answer.on('data', (chunk) => this.#isDroppingReplies || response.write(chunk));
      answer.on('end', () => response.end());
      answer.on('error', () => response.destroy());
    });
    forwarded.on('error', () => response.destroy());
    response.on('close', () => forwarded.destroy());
    request.pipe(forwarded);
  }
}
